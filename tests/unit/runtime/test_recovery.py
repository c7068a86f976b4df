"""Backups, restores and restores in place, on the embedded engine and over DynamoDB's HTTP protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar, cast

import pytest

from holdfast import Stores
from holdfast.core.errors import (
    BackupNotFound,
    InvalidRestoreTime,
    RecoveryUnavailable,
    RetryLater,
    TableAlreadyExists,
    TableNotFound,
)
from holdfast.operations import tables as requests
from holdfast.operations.tables import (
    BackupName,
    BackupSummary,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    TableDefinition,
    TableDescription,
)
from holdfast.operations.values import Item
from holdfast.runtime import (
    RestoreReport,
    create_backup,
    get_recovery_window,
    list_backups,
    restore_in_place,
    restore_table,
    revert_table,
)
from holdfast.runtime.recovery import backups
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.port import Tables
from holdfast.wire.http.server import start_server

R = TypeVar("R")
Story = Callable[["EngineStores"], Awaitable[None]]

DAY = 86400
START = 1_770_166_815.25
BY_STATE = IndexDefinition("by-state", KeySchema("state"), IndexProjection("ALL"))
ORDERS = TableDefinition(
    "Orders",
    (KeyAttribute("id", "S"), KeyAttribute("line", "N"), KeyAttribute("state", "S")),
    KeySchema("id", "line"),
    global_indexes=(BY_STATE,),
)


class ManualClock:
    """Clock that moves only when the test sets `moment`."""

    moment = START

    def now(self) -> float:
        return self.moment


class EngineStores:
    """Stores over an engine, and the embedded engine behind them."""

    def __init__(self, tables: Tables, behind: EmbeddedTables, clock: ManualClock) -> None:
        self.tables, self.behind, self.clock = tables, behind, clock
        self.stores = Stores(tables, clock=clock)
        self.progress_calls: list[tuple[str, int, int]] = []

    def progress(self, what: str, done: int, total: int) -> None:
        """Record progress and run background work now rather than within the next second."""
        self.progress_calls.append((what, done, total))
        self.behind.sweep()

    async def create_orders(self, *items: Item, recovery: bool = True) -> None:
        """Create the table of orders, with recovery enabled, and put the items."""
        await self.tables.run(requests.CreateTable(ORDERS))
        if recovery:
            await self.tables.run(requests.UpdateContinuousBackups("Orders", True))
        await self.put(*items)

    async def put(self, *items: Item, table: str = "Orders") -> None:
        for item in items:
            await self.tables.run(requests.PutItem(table, item))

    async def delete(self, *items: Item) -> None:
        """Delete the orders with the keys of these items."""
        for item in items:
            key = {name: item[name] for name in ("id", "line")}
            await self.tables.run(requests.DeleteItem("Orders", key))

    async def read_all(self, table: str = "Orders") -> list[Item]:
        """Return all items of the table, sorted by key."""
        found: list[Item] = []
        start: Item | None = None
        while True:
            page = await self.tables.run(requests.Scan(table, start_key=start))
            found += page.items or []
            start = page.last_key
            if start is None:
                return sorted(found, key=lambda item: (str(item["id"]), item["line"]))

    async def list_table_names(self) -> tuple[str, ...]:
        return tuple((await self.tables.run(requests.ListTables())).names)

    async def back_up(self, name: str | None = None) -> BackupSummary:
        """Back up the orders and wait until that is complete."""
        return await create_backup(self.stores, "Orders", name, progress=self.progress)

    async def restore_in_place(self, to: float | BackupName, **options: Any) -> RestoreReport:
        """Restore the orders in place to a time or a backup."""
        return await restore_in_place(self.stores, "Orders", to, progress=self.progress, **options)


@contextmanager
def _open_embedded() -> Iterator[EngineStores]:
    """Yield stores on an embedded engine in memory."""
    clock = ManualClock()
    with open_tables(clock=clock) as tables:
        yield EngineStores(tables, tables, clock)


@contextmanager
def _open_served() -> Iterator[EngineStores]:
    """Yield stores that reach an embedded engine over HTTP, as DynamoDB."""
    clock = ManualClock()
    with open_tables(clock=clock) as behind, start_server(tables=behind) as url:
        tables = open_dynamodb(endpoint=url, region="us-east-1")
        yield EngineStores(tables, behind, clock)
        tables.close()


@pytest.fixture(params=[_open_embedded, _open_served], ids=["embedded", "served"])
def any_engine(request: pytest.FixtureRequest) -> Iterator[EngineStores]:
    """Yield stores on the embedded engine, and again over HTTP."""
    with request.param() as opened:
        yield opened


@pytest.fixture
def embedded_engine() -> Iterator[EngineStores]:
    """Open the embedded engine, for behaviour that all engines share."""
    with _open_embedded() as opened:
        yield opened


def make_order(number: int, **more: Any) -> Item:
    """Return an order's item; `more` are further attributes."""
    return {"id": f"o-{number:04}", "line": number, "state": "new", **more}


