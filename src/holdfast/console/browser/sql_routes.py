"""Rows of SQL tables, read-only."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from holdfast.console.access import CurrentUser
from holdfast.console.browser.addresses import build_row_url, build_sql_url, decode_key
from holdfast.console.browser.catalog import find_schema
from holdfast.console.browser.sql_rows import (
    SqlRowView,
    SqlTableDetails,
    describe_sql_table,
    list_sql_tables,
    load_row,
    load_rows,
)
from holdfast.console.browser.values import ShownAttribute
from holdfast.console.browser.views import DataView, open_view
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import render
from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

MAX_COLUMNS: Final = 9


@router.get("/data/{system}/sql:{schema}")
async def show_schema(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str, schema: str
) -> Response:
    """Show the tables of a schema."""
    data = open_view(request, console, user, system)
    found = find_schema(data.system, schema)
    tables = await list_sql_tables(data.stores, found)
    return render(request, "browser/schema.html", data=data, system=data.system, schema=found, tables=tables)


@router.get("/data/{system}/sql:{schema}/{table}")
async def show_rows(
    request: Request,
    console: CurrentConsole,
    user: CurrentUser,
    system: str,
    schema: str,
    table: str,
    cursor: str = "",
) -> Response:
    """Show a page of rows."""
    data = open_view(request, console, user, system)
    details = await describe_sql_table(data.stores, find_schema(data.system, schema), table)
    page = await load_rows(data.stores, details, cursor)
    return render(
        request,
        "browser/rows.html",
        data=data,
        system=data.system,
        details=details,
        columns=_choose_columns(details),
        rows=[(_build_url(system, details, each), _show(data, details, each)) for each in page.rows],
        cursor=cursor,
        first=build_sql_url(system, schema, table),
        next=build_sql_url(system, schema, table, cursor=page.next) if page.next else "",
    )


@router.get("/data/{system}/sql:{schema}/{table}/row")
async def show_row(
    request: Request,
    console: CurrentConsole,
    user: CurrentUser,
    system: str,
    schema: str,
    table: str,
    key: str,
) -> Response:
    """Show all columns of a row."""
    data = open_view(request, console, user, system)
    details = await describe_sql_table(data.stores, find_schema(data.system, schema), table)
    row = await load_row(data.stores, details, decode_key(f"{schema}.{table}", key))
    return render(
        request,
        "browser/row.html",
        data=data,
        system=data.system,
        details=details,
        row=row,
        request_key=key,
        columns=details.columns,
        shown=_show(data, details, row),
    )


def _build_url(system: str, details: SqlTableDetails, row: SqlRowView) -> str:
    return build_row_url(system, details.schema, details.name, row.key) if row.key else ""


def _choose_columns(details: SqlTableDetails) -> list[str]:
    """Return the columns of the list: the key first."""
    keys = [each.name for each in details.keys]
    return [*keys, *(each.name for each in details.columns if each.name not in keys)][:MAX_COLUMNS]


def _show(data: DataView, details: SqlTableDetails, row: SqlRowView) -> dict[str, ShownAttribute]:
    """Return the masked values of a row by column; those of the key are not masked."""
    keys = {each.name for each in details.keys}
    found = {}
    for each in details.columns:
        value = row.values[each.name]
        is_shown = each.name in keys or isinstance(value, datetime)
        shown = data.masker.mask(each.name, value, is_key=is_shown)
        moment = value if isinstance(value, datetime) else None
        found[each.name] = ShownAttribute(
            each.name, each.name, each.type, 0, shown, moment, shown != value, each.name in keys
        )
    return found
