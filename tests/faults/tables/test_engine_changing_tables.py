"""Tables and indexes are created and deleted under reads and writes, which see only DynamoDB's errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.core.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import (
    BatchWriteItem,
    CreateIndex,
    CreateTable,
    DeleteIndex,
    DeleteItem,
    DeleteTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    PageResult,
    Put,
    PutItem,
    Query,
    Scan,
    TableDefinition,
    UpdateTable,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

from .engine_consistency import assert_consistent, wait_until_settled

CHANGES = 400 if os.environ.get("HOLDFAST_SOAK") == "1" else 8
ITEMS = 60
DEFINITION = TableDefinition(
    "tab", (KeyAttribute("pk", "S"),), KeySchema("pk"), billing_mode="PAY_PER_REQUEST"
)
SERVICE_ERRORS = (
    "Requested resource not found",
    "The table does not have the specified index: by_g",
    "Cannot read from backfilling global secondary index: by_g",
)
INDEX = IndexDefinition("by_g", KeySchema("g"), IndexProjection("ALL"))


def test_readers_of_a_recreated_table_see_only_documented_errors(tmp_path: Path) -> None:
    with open_tables(tmp_path / "t.db") as tables, open_tables(tmp_path / "t.db") as other:
        with run_concurrently(
            lambda: read_pages(tables, None), lambda: read_pages(other, None), lambda: get_items(other)
        ):
            for _ in range(CHANGES):
                tables.run_blocking(CreateTable(DEFINITION))
                for first in range(0, ITEMS, 20):
                    puts = tuple(Put("tab", {"pk": f"{at}"}) for at in range(first, first + 20))
                    tables.run_blocking(BatchWriteItem(puts))
                other.run_blocking(DeleteTable("tab"))
        wait_until_settled(tables)
        assert_consistent(tables)


def test_reads_and_writes_succeed_while_an_index_is_added_and_dropped(tmp_path: Path) -> None:
    with open_tables(tmp_path / "t.db") as tables, open_tables(tmp_path / "t.db") as other:
        tables.run_blocking(CreateTable(DEFINITION))
        for first in range(0, ITEMS, 20):
            puts = tuple(Put("tab", {"pk": f"{at}", "g": "abc"[at % 3]}) for at in range(first, first + 20))
            tables.run_blocking(BatchWriteItem(puts))
        with run_concurrently(
            lambda: read_pages(tables, "by_g"),
            lambda: read_pages(other, "by_g"),
            lambda: write_items(tables),
            lambda: write_items(other),
        ):
            for _ in range(CHANGES):
                add_index(tables)
                wait_until_settled(tables)
                other.run_blocking(UpdateTable("tab", index_changes=(DeleteIndex("by_g"),)))
            add_index(tables)
        wait_until_settled(tables)
        assert_consistent(tables)


def add_index(tables: EmbeddedTables) -> None:
    tables.run_blocking(UpdateTable("tab", (KeyAttribute("g", "S"),), index_changes=(CreateIndex(INDEX),)))


# --- concurrent activities ----------------------------------------------------------------------------------


@contextmanager
def run_concurrently(*activities: Callable[[], None]) -> Iterator[None]:
    """Repeat each activity in its own thread until the block is done. None may fail."""
    over = threading.Event()
    failures: list[BaseException] = []

    def keep_going(activity: Callable[[], None]) -> None:
        while not over.is_set() and not failures:
            try:
                activity()
            except BaseException as failure:
                failures.append(failure)

    threads = [threading.Thread(target=keep_going, args=(activity,)) for activity in activities]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def read_pages(tables: EmbeddedTables, index: str | None) -> None:
    """Scan and query page by page. The table or the index may be missing; no item comes twice."""
    try:
        seen = walk(lambda start: tables.run_blocking(Scan("tab", index=index, start_key=start, limit=7)))
        if index is None:
            assert len(set(seen)) == len(seen) <= ITEMS
        partition = KeyTest("g" if index else "pk", "=", ("a",))
        walk(lambda start: tables.run_blocking(Query("tab", (partition,), index, start_key=start, limit=2)))
    except (NotFound, InvalidRequest) as refusal:
        if refusal.message not in SERVICE_ERRORS:
            raise


def walk(page_from: Callable[[Item | None], PageResult]) -> list[str]:
    """Read all pages and return the keys; `page_from` reads the page after a start key."""
    keys: list[str] = []
    start: Item | None = None
    while True:
        page = page_from(start)
        keys += [str(item["pk"]) for item in page.items or []]
        start = page.last_key
        if start is None:
            return keys


def get_items(tables: EmbeddedTables) -> None:
    """Read every item by key; the table may be missing."""
    for at in range(ITEMS):
        try:
            found = tables.run_blocking(GetItem("tab", {"pk": f"{at}"})).item
            assert found in (None, {"pk": f"{at}"})
        except NotFound as refusal:
            if refusal.message not in SERVICE_ERRORS:
                raise


def write_items(tables: EmbeddedTables) -> None:
    """Put and delete some items, in and out of the index."""
    for at in range(0, ITEMS, 5):
        tables.run_blocking(PutItem("tab", {"pk": f"{at}", "g": "abc"[at % 2], "n": at}))
        tables.run_blocking(DeleteItem("tab", {"pk": f"{at + 1}"}))
        tables.run_blocking(PutItem("tab", {"pk": f"{at + 1}", "n": at}))


DOCUMENTED = (NotFound, AlreadyExists, InvalidRequest, LimitExceeded)


def test_concurrent_table_changes_raise_only_documented_errors(tmp_path: Path) -> None:
    with open_tables(tmp_path / "t.db") as tables, open_tables(tmp_path / "t.db") as other:
        with run_concurrently(
            lambda: change_at_random(other), lambda: change_at_random(tables), lambda: get_items(other)
        ):
            for _ in range(CHANGES):
                change_at_random(tables)
        wait_until_settled(tables)
        assert_consistent(tables)


def change_at_random(tables: EmbeddedTables) -> None:
    """Create, change and delete the table in turn; a documented error skips the operation."""
    for operation in (
        CreateTable(DEFINITION),
        PutItem("tab", {"pk": "a", "g": "b"}),
        UpdateTable("tab", (KeyAttribute("g", "S"),), index_changes=(CreateIndex(INDEX),)),
        PutItem("tab", {"pk": "b", "g": "b"}),
        UpdateTable("tab", index_changes=(DeleteIndex("by_g"),)),
        PutItem("tab", {"pk": "c", "g": "b"}),
        DeleteTable("tab"),
    ):
        try:
            tables.run_blocking(operation)
        except DOCUMENTED:
            continue
