"""Check that a tables file is consistent, row by row, with SQL in addition to the engine's own reads.

`assert_consistent` checks everything redundant against the items: index rows, counts, sizes, expiry times and
log numbers. `read_items` and `replay` are the two histories that must agree: the items as they are, and the
stream replayed from its beginning.
"""

from __future__ import annotations

import re
import time
from typing import Any

import apsw

from holdfast.operations.tables import (
    DescribeStream,
    DescribeTable,
    GetRecords,
    GetShardIterator,
    Scan,
    StreamName,
)
from holdfast.operations.values import Item, item_size
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.embedded.records import DropJob, LifetimesJob
from holdfast.stores.tables.embedded.storage import backups, codec, jobs, streams
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache
from holdfast.stores.tables.embedded.table import Index, Table

ROWS_OF = re.compile(r"(?:items|changes|index)_(\d+)(?:_(\d+))?$")


def assert_consistent(tables: EmbeddedTables) -> None:
    """Check SQLite's integrity, every table, and that no rows are left over."""
    with tables.database.snapshot() as connection:
        assert [line for (line,) in connection.execute("PRAGMA integrity_check")] == ["ok"]
        catalog = CatalogCache().get_current(connection)
        for table in catalog.tables.values():
            _assert_table(connection, table)
        _assert_nothing_left_over(connection, catalog)


def wait_until_settled(tables: EmbeddedTables) -> None:
    """Wait until no background work is left, even if another process, perhaps a dead one, holds the lease."""
    while tables._worker._has_work():
        tables.sweep()
        # Another process cannot be awaited, only polled.
        time.sleep(0.001)


def _assert_table(connection: apsw.Connection, table: Table) -> None:
    """Check every item of a table, its counts, its indexes and its change log."""
    items: dict[tuple[bytes, bytes], tuple[int, Item]] = {}
    total = 0
    noting = {job.number for _, job in jobs.list_pending(connection) if isinstance(job, LifetimesJob)}
    lifetimes_noted = table.lifetime_attribute is not None and table.number not in noting
    rows = connection.execute(f"SELECT id, pk, sk, size, expires, item FROM items_{table.number}")
    for id, pk, sk, size, expires, blob in rows:
        item = codec.decode(blob)
        assert table.encode_key(item) == (pk, sk), item
        assert size == item_size(item), item
        assert not lifetimes_noted or expires == table.get_end_of_life(item), item
        items[pk, sk] = (id, item)
        total += size
    counts = _get_counts(connection, table.number)
    assert counts.pop(0) == (len(items), total)
    for index in table.indexes:
        assert counts.pop(index.slot) == _assert_index(connection, table, index, items), index.name
    _assert_log(connection, table)


def _get_counts(connection: apsw.Connection, number: int) -> dict[int, tuple[int, int]]:
    """Return the stored (items, bytes) of a table by slot; slot 0 is the table itself."""
    rows = connection.execute("SELECT slot, items, bytes FROM counts WHERE number = ?", (number,))
    return {slot: (count, size) for slot, count, size in rows}


def _assert_index(
    connection: apsw.Connection,
    table: Table,
    index: Index,
    items: dict[tuple[bytes, bytes], tuple[int, Item]],
) -> tuple[int, int]:
    """Check every row of the index against the items; return its items and bytes."""
    expected: dict[tuple[bytes, ...], tuple[int, int]] = {}
    for (pk, sk), (id, item) in items.items():
        place = index.encode_key(item)
        if place is not None:
            expected[*place, pk, sk] = (id, item_size(index.project(item)))
    found: dict[tuple[bytes, ...], tuple[int, int]] = {}
    rows: Any = connection.execute(
        f"SELECT ipk, isk, pk, sk, id, size FROM index_{table.number}_{index.slot}"
    )
    for ipk, isk, pk, sk, id, size in rows:
        whole = item_size(items[pk, sk][1])
        found[ipk, isk, pk, sk] = (id, whole if size is None else size)
    if index.record.backfilling:
        assert found.items() <= expected.items(), index.name
    else:
        assert found == expected, index.name
    return len(found), sum(size for _, size in found.values())


def _assert_log(connection: apsw.Connection, table: Table) -> None:
    """Check that the change log is ordered by time and that its last number is not above the counter."""
    rows: Any = connection.execute(f"SELECT seq, at_ms FROM changes_{table.number} ORDER BY seq").fetchall()
    times: list[Any] = [at_ms for _, at_ms in rows]
    assert times == sorted(times)
    last: Any = connection.execute(
        "SELECT seq FROM counts WHERE number = ? AND slot = 0", (table.number,)
    ).get
    assert not rows or rows[-1][0] <= last


def _assert_nothing_left_over(connection: apsw.Connection, catalog: Catalog) -> None:
    """Check that rows on disk belong to a table, a backup or a stream, unless a job will drop them."""
    dropping = {job.number for _, job in jobs.list_pending(connection) if isinstance(job, DropJob)}
    alive = {backup.number for backup in backups.list_all(connection)} | set(catalog.tables_by_number)
    logs = {stream.number for stream in streams.list_all(connection)}
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        match = ROWS_OF.match(str(name))
        if match is None or int(match[1]) in dropping:
            continue
        number, slot = int(match[1]), match[2]
        if slot is not None:
            slots = (
                {index.slot for index in catalog.tables_by_number[number].indexes}
                if number in alive
                else set()
            )
            assert int(slot) in slots, name
        else:
            assert number in alive | (logs if str(name).startswith("changes") else set()), name


# --- histories ----------------------------------------------------------------------------------------------


def read_items(tables: EmbeddedTables, table: str, index: str | None = None) -> dict[str, Item]:
    """Read every item page by page as a user would, by its partition key."""
    found: dict[str, Item] = {}
    start: Item | None = None
    while True:
        page = tables.run_blocking(Scan(table, index=index, start_key=start, limit=50))
        for item in page.items or []:
            assert item["pk"] not in found
            found[str(item["pk"])] = item
        start = page.last_key
        if start is None:
            return found


def read_stream(tables: EmbeddedTables, table: str) -> list[Any]:
    """Read every record of a table's stream, oldest first."""
    label = tables.run_blocking(DescribeTable(table)).stream_label
    assert label is not None
    name = StreamName(table, label)
    [shard] = tables.run_blocking(DescribeStream(name)).shards
    iterator: Any = tables.run_blocking(GetShardIterator(name, shard.id, "TRIM_HORIZON"))
    records: list[Any] = []
    while True:
        page = tables.run_blocking(GetRecords(iterator))
        if not page.records:
            return records
        records += page.records
        iterator = page.next


def replay(records: list[Any]) -> dict[str, Item]:
    """Replay the stream into items, checking that each record fits the one before."""
    items: dict[str, Item] = {}
    last = 0
    for record in records:
        key = str(record.keys["pk"])
        assert record.sequence_number > last
        last = record.sequence_number
        assert record.event == ("REMOVE" if record.new is None else "MODIFY" if key in items else "INSERT")
        assert record.old == items.get(key)
        if record.new is None:
            del items[key]
        else:
            items[key] = record.new
    return items
