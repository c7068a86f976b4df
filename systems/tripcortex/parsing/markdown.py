"""Markdown taken apart into the same entities as a PDF: sections, paragraphs, lists, tables, pictures.

Front matter is left out but for its title, under which everything stands. Tags of site generators (`{% … %}`) are taken for
what they mean to a reader: a picture, the target of a link, a note; all others are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from .confinement import read_confined
from .frames import SECONDS, Order
from .pdf_tables import markdown_table
from .ports import (
    CODE,
    IMAGE,
    LIST,
    PARAGRAPH,
    SECTION_TITLE,
    TABLE,
    TITLE,
    ContentType,
    DocumentDamaged,
    DocumentEmpty,
    ParsedEntity,
    Progress,
    require_bounded,
)
from .sections import Sections

# A longer list is given in parts, each of whole items.
LIST_CHARS_MAX: Final = 1_500
# The worst text of this length takes less than a second.
READ_HERE_BYTES_MAX: Final = 16_000

_FRONT_MATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE: Final = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_FENCE: Final = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK_TAG: Final = re.compile(r"\(\s*\{%-?\s*\w+\s+\"([^\"]*)\"\s*-?%\}([^)\s]*)\s*\)")
_IMAGE_TAG: Final = re.compile(r"\{%-?\s*image\s+\"([^\"]*)\"(?:\s+\"([^\"]*)\")?[^%]*-?%\}")
_NOTE_TAG: Final = re.compile(r"\{%-?\s*(?:alert|note|callout)\s+\"([^\"]*)\"[^%]*-?%\}")
_OTHER_TAG: Final = re.compile(r"\{%.*?%\}", re.DOTALL)
_HTML_IN_A_WORD: Final = re.compile(
    r"</?(?:a|b|code|em|i|small|span|strong|sub|sup|u)\b[^>]*>", re.IGNORECASE
)
_HTML_TAG: Final = re.compile(r"<!--.*?-->|<[^>]+>", re.DOTALL)


class MarkdownParser:
    """Longer documents are read in a process of their own: some texts take time by the square of their length."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        if len(body) <= READ_HERE_BYTES_MAX:
            return MarkdownReading().parse(body, file_name, progress=progress)
        return read_confined(Order("markdown", file_name, 1, self._seconds), body, progress)