# --- backups and restores into a new table ------------------------------------------------------------------


async def test_restores_a_backup_into_a_new_table(any_engine: EngineStores) -> None:
    await any_engine.create_orders(make_order(1), recovery=False)
    made = await any_engine.back_up("before")
    assert (made.name, made.table, made.status) == ("before", "Orders", "AVAILABLE")
    await any_engine.delete(make_order(1))

    name = BackupName("Orders", made.id)
    restored = await restore_table(
        any_engine.stores, "Orders", "Orders-2", name, progress=any_engine.progress
    )
    assert restored.status == "ACTIVE"
    assert [each.name for each in restored.definition.global_indexes] == ["by-state"]
    assert await any_engine.read_all("Orders-2") == [make_order(1)]
    assert await any_engine.read_all() == []


async def test_unnamed_backup_is_named_by_its_table_and_time(embedded_engine: EngineStores) -> None:
    await embedded_engine.create_orders()
    assert (await embedded_engine.back_up()).name == "Orders-20260204T010015.250Z"


async def test_lists_all_backups_by_time_over_every_page(
    any_engine: EngineStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "MAX_LIST_BACKUPS", 2)

    await any_engine.create_orders()
    for number in range(5):
        any_engine.clock.moment += 1
        await any_engine.back_up(f"backup-{number}")
    names = [each.name for each in await list_backups(any_engine.stores)]
    assert names == [f"backup-{number}" for number in range(5)]
    assert len(await list_backups(any_engine.stores, "Orders")) == 5
    assert await list_backups(any_engine.stores, "Lines") == []


async def test_lists_and_restores_backups_of_a_deleted_table(any_engine: EngineStores) -> None:
    await any_engine.create_orders(make_order(1))
    await any_engine.tables.run(requests.DeleteTable("Orders"))
    (left,) = await list_backups(any_engine.stores)
    assert left.type == "SYSTEM"

    name = BackupName("Orders", left.id)
    await restore_table(any_engine.stores, "Orders", "Orders", name, progress=any_engine.progress)
    assert await any_engine.read_all() == [make_order(1)]


async def test_restores_a_table_to_the_second(any_engine: EngineStores) -> None:
    await any_engine.create_orders(make_order(1), make_order(2))
    before = any_engine.clock.moment = START + 10
    any_engine.clock.moment += 1
    await any_engine.delete(make_order(1))
    await any_engine.put(make_order(2, state="sent"), make_order(3))

    await restore_table(any_engine.stores, "Orders", "Orders-2", before, progress=any_engine.progress)
    assert await any_engine.read_all("Orders-2") == [make_order(1), make_order(2)]
    assert await any_engine.read_all() == [make_order(2, state="sent"), make_order(3)]


async def test_recovery_window_is_35_days_to_the_second(any_engine: EngineStores) -> None:
    await any_engine.create_orders(make_order(1))
    any_engine.clock.moment = START + 10
    await any_engine.put(make_order(1, state="sent"))
    any_engine.clock.moment = START + 40 * DAY
    window = await get_recovery_window(any_engine.stores, "Orders")
    assert (window.earliest, window.latest) == (START + 5 * DAY, START + 40 * DAY)

    for number, moment in enumerate((window.earliest, window.latest)):
        await restore_table(
            any_engine.stores, "Orders", f"Orders-{number}", moment, progress=any_engine.progress
        )
        assert await any_engine.read_all(f"Orders-{number}") == [make_order(1, state="sent")]
    for moment in (window.earliest - 1, window.latest + 1):
        with pytest.raises(
            InvalidRestoreTime, match=r"from 2026-02-09T01:00:15\.250Z to 2026-03-16T01:00:15\.250Z"
        ):
            await restore_table(any_engine.stores, "Orders", "Orders-9", moment)
    assert "Orders-9" not in await any_engine.list_table_names()


async def test_rejects_a_table_without_point_in_time_recovery(any_engine: EngineStores) -> None:
    await any_engine.create_orders(recovery=False)
    with pytest.raises(RecoveryUnavailable, match="recovery is off for Orders"):
        await restore_table(any_engine.stores, "Orders", "Orders-2", START)


