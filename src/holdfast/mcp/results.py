"""Run an operation for an agent and return its result as JSON of bounded size.

Every result has `items`, `count`, `cursor` and `units`. Items use the stored attribute names, as the system's
documentation and other readers of the table do; absent attributes are left out. An agent reads everything it
receives, so a page ends before it becomes too large, with a cursor for the next page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import KIB
from holdfast.mcp.arguments import MAX_LIMIT, Paging
from holdfast.model.cache import CacheHit
from holdfast.model.entities.entity import Entity
from holdfast.model.entities.reads import PagedRead, Row
from holdfast.model.operations import Count, Operation, Page
from holdfast.model.queues import ReceivedMessage
from holdfast.operations.objects import ObjectPage
from holdfast.runtime.stores import Stores

# About 16,000 tokens. One item is always returned whole, and an item has 400 KB at most.
MAX_PAGE_BYTES: Final = 64 * KIB
# For results without pages: a batch, several queries at once, a function of the system.
MAX_RESULT_BYTES: Final = 256 * KIB
# A filter may drop every item: read at most so many pages per call, then let the agent decide.
MAX_ROUNDS: Final = 10

# Short, because every tool repeats it in the list that an agent reads; the server's instructions explain it.
RESULT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": ["object", "null"]}},
        "count": {"type": "integer"},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "cursor": {"type": ["string", "null"]},
        "units": {"type": "number"},
    },
    "required": ["items", "count", "cursor", "units"],
}


async def run_operation(stores: Stores, operation: Operation[Any], paging: Paging) -> dict[str, Any]:
    """Run an operation and return its result with the capacity units it used. A paged read returns one
    page.
    """
    with stores.meter_usage() as meter:
        if isinstance(operation, PagedRead):
            answer = await _read_page(stores, operation, paging)
        else:
            answer = _to_result(await stores.run(operation))
    return answer | {"units": meter.units.total}


def to_bounded_json(value: Any) -> Any:
    """Return a value as JSON. Raise `InvalidRequest` if it is larger than 256 KiB."""
    plain = _to_json(value)
    if (size := _count_bytes(plain)) > MAX_RESULT_BYTES:
        raise InvalidRequest(
            f"The result has {size:,} bytes, more than the limit of {MAX_RESULT_BYTES:,}. Request less."
        )
    return plain


# --- pages --------------------------------------------------------------------------------------------------


async def _read_page(stores: Stores, query: PagedRead[Any, Any], paging: Paging) -> dict[str, Any]:
    """Read until the page has the requested number of items, is about full in bytes, or ten reads were
    made.
    """
    limit = min(paging.limit, query.limit or MAX_LIMIT)
    cursor = paging.cursor or query.cursor
    items: list[Any] = []
    for _ in range(MAX_ROUNDS):
        found, after = await _read_fitting_page(stores, query.page(limit - len(items), cursor))
        if items and _count_bytes([*items, *found]) > MAX_PAGE_BYTES:
            break  # the next call reads this page again, from the unchanged cursor
        items, cursor = items + found, after
        if cursor is None or len(items) >= limit or _count_bytes(items) > MAX_PAGE_BYTES / 2:
            break
    return {"items": items, "count": len(items), "cursor": cursor}


async def _read_fitting_page(stores: Stores, query: PagedRead[Any, Any]) -> tuple[list[Any], str | None]:
    """Return one page and its cursor. A page with too many bytes is read again at half the length, because a
    cursor must match the end of its page.
    """
    while True:
        page = await stores.run(query)
        items = [_to_json_item(each, query) for each in page]
        if len(items) <= 1 or _count_bytes(items) <= MAX_PAGE_BYTES:
            return items, page.cursor
        query = query.page(page.examined // 2, query.cursor)


def _to_json_item(found: Any, query: PagedRead[Any, Any]) -> Any:
    """Return an item or a row of selected attributes as JSON, by stored attribute names."""
    if not isinstance(found, Row):
        return _to_json(found)
    attributes = (query.declaration.by_stored_name[stored] for stored in query.selected)
    entity: Any = query.declaration.entity
    values = {each.stored_name: found[getattr(entity, each.name)] for each in attributes}
    return _to_json({name: value for name, value in values.items() if value is not None})


# --- others -------------------------------------------------------------------------------------------------


def _to_result(result: Any) -> dict[str, Any]:
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
            return _merge_pages(result)
        case ObjectPage():
            return {
                "items": to_bounded_json(result.objects),
                "count": len(result.objects),
                "cursor": result.cursor,
            }
        case msgspec.Struct():
            items, count = [result], 1
        case tuple():
            items, count = list(result), sum(each is not None for each in result)
        case _:
            raise TypeError(f"a pattern returned {type(result).__name__}, which a tool cannot return")
    return {"items": to_bounded_json(items), "count": count, "cursor": None}


def _merge_pages(pages: Sequence[Page[Any]]) -> dict[str, Any]:
    """Return the items of several queries as one result, with the count of each."""
    items = to_bounded_json([item for page in pages for item in page])
    return {"items": items, "count": len(items), "counts": [len(page) for page in pages], "cursor": None}


def _to_json(value: Any) -> Any:
    """Return a value as JSON: decimals and times as strings, bytes in base64, entities by stored names."""
    if isinstance(value, Entity):
        value = value.model_dump(by_alias=True, exclude_none=True)
    elif isinstance(value, ReceivedMessage):
        value = msgspec.to_builtins(value.incoming)
    elif isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    elif isinstance(value, Mapping):
        value = {name: _to_json(each) for name, each in value.items()}
    elif isinstance(value, list | tuple):
        value = [_to_json(each) for each in value]
    return to_jsonable_python(value, by_alias=True, bytes_mode="base64", inf_nan_mode="strings")


def _count_bytes(plain: Any) -> int:
    return len(json.dumps(plain, ensure_ascii=False).encode())