class MarkdownReading:
    """In this process."""

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Markdown has no pages: `page` is None, and progress is told once."""
        try:
            source = body.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            raise DocumentDamaged(
                file_name, "it is not in UTF-8", "Save it as UTF-8 and upload it again."
            ) from error
        reading = _Reading(_title_of(source))
        for entity in reading.entities(_plain_markdown(source)):
            require_bounded(file_name, entity.text, entity.reading_order)
            yield entity
        if not reading.count:
            raise DocumentEmpty(
                file_name, "there is nothing in it", "Upload the file that has the policy in it."
            )
        if progress:
            progress(1, 1)


def _title_of(source: str) -> str | None:
    front = _FRONT_MATTER.match(source)
    title = _TITLE.search(front[1]) if front else None
    return title[1].strip("\"'") if title else None


def _plain_markdown(source: str) -> str:
    """Without front matter and without tags of generators, except in code."""
    source = _FRONT_MATTER.sub("", source)
    kept: list[str] = []
    end = 0
    for fence in _FENCE.finditer(source):
        kept += [_untagged(source[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*kept, _untagged(source[end:])])


def _untagged(source: str) -> str:
    source = _LINK_TAG.sub(r"(\1\2)", source)
    source = _IMAGE_TAG.sub(lambda tag: f"![{tag[2] or ''}]({tag[1]})", source)
    source = _NOTE_TAG.sub(r"\n\n**\1**\n\n", source)
    return _OTHER_TAG.sub("", source)


class _Reading:
    """One document, from its first block to its last."""

    def __init__(self, title: str | None) -> None:
        self._sections = Sections(title)
        self.count = 0

    def entities(self, source: str) -> Iterator[ParsedEntity]:
        tree = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(source))
        for block in tree.children:
            yield from self._block(block)

    def _block(self, block: SyntaxTreeNode) -> Iterator[ParsedEntity]:
        if block.type == "heading":
            yield from self._heading(block)
        elif block.type == "paragraph":
            yield from self._text(PARAGRAPH, _inline(block))
        elif block.type in ("bullet_list", "ordered_list"):
            for part in _parts(_items(block)):
                yield from self._text(LIST, part)
        elif block.type == "table":
            yield self._entity(ContentType.table, TABLE, markdown_table(_cells(block)))
        elif block.type in ("fence", "code_block"):
            yield from self._text(CODE, block.content.rstrip("\n"))
        elif block.type == "html_block":
            words = _HTML_TAG.sub(" ", _HTML_IN_A_WORD.sub("", block.content))
            yield from self._text(PARAGRAPH, " ".join(words.split()))
        elif block.type == "blockquote":
            for inner in block.children:
                yield from self._block(inner)
        for image in _images(block) if block.type != "blockquote" else ():
            yield self._entity(ContentType.figure, IMAGE, image)

    def _heading(self, block: SyntaxTreeNode) -> Iterator[ParsedEntity]:
        level = int(block.tag.removeprefix("h"))
        title = _inline(block)
        if title:
            self._sections.enter(title, level)
            yield from self._text(TITLE if level == 1 else SECTION_TITLE, title)

    def _text(self, subtype: str, text: str) -> Iterator[ParsedEntity]:
        if text.strip():
            yield self._entity(ContentType.text, subtype, text)

    def _entity(self, content_type: ContentType, subtype: str, text: str) -> ParsedEntity:
        self.count += 1
        return ParsedEntity(
            content_type,
            text,
            None,
            self._sections.nearest,
            self.count,
            f"e{self.count}",
            subtype,
            sections=self._sections.titles,
        )


# --- words of a block ----------------------------------------------------------------------------------------------


def _inline(block: SyntaxTreeNode) -> str:
    """Its text on one line: links by their words, pictures left out (they are entities of their own)."""
    return " ".join(_words(block).split())


def _words(node: SyntaxTreeNode) -> str:
    if node.type in ("text", "code_inline"):
        return node.content
    if node.type in ("softbreak", "hardbreak"):
        return " "
    if node.type == "html_inline":
        return " " if node.content.lower().startswith("<br") else ""
    if node.type == "image":
        return ""
    return "".join(_words(child) for child in node.children)


def _items(block: SyntaxTreeNode, indent: str = "") -> Iterator[str]:
    """Each with its mark; what stands under an item is part of it, indented."""
    first = int(block.attrGet("start") or 1)
    for number, item in enumerate(block.children, first):
        mark = f"{number}. " if block.type == "ordered_list" else "- "
        lines: list[str] = []
        for part in item.children:
            if part.type in ("bullet_list", "ordered_list"):
                lines += _items(part, indent + "  ")
                continue
            text = part.content.rstrip("\n") if part.type in ("fence", "code_block") else _inline(part)
            if text:
                lines.append(indent + ("  " if lines else mark) + text)
        if lines:
            yield "\n".join(lines)


def _parts(items: Iterator[str]) -> Iterator[str]:
    begun: list[str] = []
    for item in items:
        if begun and sum(map(len, begun)) + len(item) > LIST_CHARS_MAX:
            yield "\n".join(begun)
            begun = []
        begun.append(item)
    if begun:
        yield "\n".join(begun)


def _cells(table: SyntaxTreeNode) -> list[list[str]]:
    rows = [row for part in table.children for row in part.children]
    return [[_inline(cell) for cell in row.children] for row in rows]


def _images(node: SyntaxTreeNode) -> Iterator[str]:
    """What a picture is said to show, and where it is."""
    if node.type == "image":
        shown = "".join(_words(child) for child in node.children).strip()
        source = str(node.attrGet("src") or "")
        yield f"{shown} ({source})" if shown and source else shown or source
        return
    for child in node.children:
        yield from _images(child)
