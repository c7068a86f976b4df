"""The newest changes of a table, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.console.access import CurrentUser
from holdfast.console.browser.addresses import build_item_url, build_table_url
from holdfast.console.browser.entities import find_declaration
from holdfast.console.browser.streams import MAX_RECORDS, build_topic_name, get_tail
from holdfast.console.browser.values import ShownAttribute, show_attributes
from holdfast.console.browser.views import DataView, open_view
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import is_fragment, render
from holdfast.core.distribution import explain_missing
from holdfast.model.tables import Table
from holdfast.operations.tables import StreamRecord
from holdfast.operations.values import Item, are_equal

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()


@dataclass(frozen=True)
class StreamEntry:
    """One change: the item's address, its entity, and the attributes that it set or removed."""

    record: StreamRecord
    url: str
    entity: str
    changed: Sequence[ShownAttribute]
    removed: Sequence[str]


@router.get("/data/{system}/{table}/stream")
async def show_stream(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str, table: str
) -> Response:
    """Show the newest changes; htmx asks for the list alone when there are new ones."""
    data = open_view(request, console, user, system)
    found = data.get_table(table)
    state = await get_tail(console, system, found).read()
    return render(
        request,
        "browser/stream_list.html" if is_fragment(request) else "browser/stream.html",
        data=data,
        system=data.system,
        table=found,
        state=state,
        entries=[_build_entry(data, found, each) for each in state.records],
        topic=build_topic_name(system, table) if found.stream is not None else "",
        max_records=MAX_RECORDS,
        table_url=build_table_url(system, table),
    )


def _build_entry(data: DataView, table: Table, record: StreamRecord) -> StreamEntry:
    image = record.new or record.old or record.keys
    declaration = find_declaration(table, image)
    shown = show_attributes(image, declaration, data.masker, table)
    names = _list_changed(record)
    return StreamEntry(
        record,
        build_item_url(data.system.name, table.name, record.keys),
        "" if declaration is None else declaration.entity.__name__,
        [each for each in shown if each.stored_name in names and each.stored_name not in record.keys],
        [] if record.new is None else sorted((record.old or {}).keys() - record.new.keys()),
    )


def _list_changed(record: StreamRecord) -> frozenset[str]:
    """Return the attributes that a change set; all of them if the stream has one image only."""
    old, new = record.old, record.new
    if old is None or new is None:
        return frozenset(new or old or {})
    return frozenset(each for each in new if not _is_same(old, new, each))


def _is_same(old: Item, new: Item, name: str) -> bool:
    return name in old and are_equal(old[name], new[name])
