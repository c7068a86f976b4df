"""Parse the Markdown pages of the documentation: code blocks, links, headings and tables.

The tests in this folder use it. Only as much Markdown is understood as our pages use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

FENCE = re.compile(r"^( *)(```+)(\S*)[ ]*(.*)$")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
CODE_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the rest of that line, its text and the number of its first line."""

    page: Path
    line: int
    language: str
    note: str
    text: str


def list_pages() -> list[Path]:
    """List every page: of the root folder, of docs, of examples, and the systems' READMEs."""
    folders = ("*.md", "docs/**/*.md", "examples/*.md", "systems/*/README.md")
    return sorted(page for folder in folders for page in ROOT.glob(folder))


def format_path(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def parse_blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page; fail if one is never closed."""
    opened: re.Match[str] | None = None
    first, lines = 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened, first, lines = fence, number + 1, []
        elif opened and line.strip() == opened[2]:
            yield Block(page, first, opened[3], opened[4].strip(), "\n".join(lines) + "\n")
            opened = None
        elif opened:
            lines.append(line.removeprefix(opened[1]))
    assert opened is None, f"{format_path(page)}:{first - 1}: this block is never closed"


def read_prose(page: Path) -> str:
    """Return the page without its code blocks."""
    kept: list[str] = []
    closing = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if closing:
            closing = "" if line.strip() == closing else closing
        elif fence := FENCE.match(line):
            closing = fence[2]
        else:
            kept.append(line)
    return "\n".join(kept) + "\n"


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings."""
    return {_make_anchor(heading) for _, heading in HEADING.findall(read_prose(page))}


def _make_anchor(heading: str) -> str:
    """Return the anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def split_sections(page: Path, level: int) -> dict[str, str]:
    """Map each heading of a level to its text, up to the next heading of that level or above."""
    parts = re.split(rf"^(#{{1,{level}}}) +(.+?) *$", read_prose(page), flags=re.MULTILINE)
    found: dict[str, str] = {}
    for marks, heading, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if len(marks) == level:
            assert heading not in found, f"{format_path(page)}: two sections are called {heading!r}"
            found[heading] = text
    return found


def parse_rows(text: str) -> list[list[str]]:
    """Return the cells of every table row, without header rows and separators."""
    lines = [line.strip() for line in text.splitlines()]
    table: list[list[str]] = []
    for number, line in enumerate(lines):
        if not line.startswith("|") or _is_rule(line):
            continue
        if number + 1 < len(lines) and _is_rule(lines[number + 1]):
            continue
        table.append([cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return table


def _is_rule(line: str) -> bool:
    """Return True for the line between a table's header and its rows."""
    return line.startswith("|") and set(line) <= set("|-: ")


def find_code_spans(text: str) -> list[str]:
    return CODE_SPAN.findall(text)
