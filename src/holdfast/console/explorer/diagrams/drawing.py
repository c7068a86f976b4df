"""The parts of a diagram: boxes with linked sections, lines, and texts that fit. Pure, without SVG.

Names are set in a monospaced font, because the width of a text must be known without a browser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

TextKind = Literal["name", "mono", "quiet", "tag"]

# The widths for a wide, a middle and a narrow place; the style sheet chooses.
WIDTHS: Final = (1100, 680, 336)
# Widths of a character at the sizes of the style sheet, in pixels.
_CHAR_WIDTHS: Final[dict[TextKind, float]] = {"name": 7.9, "mono": 7.3, "quiet": 6.9, "tag": 6.9}
ELLIPSIS: Final = "…"


@dataclass(frozen=True)
class Text:
    """A line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    kind: TextKind = "mono"
    is_end: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a box with its texts, which a link may cover. `label` is what the link says."""

    y: float
    height: float
    texts: Sequence[Text]
    url: str = ""
    label: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Box:
    """A box with sections from top to bottom; `kind` is what it shows."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    sections: Sequence[Section]


@dataclass(frozen=True)
class Line:
    """A line by its SVG path, and a dot or an arrow at its end."""

    path: str
    kind: str
    head: str = ""


@dataclass(frozen=True)
class Group:
    """Boxes and lines that belong together: pointing at one shows its lines before all others."""

    lines: Sequence[Line] = ()
    boxes: Sequence[Box] = ()


@dataclass(frozen=True)
class Drawing:
    """A diagram with its title and its description in words."""

    width: int
    height: float
    title: str
    description: str
    groups: Sequence[Group]


def draw_widths(draw: Callable[[int], Drawing]) -> list[Drawing]:
    """Return a diagram for a wide, a middle and a narrow place."""
    return [draw(width) for width in WIDTHS]


def fit(text: str, width: float, kind: TextKind = "mono") -> str:
    """Return the text, cut to this width in pixels."""
    most = max(1, int(width / _CHAR_WIDTHS[kind]))
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def measure(text: str, kind: TextKind = "mono") -> float:
    """Return the width of a text in pixels."""
    return len(text) * _CHAR_WIDTHS[kind]


def wrap(text: str, width: float, kind: TextKind = "mono") -> list[str]:
    """Return the text in at most two lines of this width, broken after `_`, `-`, `.` or a space."""
    most = max(4, int(width / _CHAR_WIDTHS[kind]))
    if len(text) <= most:
        return [text]
    cut = max((place + 1 for place in range(most) if text[place] in "_-. /"), default=most)
    return [text[:cut].rstrip(), fit(text[cut:], width, kind)]


def dot(x: float, y: float) -> str:
    """Return the path of a small dot."""
    return f"M{x - 2.5:g} {y:g} a2.5 2.5 0 1 0 5 0 a2.5 2.5 0 1 0 -5 0"


def arrow(x: float, y: float, direction: Literal["left", "right", "down"]) -> str:
    """Return the path of an arrow head whose point is here."""
    shapes = {"left": "l7 -4 v8 z", "right": "l-7 -4 v8 z", "down": "l-4 -7 h8 z"}
    return f"M{x:g} {y:g} {shapes[direction]}"
