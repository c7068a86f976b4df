"""Tables and diagrams as Markdown has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Row: TypeAlias = Sequence[str]


def markdown_table(columns: Row, rows: Iterable[Row]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def fenced(diagram: str) -> str:
    """A diagram in Mermaid's language."""
    return f"```mermaid\n{diagram}```"


def _cell(text: str) -> str:
    """A text that ends neither its cell nor its row."""
    return " ".join(text.split()).replace("|", "\\|")
