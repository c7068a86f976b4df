"""Exports of artefacts as text: Markdown, CSV, and Confluence's storage format.

Texts come from tickets and mails, so each is escaped for its target: it cannot open a link, image, tag or
macro, break a table, or start a spreadsheet formula. `layouts.py` defines the layout.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from agenticpm.domain.contents import ArtefactType, Decision, Part, RaidItem, to_stored, validate_content
from agenticpm.domain.layouts import Block, Bullets, Facts, Grid, Heading, Paragraph, Status, build_layout

EMPTY_TEXT: Final = "There are none."

LIGHTS: Final = {"green": "🟢", "amber": "🟠", "red": "🔴"}
# The colour names of Confluence's status macro.
COLOURS: Final = {"green": "Green", "amber": "Yellow", "red": "Red"}

# Control and bidirectional characters: they are invisible and can hide other text.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]"
)
_SPECIAL: Final = re.compile(
    r"[\\`*_\[\]<>|~&!$@#]|:(?=//)|(?<=www)\.|(?<=mailto):|(?<=xmpp):", re.IGNORECASE
)
_BLOCK_START: Final = re.compile(r"^(?=[-+=:])|^(\d+)(?=[.)](?: |$))")

# The types that are logs: the name of their list and the schema of its entries.
LOGS: Final[Mapping[ArtefactType, tuple[str, type[Part]]]] = {
    ArtefactType.raid_log: ("items", RaidItem),
    ArtefactType.decision_log: ("decisions", Decision),
}
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def to_markdown(type: ArtefactType, content: Mapping[str, Any]) -> str:
    """Return the artefact as a Markdown page."""
    return "\n\n".join(_to_markdown_block(each) for each in build_layout(type, content)) + "\n"


def to_confluence(type: ArtefactType, content: Mapping[str, Any]) -> str:
    """Return the artefact as a page body in Confluence's storage format."""
    return "".join(_to_storage_block(each) for each in build_layout(type, content))


def to_csv(type: ArtefactType, content: Mapping[str, Any]) -> str:
    """Return the artefact as CSV (RFC 4180). Raise ValueError if the content is invalid.

    A log has one row per entry; the other artefacts have one row per path and value.
    """
    stored = to_stored(validate_content(type, content))
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerows([_escape_formula(each) for each in row] for row in iter_csv_rows(type, stored))
    return written.getvalue()


# --- Markdown -----------------------------------------------------------------------------------------------


def _to_markdown_block(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {_escape_markdown(text)}"
        case Paragraph(text):
            return _escape_markdown(text) or "–"
        case Status(colour):
            return f"**Status: {LIGHTS[colour]} {colour}**"
        case Facts(rows):
            return _format_pipe_table(
                ("", ""), [(f"**{_escape_markdown(name)}**", _escape_markdown(value)) for name, value in rows]
            )
        case Grid(_, rows) if not rows:
            return EMPTY_TEXT
        case Grid(columns, rows):
            return _format_pipe_table(columns, [[_escape_markdown(each) for each in row] for row in rows])
        case Bullets(texts):
            return "\n".join(f"- {_escape_markdown(each) or '–'}" for each in texts) or EMPTY_TEXT


def _format_pipe_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def _escape_markdown(text: str) -> str:
    """Escape a text to one line of Markdown that renders as itself."""
    line = " ".join(_HIDDEN.sub("", text).split())
    return _BLOCK_START.sub(
        lambda found: (found[1] or "") + "\\", _SPECIAL.sub(lambda found: "\\" + found[0], line)
    )


# --- Confluence ---------------------------------------------------------------------------------------------


def _to_storage_block(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{_escape_html(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_escape_html(text)}</p>"
        case Status(colour):
            return _format_status_macro(colour)
        case Facts(rows):
            return _format_html_table(
                [f"<th>{_escape_html(name)}</th><td>{_escape_html(value)}</td>" for name, value in rows]
            )
        case Grid(_, rows) if not rows:
            return f"<p>{EMPTY_TEXT}</p>"
        case Grid(columns, rows):
            head = "".join(f"<th>{_escape_html(each)}</th>" for each in columns)
            return _format_html_table(
                [head, *("".join(f"<td>{_escape_html(each)}</td>" for each in row) for row in rows)]
            )
        case Bullets(texts):
            return (
                "<ul>"
                + "".join(f"<li>{_escape_html(each)}</li>" for each in texts or (EMPTY_TEXT,))
                + "</ul>"
            )


def _format_status_macro(colour: str) -> str:
    return (
        '<p><ac:structured-macro ac:name="status">'
        f'<ac:parameter ac:name="colour">{COLOURS[colour]}</ac:parameter>'
        f'<ac:parameter ac:name="title">{colour}</ac:parameter></ac:structured-macro></p>'
    )


def _format_html_table(rows: Sequence[str]) -> str:
    return "<table><tbody>" + "".join(f"<tr>{each}</tr>" for each in rows) + "</tbody></table>"


def _escape_html(text: str) -> str:
    """Escape a text for HTML and remove its control characters."""
    return escape(_HIDDEN.sub("", text))


# --- CSV ----------------------------------------------------------------------------------------------------


def iter_csv_rows(type: ArtefactType, content: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the rows before formulas are escaped; the first row has the column names."""
    if type not in LOGS:
        yield ("path", "value")
        yield from _iter_values("", content)
        return
    things, schema = LOGS[type]
    yield list(schema.model_fields)
    for thing in content[things]:
        yield [_format_cell(thing[name]) for name in schema.model_fields]


def _iter_values(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every value with its path: `milestones[0].name`. Empty lists and maps are values too."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _iter_values(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from _iter_values(f"{path}[{place}]", each)
    else:
        yield (path, _format_cell(value))


def _format_cell(value: Any) -> str:
    """Format a value as a CSV cell: a list with semicolons, an option with pros and cons, None as empty."""
    if isinstance(value, Mapping):  # a considered option
        return (
            f"{value['option']} (for: {_format_cell(value['pros'])}; against: {_format_cell(value['cons'])})"
        )
    if isinstance(value, list):
        return "; ".join(map(_format_cell, value))
    return "" if value is None else str(value)


def _escape_formula(cell: str) -> str:
    """Prefix an apostrophe if a spreadsheet would read the cell as a formula."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell
