"""Print the result of a system command, for a person or as JSON for a program.

For a person: text as it is, one object as its fields, several objects as a table, a page with the cursor of
the next one. For a program: JSON, with entities and documents under their stored names.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from rich.markup import escape

from holdfast.cli.output.console import build_table, get_console, print_json, print_text
from holdfast.core.terminal import escape_control_chars
from holdfast.model.operations import Page
from holdfast.model.system import Explanation, Listing

# Characters between two columns of a table.
COLUMN_GAP: Final = 2


def print_result(result: Any, *, as_json: bool) -> None:
    """Print what a command returned: text, a record, a table or a page with its cursor; or JSON."""
    if as_json:
        print_json(to_json(result))
        return
    if isinstance(result, Explanation):
        result = "\n".join(result.lines)
    if isinstance(result, Listing):
        _print_listing(result)
        return
    _print_value(result.items if isinstance(result, Page) else result)
    if isinstance(result, Page):
        _print_cursor(result)


def _print_cursor(page: Page[Any]) -> None:
    if page.cursor is not None:
        print_text(f"more results after the cursor: {page.cursor}")


def to_json(value: Any) -> Any:
    """Convert a value to what JSON can represent. Values of unknown types become text."""
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
        case BaseModel():
            return to_json(value.model_dump(mode="json", by_alias=True))
        case Explanation() | Listing():
            return to_json(value.data if isinstance(value, Explanation) else value.page)
        case Page():
            return {"items": to_json(value.items), "cursor": value.cursor}
        case Mapping():
            return {str(name): to_json(each) for name, each in value.items()}
        case bytes():
            return value.decode(errors="replace")
        case Collection():
            return [to_json(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return str(value)


def _print_value(value: Any) -> None:
    """Print a value for a person: a record, a table of records, lines, "nothing" or "done"."""
    shown = to_json(value)
    match shown:
        case None:
            print_text("done")
        case dict():
            _print_record(shown)
        case [dict(), *_] if all(isinstance(each, dict) for each in shown):
            _print_records(shown)
        case []:
            print_text("nothing")
        case list():
            for each in shown:
                print_text(_format_cell(each))
        case _:
            print_text(_format_cell(shown))


def _print_record(record: Mapping[str, Any]) -> None:
    """Print the fields of one record that are not None, one per line."""
    table = build_table("", "")
    table.show_header = False
    for name, value in record.items():
        if value is not None:
            table.add_row(f"[bold]{escape(name)}[/]", escape(_format_cell(value, indent=2)))
    get_console().print(table)


def _print_records(records: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with every field that a record has; if it is too wide, one record after the other.

    Ids are never folded or cut.
    """
    out = get_console()
    names = dict.fromkeys(name for row in records for name, value in row.items() if value is not None)
    columns = [
        [name, *(escape_control_chars(_format_cell(row.get(name))) for row in records)] for name in names
    ]
    if sum(max(map(len, column)) + COLUMN_GAP for column in columns) > out.width:
        for row in records:
            _print_record(row)
            out.print()
        return
    table = build_table(*(escape(name) for name in names))
    for cells in list(zip(*columns, strict=True))[1:]:
        table.add_row(*map(escape, cells))
    out.print(table)


def _print_listing(listing: Listing) -> None:
    """Print the listing's columns as a table, one row per record, without columns that are empty.

    If the terminal is too narrow, only the widest column is folded, so ids stay whole.
    """
    rows = [to_json(each) for each in listing.page.items]
    if not rows:
        print_text("nothing")
        return
    columns = [
        [name, *(escape_control_chars(_format_cell(row.get(name))) for row in rows)]
        for name in listing.columns
    ]
    columns = [each for each in columns if any(each[1:])]
    widest = max(range(len(columns)), key=lambda number: max(map(len, columns[number])))
    table = build_table()
    for number, column in enumerate(columns):
        table.add_column(escape(column[0]), no_wrap=number != widest, overflow="fold")
    for cells in list(zip(*columns, strict=True))[1:]:
        table.add_row(*map(escape, cells))
    get_console().print(table)
    _print_cursor(listing.page)


def _format_cell(value: Any, *, indent: int | None = None) -> str:
    """Format a JSON value: None as an empty text, booleans as yes or no, lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, indent=indent)
    return str(value)
