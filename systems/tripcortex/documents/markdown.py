"""The Markdown parser: yields sections, paragraphs, lists, tables and pictures as entities, as for a PDF.

Of the front matter only the title is used, as the outermost section. Tags of site generators (`{% … %}`) for
pictures, link targets and notes are converted; all other tags are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from .frames import MAX_PARSE_S, ParseOrder
from .isolation import parse_in_subprocess
from .pdf.tables import format_markdown_table
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
    require_within_limits,
)
from .sections import Sections

# A longer list becomes several entities, each of whole items.
MAX_LIST_CHARS: Final = 1_500
# Documents up to this size are parsed in this process: the worst text of this length takes less than a
# second.
MAX_IN_PROCESS_BYTES: Final = 16_000

_FRONT_MATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE: Final = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_FENCE: Final = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK_TAG: Final = re.compile(r"\(\s*\{%-?\s*\w+\s+\"([^\"]*)\"\s*-?%\}([^)\s]*)\s*\)")
_IMAGE_TAG: Final = re.compile(r"\{%-?\s*image\s+\"([^\"]*)\"(?:\s+\"([^\"]*)\")?[^%]*-?%\}")
_NOTE_TAG: Final = re.compile(r"\{%-?\s*(?:alert|note|callout)\s+\"([^\"]*)\"[^%]*-?%\}")
_OTHER_TAG: Final = re.compile(r"\{%.*?%\}", re.DOTALL)
_INLINE_HTML_TAG: Final = re.compile(
    r"</?(?:a|b|code|em|i|small|span|strong|sub|sup|u)\b[^>]*>", re.IGNORECASE
)
# The mark of an item or heading without its text.
_BARE_MARK: Final = re.compile(r"^(?:[-*+|#]|\d+[.)])$")
_HTML_TAG: Final = re.compile(r"<!--.*?-->|<[^>]+>", re.DOTALL)


class MarkdownParser:
    """A `Parser` for Markdown. Documents above 16,000 bytes are parsed in a subprocess.

    Some texts take time quadratic in their length. `seconds` is the CPU time for the document.
    """

    def __init__(self, *, seconds: float = MAX_PARSE_S) -> None:
        self._seconds = seconds

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Yield the entities, as `MarkdownReader` does; a long document is parsed in a subprocess."""
        if len(body) <= MAX_IN_PROCESS_BYTES:
            return MarkdownReader().parse(body, file_name, progress=progress)
        return parse_in_subprocess(ParseOrder("markdown", file_name, 1, self._seconds), body, progress)