async def test_reports_a_missing_table_or_backup(any_engine: EngineStores) -> None:
    with pytest.raises(TableNotFound, match="Table Orders does not exist"):
        await create_backup(any_engine.stores, "Orders")
    with pytest.raises(TableNotFound, match="Table Orders does not exist"):
        await restore_table(any_engine.stores, "Orders", "Orders-2", START)
    with pytest.raises(TableNotFound, match="Table Orders does not exist"):
        await any_engine.restore_in_place(BackupName("Orders", "0177-5d41402a"))
    await any_engine.create_orders()
    await any_engine.back_up()
    with pytest.raises(BackupNotFound):
        await restore_table(
            any_engine.stores, "Orders", "Orders-2", BackupName("Orders", "01770166815250-5d41402a")
        )


async def test_rejects_an_existing_target_without_touching_it(any_engine: EngineStores) -> None:
    await any_engine.create_orders(make_order(1))
    await restore_table(any_engine.stores, "Orders", "Orders-2", START, progress=any_engine.progress)
    for target in ("Orders", "Orders-2"):
        with pytest.raises(TableAlreadyExists, match=f"Table {target} exists already"):
            await restore_table(any_engine.stores, "Orders", target, START)
    assert await any_engine.read_all("Orders-2") == [make_order(1)]


async def test_waits_for_a_running_restore(embedded_engine: EngineStores) -> None:
    await embedded_engine.create_orders(make_order(1))
    begun = await embedded_engine.tables.run(requests.RestoreTableToPointInTime("Orders", "Orders-2", START))
    stores = Stores(SlowTables(embedded_engine.tables, begun), clock=embedded_engine.clock)
    found = await restore_table(stores, "Orders", "Orders-2", START, progress=embedded_engine.progress)
    assert found.status == "ACTIVE"
    assert embedded_engine.progress_calls[0] == ("Orders-2 (items restored)", 0, 1)
    with pytest.raises(TableAlreadyExists):
        await restore_table(stores, "Orders", "Orders-2", START)


class SlowTables:
    """Tables engine that reports a restored table as still restoring the first five times."""

    def __init__(self, tables: Tables, begun: TableDescription) -> None:
        self._tables, self._begun, self._left = tables, begun, 5

    async def run(self, operation: requests.Operation[R]) -> R:
        """Run the operation; the first five descriptions of the restored table are the one from its start."""
        answer = await self._tables.run(operation)
        is_about_it = getattr(operation, "table", None) == self._begun.definition.name
        if isinstance(operation, requests.DescribeTable) and is_about_it and self._left:
            self._left -= 1
            return cast(R, self._begun)
        return answer


# --- in place -----------------------------------------------------------------------------------------------


async def test_restores_in_place_and_writes_only_differences(any_engine: EngineStores) -> None:
    items = [make_order(number) for number in range(230)]
    await any_engine.create_orders(*items)
    any_engine.clock.moment += 10
    await any_engine.delete(*items[:50])
    await any_engine.put(*[make_order(number, state="sent") for number in range(50, 80)])
    await any_engine.put(*[make_order(number) for number in range(300, 420)])
    writes = (await any_engine.tables.run(requests.DescribeTable("Orders"))).item_count
    assert writes == 300

    done = await any_engine.restore_in_place(START)
    assert (done.missing, done.different, done.deleted, done.unchanged) == (50, 30, 120, 150)
    assert (done.restored, done.contended, done.is_complete) == (80, 0, True)
    assert await any_engine.read_all() == items
    assert await any_engine.list_table_names() == ("Orders",)
    what, last, total = any_engine.progress_calls[-1]
    assert what == "Orders (items compared)"
    assert last == total


async def test_restores_a_backup_in_place(any_engine: EngineStores) -> None:
    await any_engine.create_orders(make_order(1), make_order(2), recovery=False)
    made = await any_engine.back_up()
    await any_engine.delete(make_order(1))
    await any_engine.put(make_order(3))

    done = await any_engine.restore_in_place(BackupName("Orders", made.id))
    assert (done.missing, done.deleted, done.unchanged) == (1, 1, 1)
    assert await any_engine.read_all() == [make_order(1), make_order(2)]


async def test_dry_run_reports_differences_and_changes_nothing(any_engine: EngineStores) -> None:
    await any_engine.create_orders(make_order(1), make_order(2), make_order(4))
    any_engine.clock.moment += 10
    await any_engine.delete(make_order(1))
    await any_engine.put(make_order(2, state="sent"), make_order(3))
    before = await any_engine.read_all()

    done = await any_engine.restore_in_place(START, dry_run=True)
    reported = sorted((each.what, each.key["line"]) for each in done.examples)
    assert reported == [("different", 2), ("extra", 3), ("missing", 1)]
    assert (done.missing, done.different, done.deleted, done.unchanged) == (1, 1, 1, 1)
    assert await any_engine.read_all() == before
    assert await any_engine.list_table_names() == ("Orders",)


