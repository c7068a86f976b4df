"""Conversion between Atlassian Document Format (ADF) and plain text, for the Jira client.

An unknown node shows its content. Nodes nested deeper than `MAX_DEPTH` become an ellipsis.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

MAX_DEPTH: Final = 40
ELLIPSIS: Final = "…"
INLINE_NODES: Final = frozenset(
    {
        "text",
        "hardBreak",
        "mention",
        "emoji",
        "inlineCard",
        "date",
        "status",
        "placeholder",
        "inlineExtension",
    }
)
# Attributes that hold the text of an inline node, a card or a picture, in order of preference.
TEXT_ATTRIBUTES: Final = ("text", "shortName", "url", "alt")
ITEM_NODES: Final = frozenset({"listItem", "taskItem", "decisionItem"})
ROW_NODE: Final = "tableRow"


def to_plain_text(document: Any) -> str:
    """Return the text of a document, one line per block.

    A string is returned without surrounding blanks: older servers send text.
    """
    if isinstance(document, str):
        return document.strip()
    return "\n".join(line.rstrip() for line in _to_lines(document, 0)).strip()


def build_document(text: str) -> dict[str, Any]:
    """Build a document from a text. Empty lines separate paragraphs; other line breaks are kept."""
    parts = [part for part in text.replace("\r\n", "\n").split("\n\n") if part.strip()]
    return {"type": "doc", "version": 1, "content": [_build_paragraph(part.strip("\n")) for part in parts]}


def _build_paragraph(text: str) -> dict[str, Any]:
    """Build a paragraph; line breaks become hard breaks."""
    content: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n")):
        if number:
            content.append({"type": "hardBreak"})
        if line:
            content.append({"type": "text", "text": line})
    return {"type": "paragraph", "content": content}


def _to_lines(node: Any, depth: int) -> list[str]:
    """Return the lines of a block node; `depth` is how deep it is nested."""
    if not isinstance(node, dict):
        return []
    if depth > MAX_DEPTH:
        return [ELLIPSIS]
    kind, children = node.get("type"), _get_children(node)
    if kind == "rule":
        return ["---"]
    if kind == ROW_NODE:
        return [" | ".join(" ".join(_to_lines(cell, depth + 1)) for cell in children)]
    if kind in ITEM_NODES:
        return _format_item(node, depth)
    if kind == "orderedList":
        return [
            line
            for number, each in enumerate(children, 1)
            for line in _format_item(each, depth + 1, f"{number}. ")
        ]
    if not children:
        return [shown] if (shown := _get_inline_text(node)) else []
    return _join_children(children, depth)


def _format_item(node: Any, depth: int, mark: str = "- ") -> list[str]:
    """Return the lines of a list item: the mark before the first, an indent before the others."""
    children = _get_children(node) if isinstance(node, dict) else []
    lines = [ELLIPSIS] if depth > MAX_DEPTH else _join_children(children, depth)
    indent = " " * len(mark)
    return [f"{indent if number else mark}{line}" for number, line in enumerate(lines)]


def _join_children(children: list[Any], depth: int) -> list[str]:
    """Return the lines of blocks, with adjacent inline nodes joined into one run of text."""
    lines: list[str] = []
    run = ""
    for child in children:
        if isinstance(child, dict) and child.get("type") in INLINE_NODES:
            run += _get_inline_text(child)
            continue
        if run:
            lines, run = [*lines, *run.split("\n")], ""
        lines += _to_lines(child, depth + 1)
    return [*lines, *run.split("\n")] if run else lines


def _get_inline_text(node: dict[str, Any]) -> str:
    """Return the text of an inline node: its text, a date, or the first attribute that holds one."""
    if node.get("type") == "hardBreak":
        return "\n"
    if isinstance(node.get("text"), str):
        return str(node["text"])
    attributes = node.get("attrs")
    if not isinstance(attributes, dict):
        return ""
    if node.get("type") == "date":
        return _format_day(attributes.get("timestamp"))
    return next(
        (str(attributes[name]) for name in TEXT_ATTRIBUTES if isinstance(attributes.get(name), str)), ""
    )


def _format_day(timestamp: Any) -> str:
    """Return the ISO date of a timestamp (ADF sends milliseconds in a string), or an empty text."""
    try:
        return datetime.fromtimestamp(int(timestamp) / 1000, UTC).date().isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def _get_children(node: dict[str, Any]) -> list[Any]:
    content = node.get("content")
    return content if isinstance(content, list) else []
