"""Record what a session reads, to copy only that to services: writing a whole sample there takes long."""

from __future__ import annotations

from typing import Any, Final

from holdfast import Stores, System
from holdfast.operations import objects, tables
from holdfast.operations.tables import batch_write_item
from holdfast.runtime.engines import Engine, Engines

MAX_BATCH: Final = 25
# Of each read, and of each table for reads of several items: a flight has few passengers on the services.
MAX_ITEMS: Final = 3
MAX_TABLE_ITEMS: Final = 20
STORES: Final = ("tables", "queues", "objects", "sql", "cache")


class Recording:
    """The items and objects that were read through `open_recorded`."""

    def __init__(self) -> None:
        # By table and key.
        self._keys: dict[tuple[str, tuple[Any, ...]], dict[str, Any]] = {}
        self._objects: dict[tuple[str, str], objects.StoredObject] = {}

    def open_recorded(self, stores: Stores) -> Stores:
        """Return the stores with engines that record."""
        assert stores.system is not None
        system, engines = stores.system, stores.engines

        def open_engine(store: str) -> Engine:
            return _RecordingEngine(engines.get(store), system, stores.environment, self)

        openers = {store: lambda store=store: open_engine(store) for store in STORES}
        return Stores(
            system=system, environment=stores.environment, clock=stores.clock, engines=Engines(openers)
        )

    async def copy(self, source: Stores, target: Stores) -> None:
        """Write what was read to other stores of the same environment."""
        writes = []
        for (table, _), key in self._keys.items():
            item = (await source.tables.run(tables.GetItem(table, key))).item
            if item is not None:
                writes.append(batch_write_item.Put(table, item))
        for start in range(0, len(writes), MAX_BATCH):
            await target.tables.run(tables.BatchWriteItem(tuple(writes[start : start + MAX_BATCH])))
        for (bucket, name), found in self._objects.items():
            info = found.info
            put = objects.PutObject(bucket, name, found.body, info.content_type, info.metadata)
            await target.engines.get("objects").run(put)

    def note(self, operation: Any, result: Any, system: System, environment: str) -> None:
        """Remember the keys of the items, or the object, in a result."""
        match operation, result:
            case tables.GetItem(), tables.GetItemResult(item=dict() as item):
                self._note_items(operation.table, [item], system, environment)
            case ((tables.Query() | tables.Scan()), tables.PageResult(items=list() as items)):
                self._note_items(operation.table, items, system, environment)
            case tables.BatchGetItem(), tables.BatchGetItemResult():
                for table, items in result.items.items():
                    self._note_items(table, items, system, environment)
            case objects.GetObject(), objects.StoredObject():
                self._objects[operation.bucket, operation.key] = result

    def _note_items(self, table: str, items: list[Any], system: System, environment: str) -> None:
        [declared] = [each for each in system.tables if each.physical_name(environment) == table]
        names = [each.name for each in declared.key_attributes]
        is_full = sum(name == table for name, _ in self._keys) >= MAX_TABLE_ITEMS
        for item in items[: 0 if is_full and len(items) > 1 else MAX_ITEMS]:
            key = {name: item[name] for name in names}
            self._keys[table, tuple(key.values())] = key


class _RecordingEngine:
    """An engine that records what it returns."""

    def __init__(self, behind: Engine, system: System, environment: str, recording: Recording) -> None:
        self._behind, self._recording = behind, recording
        self._system, self._environment = system, environment

    async def run(self, operation: Any) -> Any:
        result = await self._behind.run(operation)
        self._recording.note(operation, result, self._system, self._environment)
        return result

    def __getattr__(self, name: str) -> Any:
        # The methods of SQL: transactions, and statements that run together.
        return getattr(self._behind, name)

    def close(self) -> None:
        """Leave the engine open: its owner closes it."""
