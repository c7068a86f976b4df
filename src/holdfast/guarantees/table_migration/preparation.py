"""Preparation of a migration's tables: create the target, enable the source's stream, and drop the source."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.core.errors import DeclarationError, NotFound, RetryLater
from holdfast.guarantees.table_migration.declaration import Migration
from holdfast.model.entities import get_declaration
from holdfast.operations import tables as requests
from holdfast.operations.tables.schema import StreamView
from holdfast.runtime import Stores, add_indexes, create_tables, describe_table

STREAM_VIEW: Final[StreamView] = "NEW_AND_OLD_IMAGES"
POLL_S: Final = 0.05
MAX_POLLS: Final = 12_000


async def prepare_tables(migration: Migration[Any, Any], stores: Stores) -> None:
    """Create the target with its indexes, and enable the source's stream.

    Existing resources are left unchanged.
    """
    target = get_declaration(migration.target).table
    await create_tables(stores, [target])
    await add_indexes(stores, [index for index in target.global_indexes if index.default])
    await enable_stream(migration, stores)


async def enable_stream(migration: Migration[Any, Any], stores: Stores) -> None:
    """Enable the source's stream and wait until it is active.

    Raises `DeclarationError` for a stream with another view, which belongs to another reader, and `NotFound`
    without a source.
    """
    table = get_declaration(migration.source).table
    name = stores.physical_name(table)
    description = await describe_table(stores, table)
    if description is None:
        raise NotFound(f"Found no table {name} to migrate from.")
    if description.stream_view not in (None, STREAM_VIEW):
        raise DeclarationError(
            f"The stream of {name} shows {description.stream_view}, and a migration needs {STREAM_VIEW}. "
            "Disable it and enable it with that view, once its other readers can use that view."
        )
    if description.stream_view is None:
        await stores.tables.run(requests.UpdateTable(name, stream=requests.StreamChange(STREAM_VIEW)))
    for _ in range(MAX_POLLS):
        description = await describe_table(stores, table)
        if description is not None and description.status == "ACTIVE" and description.stream_label:
            return
        await asyncio.sleep(POLL_S)
    raise RetryLater(f"The stream of {name} is still being enabled. Run the migration again.")


async def drop_source(migration: Migration[Any, Any], stores: Stores) -> None:
    """Delete the source and wait until it is gone, up to ten minutes. A missing source is not an error."""
    table = get_declaration(migration.source).table
    try:
        await stores.tables.run(requests.DeleteTable(stores.physical_name(table)))
    except NotFound:
        return
    for _ in range(MAX_POLLS):
        if await describe_table(stores, table) is None:
            return
        await asyncio.sleep(POLL_S)
