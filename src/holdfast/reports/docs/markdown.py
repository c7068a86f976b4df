"""Format Markdown tables and fence Mermaid diagrams, for the documentation pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Row: TypeAlias = Sequence[str]


def format_table(columns: Row, rows: Iterable[Row]) -> str:
    """Format rows as a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_escape_cell, line))} |" for line in lines)


def fence_diagram(diagram: str) -> str:
    """Wrap a Mermaid diagram in a code fence."""
    return f"```mermaid\n{diagram}```"


def _escape_cell(text: str) -> str:
    """Escape a text so that it ends neither its cell nor its row."""
    return " ".join(text.split()).replace("|", "\\|")