class MarkdownReader:
    """A `Parser` for Markdown that always runs in this process."""

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Yield the entities. Markdown has no pages: `page` is None; `progress` is called once, at the end.

        Raise `DocumentDamaged` if it is not UTF-8, `DocumentEmpty` if it has no content, `DocumentTooLarge`.
        """
        try:
            source = body.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            raise DocumentDamaged(
                file_name, "it is not in UTF-8", "Save it as UTF-8 and upload it again."
            ) from error
        reading = _DocumentWalker(_find_title(source))
        for entity in reading.walk(_separate_cut_line(_strip_generator_syntax(source))):
            require_within_limits(file_name, entity.text, entity.reading_order)
            yield entity
        if not reading.count:
            raise DocumentEmpty(file_name, "it has no content", "Upload the file that contains the policy.")
        if progress:
            progress(1, 1)


def _find_title(source: str) -> str | None:
    """Return the title of the front matter, or None."""
    front = _FRONT_MATTER.match(source)
    title = _TITLE.search(front[1]) if front else None
    return title[1].strip("\"'") if title else None


def _strip_generator_syntax(source: str) -> str:
    """Return the source without front matter and without generator tags, except in code."""
    source = _FRONT_MATTER.sub("", source)
    kept: list[str] = []
    end = 0
    for fence in _FENCE.finditer(source):
        kept += [_replace_tags(source[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*kept, _replace_tags(source[end:])])


def _replace_tags(source: str) -> str:
    """Convert generator tags for links, pictures and notes to Markdown; remove all others."""
    source = _LINK_TAG.sub(r"(\1\2)", source)
    source = _IMAGE_TAG.sub(lambda tag: f"![{tag[2] or ''}]({tag[1]})", source)
    source = _NOTE_TAG.sub(r"\n\n**\1**\n\n", source)
    return _OTHER_TAG.sub("", source)


def _separate_cut_line(source: str) -> str:
    """Return the source; a last line that a truncated file breaks off is a paragraph of its own.

    A table without the end of its last row, or the mark of an item without its text, would be read as whole.
    """
    *before, last = source.rstrip("\n ").split("\n")
    is_cut_row = (
        last.startswith("|") and not last.endswith("|") and any(each.endswith("|") for each in before)
    )
    if is_cut_row or _BARE_MARK.match(last):
        return "\n".join((*before, "", f"\\{last}"))
    return source


class _DocumentWalker:
    """A walk through one document from its first block to its last; numbers the entities from 1."""

    def __init__(self, title: str | None) -> None:
        self._sections = Sections(title)
        self.count = 0

    def walk(self, source: str) -> Iterator[ParsedEntity]:
        """Yield the entities of the source, in reading order."""
        tree = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(source))
        for block in tree.children:
            yield from self._walk_block(block)

    def _walk_block(self, block: SyntaxTreeNode) -> Iterator[ParsedEntity]:
        """Yield the entities of a block: its text, list, table or code, and after it its pictures."""
        if block.type == "heading":
            yield from self._walk_heading(block)
        elif block.type == "paragraph":
            yield from self._emit_text(PARAGRAPH, _render_inline(block))
        elif block.type in ("bullet_list", "ordered_list"):
            for part in _group_items(_render_items(block)):
                yield from self._emit_text(LIST, part)
        elif block.type == "table":
            yield self._build_entity(ContentType.table, TABLE, format_markdown_table(_render_cells(block)))
        elif block.type in ("fence", "code_block"):
            yield from self._emit_text(CODE, block.content.rstrip("\n"))
        elif block.type == "html_block":
            words = _HTML_TAG.sub(" ", _INLINE_HTML_TAG.sub("", block.content))
            yield from self._emit_text(PARAGRAPH, " ".join(words.split()))
        elif block.type == "blockquote":
            for inner in block.children:
                yield from self._walk_block(inner)
        for image in _find_images(block) if block.type != "blockquote" else ():
            yield self._build_entity(ContentType.figure, IMAGE, image)

    def _walk_heading(self, block: SyntaxTreeNode) -> Iterator[ParsedEntity]:
        """Open a section and yield its heading; yield nothing for an empty one."""
        level = int(block.tag.removeprefix("h"))
        title = _render_inline(block)
        if title:
            self._sections.enter(title, level)
            yield from self._emit_text(TITLE if level == 1 else SECTION_TITLE, title)

    def _emit_text(self, subtype: str, text: str) -> Iterator[ParsedEntity]:
        """Yield a text entity unless the text is blank."""
        if text.strip():
            yield self._build_entity(ContentType.text, subtype, text)

    def _build_entity(self, content_type: ContentType, subtype: str, text: str) -> ParsedEntity:
        """Return the next entity, in the current section."""
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


# --- text of a block ----------------------------------------------------------------------------------------


def _render_inline(block: SyntaxTreeNode) -> str:
    """Return the text of a block on one line: links as their words, without pictures.

    Pictures are separate entities.
    """
    return " ".join(_render_text(block).split())


def _render_text(node: SyntaxTreeNode) -> str:
    """Return the text of a node and its children, without pictures and HTML tags."""
    if node.type in ("text", "code_inline"):
        return node.content
    if node.type in ("softbreak", "hardbreak"):
        return " "
    if node.type == "html_inline":
        return " " if node.content.lower().startswith("<br") else ""
    if node.type == "image":
        return ""
    return "".join(_render_text(child) for child in node.children)


def _render_items(block: SyntaxTreeNode, indent: str = "") -> Iterator[str]:
    """Yield the items of a list with their marks. Nested content is part of its item, indented."""
    first = int(block.attrGet("start") or 1)
    for number, item in enumerate(block.children, first):
        mark = f"{number}. " if block.type == "ordered_list" else "- "
        lines: list[str] = []
        for part in item.children:
            if part.type in ("bullet_list", "ordered_list"):
                lines += _render_items(part, indent + "  ")
                continue
            text = part.content.rstrip("\n") if part.type in ("fence", "code_block") else _render_inline(part)
            if text:
                lines.append(indent + ("  " if lines else mark) + text)
        if lines:
            yield "\n".join(lines)


def _group_items(items: Iterator[str]) -> Iterator[str]:
    """Join items into texts of at most 1,500 characters, or one longer item."""
    group: list[str] = []
    for item in items:
        if group and sum(map(len, group)) + len(item) > MAX_LIST_CHARS:
            yield "\n".join(group)
            group = []
        group.append(item)
    if group:
        yield "\n".join(group)


def _render_cells(table: SyntaxTreeNode) -> list[list[str]]:
    """Return the text of each cell, row by row, the header included."""
    rows = [row for part in table.children for row in part.children]
    return [[_render_inline(cell) for cell in row.children] for row in rows]


def _find_images(node: SyntaxTreeNode) -> Iterator[str]:
    """Yield `alternative text (URL)` for each picture, or the one of the two that it has."""
    if node.type == "image":
        shown = "".join(_render_text(child) for child in node.children).strip()
        source = str(node.attrGet("src") or "")
        yield f"{shown} ({source})" if shown and source else shown or source
        return
    for child in node.children:
        yield from _find_images(child)
