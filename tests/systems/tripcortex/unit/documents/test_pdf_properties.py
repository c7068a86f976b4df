"""Property test of the PDF parser: every word of a generated document is read once and in order."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reportlab.platypus import Flowable, KeepTogether, ListFlowable, ListItem  # type: ignore[import-untyped]

from tests.systems.tripcortex.unit.documents.documents import heading, layout_document, paragraph, read, table

# Plain words: none begins like a caption or a list marker.
WORD = re.compile(r"[a-z]+\d+")

kinds = st.sampled_from(["heading", "paragraph", "paragraph", "list", "table"])
lengths = st.integers(1, 45)
parts_of_a_page = st.lists(st.tuples(kinds, lengths), min_size=1, max_size=14)


class Vocabulary:
    """Generator of distinct words of many lengths."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def words(self, count: int) -> str:
        """Return `count` new words, and remember them in `given`."""
        fresh = [f"{'abcdefghij'[: 1 + (7 * number) % 9]}{number}" for number in self._numbers(count)]
        self.given += fresh
        return " ".join(fresh)

    def _numbers(self, count: int) -> range:
        return range(len(self.given), len(self.given) + count)


def make_flowable(kind: str, length: int, vocabulary: Vocabulary) -> Flowable:
    """Build a heading, list, table or paragraph of about `length` new words."""
    if kind == "heading":
        return heading(vocabulary.words(min(length, 5)).capitalize())
    if kind == "list":
        items = [ListItem(paragraph(vocabulary.words(length % 20 + 1))) for _ in range(length % 4 + 1)]
        return ListFlowable(items, bulletType="bullet", start="•", leftIndent=18)
    if kind == "table":
        rows = [[vocabulary.words(1) for _ in range(3)] for _ in range(length % 5 + 2)]
        return KeepTogether(table(rows, repeats_header=False))
    return paragraph(vocabulary.words(length).capitalize() + ".")


@pytest.mark.proves("TC-29")
@given(parts_of_a_page, st.integers(1, 2))
def test_every_word_is_read_once_and_in_order(parts: list[tuple[str, int]], columns: int) -> None:
    vocabulary = Vocabulary()
    body = layout_document(
        [make_flowable(kind, length, vocabulary) for kind, length in parts], columns=columns
    )
    entities = read(body)
    found = WORD.findall(" ".join(entity.text for entity in entities).lower())
    # A table at the top of a page may repeat the header of the one above it.
    repeated = [word for word, count in Counter(found).items() if count > 1]
    assert len(repeated) % 3 == 0
    assert list(dict.fromkeys(found)) == vocabulary.given
    assert [entity.reading_order for entity in entities] == list(range(1, len(entities) + 1))
