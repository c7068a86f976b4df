"""One item at an address of its own: all attributes, its keys explained, and its places in the indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.console.access import CurrentUser
from holdfast.console.browser.addresses import build_item_url, build_table_url
from holdfast.console.browser.edits import describe_seen, read_item
from holdfast.console.browser.entities import (
    IndexPlace,
    explain_keys,
    find_declaration,
    find_index_places,
)
from holdfast.console.browser.item_masker import ItemMasker
from holdfast.console.browser.values import encode_shown, show_attributes, to_text
from holdfast.console.browser.views import explain_no_edit, open_view
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import render
from holdfast.core.distribution import explain_missing
from holdfast.model.tables import Index, Table
from holdfast.operations.values import Item, item_size

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()


@router.get("/data/{system}/{table}/item")
async def show_item(
    request: Request,
    console: CurrentConsole,
    user: CurrentUser,
    system: str,
    table: str,
    key: str,
    view: str = "typed",
) -> Response:
    """Show an item; one that does not exist has a history to look at."""
    data = open_view(request, console, user, system)
    found = data.get_table(table)
    place = data.find_place(found, key)
    item = await read_item(place)
    history = build_item_url(system, table, place.key, "history")
    if item is None:
        return render(
            request,
            "browser/no_item.html",
            status_code=404,
            system=data.system,
            table=found,
            key=place.key,
            history=history,
        )
    declaration = find_declaration(found, item)
    masker = ItemMasker(data.masker, found, declaration)
    shown = show_attributes(item, declaration, data.masker, found)
    return render(
        request,
        "browser/item.html",
        data=data,
        system=data.system,
        table=found,
        key=place.key,
        token=key,
        declaration=declaration,
        size=item_size(item),
        attributes=shown,
        absent=_list_absent(declaration, item),
        expires_at=_find_expiry(found, item),
        explanations=[] if declaration is None else explain_keys(declaration, item, masker),
        places=[_show_place(system, found, each, masker) for each in find_index_places(found, item)],
        view="raw" if view == "raw" else "typed",
        raw={each.stored_name: encode_shown(each.shown) for each in shown},
        why_not=explain_no_edit(console, user, data.system, declaration, item),
        seen=describe_seen(item),
        links={
            "typed": build_item_url(system, table, place.key),
            "raw": build_item_url(system, table, place.key, view="raw"),
            "history": history,
            "edit": build_item_url(system, table, place.key, "edit"),
            "table": build_table_url(system, table),
        },
    )


def _list_absent(declaration: object, item: Item) -> list[str]:
    """Return the Python names of declared attributes that the item lacks."""
    attributes = getattr(declaration, "by_stored_name", {})
    return [each.name for name, each in attributes.items() if name not in item]


def _find_expiry(table: Table, item: Item) -> int | None:
    """Return when the item expires, in epoch seconds."""
    value = item.get(table.ttl) if table.ttl else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class ShownPlace:
    """An index, and the item's key there as it may be shown; None if the item is not in it.

    A masked key has no address, which would contain it.
    """

    index: Index
    key: Mapping[str, Any] | None
    url: str = ""


def _show_place(system: str, table: Table, place: IndexPlace, masker: ItemMasker) -> ShownPlace:
    """Return the place with the address of the items that have the same key in the index."""
    index = place.index
    if place.key is None:
        return ShownPlace(index, None)
    shown = masker.mask_all(place.key)
    if shown != place.key:
        return ShownPlace(index, shown)
    values = {name: to_text(value) for name, value in place.key.items()}
    url = build_table_url(
        system,
        table.name,
        index=index.name,
        partition=values[index.partition],
        op="=" if index.sort else "",
        sort=values[index.sort] if index.sort else "",
    )
    return ShownPlace(index, shown, url)
