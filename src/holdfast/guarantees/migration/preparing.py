"""The tables of a migration made ready: the target created, the source's stream on; and the source taken away."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.errors import DeclarationError, NotFound, RetryLater
from holdfast.guarantees.migration.declaration import Migration
from holdfast.model import declaration_of
from holdfast.operations import tables as requests
from holdfast.operations.tables.schema import StreamView
from holdfast.runtime import Stores, add_indexes, create_tables, describe

VIEW: Final[StreamView] = "NEW_AND_OLD_IMAGES"
POLL_SECONDS: Final = 0.05
POLLS_MAX: Final = 12_000


async def prepared(migration: Migration[Any, Any], stores: Stores) -> None:
    """The target with its indexes, and the stream. What is there is left as it is."""
    target = declaration_of(migration.target).table
    await create_tables(stores, [target])
    await add_indexes(stores, [index for index in target.global_indexes if index.default])
    await with_stream(migration, stores)


async def with_stream(migration: Migration[Any, Any], stores: Stores) -> None:
    """The source's stream switched on. One that does not show both images is somebody else's, and refused."""
    table = declaration_of(migration.source).table
    name = stores.physical_name(table)
    description = await describe(stores, table)
    if description is None:
        raise NotFound(f"There is no table {name} to migrate from.")
    if description.stream_view not in (None, VIEW):
        raise DeclarationError(
            f"The stream of {name} shows {description.stream_view}, and a migration needs {VIEW}: switch it off and on "
            "again with that view, when whoever reads it now can do with it."
        )
    if description.stream_view is None:
        await stores.tables.run(requests.UpdateTable(name, stream=requests.StreamChange(VIEW)))
    for _ in range(POLLS_MAX):
        description = await describe(stores, table)
        if description is not None and description.status == "ACTIVE" and description.stream_label:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise RetryLater(f"The stream of {name} is not on yet; it goes on by itself: run the migration again.")


async def dropped(migration: Migration[Any, Any], stores: Stores) -> None:
    """The source deleted, and gone."""
    table = declaration_of(migration.source).table
    try:
        await stores.tables.run(requests.DeleteTable(stores.physical_name(table)))
    except NotFound:
        return
    for _ in range(POLLS_MAX):
        if await describe(stores, table) is None:
            return
        await asyncio.sleep(POLL_SECONDS)
