"""The items of a table or an index, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Final

from holdfast.console.access import CurrentUser
from holdfast.console.browser.addresses import build_item_url, build_table_url
from holdfast.console.browser.catalog import describe
from holdfast.console.browser.entities import extract_key, find_declaration, get_key_names, list_key_hints
from holdfast.console.browser.queries import (
    FILTER_OPERATORS,
    PAGE_SIZES,
    SORT_OPERATORS,
    Filter,
    ItemPage,
    ItemQuery,
    load_items,
)
from holdfast.console.browser.values import ShownAttribute, encode_shown, show_attributes
from holdfast.console.browser.views import DataView, open_view
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import render
from holdfast.core.distribution import explain_missing
from holdfast.model.tables import Index, Table
from holdfast.operations.values import Item, item_size

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Depends, Query
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

MAX_COLUMNS: Final = 9
MAX_FILTERS: Final = 5
MAX_SUMMARY: Final = 6


@dataclass(frozen=True)
class Column:
    """A column of the typed view: its heading, and the stored name of its attribute."""

    title: str
    stored_name: str


@dataclass(frozen=True)
class Row:
    """An item of a page."""

    url: str
    entity: str
    size: int
    attributes: dict[str, ShownAttribute]
    raw: dict[str, object]

    @property
    def summary(self) -> list[ShownAttribute]:
        """The first attributes that are no keys."""
        return [each for each in self.attributes.values() if not each.is_key][:MAX_SUMMARY]


def read_query(  # noqa: PLR0913, PLR0917 - the fields of the form
    index: str = "",
    partition: str = "",
    op: str = "=",
    sort: str = "",
    sort_to: str = "",
    order: str = "up",
    fa: Annotated[Sequence[str], Query()] = (),
    fo: Annotated[Sequence[str], Query()] = (),
    fv: Annotated[Sequence[str], Query()] = (),
    size: int = PAGE_SIZES[0],
    cursor: str = "",
) -> ItemQuery:
    """Return the fields of the form."""
    filters = [
        Filter(name.strip(), operator or "=", value or "")
        for name, operator, value in zip_longest(fa, fo, fv, fillvalue="")
        if name.strip()
    ][:MAX_FILTERS]
    return ItemQuery(
        index,
        partition,
        op,
        sort,
        sort_to,
        order == "down",
        filters,
        size if size in PAGE_SIZES else PAGE_SIZES[0],
        cursor,
    )


@router.get("/data/{system}/{table}")
async def show_table(
    request: Request,
    console: CurrentConsole,
    user: CurrentUser,
    system: str,
    table: str,
    query: Annotated[ItemQuery, Depends(read_query)],
    view: str = "typed",
) -> Response:
    """Show a page of items."""
    data = open_view(request, console, user, system)
    found = data.get_table(table)
    entry = await describe(data.stores, found)
    index = next((each for each in found.indexes if each.name == query.index), None)
    is_there = entry.description is not None and (
        index is None or entry.get_index_state(index.name) is not None
    )
    page = await load_items(data.stores, found, query, data.masker) if is_there else ItemPage(())
    rows = [_build_row(data, found, each) for each in page.items]
    is_mixed = len({each.entity for each in rows}) > 1
    return render(
        request,
        "browser/table.html",
        data=data,
        system=data.system,
        table=found,
        index=index,
        keys=found if index is None else index,
        entry=entry,
        is_there=is_there,
        query=query,
        page=page,
        rows=rows,
        columns=_choose_columns(found, index, page.items, is_mixed=is_mixed),
        hints=list_key_hints(found, index),
        names=_list_names(found),
        is_mixed=is_mixed,
        filters=[*query.filters, Filter("", "=")],
        view="raw" if view == "raw" else "typed",
        sort_operators=SORT_OPERATORS,
        filter_operators=FILTER_OPERATORS,
        page_sizes=PAGE_SIZES,
        links=_build_links(system, found, query, view, page),
    )


def _build_links(system: str, table: Table, query: ItemQuery, view: str, page: ItemPage) -> dict[str, object]:
    """Return the addresses of other views of the same query, of its next page, and of each index."""
    fields = {
        "index": query.index,
        "partition": query.partition,
        "op": query.operator if query.sort else "",
        "sort": query.sort,
        "sort_to": query.sort_to,
        "order": "down" if query.descending else "",
        "fa": [each.attribute for each in query.filters],
        "fo": [each.operator for each in query.filters],
        "fv": [each.value for each in query.filters],
        "size": query.size if query.size != PAGE_SIZES[0] else "",
    }
    shown = {"view": view if view == "raw" else ""}
    return {
        "typed": build_table_url(system, table.name, **fields, cursor=query.cursor),
        "raw": build_table_url(system, table.name, **fields, cursor=query.cursor, view="raw"),
        "first": build_table_url(system, table.name, **fields, **shown),
        "next": build_table_url(system, table.name, **fields, **shown, cursor=page.next) if page.next else "",
        "indexes": [
            ("All items", build_table_url(system, table.name), not query.index),
            *(
                (each.name, build_table_url(system, table.name, index=each.name), each.name == query.index)
                for each in table.indexes
            ),
        ],
    }


def _build_row(data: DataView, table: Table, item: Item) -> Row:
    declaration = find_declaration(table, item)
    shown = show_attributes(item, declaration, data.masker, table)
    return Row(
        build_item_url(data.system.name, table.name, extract_key(table, item)),
        "" if declaration is None else declaration.entity.__name__,
        item_size(item),
        {each.stored_name: each for each in shown},
        {each.stored_name: encode_shown(each.shown) for each in shown},
    )


def _choose_columns(
    table: Table, index: Index | None, items: Sequence[Item], *, is_mixed: bool
) -> list[Column]:
    """Return the columns for a page: the keys, then attributes of its items in their declared order.

    The items of a mixed page have too little in common: their attributes share one column.
    """
    keys = [table.partition, table.sort, *((index.partition, index.sort) if index is not None else ())]
    present = {name for each in items for name in each}
    declaration = find_declaration(table, items[0]) if items else None
    declared = {} if declaration is None or is_mixed else declaration.by_stored_name
    others = [] if is_mixed else [*declared, *sorted(present)]
    hidden = get_key_names(table) - declared.keys()
    order = dict.fromkeys([*keys, *(name for name in others if name not in hidden)])
    names = [name for name in order if name is not None and name in present]
    return [Column(declared[each].name if each in declared else each, each) for each in names[:MAX_COLUMNS]]


def _list_names(table: Table) -> list[str]:
    """Return the names of all declared attributes, to choose from in a filter."""
    return sorted({name for entity in table.entities for name in entity.__declaration__.attributes})  # type: ignore[attr-defined]
