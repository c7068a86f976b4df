"""What a command of a system gave, for a person or for a program.

For a person: texts as they are, one thing as its members, several as a table, a page with where the next one is. For a
program: JSON, entities and documents under the names that they are stored under.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from rich.markup import escape

from holdfast.cli.showing import console, plain_table, print_json, say
from holdfast.model.operations import Page
from holdfast.model.system import Explanation, Listing
from holdfast.terminal import harmless

# Between two columns of a table.
GAP: Final = 2


def show(answer: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(answer))
        return
    if isinstance(answer, Explanation):
        answer = "\n".join(answer.lines)
    if isinstance(answer, Listing):
        _show_listing(answer)
        return
    _show(answer.items if isinstance(answer, Page) else answer)
    if isinstance(answer, Page):
        _show_more(answer)


def _show_more(page: Page[Any]) -> None:
    if page.cursor is not None:
        say(f"there are more after: {page.cursor}")


def plain(value: Any) -> Any:
    """As JSON has it. What it does not have is told as text."""
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
        case BaseModel():
            return plain(value.model_dump(mode="json", by_alias=True))
        case Explanation() | Listing():
            return plain(value.data if isinstance(value, Explanation) else value.page)
        case Page():
            return {"items": plain(value.items), "cursor": value.cursor}
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case bytes():
            return value.decode(errors="replace")
        case Collection():
            return [plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return str(value)


def _show(answer: Any) -> None:
    shown = plain(answer)
    match shown:
        case None:
            say("done")
        case dict():
            _show_one(shown)
        case [dict(), *_] if all(isinstance(each, dict) for each in shown):
            _show_several(shown)
        case []:
            say("nothing")
        case list():
            for each in shown:
                say(_cell(each))
        case _:
            say(_cell(shown))


def _show_one(members: Mapping[str, Any]) -> None:
    table = plain_table("", "")
    table.show_header = False
    for name, value in members.items():
        if value is not None:
            table.add_row(f"[bold]{escape(name)}[/]", escape(_cell(value, indent=2)))
    console().print(table)


def _show_several(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table, of what any of them has. Where it would be wider than the screen, one after the other: so ids stay whole."""
    out = console()
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    columns = [[name, *(harmless(_cell(row.get(name))) for row in rows)] for name in names]
    if sum(max(map(len, column)) + GAP for column in columns) > out.width:
        for row in rows:
            _show_one(row)
            out.print()
        return
    table = plain_table(*(escape(name) for name in names))
    for cells in list(zip(*columns, strict=True))[1:]:
        table.add_row(*map(escape, cells))
    out.print(table)


def _show_listing(listing: Listing) -> None:
    """One line a thing. Where the screen is too narrow the widest column is folded: ids stay whole."""
    rows = [plain(each) for each in listing.page.items]
    if not rows:
        say("nothing")
        return
    columns = [[name, *(harmless(_cell(row.get(name))) for row in rows)] for name in listing.columns]
    columns = [each for each in columns if any(each[1:])]
    widest = max(range(len(columns)), key=lambda number: max(map(len, columns[number])))
    table = plain_table()
    for number, column in enumerate(columns):
        table.add_column(escape(column[0]), no_wrap=number != widest, overflow="fold")
    for cells in list(zip(*columns, strict=True))[1:]:
        table.add_row(*map(escape, cells))
    console().print(table)
    _show_more(listing.page)


def _cell(value: Any, *, indent: int | None = None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, indent=indent)
    return str(value)
