"""What running a pattern gave, as JSON of bounded size.

Every answer of a pattern has `items`, `count`, `cursor` and `units`. An item has the stored attribute names, which
are those that the system's documentation and every other reader of the table know; what is absent is left out.
An agent reads all that it is given, so a page ends where it would become too much, with the cursor to go on from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from holdfast.errors import InvalidRequest
from holdfast.limits import KIB
from holdfast.mcp.arguments import LIMIT_MAX, Paging
from holdfast.model.cache import Known
from holdfast.model.entity import Entity
from holdfast.model.operations import Count, Operation, Page
from holdfast.model.queues import Received
from holdfast.model.reads import Paged, Row
from holdfast.operations.objects import ObjectPage
from holdfast.runtime.stores import Stores

# About 16,000 tokens. One item is always given whole, and an item has 400 KB at most.
PAGE_BYTES_MAX: Final = 64 * KIB
# Of what has no pages: a batch, several queries at once, a function of the system.
ANSWER_BYTES_MAX: Final = 256 * KIB
# A filter may leave out all that is read: so often is read on before the agent decides whether to.
ROUNDS_MAX: Final = 10

# Every tool repeats it in the list that an agent reads, so it is short; the server's instructions explain.
ANSWER_SCHEMA: Final[dict[str, Any]] = {
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


async def answer_of(stores: Stores, operation: Operation[Any], paging: Paging) -> dict[str, Any]:
    """Runs an operation and tells what it gave."""
    with stores.metered() as meter:
        if isinstance(operation, Paged):
            answer = await _one_page(stores, operation, paging)
        else:
            answer = _whole(await stores.run(operation))
    return answer | {"units": meter.units.total}


def bounded(value: Any) -> Any:
    """A value as JSON, refused if it is more than an agent should be given."""
    plain = _plain(value)
    if (size := _size(plain)) > ANSWER_BYTES_MAX:
        raise InvalidRequest(
            f"The answer has {size:,} bytes, and {ANSWER_BYTES_MAX:,} is the most that is given at once: ask for less."
        )
    return plain


# --- pages --------------------------------------------------------------------------------------------------


async def _one_page(stores: Stores, query: Paged[Any, Any], paging: Paging) -> dict[str, Any]:
    """Reads until there are as many items as asked for, or as many bytes as a page may have."""
    limit = min(paging.limit, query.limit or LIMIT_MAX)
    cursor = paging.cursor or query.cursor
    items: list[Any] = []
    for _ in range(ROUNDS_MAX):
        found, after = await _fitting(stores, query.page(limit - len(items), cursor))
        if items and _size([*items, *found]) > PAGE_BYTES_MAX:
            break  # read again with the next call, from where the cursor still is
        items, cursor = items + found, after
        if cursor is None or len(items) >= limit or _size(items) > PAGE_BYTES_MAX / 2:
            break
    return {"items": items, "count": len(items), "cursor": cursor}


async def _fitting(stores: Stores, query: Paged[Any, Any]) -> tuple[list[Any], str | None]:
    """One page and where it ends. One with too many bytes is read again, half as long: a cursor must fit its end."""
    while True:
        page = await stores.run(query)
        items = [_item(each, query) for each in page]
        if len(items) <= 1 or _size(items) <= PAGE_BYTES_MAX:
            return items, page.cursor
        query = query.page(page.examined // 2, query.cursor)


def _item(found: Any, query: Paged[Any, Any]) -> Any:
    if not isinstance(found, Row):
        return _plain(found)
    attributes = (query.declaration.by_stored_name[stored] for stored in query.selected)
    entity: Any = query.declaration.entity
    values = {each.stored: found[getattr(entity, each.name)] for each in attributes}
    return _plain({name: value for name, value in values.items() if value is not None})


# --- all else -----------------------------------------------------------------------------------------------


def _whole(result: Any) -> dict[str, Any]:
    """What has no pages, by the kind of result."""
    items: list[Any]
    match result:
        case None:
            items, count = [], 0
        case Count() | int():
            items, count = [], int(result)
        case BaseModel():
            items, count = [result], 1
        case Known():
            items, count = [result.value], 1
        case tuple() if any(isinstance(each, Page) for each in result):
            return _several_pages(result)
        case ObjectPage():
            return {"items": bounded(result.objects), "count": len(result.objects), "cursor": result.cursor}
        case msgspec.Struct():
            items, count = [result], 1
        case tuple():
            items, count = list(result), sum(each is not None for each in result)
        case _:
            raise TypeError(f"a pattern gave {type(result).__name__}, which no tool can tell")
    return {"items": bounded(items), "count": count, "cursor": None}


def _several_pages(pages: Sequence[Page[Any]]) -> dict[str, Any]:
    items = bounded([item for page in pages for item in page])
    return {"items": items, "count": len(items), "counts": [len(page) for page in pages], "cursor": None}


def _plain(value: Any) -> Any:
    """As JSON has it: decimals and times as texts, bytes in base64."""
    if isinstance(value, Entity):
        value = value.model_dump(by_alias=True, exclude_none=True)
    elif isinstance(value, Received):
        value = msgspec.to_builtins(value.incoming)
    elif isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    elif isinstance(value, Mapping):
        value = {name: _plain(each) for name, each in value.items()}
    elif isinstance(value, list | tuple):
        value = [_plain(each) for each in value]
    return to_jsonable_python(value, by_alias=True, bytes_mode="base64", inf_nan_mode="strings")


def _size(plain: Any) -> int:
    return len(json.dumps(plain, ensure_ascii=False).encode())
