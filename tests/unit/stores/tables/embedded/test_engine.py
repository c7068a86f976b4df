"""The embedded tables engine: invalid values, large pages, threads, cancelled tasks, and closing."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.errors import ConditionFailed, HoldfastError, InvalidRequest, StoreClosed, UnknownOperation
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import AttributeNotExists, Literal, SetAction, Update
from holdfast.operations.expressions.nodes import Path as AttributePath
from holdfast.operations.tables import (
    BatchGetItem,
    BatchWriteItem,
    CreateTable,
    DeleteItem,
    GetItem,
    KeyAttribute,
    KeysAndAttributes,
    Operation,
    Put,
    PutItem,
    Query,
    Scan,
    TransactGet,
    TransactGetItems,
    TransactWriteItems,
    UpdateItem,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.storage.catalog import CatalogCache
from tests.faults.tables.engine_consistency import assert_consistent

from .stepped_engine import BY_G, BY_N, SteppedEngine, definition

LONE = "\ud800"
ABSENT = AttributeNotExists(AttributePath("pk"))


@pytest.mark.parametrize(
    "operation",
    [
        PutItem("tab", {"pk": LONE}),
        PutItem("tab", {"pk": "a", "v": LONE}),
        PutItem("tab", {"pk": "a", "v": [{"x": LONE}]}),
        PutItem("tab", {"pk": "a", LONE: 1}),
        GetItem("tab", {"pk": LONE}),
        DeleteItem("tab", {"pk": LONE}),
        UpdateItem("tab", {"pk": "a"}, Update((SetAction(AttributePath("v"), Literal(LONE)),))),
        Query("tab", (KeyTest("pk", "=", (LONE,)),)),
        Scan("tab", start_key={"pk": LONE}),
        BatchWriteItem((Put("tab", {"pk": LONE}),)),
        BatchGetItem((KeysAndAttributes("tab", ({"pk": LONE},)),)),
        TransactWriteItems((PutItem("tab", {"pk": LONE}),)),
        TransactGetItems((TransactGet("tab", {"pk": LONE}),)),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_text_that_is_not_unicode_is_refused(engine: SteppedEngine, operation: Operation[Any]) -> None:
    engine.run(CreateTable(definition()))
    with pytest.raises(InvalidRequest, match="without lone surrogates"):
        engine.run(operation)
    assert engine.run(Scan("tab")).count == 0


@pytest.mark.parametrize("value", [1.5, frozenset(), (1, 2), {"inner": 2.5}, [object()], frozenset({1.5})])
def test_a_value_of_no_known_type_is_refused_and_leaves_nothing(engine: SteppedEngine, value: Any) -> None:
    engine.run(CreateTable(definition(BY_G)))
    with pytest.raises(HoldfastError):
        engine.run(PutItem("tab", {"pk": "a", "g": "x", "n": 1, "v": value}))
    engine.run(PutItem("tab", {"pk": "b"}))
    assert engine.run(Scan("tab")).items == [{"pk": "b"}]
    assert_consistent(engine.tables)


def nest(levels: int) -> Any:
    """Return a value inside this many nested lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        10**126,
        10**60 + 1,
        Decimal("1e-131"),
        Decimal("1." + "1" * 38),
    ],
    ids=str,
)
def test_rejects_an_invalid_number_anywhere(engine: SteppedEngine, value: Any) -> None:
    engine.run(CreateTable(definition(BY_N)))
    key = definition(name="numbers")
    engine.run(CreateTable(msgspec.structs.replace(key, attributes=(KeyAttribute("pk", "N"),))))
    for operation in (
        PutItem("tab", {"pk": "a", "v": value}),
        PutItem("tab", {"pk": "a", "v": [{"x": value}]}),
        PutItem("tab", {"pk": "a", "n": value}),
        UpdateItem("tab", {"pk": "a"}, Update((SetAction(AttributePath("v"), Literal(value)),))),
        PutItem("numbers", {"pk": value}),
        GetItem("numbers", {"pk": value}),
        DeleteItem("numbers", {"pk": value}),
        Query("numbers", (KeyTest("pk", "=", (value,)),)),
        Query("tab", (KeyTest("n", "=", (value,)),), "by_n"),
    ):
        with pytest.raises(InvalidRequest):
            engine.run(operation)
    assert engine.run(Scan("tab")).count == engine.run(Scan("numbers")).count == 0


