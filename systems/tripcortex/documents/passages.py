"""Passages: short paragraphs and lists of one section joined, and tables with their notes.

A parser yields one entity for each paragraph, list and table. A sentence such as "Above that, the director
decides" says little alone, and neither does a table without "All amounts are for one way": together, a search
finds them and a reader understands them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from .ports import LIST, PARAGRAPH, TABLE, ContentType, ParsedEntity, Parser, Progress

# Texts are not joined to a longer passage than this; a longer paragraph stays as it is.
MAX_PASSAGE_CHARS: Final = 400
# A note is a paragraph of at most this length next to a table; a table with its notes is at most this long.
MAX_NOTE_CHARS: Final = 300
MAX_TABLE_CHARS: Final = 2_000

_TEXTS: Final = (PARAGRAPH, LIST)


class PassageParser:
    """A `Parser` that joins the short entities of another one to passages."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Yield the passages of the document."""
        return join_passages(self._parser.parse(body, file_name, progress=progress))


def join_passages(entities: Iterator[ParsedEntity]) -> Iterator[ParsedEntity]:
    """Join neighbouring entities that belong to one passage; yield all others as they are."""
    held: ParsedEntity | None = None
    for entity in entities:
        if held is not None and _is_one_passage(held, entity):
            held = _join(held, entity)
            continue
        if held is not None:
            yield held
        held = entity
    if held is not None:
        yield held


def _is_one_passage(held: ParsedEntity, entity: ParsedEntity) -> bool:
    """Return whether both are short texts, or a table and a note, of one section and page.

    A text that leads in to the next one ("…:") may be on the page before it.
    """
    is_one_section = held.sections == entity.sections and held.section_title == entity.section_title
    if not is_one_section or not (held.page == entity.page or held.text.endswith(":")):
        return False
    length = len(held.text) + len(entity.text)
    if held.subtype in _TEXTS and entity.subtype in _TEXTS:
        return length <= MAX_PASSAGE_CHARS
    notes = {held.subtype: held, entity.subtype: entity}
    note = notes.get(PARAGRAPH)
    return (
        note is not None and TABLE in notes and len(note.text) <= MAX_NOTE_CHARS and length <= MAX_TABLE_CHARS
    )


def _join(held: ParsedEntity, entity: ParsedEntity) -> ParsedEntity:
    """Return one entity with both texts, on the page of the second one."""
    has_table = TABLE in (held.subtype, entity.subtype)
    if has_table:
        subtype = TABLE
    else:
        subtype = held.subtype if held.subtype == entity.subtype else PARAGRAPH
    return replace(
        held,
        content_type=ContentType.table if has_table else held.content_type,
        subtype=subtype,
        text=("\n\n" if has_table else "\n").join((held.text, entity.text)),
        page=entity.page,
        boxes=held.boxes + entity.boxes,
        parts=(*(held.parts or (held,)), entity),
    )
