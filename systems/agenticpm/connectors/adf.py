"""Atlassian's document format as plain text, and plain text as a document: what Jira's connector reads and writes.

A node that is not known shows its content. Nesting is followed to a depth, and what lies deeper is left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

DEPTH_MAX: Final = 40
LEFT_OUT: Final = "…"
INLINE: Final = frozenset(
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
# The attribute that says what an inline node (or a card, or a picture) shows, in the order of choice.
SHOWN_BY: Final = ("text", "shortName", "url", "alt")
ITEMS: Final = frozenset({"listItem", "taskItem", "decisionItem"})
ROWS: Final = "tableRow"


def plain_text(document: Any) -> str:
    """The text of a document, one line per block. A string is a text already, as older servers give it."""
    if isinstance(document, str):
        return document.strip()
    return "\n".join(line.rstrip() for line in _lines(document, 0)).strip()


def document(text: str) -> dict[str, Any]:
    """A text as a document: paragraphs are parted by empty lines, other line ends are kept."""
    parts = [part for part in text.replace("\r\n", "\n").split("\n\n") if part.strip()]
    return {"type": "doc", "version": 1, "content": [_paragraph(part.strip("\n")) for part in parts]}


def _paragraph(text: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n")):
        if number:
            content.append({"type": "hardBreak"})
        if line:
            content.append({"type": "text", "text": line})
    return {"type": "paragraph", "content": content}


def _lines(node: Any, depth: int) -> list[str]:
    """The lines of a block."""
    if not isinstance(node, dict):
        return []
    if depth > DEPTH_MAX:
        return [LEFT_OUT]
    kind, children = node.get("type"), _children(node)
    if kind == "rule":
        return ["---"]
    if kind == ROWS:
        return [" | ".join(" ".join(_lines(cell, depth + 1)) for cell in children)]
    if kind in ITEMS:
        return _item(node, depth)
    if kind == "orderedList":
        return [
            line for number, each in enumerate(children, 1) for line in _item(each, depth + 1, f"{number}. ")
        ]
    if not children:
        return [shown] if (shown := _shown(node)) else []
    return _gathered(children, depth)


def _item(node: Any, depth: int, mark: str = "- ") -> list[str]:
    children = _children(node) if isinstance(node, dict) else []
    lines = [LEFT_OUT] if depth > DEPTH_MAX else _gathered(children, depth)
    indent = " " * len(mark)
    return [f"{indent if number else mark}{line}" for number, line in enumerate(lines)]


def _gathered(children: list[Any], depth: int) -> list[str]:
    """Blocks one under the other; inline nodes that follow one another are one run of text."""
    lines: list[str] = []
    run = ""
    for child in children:
        if isinstance(child, dict) and child.get("type") in INLINE:
            run += _shown(child)
            continue
        if run:
            lines, run = [*lines, *run.split("\n")], ""
        lines += _lines(child, depth + 1)
    return [*lines, *run.split("\n")] if run else lines


def _shown(node: dict[str, Any]) -> str:
    if node.get("type") == "hardBreak":
        return "\n"
    if isinstance(node.get("text"), str):
        return str(node["text"])
    attributes = node.get("attrs")
    if not isinstance(attributes, dict):
        return ""
    if node.get("type") == "date":
        return _day(attributes.get("timestamp"))
    return next((str(attributes[name]) for name in SHOWN_BY if isinstance(attributes.get(name), str)), "")


def _day(timestamp: Any) -> str:
    """A date is told in milliseconds, as a text."""
    try:
        return datetime.fromtimestamp(int(timestamp) / 1000, UTC).date().isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def _children(node: dict[str, Any]) -> list[Any]:
    content = node.get("content")
    return content if isinstance(content, list) else []
