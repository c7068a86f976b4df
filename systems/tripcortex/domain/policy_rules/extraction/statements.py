"""Splits a parsed document into statements.

Sentences of paragraphs and list items, and tables with their captions.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

MAX_QUOTE_CHARS: Final = 300
MAX_SENTENCE_CHARS: Final = 1_000
_HEADINGS: Final = frozenset({"TITLE", "SECTION_TITLE"})
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')\]]?\s+(?=[\"'(\[]?[A-Z0-9$€£@])")
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|approx|incl|excl|max|min|nos|st|dr|mr|ms|mrs|inc|ltd|co|sec|art|fig|hrs?"
    r"|dept|u\.s|u\.k)"
    r"\.|(?<!['’\w])(?-i:(?!I\b)[A-Z])\.)$",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"^(\s*)(?:[-*•–▪◦]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")
_SEPARATOR_ROW: Final = re.compile(r"^[\s|:\-]+$")
_FINISHED: Final = re.compile(r"[.!?:;][\"')\]*]*$")


class PolicyEntity(Protocol):
    """A part of a parsed document, as `tripcortex.documents.ParsedEntity` has it. Tables are Markdown."""

    @property
    def text(self) -> str: ...

    @property
    def page(self) -> int | None: ...

    @property
    def sections(self) -> tuple[str, ...]: ...

    @property
    def subtype(self) -> str: ...


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, an item of a list, or a table.

    `lead` is the sentence that introduces it: of an item, the words before the list and the item above.
    """

    kind: str
    text: str
    page: int | None
    sections: tuple[str, ...]
    lead: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    after: str = ""

    @property
    def section(self) -> str | None:
        return self.sections[-1] if self.sections else None

    @property
    def sentences(self) -> list[str]:
        return split_sentences(self.text)


@dataclass
class _Reading:
    """The state of a walk through the entities: the last sentence that may introduce what follows."""

    lead: str = ""
    blocks: list[Block] = field(default_factory=list)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    parts: list[str] = []
    for part in _SENTENCE_END.split(text):
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] = f"{parts[-1]} {part}"
        else:
            parts.append(part)
    return [piece for part in parts if part.strip() for piece in _cut(part.strip())]


def _cut(sentence: str) -> list[str]:
    """Return the sentence, or pieces of a longer one: the time to read it grows with its square."""
    if len(sentence) <= MAX_SENTENCE_CHARS:
        return [sentence]
    return textwrap.wrap(sentence, MAX_SENTENCE_CHARS)


def shorten(text: str) -> str:
    """Return the text on one line, cut to 300 characters."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_QUOTE_CHARS else f"{text[: MAX_QUOTE_CHARS - 1]}…"


def read_blocks(entities: Iterable[PolicyEntity]) -> tuple[Block, ...]:
    """Return the blocks of a document in reading order; broken lines of a paragraph are joined."""
    reading = _Reading()
    for text, entity in _join_lines(entities):
        if entity.subtype in _HEADINGS:
            reading.blocks.append(Block("heading", text, entity.page, entity.sections))
            reading.lead = text
        elif entity.subtype == "TABLE":
            rows = parse_table(text)
            reading.blocks.append(Block("table", text, entity.page, entity.sections, reading.lead, rows))
        elif entity.subtype == "LIST" or (_ITEM.match(text) and "\n" in text):
            reading.blocks += _read_items(text, entity, reading.lead)
        elif entity.subtype in ("PARAGRAPH", "CHART", "DIAGRAM", "CODE"):
            reading.blocks += _read_paragraph(text, entity, reading)
    return tuple(reading.blocks)


def _read_paragraph(text: str, entity: PolicyEntity, reading: _Reading) -> Iterator[Block]:
    """Yield a paragraph, or its one item if it starts with a mark of a list; set the lead of what follows."""
    is_item = bool(_ITEM.match(text))
    text = " ".join(_ITEM.sub("", text).split())
    yield Block("item" if is_item else "paragraph", text, entity.page, entity.sections, reading.lead)
    last = split_sentences(text)[-1:] or [""]
    is_lead = last[0].endswith(":") or not is_item
    if is_lead:
        reading.lead = last[0]


def _read_items(text: str, entity: PolicyEntity, lead: str) -> Iterator[Block]:
    """Yield the items of a list; an item below another has it as lead."""
    parents: list[tuple[int, str]] = []
    for indent, item in _split_items(text):
        parents = [each for each in parents if each[0] < indent]
        above = parents[-1][1] if parents else lead
        yield Block("item", item, entity.page, entity.sections, above)
        parents.append((indent, item))


def _split_items(text: str) -> Iterator[tuple[int, str]]:
    """Yield the items of a list with their indentation; a line without a mark continues its item."""
    current: list[str] = []
    indent = 0
    for line in text.splitlines():
        mark = _ITEM.match(line)
        if mark and current:
            yield indent, " ".join(current)
            current = []
        if mark:
            indent = len(mark[1])
        current.append(_ITEM.sub("", line).strip() if mark else line.strip())
    if any(current):
        yield indent, " ".join(current)


def parse_table(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a Markdown table, the header first."""
    rows: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if not line.strip().startswith("|") or _SEPARATOR_ROW.match(line):
            continue
        cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
        rows.append(tuple(cell.replace("\\|", "|").strip()[:MAX_SENTENCE_CHARS] for cell in cells))
    return tuple(rows)


def _join_lines(entities: Iterable[PolicyEntity]) -> Iterator[tuple[str, PolicyEntity]]:
    """Yield the text of each entity; a paragraph that continues one without an end is joined to it."""
    pending: tuple[str, PolicyEntity] | None = None
    for entity in entities:
        text = entity.text.strip()
        if pending is not None and _continues(pending, text, entity):
            pending = (_glue(pending[0], text), pending[1])
            continue
        if pending is not None:
            yield pending
        pending = (text, entity) if text else None
    if pending is not None:
        yield pending


def _continues(pending: tuple[str, PolicyEntity], text: str, entity: PolicyEntity) -> bool:
    """Return True if the text continues the pending paragraph.

    It has no end, and this begins in lower case.
    """
    before, first = pending
    if (
        first.subtype not in ("PARAGRAPH", "LIST")
        or entity.subtype != "PARAGRAPH"
        or _FINISHED.search(before)
    ):
        return False
    return text[:1].islower() and len(before) > 40


def _glue(before: str, text: str) -> str:
    return f"{before[:-1]}{text}" if re.search(r"\w-$", before) else f"{before} {text}"


def list_headings(blocks: Sequence[Block]) -> list[str]:
    """Return the texts of the headings."""
    return [block.text for block in blocks if block.kind == "heading"]
