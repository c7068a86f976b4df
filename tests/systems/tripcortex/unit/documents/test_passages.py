"""Tests of passages: which neighbouring entities are joined, and which stay apart."""

from __future__ import annotations

from tripcortex.documents import MarkdownParser
from tripcortex.documents.passages import (
    MAX_NOTE_CHARS,
    MAX_PASSAGE_CHARS,
    PassageParser,
    join_passages,
)
from tripcortex.documents.ports import PARAGRAPH, ContentType, ParsedEntity


def read(source: str) -> list[ParsedEntity]:
    parsed = PassageParser(MarkdownParser()).parse(source.encode(), "policy.md")
    return [each for each in parsed if "TITLE" not in each.subtype]


def make_paragraph(text: str, page: int) -> ParsedEntity:
    return ParsedEntity(ContentType.text, text, page, "Rules", page, f"e{page}", PARAGRAPH)


def test_a_list_follows_the_sentence_that_leads_in_to_it() -> None:
    (found,) = read("# Cabins\n\nThese are booked:\n\n- economy\n- premium economy\n")
    assert found.text == "These are booked:\n- economy\n- premium economy"
    assert (found.content_type, found.section_title) == ("text", "Cabins")


def test_joins_short_paragraphs_of_one_section_only() -> None:
    found = read("# One\n\nFirst.\n\nSecond.\n\n# Two\n\nThird.\n")
    assert [each.text for each in found] == ["First.\nSecond.", "Third."]


def test_a_long_paragraph_stays_alone() -> None:
    long = "word " * (MAX_PASSAGE_CHARS // 5)
    assert [each.text for each in read(f"# One\n\nFirst.\n\n{long}\n\nThird.\n")] == [
        "First.",
        long.strip(),
        "Third.",
    ]


def test_a_table_has_its_notes() -> None:
    table = "| Route | Cap |\n| --- | --- |\n| Domestic | $400 |"
    (found,) = read(f"# Caps\n\nCaps are for one way.\n\n{table}\n\nA return is two of them.\n")
    assert found.text == f"Caps are for one way.\n\n{table}\n\nA return is two of them."
    assert (found.content_type, found.subtype) == ("table", "TABLE")
    long = "word " * (MAX_NOTE_CHARS // 5 + 1)
    assert [each.content_type for each in read(f"# Caps\n\n{long}\n\n{table}\n")] == ["text", "table"]


def test_pages_stay_apart_except_for_a_sentence_that_leads_in() -> None:
    apart = [make_paragraph("First.", 1), make_paragraph("Second.", 2)]
    assert list(join_passages(iter(apart))) == apart
    (joined,) = join_passages(iter([make_paragraph("These count:", 1), make_paragraph("Second.", 2)]))
    assert (joined.text, joined.page) == ("These count:\nSecond.", 2)
