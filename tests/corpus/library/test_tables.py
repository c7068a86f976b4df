"""Tables, objects and imports of an earlier version: jobs, TTL, backups, tokens and clients continue."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from holdfast.core.errors import AlreadyExists, IdempotencyMismatch, ObjectHeld
from holdfast.operations import tables as requests
from holdfast.runtime import Importer, describe_table, import_csv, provision
from holdfast.stores.tables.embedded.storage import jobs

from . import files, raw
from .conftest import Library
from .raw import Ballot, Flag, Moth, make_client, serve_wire
from .system import SYSTEM

pytestmark = pytest.mark.anyio


async def test_provisioning_replaces_no_existing_table(library: Library) -> None:
    stores = library.stores
    before = [await describe_table(stores, table) for table in SYSTEM.tables]

    assert await provision(stores, SYSTEM) == {}

    assert None not in before
    after = [await describe_table(stores, table) for table in SYSTEM.tables]
    assert [each and each.id for each in after] == [each and each.id for each in before]


async def test_describes_tables_indexes_streams_and_backups_as_before(library: Library) -> None:
    with serve_wire(library.stores):
        found = raw.describe_tables(library.stores)

    assert found == library.notes["raw"]["described"]


async def test_finishes_a_half_filled_index_and_every_job(library: Library) -> None:
    assert library.notes["raw"]["jobs"]
    _sweep_all(library)
    with library.tables.database.snapshot() as connection:
        assert jobs.list_pending(connection) == []
    name = library.stores.physical_name(raw.parcels)

    description = await library.tables.run(requests.DescribeTable(name))
    with serve_wire(library.stores):
        found = [
            each["id"]["S"]
            for number in range(3)
            for each in make_client().query(
                TableName=name,
                IndexName="by-town",
                KeyConditionExpression="town = :town",
                ExpressionAttributeValues={":town": {"S": f"t-{number}"}},
            )["Items"]
        ]

    assert {name: each.status for name, each in description.global_indexes.items()} == {"by-town": "ACTIVE"}
    assert sorted(found) == [f"p-{number:03}" for number in range(raw.MANY)]


async def test_removes_expired_items(library: Library) -> None:
    _sweep_all(library)

    left = [each.id for each in await library.stores.all(Moth.scan(reason="all that is left"))]
    flags = [each.id for each in await library.stores.all(Flag.scan(reason="all that is left"))]

    assert sorted(left) == [f"m-{n}" for n in range(8) if not n % 2]
    assert sorted(flags) == [f"f-{n:03}" for n in range(raw.MANY) if not n % 2]


async def test_finishes_a_started_backup_and_restore(library: Library) -> None:
    _sweep_all(library)
    run, name = library.tables.run, library.stores.physical_name(raw.ballots)
    backup = await run(requests.DescribeBackup(requests.BackupName(name, library.notes["raw"]["backup_id"])))

    as_cast = {f"b-{n}": "yes" for n in range(6)}
    changed = {f"b-{n}": "yes" for n in (2, 3, 4, 5)} | {"b-0": "no"}
    assert backup.summary.status == "AVAILABLE"
    assert await _read_votes(library, raw.RESTORED) == as_cast
    assert await _read_votes(library, raw.RESTORED_TO_TIME) == as_cast
    await run(requests.RestoreTableFromBackup(requests.BackupName(name, backup.summary.id), "Late-copy"))
    await run(requests.RestoreTableToPointInTime(name, "In-between", library.notes["written_at"] - 40))
    _sweep_all(library)
    now = {each.id: each.vote for each in await library.stores.all(Ballot.scan(reason="all of it"))}
    assert await _read_votes(library, "Late-copy") == now
    assert await _read_votes(library, "In-between") == changed


async def _read_votes(library: Library, table: str) -> dict[Any, Any]:
    """Return the votes of a table by ballot id."""
    page = await library.tables.run(requests.Scan(table))
    return {item["id"]: item["vote"] for item in page.items or ()}


async def test_does_not_repeat_a_transaction_with_a_known_token(library: Library) -> None:
    if not library.is_latest:
        pytest.skip(
            "only for the latest archive: a client token is valid for ten minutes, shorter than an upgrade"
        )
    before = await _read_ballot(library, "b-3")

    await library.stores.run(raw.build_transaction())

    assert (await _read_ballot(library, "b-3")).weight == before.weight == Decimal("1.75")
    with pytest.raises(IdempotencyMismatch):
        await library.stores.transact(
            Ballot.of("b-3").update().add(Ballot.weight, Decimal(2)), token="a token of the library"
        )


async def test_reads_decimals_and_sets_of_bytes(library: Library) -> None:
    ballot = await _read_ballot(library, "b-5")

    assert (ballot.weight, ballot.stamps) == (Decimal("1.25"), frozenset({b"\x00", b"\xff"}))


async def _read_ballot(library: Library, id: str) -> Ballot:
    found = await library.stores.run(Ballot.of(id).get().consistent())
    assert found is not None
    return found


def _sweep_all(library: Library) -> None:
    """Do the due background work, as the worker does every second."""
    library.tables.sweep()


# --- clients of DynamoDB ------------------------------------------------------------------------------------


async def test_shard_iterator_continues_in_its_stream(library: Library) -> None:
    noted, streams = library.notes["raw"], make_client("dynamodbstreams")
    with serve_wire(library.stores):
        from_start = streams.get_records(ShardIterator=noted["iterator"])["Records"]
        rest = streams.get_records(ShardIterator=noted["next_iterator"])["Records"]
        again = streams.get_shard_iterator(
            StreamArn=noted["stream_arn"],
            ShardId=noted["shard"],
            ShardIteratorType="AFTER_SEQUENCE_NUMBER",
            SequenceNumber=from_start[1]["dynamodb"]["SequenceNumber"],
        )

    ids = [each["eventID"] for each in from_start]
    assert ids[:2] == noted["records_read"]
    assert [each["eventID"] for each in rest] == ids[2:]
    assert not library.is_latest or again["ShardIterator"] == noted["next_iterator"]
    events = [each["eventName"] for each in from_start]
    # Six ballots; one changed, one deleted; a transaction of the wire, and one of the library.
    assert events == ["INSERT"] * 6 + ["MODIFY", "REMOVE"] + ["MODIFY", "INSERT"] + [
        "MODIFY",
        "INSERT",
        "REMOVE",
    ]


async def test_pages_continue_after_their_last_keys(library: Library) -> None:
    noted, dynamodb = library.notes["raw"], make_client()
    parcels = library.stores.physical_name(raw.parcels)
    with serve_wire(library.stores):
        rest = dynamodb.scan(TableName=parcels, ExclusiveStartKey=noted["scan_key"])["Items"]
        tables = dynamodb.list_tables(ExclusiveStartTableName=noted["last_table"])["TableNames"]

    found = [*noted["scanned"], *(each["id"]["S"] for each in rest)]
    assert sorted(found) == [f"p-{n:03}" for n in range(raw.MANY)]
    assert len(found) == len(set(found))
    assert tables == sorted(tables)
    assert tables[0] > noted["last_table"]


async def test_does_not_repeat_a_wire_transaction_with_a_known_token(library: Library) -> None:
    table = library.stores.physical_name(raw.ballots)
    asked = raw.build_wire_transaction(table)
    with serve_wire(library.stores):
        make_client().transact_write_items(**asked)
        other = {**asked, "TransactItems": asked["TransactItems"][:1]}
        with pytest.raises(make_client().exceptions.IdempotentParameterMismatchException):
            make_client().transact_write_items(**other)

    assert (await _read_ballot(library, "b-2")).weight == Decimal("1.5")


async def test_restores_a_backup_by_its_arn(library: Library) -> None:
    noted = library.notes["raw"]
    with serve_wire(library.stores):
        make_client().restore_table_from_backup(TargetTableName="By-arn", BackupArn=noted["backup_arn"])
    _sweep_all(library)

    assert await _read_votes(library, "By-arn") == {f"b-{n}": "yes" for n in range(6)}


# --- objects and imports ------------------------------------------------------------------------------------


async def test_reads_encrypted_objects_and_continues_their_listing(library: Library) -> None:
    stores, pages = library.stores, files.pages
    rest = await stores.run(pages.list_objects(book="b-1", cursor=library.notes["files"]["cursor"]))
    bodies = [
        (await stores.run(pages.get(book="b-1", number=str(number)))).body for number in range(files.OBJECTS)
    ]

    assert [each.key for each in rest.objects] == [f"pages/b-1/{n}.txt" for n in range(2, files.OBJECTS)]
    assert bodies == [f"page {n}".encode() * 3 for n in range(files.OBJECTS)]
    with pytest.raises(AlreadyExists):
        await stores.run(pages.put(b"other", book="b-1", number="0"))


async def test_keeps_an_object_under_a_legal_hold(library: Library) -> None:
    stores, pages = library.stores, files.pages
    assert (await stores.run(pages.head(book="b-1", number="1"))).held
    with pytest.raises(ObjectHeld):
        await stores.run(pages.delete(book="b-1", number="1"))
    await stores.run(pages.set_legal_hold(False, book="b-1", number="1"))
    await stores.run(pages.delete(book="b-1", number="1"))

    assert len((await stores.run(pages.list_objects(book="b-1"))).objects) == files.OBJECTS - 1


async def test_an_import_resumes_at_its_checkpoint(library: Library) -> None:
    importer = Importer(files.Row, files.put_rows)

    report = await import_csv(library.stores, importer, library.folder / files.CSV)

    assert (report.rows, report.rejected, report.resumed) == (files.ROWS, 1, files.STRETCH)
    assert report.written == files.ROWS - 1
    found = await library.stores.all(files.Row.scan(reason="all of it"))
    assert len(found) == files.ROWS - 1
