"""Diagrams as inline SVG, drawn by the server: of a system's model, of its use, and of its flows.

Each function returns a `Drawing` for a width; `drawing.draw_widths` draws the three that the style sheet
chooses from. Templates turn it into SVG (`templates/explorer/drawing.html`).
"""

from __future__ import annotations

from holdfast.console.explorer.diagrams.access import draw_access
from holdfast.console.explorer.diagrams.drawing import Drawing, draw_widths
from holdfast.console.explorer.diagrams.flow import draw_flow
from holdfast.console.explorer.diagrams.model import draw_model

__all__ = ["Drawing", "draw_access", "draw_flow", "draw_model", "draw_widths"]
