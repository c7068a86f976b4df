"""Backups, restores and putting back: on the embedded engine, and on DynamoDB's protocol over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar, cast

import pytest

from holdfast import (
    RestoreReport,
    Stores,
    create_backup,
    get_recovery_window,
    list_backups,
    restore_in_place,
    restore_table,
    revert_table,
)
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
from holdfast.runtime.recovery import backups
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.port import Tables
from holdfast.wire.server import running_server

R = TypeVar("R")
Story = Callable[["Place"], Awaitable[None]]

DAY = 86400
START = 1_770_166_815.25
BY_STATE = IndexDefinition("by-state", KeySchema("state"), IndexProjection("ALL"))
ORDERS = TableDefinition(
    "Orders",
    (KeyAttribute("id", "S"), KeyAttribute("line", "N"), KeyAttribute("state", "S")),
    KeySchema("id", "line"),
    global_indexes=(BY_STATE,),
)


class Clock:
    """Stands until it is moved."""

    moment = START

    def now(self) -> float:
        return self.moment


class Place:
    """Stores over an engine, and the embedded engine that is behind them."""

    def __init__(self, tables: Tables, behind: EmbeddedTables, clock: Clock) -> None:
        self.tables, self.behind, self.clock = tables, behind, clock
        self.stores = Stores(tables, clock=clock)
        self.told: list[tuple[str, int, int]] = []

    def progress(self, what: str, done: int, total: int) -> None:
        """Called at each look: background work is done now rather than within the second."""
        self.told.append((what, done, total))
        self.behind.sweep()

    async def made(self, *items: Item, recovery: bool = True) -> None:
        await self.tables.run(requests.CreateTable(ORDERS))
        if recovery:
            await self.tables.run(requests.UpdateContinuousBackups("Orders", True))
        await self.put(*items)

    async def put(self, *items: Item, table: str = "Orders") -> None:
        for item in items:
            await self.tables.run(requests.PutItem(table, item))

    async def deleted(self, *items: Item) -> None:
        for item in items:
            key = {name: item[name] for name in ("id", "line")}
            await self.tables.run(requests.DeleteItem("Orders", key))

    async def contents(self, table: str = "Orders") -> list[Item]:
        found: list[Item] = []
        start: Item | None = None
        while True:
            page = await self.tables.run(requests.Scan(table, start_key=start))
            found += page.items or []
            start = page.last_key
            if start is None:
                return sorted(found, key=lambda item: (str(item["id"]), item["line"]))

    async def names(self) -> tuple[str, ...]:
        return tuple((await self.tables.run(requests.ListTables())).names)

    async def backed_up(self, name: str | None = None) -> BackupSummary:
        return await create_backup(self.stores, "Orders", name, progress=self.progress)

    async def in_place(self, to: float | BackupName, **options: Any) -> RestoreReport:
        return await restore_in_place(self.stores, "Orders", to, progress=self.progress, **options)


@contextmanager
def _embedded() -> Iterator[Place]:
    clock = Clock()
    with open_tables(clock=clock) as tables:
        yield Place(tables, tables, clock)


@contextmanager
def _served() -> Iterator[Place]:
    clock = Clock()
    with open_tables(clock=clock) as behind, running_server(tables=behind) as url:
        tables = open_dynamodb(endpoint=url, region="us-east-1")
        yield Place(tables, behind, clock)
        tables.close()


@pytest.fixture(params=[_embedded, _served], ids=["embedded", "served"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with request.param() as opened:
        yield opened


@pytest.fixture
def here() -> Iterator[Place]:
    """For what is the same on every engine."""
    with _embedded() as opened:
        yield opened


def order(number: int, **more: Any) -> Item:
    return {"id": f"o-{number:04}", "line": number, "state": "new", **more}


# --- backups and restores into a new table ------------------------------------------------------------------


def test_a_backup_can_be_restored_from_when_it_is_told(place: Place) -> None:
    async def story() -> None:
        await place.made(order(1), recovery=False)
        made = await place.backed_up("before")
        assert (made.name, made.table, made.status) == ("before", "Orders", "AVAILABLE")
        await place.deleted(order(1))

        name = BackupName("Orders", made.id)
        restored = await restore_table(place.stores, "Orders", "Orders-2", name, progress=place.progress)
        assert restored.status == "ACTIVE"
        assert [each.name for each in restored.definition.global_indexes] == ["by-state"]
        assert await place.contents("Orders-2") == [order(1)]
        assert await place.contents() == []

    asyncio.run(story())


def test_a_backup_without_a_name_is_named_by_its_table_and_time(here: Place) -> None:
    async def story() -> None:
        await here.made()
        assert (await here.backed_up()).name == "Orders-20260204T010015.250Z"

    asyncio.run(story())


def test_all_backups_are_listed_by_time_over_every_page(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "LIST_BACKUPS_MAX", 2)

    async def story() -> None:
        await place.made()
        for number in range(5):
            place.clock.moment += 1
            await place.backed_up(f"backup-{number}")
        names = [each.name for each in await list_backups(place.stores)]
        assert names == [f"backup-{number}" for number in range(5)]
        assert len(await list_backups(place.stores, "Orders")) == 5
        assert await list_backups(place.stores, "Lines") == []

    asyncio.run(story())


def test_what_remains_of_a_deleted_table_is_listed_and_restored(place: Place) -> None:
    async def story() -> None:
        await place.made(order(1))
        await place.tables.run(requests.DeleteTable("Orders"))
        (left,) = await list_backups(place.stores)
        assert left.type == "SYSTEM"

        name = BackupName("Orders", left.id)
        await restore_table(place.stores, "Orders", "Orders", name, progress=place.progress)
        assert await place.contents() == [order(1)]

    asyncio.run(story())


def test_a_table_is_restored_to_the_second(place: Place) -> None:
    async def story() -> None:
        await place.made(order(1), order(2))
        before = place.clock.moment = START + 10
        place.clock.moment += 1
        await place.deleted(order(1))
        await place.put(order(2, state="sent"), order(3))

        await restore_table(place.stores, "Orders", "Orders-2", before, progress=place.progress)
        assert await place.contents("Orders-2") == [order(1), order(2)]
        assert await place.contents() == [order(2, state="sent"), order(3)]

    asyncio.run(story())


def test_the_window_ends_after_35_days_to_the_second(place: Place) -> None:
    async def story() -> None:
        await place.made(order(1))
        place.clock.moment = START + 10
        await place.put(order(1, state="sent"))
        place.clock.moment = START + 40 * DAY
        window = await get_recovery_window(place.stores, "Orders")
        assert (window.earliest, window.latest) == (START + 5 * DAY, START + 40 * DAY)

        for number, moment in enumerate((window.earliest, window.latest)):
            await restore_table(place.stores, "Orders", f"Orders-{number}", moment, progress=place.progress)
            assert await place.contents(f"Orders-{number}") == [order(1, state="sent")]
        for moment in (window.earliest - 1, window.latest + 1):
            with pytest.raises(
                InvalidRestoreTime, match=r"from 2026-02-09T01:00:15\.250Z to 2026-03-16T01:00:15\.250Z"
            ):
                await restore_table(place.stores, "Orders", "Orders-9", moment)
        assert "Orders-9" not in await place.names()

    asyncio.run(story())


def test_a_table_without_recovery_says_so(place: Place) -> None:
    async def story() -> None:
        await place.made(recovery=False)
        with pytest.raises(RecoveryUnavailable, match="recovery is off for Orders"):
            await restore_table(place.stores, "Orders", "Orders-2", START)

    asyncio.run(story())


def test_what_is_not_there_is_told(place: Place) -> None:
    async def story() -> None:
        with pytest.raises(TableNotFound, match="Table Orders does not exist"):
            await create_backup(place.stores, "Orders")
        with pytest.raises(TableNotFound, match="Table Orders does not exist"):
            await restore_table(place.stores, "Orders", "Orders-2", START)
        with pytest.raises(TableNotFound, match="Table Orders does not exist"):
            await place.in_place(BackupName("Orders", "0177-5d41402a"))
        await place.made()
        await place.backed_up()
        with pytest.raises(BackupNotFound):
            await restore_table(
                place.stores, "Orders", "Orders-2", BackupName("Orders", "01770166815250-5d41402a")
            )

    asyncio.run(story())


def test_a_target_that_exists_is_refused_and_not_touched(place: Place) -> None:
    async def story() -> None:
        await place.made(order(1))
        await restore_table(place.stores, "Orders", "Orders-2", START, progress=place.progress)
        for target in ("Orders", "Orders-2"):
            with pytest.raises(TableAlreadyExists, match=f"Table {target} exists already"):
                await restore_table(place.stores, "Orders", target, START)
        assert await place.contents("Orders-2") == [order(1)]

    asyncio.run(story())


def test_a_restore_that_is_going_on_is_waited_for(here: Place) -> None:
    async def story() -> None:
        await here.made(order(1))
        begun = await here.tables.run(requests.RestoreTableToPointInTime("Orders", "Orders-2", START))
        stores = Stores(Slow(here.tables, begun), clock=here.clock)
        found = await restore_table(stores, "Orders", "Orders-2", START, progress=here.progress)
        assert found.status == "ACTIVE"
        assert here.told[0] == ("Orders-2 (items restored)", 0, 1)
        with pytest.raises(TableAlreadyExists):
            await restore_table(stores, "Orders", "Orders-2", START)

    asyncio.run(story())


class Slow:
    """Tables that tell of a restored table, the first five times, what they told when it was begun."""

    def __init__(self, tables: Tables, begun: TableDescription) -> None:
        self._tables, self._begun, self._left = tables, begun, 5

    async def run(self, operation: requests.Operation[R]) -> R:
        answer = await self._tables.run(operation)
        is_about_it = getattr(operation, "table", None) == self._begun.definition.name
        if isinstance(operation, requests.DescribeTable) and is_about_it and self._left:
            self._left -= 1
            return cast(R, self._begun)
        return answer


# --- in place -----------------------------------------------------------------------------------------------


def test_a_table_is_brought_back_in_place_and_only_what_differs_is_written(place: Place) -> None:
    async def story() -> None:
        items = [order(number) for number in range(230)]
        await place.made(*items)
        place.clock.moment += 10
        await place.deleted(*items[:50])
        await place.put(*[order(number, state="sent") for number in range(50, 80)])
        await place.put(*[order(number) for number in range(300, 420)])
        writes = (await place.tables.run(requests.DescribeTable("Orders"))).item_count
        assert writes == 300

        done = await place.in_place(START)
        assert (done.missing, done.different, done.deleted, done.unchanged) == (50, 30, 120, 150)
        assert (done.restored, done.contended, done.is_complete) == (80, 0, True)
        assert await place.contents() == items
        assert await place.names() == ("Orders",)
        what, last, total = place.told[-1]
        assert what == "Orders (items compared)"
        assert last == total

    asyncio.run(story())


def test_a_backup_is_brought_back_in_place(place: Place) -> None:
    async def story() -> None:
        await place.made(order(1), order(2), recovery=False)
        made = await place.backed_up()
        await place.deleted(order(1))
        await place.put(order(3))

        done = await place.in_place(BackupName("Orders", made.id))
        assert (done.missing, done.deleted, done.unchanged) == (1, 1, 1)
        assert await place.contents() == [order(1), order(2)]

    asyncio.run(story())


def test_a_dry_run_tells_the_differences_and_changes_nothing(place: Place) -> None:
    async def story() -> None:
        await place.made(order(1), order(2), order(4))
        place.clock.moment += 10
        await place.deleted(order(1))
        await place.put(order(2, state="sent"), order(3))
        before = await place.contents()

        done = await place.in_place(START, dry_run=True)
        told = sorted((each.what, each.key["line"]) for each in done.examples)
        assert told == [("different", 2), ("extra", 3), ("missing", 1)]
        assert (done.missing, done.different, done.deleted, done.unchanged) == (1, 1, 1, 1)
        assert await place.contents() == before
        assert await place.names() == ("Orders",)

    asyncio.run(story())


def test_what_is_right_already_is_not_written_again(here: Place) -> None:
    async def story() -> None:
        await here.made(order(1))
        here.clock.moment += 10
        await here.deleted(order(1))
        await here.in_place(START)
        again = await here.in_place(START)
        assert (again.changed, again.unchanged) == (0, 1)

    asyncio.run(story())


def test_every_kind_of_value_comes_back_exactly(place: Place) -> None:
    """True is not 1, also deep inside; and an item may have more attributes than a condition has room for."""
    deep = {"a": [1, {"b": Decimal("1.5"), "c": None}], "s": frozenset({"x"}), "n": frozenset({1, 2})}
    before: list[Item] = [
        order(1, flag=True, raw=b"\x00\xff", deep=deep),
        order(2, deep=[True]),
        order(3, **{f"attribute-{number}": number for number in range(200)}),
        {"id": "bare", "line": 4},
    ]
    after: list[Item] = [
        order(1, flag=1, raw=b"\x00", deep=deep),
        order(2, deep=[1]),
        order(3, **{f"attribute-{number}": -number for number in range(150)}),
        {"id": "bare", "line": 4, "more": 1},
    ]

    async def story() -> None:
        await place.made(*before)
        place.clock.moment += 10
        await place.put(*after)
        done = await place.in_place(START)
        assert (done.different, done.unchanged) == (4, 0)
        found = await place.contents()
        assert found == sorted(before, key=lambda item: (str(item["id"]), item["line"]))
        by_line = {item["line"]: item for item in found}
        assert by_line[1]["flag"] is True
        assert by_line[2]["deep"] == [True]
        assert type(by_line[2]["deep"][0]) is bool  # type: ignore[index]

    asyncio.run(story())


def test_large_live_items_are_compared_in_several_reads(here: Place) -> None:
    async def story() -> None:
        items = [order(number) for number in range(60)]
        await here.made(*items)
        here.clock.moment += 10
        await here.put(*[order(number, text="x" * 300_000) for number in range(60)])
        done = await here.in_place(START)
        assert done.different == 60
        assert await here.contents() == items

    asyncio.run(story())


def test_a_table_with_a_partition_key_of_bytes_alone_is_brought_back(place: Place) -> None:
    async def story() -> None:
        keys = TableDefinition("Keys", (KeyAttribute("raw", "B"),), KeySchema("raw"))
        await place.tables.run(requests.CreateTable(keys))
        await place.tables.run(requests.CreateTable(TableDefinition("Old", keys.attributes, keys.keys)))
        await place.put({"raw": b"\x01"}, {"raw": b"\x02", "n": 1}, table="Old")
        await place.put({"raw": b"\x02"}, {"raw": b"\x03"}, table="Keys")
        done = await revert_table(place.stores, "Keys", "Old")
        assert (done.missing, done.different, done.deleted) == (1, 1, 1)
        again = await revert_table(place.stores, "Keys", "Old")
        assert (again.changed, again.unchanged) == (0, 2)

    asyncio.run(story())


# --- with others at work, and interrupted -------------------------------------------------------------------


class Meddled:
    """Tables in which something happens just before an operation is run."""

    def __init__(self, tables: Tables, before: Callable[[Any], Awaitable[None]]) -> None:
        self._tables, self._before = tables, before

    async def run(self, operation: requests.Operation[R]) -> R:
        await self._before(operation)
        return await self._tables.run(operation)


@pytest.mark.parametrize("written", ["missing", "different", "unread", "unknown", "extra", "grown"])
def test_what_somebody_writes_meanwhile_is_left_and_told(here: Place, written: str) -> None:
    theirs = {
        "missing": order(1, by="them"),
        "different": order(2, state="theirs"),
        # An attribute that the restored item has, and that the live one had not when it was read.
        "unread": order(4, note="theirs"),
        # One that nobody knew of.
        "unknown": order(2, state="sent", paid=True),
        "extra": order(3, state="theirs"),
        "grown": order(3, paid=True),
    }[written]
    is_done = False

    async def meddle(operation: Any) -> None:
        nonlocal is_done
        key = getattr(operation, "item", None) or getattr(operation, "key", {})
        is_write = isinstance(operation, requests.PutItem | requests.DeleteItem)
        if is_write and not is_done and key.get("line") == theirs["line"]:
            is_done = True
            await here.put(theirs)

    async def story() -> None:
        await here.made(order(1), order(2), order(4, note="ours"))
        here.clock.moment += 10
        await here.deleted(order(1))
        await here.put(order(2, state="sent"), order(3), order(4))
        stores = Stores(Meddled(here.tables, meddle), clock=here.clock)
        done = await restore_in_place(stores, "Orders", START, progress=here.progress)
        assert is_done
        assert (done.contended, done.changed, done.is_complete) == (1, 3, False)
        (left,) = [item for item in await here.contents() if item["line"] == theirs["line"]]
        assert left == theirs
        assert len(await here.names()) == 2

        again = await here.in_place(START)
        assert (again.changed, again.is_complete) == (1, True)
        assert await here.contents() == [order(1), order(2), order(4, note="ours")]
        assert await here.names() == ("Orders",)

    asyncio.run(story())


def test_what_somebody_writes_while_theirs_is_put_back_stays(here: Place) -> None:
    writes = 0

    async def meddle(operation: Any) -> None:
        nonlocal writes
        if isinstance(operation, requests.PutItem):
            writes += 1
            await here.put(order(1, state="sent", paid=True) if writes == 1 else order(1, state="theirs"))

    async def story() -> None:
        await here.made(order(1))
        here.clock.moment += 10
        await here.put(order(1, state="sent"))
        stores = Stores(Meddled(here.tables, meddle), clock=here.clock)
        done = await restore_in_place(stores, "Orders", START, progress=here.progress)
        assert (writes, done.contended, done.changed) == (2, 1, 0)
        assert await here.contents() == [order(1, state="theirs")]

    asyncio.run(story())


def test_one_that_was_interrupted_goes_on(here: Place) -> None:
    writes = 0

    async def fail(operation: Any) -> None:
        nonlocal writes
        writes += isinstance(operation, requests.PutItem)
        if writes > 70:
            raise RetryLater("Come again.")

    async def story() -> None:
        items = [order(number) for number in range(150)]
        await here.made(*items)
        here.clock.moment += 10
        await here.deleted(*items)
        stores = Stores(Meddled(here.tables, fail), clock=here.clock)
        with pytest.raises(RetryLater):
            await restore_in_place(stores, "Orders", START, progress=here.progress)
        assert await here.names() == ("Orders", "Orders-restoring-20260204T010015.250Z")

        here.clock.moment += 10
        done = await here.in_place(START)
        assert done.missing + done.unchanged == 150
        assert done.unchanged >= 64
        assert await here.contents() == items
        assert await here.names() == ("Orders",)

    asyncio.run(story())


def test_a_table_that_only_has_the_name_is_not_taken_for_the_restored_one(here: Place) -> None:
    async def story() -> None:
        await here.made(order(1))
        other = TableDefinition("Orders-restoring-20260204T010015.250Z", ORDERS.attributes[:2], ORDERS.keys)
        await here.tables.run(requests.CreateTable(other))
        with pytest.raises(TableAlreadyExists):
            await here.in_place(START)
        assert await here.contents() == [order(1)]

    asyncio.run(story())


def test_a_restore_in_place_can_be_taken_back(here: Place) -> None:
    async def story() -> None:
        await here.made(order(1))
        here.clock.moment += 10
        await here.put(order(1, state="sent"), order(2))
        here.clock.moment += 10
        done = await here.in_place(START)
        assert await here.contents() == [order(1)]
        here.clock.moment += 10
        await here.in_place(done.began_at)
        assert await here.contents() == [order(1, state="sent"), order(2)]

    asyncio.run(story())


def test_the_name_of_a_table_beside_fits_where_names_end() -> None:
    name = backups.build_temporary_name("T" * 255, START, "restoring")
    assert len(name) == 255
    assert name.endswith("T-restoring-20260204T010015.250Z")