async def test_does_not_rewrite_equal_items(embedded_engine: EngineStores) -> None:
    await embedded_engine.create_orders(make_order(1))
    embedded_engine.clock.moment += 10
    await embedded_engine.delete(make_order(1))
    await embedded_engine.restore_in_place(START)
    again = await embedded_engine.restore_in_place(START)
    assert (again.changed, again.unchanged) == (0, 1)


async def test_restores_every_kind_of_value_exactly(any_engine: EngineStores) -> None:
    """Distinguish True from 1 at any depth, and allow more attributes than fit in a condition."""
    deep = {"a": [1, {"b": Decimal("1.5"), "c": None}], "s": frozenset({"x"}), "n": frozenset({1, 2})}
    before: list[Item] = [
        make_order(1, flag=True, raw=b"\x00\xff", deep=deep),
        make_order(2, deep=[True]),
        make_order(3, **{f"attribute-{number}": number for number in range(200)}),
        {"id": "bare", "line": 4},
    ]
    after: list[Item] = [
        make_order(1, flag=1, raw=b"\x00", deep=deep),
        make_order(2, deep=[1]),
        make_order(3, **{f"attribute-{number}": -number for number in range(150)}),
        {"id": "bare", "line": 4, "more": 1},
    ]

    await any_engine.create_orders(*before)
    any_engine.clock.moment += 10
    await any_engine.put(*after)
    done = await any_engine.restore_in_place(START)
    assert (done.different, done.unchanged) == (4, 0)
    found = await any_engine.read_all()
    assert found == sorted(before, key=lambda item: (str(item["id"]), item["line"]))
    by_line = {item["line"]: item for item in found}
    assert by_line[1]["flag"] is True
    assert by_line[2]["deep"] == [True]
    assert type(by_line[2]["deep"][0]) is bool  # type: ignore[index]


async def test_compares_large_live_items_in_several_reads(embedded_engine: EngineStores) -> None:
    items = [make_order(number) for number in range(60)]
    await embedded_engine.create_orders(*items)
    embedded_engine.clock.moment += 10
    await embedded_engine.put(*[make_order(number, text="x" * 300_000) for number in range(60)])
    done = await embedded_engine.restore_in_place(START)
    assert done.different == 60
    assert await embedded_engine.read_all() == items


async def test_restores_a_table_with_only_a_binary_partition_key(any_engine: EngineStores) -> None:
    keys = TableDefinition("Keys", (KeyAttribute("raw", "B"),), KeySchema("raw"))
    await any_engine.tables.run(requests.CreateTable(keys))
    await any_engine.tables.run(requests.CreateTable(TableDefinition("Old", keys.attributes, keys.keys)))
    await any_engine.put({"raw": b"\x01"}, {"raw": b"\x02", "n": 1}, table="Old")
    await any_engine.put({"raw": b"\x02"}, {"raw": b"\x03"}, table="Keys")
    done = await revert_table(any_engine.stores, "Keys", "Old")
    assert (done.missing, done.different, done.deleted) == (1, 1, 1)
    again = await revert_table(any_engine.stores, "Keys", "Old")
    assert (again.changed, again.unchanged) == (0, 2)


# --- concurrent writers and interruptions -------------------------------------------------------------------


class MeddledTables:
    """Tables engine that calls `before` just before each operation."""

    def __init__(self, tables: Tables, before: Callable[[Any], Awaitable[None]]) -> None:
        self._tables, self._before = tables, before

    async def run(self, operation: requests.Operation[R]) -> R:
        await self._before(operation)
        return await self._tables.run(operation)


@pytest.mark.parametrize("written", ["missing", "different", "unread", "unknown", "extra", "grown"])
async def test_keeps_and_reports_concurrent_writes(embedded_engine: EngineStores, written: str) -> None:
    """`written` is how another writer changes an item just before the restore writes it."""
    theirs = {
        "missing": make_order(1, by="them"),
        "different": make_order(2, state="theirs"),
        # An attribute that the restored item has and the live item lacked when it was read.
        "unread": make_order(4, note="theirs"),
        # An attribute in neither item.
        "unknown": make_order(2, state="sent", paid=True),
        "extra": make_order(3, state="theirs"),
        "grown": make_order(3, paid=True),
    }[written]
    is_done = False

    async def meddle(operation: Any) -> None:
        nonlocal is_done
        key = getattr(operation, "item", None) or getattr(operation, "key", {})
        is_write = isinstance(operation, requests.PutItem | requests.DeleteItem)
        if is_write and not is_done and key.get("line") == theirs["line"]:
            is_done = True
            await embedded_engine.put(theirs)

    await embedded_engine.create_orders(make_order(1), make_order(2), make_order(4, note="ours"))
    embedded_engine.clock.moment += 10
    await embedded_engine.delete(make_order(1))
    await embedded_engine.put(make_order(2, state="sent"), make_order(3), make_order(4))
    stores = Stores(MeddledTables(embedded_engine.tables, meddle), clock=embedded_engine.clock)
    done = await restore_in_place(stores, "Orders", START, progress=embedded_engine.progress)
    assert is_done
    assert (done.contended, done.changed, done.is_complete) == (1, 3, False)
    (left,) = [item for item in await embedded_engine.read_all() if item["line"] == theirs["line"]]
    assert left == theirs
    assert len(await embedded_engine.list_table_names()) == 2

    again = await embedded_engine.restore_in_place(START)
    assert (again.changed, again.is_complete) == (1, True)
    assert await embedded_engine.read_all() == [make_order(1), make_order(2), make_order(4, note="ours")]
    assert await embedded_engine.list_table_names() == ("Orders",)


async def test_keeps_a_concurrent_write_during_the_revert(embedded_engine: EngineStores) -> None:
    writes = 0

    async def meddle(operation: Any) -> None:
        nonlocal writes
        if isinstance(operation, requests.PutItem):
            writes += 1
            await embedded_engine.put(
                make_order(1, state="sent", paid=True) if writes == 1 else make_order(1, state="theirs")
            )

    await embedded_engine.create_orders(make_order(1))
    embedded_engine.clock.moment += 10
    await embedded_engine.put(make_order(1, state="sent"))
    stores = Stores(MeddledTables(embedded_engine.tables, meddle), clock=embedded_engine.clock)
    done = await restore_in_place(stores, "Orders", START, progress=embedded_engine.progress)
    assert (writes, done.contended, done.changed) == (2, 1, 0)
    assert await embedded_engine.read_all() == [make_order(1, state="theirs")]


async def test_resumes_an_interrupted_restore(embedded_engine: EngineStores) -> None:
    writes = 0

    async def fail(operation: Any) -> None:
        nonlocal writes
        writes += isinstance(operation, requests.PutItem)
        if writes > 70:
            raise RetryLater("Retry later.")

    items = [make_order(number) for number in range(150)]
    await embedded_engine.create_orders(*items)
    embedded_engine.clock.moment += 10
    await embedded_engine.delete(*items)
    stores = Stores(MeddledTables(embedded_engine.tables, fail), clock=embedded_engine.clock)
    with pytest.raises(RetryLater):
        await restore_in_place(stores, "Orders", START, progress=embedded_engine.progress)
    assert await embedded_engine.list_table_names() == ("Orders", "Orders-restoring-20260204T010015.250Z")

    embedded_engine.clock.moment += 10
    done = await embedded_engine.restore_in_place(START)
    assert done.missing + done.unchanged == 150
    assert done.unchanged >= 64
    assert await embedded_engine.read_all() == items
    assert await embedded_engine.list_table_names() == ("Orders",)


async def test_does_not_mistake_a_table_of_the_same_name_for_the_restored_one(
    embedded_engine: EngineStores,
) -> None:
    await embedded_engine.create_orders(make_order(1))
    other = TableDefinition("Orders-restoring-20260204T010015.250Z", ORDERS.attributes[:2], ORDERS.keys)
    await embedded_engine.tables.run(requests.CreateTable(other))
    with pytest.raises(TableAlreadyExists):
        await embedded_engine.restore_in_place(START)
    assert await embedded_engine.read_all() == [make_order(1)]


async def test_reverts_a_restore_in_place(embedded_engine: EngineStores) -> None:
    """A restore to the time before the restore's first write undoes it."""

    await embedded_engine.create_orders(make_order(1))
    embedded_engine.clock.moment += 10
    await embedded_engine.put(make_order(1, state="sent"), make_order(2))
    embedded_engine.clock.moment += 10
    done = await embedded_engine.restore_in_place(START)
    assert await embedded_engine.read_all() == [make_order(1)]
    embedded_engine.clock.moment += 10
    await embedded_engine.restore_in_place(done.began_at)
    assert await embedded_engine.read_all() == [make_order(1, state="sent"), make_order(2)]


def test_name_of_the_temporary_table_is_cut_to_the_length_limit() -> None:
    name = backups.build_temporary_name("T" * 255, START, "restoring")
    assert len(name) == 255
    assert name.endswith("T-restoring-20260204T010015.250Z")