def test_rejects_excessive_nesting(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    with pytest.raises(InvalidRequest, match="Nesting Levels have exceeded supported limits"):
        engine.run(PutItem("tab", {"pk": "a", "v": nest(100_000)}))


def test_rejects_an_unknown_operation(engine: SteppedEngine) -> None:
    with pytest.raises(UnknownOperation):
        engine.run(Operation())


def test_a_page_ends_with_the_item_that_fills_its_megabyte(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition(BY_G)))
    for at in range(12):
        engine.run(PutItem("tab", {"pk": f"{at:02}", "g": "x", "n": at, "v": "x" * 100_000}))
    page = engine.run(Query("tab", (KeyTest("g", "=", ("x",)),), "by_g", capacity="TOTAL"))
    assert (page.count, page.last_key) == (11, {"pk": "10", "g": "x", "n": 10})
    assert page.capacity is not None
    assert page.capacity.total.read == 134.5  # 11 × 100,010 bytes: 269 blocks of 4 KiB, at half a unit
    rest = engine.run(Query("tab", (KeyTest("g", "=", ("x",)),), "by_g", start_key=page.last_key))
    assert (rest.count, rest.last_key) == (1, None)


def test_batch_over_16_mb_returns_the_rest_unprocessed(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    keys: tuple[Item, ...] = tuple({"pk": f"{at:02}"} for at in range(45))
    for key in keys:
        engine.run(PutItem("tab", key | {"v": "x" * 390_000}))
    wanted: tuple[KeysAndAttributes, ...] = (KeysAndAttributes("tab", keys),)
    found: list[Any] = []
    rounds = 0
    while wanted:
        answer = engine.run(BatchGetItem(wanted))
        found += answer.items["tab"]
        wanted = answer.unprocessed
        rounds += 1
    assert rounds == 2
    assert sorted(item["pk"] for item in found) == [key["pk"] for key in keys]


def test_snapshots_never_share_a_catalog(engine: SteppedEngine) -> None:
    """A thread with another snapshot of the database may replace the cached catalog at any time."""
    cache = CatalogCache()
    engine.run(CreateTable(definition(name="first")))
    with engine.tables.database.snapshot() as connection:
        known = cache.get_current(connection)

        class Meddling(CatalogCache):
            catalog = property(lambda self: looks.pop(0), lambda self, value: None)

        looks = [known, CatalogCache().catalog, CatalogCache().catalog]
        assert Meddling().get_current(connection).tables.keys() == {"first"}


def test_failed_write_does_not_affect_others_in_its_transaction(tmp_path: Path) -> None:
    with open_tables(tmp_path / "t.db") as tables:
        tables.run_blocking(CreateTable(definition(BY_G)))
        wrote: list[int] = []
        refused: list[int] = []

        def client(number: int) -> None:
            for at in range(30):
                key = f"{at % 10}" if number % 2 else f"{number}-{at}"
                try:
                    tables.run_blocking(PutItem("tab", {"pk": key, "g": "x", "n": number}, ABSENT))
                    wrote.append(number)
                except ConditionFailed:
                    refused.append(number)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wrote) + len(refused) == 8 * 30
        assert len(wrote) == 4 * 30 + 10
        assert tables.run_blocking(Scan("tab", select="COUNT")).count == len(wrote)
        assert_consistent(tables)


async def test_a_task_that_is_cancelled_leaves_the_engine_working(tmp_path: Path) -> None:
    async def story() -> int:
        with open_tables(tmp_path / "t.db") as tables:
            await tables.run(CreateTable(definition()))
            writes = [asyncio.create_task(tables.run(PutItem("tab", {"pk": f"{at}"}))) for at in range(50)]
            await asyncio.sleep(0)
            for write in writes[::2]:
                write.cancel()
            done = await asyncio.gather(*writes, return_exceptions=True)
            assert [type(each).__name__ for each in done[::2]] == ["CancelledError"] * 25
            await tables.run(PutItem("tab", {"pk": "after"}))
            assert_consistent(tables)
            return (await tables.run(Scan("tab"))).count

    assert await story() >= 26


@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_closed_engine_refuses_everything_and_can_be_closed_again(tmp_path: Path, place: str) -> None:
    tables = open_tables(None if place == "memory" else tmp_path / "t.db")
    tables.run_blocking(CreateTable(definition()))
    tables.close()
    tables.close()
    for operation in (PutItem("tab", {"pk": "a"}), GetItem("tab", {"pk": "a"}), Scan("tab")):
        with pytest.raises(StoreClosed):
            tables.run_blocking(operation)


def test_closing_answers_every_pending_write(tmp_path: Path) -> None:
    tables = open_tables(tmp_path / "t.db")
    tables.run_blocking(CreateTable(definition()))
    acknowledged: list[str] = []
    failures: list[BaseException] = []
    begun = threading.Barrier(5)

    def client(number: int) -> None:
        begun.wait()
        for at in range(10_000):
            try:
                tables.run_blocking(PutItem("tab", {"pk": f"{number}-{at}"}))
                acknowledged.append(f"{number}-{at}")
            except StoreClosed:
                return
            except BaseException as failure:
                failures.append(failure)
                return

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    tables.close()
    for thread in threads:
        thread.join()
    assert failures == []
    with open_tables(tmp_path / "t.db") as again:
        found = {item["pk"] for item in again.run_blocking(Scan("tab")).items or []}
        assert found >= set(acknowledged)
