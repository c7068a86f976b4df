"""Artefacts for people and their tools: Markdown, CSV, and Confluence's storage format.

Texts come from tickets and mails, so each is made harmless for where it goes: it can open no link, image, tag or
macro, break no table, and start no formula of a spreadsheet. `layouts.py` says what stands where.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from agenticpm.contents import ArtefactType, Decision, Part, RaidItem, checked_content, plain
from agenticpm.layouts import Block, Bullets, Facts, Grid, Heading, Paragraph, Status, layout_of

NONE_THERE: Final = "There are none."

LIGHTS: Final = {"green": "🟢", "amber": "🟠", "red": "🔴"}
# As Confluence's status macro calls them.
COLOURS: Final = {"green": "Green", "amber": "Yellow", "red": "Red"}

# Controls, and those that turn the direction of writing around: nothing of them is shown, and they hide what is.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]"
)
_SPECIAL: Final = re.compile(
    r"[\\`*_\[\]<>|~&!$@#]|:(?=//)|(?<=www)\.|(?<=mailto):|(?<=xmpp):", re.IGNORECASE
)
_AT_START: Final = re.compile(r"^(?=[-+=:])|^(\d+)(?=[.)](?: |$))")

# Which types are a list of things, under which name, and what each of them has.
LOGS: Final[Mapping[ArtefactType, tuple[str, type[Part]]]] = {
    ArtefactType.raid_log: ("items", RaidItem),
    ArtefactType.decision_log: ("decisions", Decision),
}
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def to_markdown(type: ArtefactType, content: Mapping[str, Any]) -> str:
    """The artefact as a page of Markdown."""
    return "\n\n".join(_markdown(each) for each in layout_of(type, content)) + "\n"


def to_confluence(type: ArtefactType, content: Mapping[str, Any]) -> str:
    """The artefact as a page body in Confluence's storage format."""
    return "".join(_storage(each) for each in layout_of(type, content))


def to_csv(type: ArtefactType, content: Mapping[str, Any]) -> str:
    """The artefact as CSV (RFC 4180). Logs have a row for each thing, the others one for each place and its value."""
    said = plain(checked_content(type, content))
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerows([_guarded(each) for each in row] for row in csv_rows(type, said))
    return written.getvalue()


# --- Markdown ----------------------------------------------------------------------------------------------------


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {_harmless(text)}"
        case Paragraph(text):
            return _harmless(text) or "–"
        case Status(colour):
            return f"**Status: {LIGHTS[colour]} {colour}**"
        case Facts(rows):
            return _pipes(("", ""), [(f"**{_harmless(name)}**", _harmless(value)) for name, value in rows])
        case Grid(_, rows) if not rows:
            return NONE_THERE
        case Grid(columns, rows):
            return _pipes(columns, [[_harmless(each) for each in row] for row in rows])
        case Bullets(texts):
            return "\n".join(f"- {_harmless(each) or '–'}" for each in texts) or NONE_THERE


def _pipes(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def _harmless(text: str) -> str:
    """A text as one line of Markdown that means nothing but itself."""
    line = " ".join(_HIDDEN.sub("", text).split())
    return _AT_START.sub(
        lambda found: (found[1] or "") + "\\", _SPECIAL.sub(lambda found: "\\" + found[0], line)
    )


# --- Confluence --------------------------------------------------------------------------------------------------


def _storage(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{_text(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_text(text)}</p>"
        case Status(colour):
            return _light(colour)
        case Facts(rows):
            return _table([f"<th>{_text(name)}</th><td>{_text(value)}</td>" for name, value in rows])
        case Grid(_, rows) if not rows:
            return f"<p>{NONE_THERE}</p>"
        case Grid(columns, rows):
            head = "".join(f"<th>{_text(each)}</th>" for each in columns)
            return _table([head, *("".join(f"<td>{_text(each)}</td>" for each in row) for row in rows)])
        case Bullets(texts):
            return "<ul>" + "".join(f"<li>{_text(each)}</li>" for each in texts or (NONE_THERE,)) + "</ul>"


def _light(colour: str) -> str:
    return (
        '<p><ac:structured-macro ac:name="status">'
        f'<ac:parameter ac:name="colour">{COLOURS[colour]}</ac:parameter>'
        f'<ac:parameter ac:name="title">{colour}</ac:parameter></ac:structured-macro></p>'
    )


def _table(rows: Sequence[str]) -> str:
    return "<table><tbody>" + "".join(f"<tr>{each}</tr>" for each in rows) + "</tbody></table>"


def _text(text: str) -> str:
    return escape(_HIDDEN.sub("", text))


# --- CSV ---------------------------------------------------------------------------------------------------------


def csv_rows(type: ArtefactType, content: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """The rows as they are before formulas are stopped; the first has the names of the columns."""
    if type not in LOGS:
        yield ("path", "value")
        yield from _places("", content)
        return
    things, schema = LOGS[type]
    yield list(schema.model_fields)
    for thing in content[things]:
        yield [_cell(thing[name]) for name in schema.model_fields]


def _places(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every value with where it stands: `milestones[0].name`. What is empty is a value too."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _places(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from _places(f"{path}[{place}]", each)
    else:
        yield (path, _cell(value))


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):  # an option that was considered
        return f"{value['option']} (for: {_cell(value['pros'])}; against: {_cell(value['cons'])})"
    if isinstance(value, list):
        return "; ".join(map(_cell, value))
    return "" if value is None else str(value)


def _guarded(cell: str) -> str:
    """A spreadsheet takes a cell with one of these beginnings for a formula: the apostrophe makes it a text."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell
