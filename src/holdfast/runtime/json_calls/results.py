"""Run an operation and return its result as JSON of bounded size.

Every result has `items`, `count`, `cursor` and `units`. Items use the stored attribute names, as the system's
documentation and other readers of the table do; absent attributes are left out. An agent reads everything it
receives, and a page of the console shows it, so a page ends before it becomes too large, with a cursor for
the next page; a result without pages is cut (`truncation.py`).

`show_bytes` returns the JSON of a binary value; without it, the value is in base64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from holdfast.model.cache import CacheHit
from holdfast.model.entities.entity import Entity
from holdfast.model.entities.reads import PagedRead, Row
from holdfast.model.objects import ListObjects
from holdfast.model.operations import Count, Operation, Page
from holdfast.model.queues import ReceivedMessage
from holdfast.operations.objects import ObjectPage
from holdfast.runtime.json_calls.arguments import MAX_LIMIT
from holdfast.runtime.json_calls.truncation import MAX_PAGE_BYTES, count_bytes, cut_result
from holdfast.runtime.stores import Stores

PagedOperation: TypeAlias = PagedRead[Any, Any] | ListObjects
"""An operation whose result has pages."""
ShowBytes: TypeAlias = Callable[[bytes], Any]

ITEMS_POINTER: Final = "/items"
# A filter may drop every item: read at most so many pages per call, then let the agent decide.
MAX_ROUNDS: Final = 10

# Short, because every tool repeats it in the list that an agent reads; the server's instructions explain it.
RESULT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {"type": "array"},
        "count": {"type": "integer"},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "cursor": {"type": ["string", "null"]},
        "truncated": {"type": "object"},
        "units": {"type": "number"},
    },
    "required": ["items", "count", "cursor", "units"],
}


def is_paged(operation: Operation[Any]) -> TypeGuard[PagedOperation]:
    """Return whether the result of an operation has pages."""
    return isinstance(operation, PagedRead | ListObjects)


async def run_paged(
    stores: Stores,
    operation: PagedOperation,
    limit: int = MAX_LIMIT,
    cursor: str | None = None,
    *,
    show_bytes: ShowBytes | None = None,
) -> dict[str, Any]:
    """Run a paged read and return one page, with the capacity units it used."""
    cursor = cursor or operation.cursor
    with stores.meter_usage() as meter:
        if isinstance(operation, ListObjects):
            listing = replace(operation, count=min(limit, operation.count), cursor=cursor)
            page = to_result(await stores.run(listing))
        else:
            most = min(limit, operation.limit or MAX_LIMIT)
            page = await _read_page(stores, operation, most, cursor, show_bytes)
    return page | {"units": meter.units.total}


async def run_unpaged(
    stores: Stores,
    operation: Operation[Any],
    call: str,
    cursor: str | None,
    *,
    show_bytes: ShowBytes | None = None,
) -> dict[str, Any]:
    """Run any other operation and return its result with the capacity units it used. `call` is the hash of
    the call, and `cursor` that of a result that was cut.
    """
    with stores.meter_usage() as meter:
        result = to_result(await stores.run(operation), show_bytes)
    return cut_result(result | {"units": meter.units.total}, call, cursor, lambda path: path == ITEMS_POINTER)


# --- pages --------------------------------------------------------------------------------------------------


async def _read_page(
    stores: Stores, query: PagedRead[Any, Any], limit: int, cursor: str | None, show_bytes: ShowBytes | None
) -> dict[str, Any]:
    """Read until the page has the requested number of items, is about full in bytes, or ten reads were
    made.
    """
    items: list[Any] = []
    for _ in range(MAX_ROUNDS):
        page = query.page(limit - len(items), cursor)
        found, after = await _read_fitting_page(stores, page, show_bytes)
        if items and count_bytes([*items, *found]) > MAX_PAGE_BYTES:
            break  # the next call reads this page again, from the unchanged cursor
        items, cursor = items + found, after
        if cursor is None or len(items) >= limit or count_bytes(items) > MAX_PAGE_BYTES / 2:
            break
    return {"items": items, "count": len(items), "cursor": cursor}


async def _read_fitting_page(
    stores: Stores, query: PagedRead[Any, Any], show_bytes: ShowBytes | None
) -> tuple[list[Any], str | None]:
    """Return one page and its cursor. A page with too many bytes is read again at half the length, because a
    cursor must match the end of its page.
    """
    while True:
        page = await stores.run(query)
        items = [_to_json_item(each, query, show_bytes) for each in page]
        if len(items) <= 1 or count_bytes(items) <= MAX_PAGE_BYTES:
            return items, page.cursor
        query = query.page(page.examined // 2, query.cursor)


def _to_json_item(found: Any, query: PagedRead[Any, Any], show_bytes: ShowBytes | None) -> Any:
    """Return an item or a row of selected attributes as JSON, by stored attribute names."""
    if not isinstance(found, Row):
        return to_json(found, show_bytes)
    attributes = (query.declaration.by_stored_name[stored] for stored in query.selected)
    entity: Any = query.declaration.entity
    values = {each.stored_name: found[getattr(entity, each.name)] for each in attributes}
    return to_json({name: value for name, value in values.items() if value is not None}, show_bytes)


# --- others -------------------------------------------------------------------------------------------------


def to_result(result: Any, show_bytes: ShowBytes | None = None) -> dict[str, Any]:
    """Return the result of an operation without pages, by its type."""
    items: list[Any]
    match result:
        case None:
            items, count = [], 0
        case Count() | int():
            items, count = [], int(result)
        case BaseModel():
            items, count = [result], 1
        case CacheHit():
            items, count = [result.value], 1
        case tuple() if any(isinstance(each, Page) for each in result):
            return _merge_pages(result, show_bytes)
        case ObjectPage():
            return {
                "items": to_json(result.objects, show_bytes),
                "count": len(result.objects),
                "cursor": result.cursor,
            }
        case msgspec.Struct():
            items, count = [result], 1
        case tuple():
            items, count = list(result), sum(each is not None for each in result)
        case _:
            raise TypeError(f"a pattern returned {type(result).__name__}, which a tool cannot return")
    return {"items": to_json(items, show_bytes), "count": count, "cursor": None}


def _merge_pages(pages: Sequence[Page[Any]], show_bytes: ShowBytes | None) -> dict[str, Any]:
    """Return the items of several queries as one result, with the count of each."""
    items = to_json([item for page in pages for item in page], show_bytes)
    return {"items": items, "count": len(items), "counts": [len(page) for page in pages], "cursor": None}


def to_json(value: Any, show_bytes: ShowBytes | None = None) -> Any:
    """Return a value as JSON: decimals and times as strings, bytes in base64, entities by stored names."""
    if show_bytes is not None:
        value = _replace_bytes(value, show_bytes)
    if isinstance(value, Entity):
        value = value.model_dump(by_alias=True, exclude_none=True)
    elif isinstance(value, ReceivedMessage):
        value = msgspec.to_builtins(value.incoming)
    elif isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    elif isinstance(value, Mapping):
        value = {name: to_json(each) for name, each in value.items()}
    elif isinstance(value, list | tuple):
        value = [to_json(each) for each in value]
    return to_jsonable_python(value, by_alias=True, bytes_mode="base64", inf_nan_mode="strings")


def _replace_bytes(value: Any, show_bytes: ShowBytes) -> Any:
    """Return the value with everything binary in it replaced; documents become maps by stored names."""
    match value:
        case bytes():
            return show_bytes(value)
        case Entity():
            return _replace_bytes(value.model_dump(by_alias=True, exclude_none=True), show_bytes)
        case BaseModel():
            return _replace_bytes(value.model_dump(by_alias=True), show_bytes)
        case ReceivedMessage():
            return _replace_bytes(value.incoming, show_bytes)
        case msgspec.Struct():
            return _replace_bytes(msgspec.to_builtins(value, builtin_types=(bytes,)), show_bytes)
        case Mapping():
            return {name: _replace_bytes(each, show_bytes) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_replace_bytes(each, show_bytes) for each in value]
    return value
