"""The past of an item: as it was at a second, and change by change, from the change log of its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.console.access import CurrentUser
from holdfast.console.browser.addresses import build_item_url
from holdfast.console.browser.edits import ItemPlace
from holdfast.console.browser.entities import find_declaration
from holdfast.console.browser.values import ShownAttribute, show_attributes
from holdfast.console.browser.views import DataView, open_view
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import render
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import InvalidRestoreTime, NotFound, RecoveryUnavailable, format_message
from holdfast.operations.tables import GetItemAt, ItemAt, ItemChange, ItemChanges, ListItemChanges
from holdfast.operations.values import Item, are_equal
from holdfast.runtime import RecoveryWindow, get_recovery_window

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

# Each examines a bounded part of the log.
MAX_REQUESTS: Final = 20
PAGE_CHANGES: Final = 20


@dataclass(frozen=True)
class Difference:
    """One attribute of a change, before and after; None where the item lacked it."""

    name: str
    before: ShownAttribute | None
    after: ShownAttribute | None


@dataclass(frozen=True)
class HistoryEntry:
    """One change, with what differs and the address of the item as it was just before."""

    change: ItemChange
    differences: Sequence[Difference]
    before_url: str


@dataclass(frozen=True)
class Past:
    """The item at a time: its attributes, or the problem with the time."""

    at: datetime | None = None
    found: ItemAt | None = None
    attributes: Sequence[ShownAttribute] = ()
    problem: str = ""


@router.get("/data/{system}/{table}/item/history")
async def show_history(
    request: Request,
    console: CurrentConsole,
    user: CurrentUser,
    system: str,
    table: str,
    key: str,
    at: str = "",
    start: int | None = None,
) -> Response:
    """Show the changes of an item, and with `at` the item as it was."""
    data = open_view(request, console, user, system)
    found = data.get_table(table)
    place = data.find_place(found, key)
    window, why_not = await _find_window(place)
    changes = ItemChanges(()) if window is None else await _list_changes(place, start)
    return render(
        request,
        "browser/history.html",
        data=data,
        system=data.system,
        table=found,
        key=place.key,
        token=key,
        window=window,
        why_not=why_not,
        at=at,
        past=Past() if window is None or not at else await _load_past(data, place, at),
        entries=[_build_entry(data, place, each) for each in changes.changes],
        changes=changes,
        older=build_item_url(system, table, place.key, "history", start=changes.next) if changes.next else "",
        item_url=build_item_url(system, table, place.key),
    )


async def _find_window(place: ItemPlace) -> tuple[RecoveryWindow | None, str]:
    """Return the times that are known, or why the past of this table's items is not."""
    try:
        window = await get_recovery_window(place.stores, place.physical)
        # DynamoDB has a window too, but restores whole tables only.
        await place.stores.tables.run(ListItemChanges(place.physical, place.key, limit=1))
        return window, ""
    except (RecoveryUnavailable, NotFound) as error:
        return None, format_message(error)


async def _load_past(data: DataView, place: ItemPlace, text: str) -> Past:
    """Return the item at the time that the user wrote, in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return Past(problem=f"Invalid time {text!r}: expected one such as 2026-11-18T09:30:00, in UTC.")
    try:
        found = await read_at(place, moment.timestamp())
    except InvalidRestoreTime as error:
        return Past(moment, problem=format_message(error))
    if found.next is not None:
        return Past(moment, problem="The log since then is too long to search here. Choose a later time.")
    return Past(moment, found, _show(data, place, found.item))


async def read_at(place: ItemPlace, at: float) -> ItemAt:
    """Return the item at a time; with `next`, the log is longer than is examined here."""
    found = await place.stores.tables.run(GetItemAt(place.physical, place.key, at))
    for _ in range(MAX_REQUESTS):
        if found.next is None:
            break
        found = await place.stores.tables.run(GetItemAt(place.physical, place.key, at, found.next))
    return found


async def _list_changes(place: ItemPlace, start: int | None) -> ItemChanges:
    """Return a page of changes; a part of the log without any is passed over, within bounds."""
    page = await place.stores.tables.run(ListItemChanges(place.physical, place.key, start, PAGE_CHANGES))
    for _ in range(MAX_REQUESTS):
        if page.changes or page.next is None:
            break
        page = await place.stores.tables.run(
            ListItemChanges(place.physical, place.key, page.next, PAGE_CHANGES)
        )
    return page


def _build_entry(data: DataView, place: ItemPlace, change: ItemChange) -> HistoryEntry:
    just_before = datetime.fromtimestamp(change.at - 0.001, UTC).isoformat(timespec="milliseconds")
    url = build_item_url(
        data.system.name, place.table.name, place.key, "history", at=just_before.replace("+00:00", "")
    )
    return HistoryEntry(change, _compare(data, place, change), url)


def _compare(data: DataView, place: ItemPlace, change: ItemChange) -> list[Difference]:
    """Return the attributes that differ; none if an image is not known."""
    if not change.is_before_known or not change.is_after_known:
        return []
    before, after = change.before or {}, change.after or {}
    shown_before = {each.stored_name: each for each in _show(data, place, change.before)}
    shown_after = {each.stored_name: each for each in _show(data, place, change.after)}
    names = dict.fromkeys([*shown_before, *shown_after])
    return [
        Difference(
            (shown_after.get(each) or shown_before[each]).name, shown_before.get(each), shown_after.get(each)
        )
        for each in names
        if not _is_same(before, after, each)
    ]


def _is_same(before: Item, after: Item, name: str) -> bool:
    return name in before and name in after and are_equal(before[name], after[name])


def _show(data: DataView, place: ItemPlace, item: Any) -> list[ShownAttribute]:
    if item is None:
        return []
    declaration = find_declaration(place.table, item)
    return show_attributes(item, declaration, data.masker, place.table)
