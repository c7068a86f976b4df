"""Part of the corpus: work of the tables engine itself, such as jobs, TTL, streams, backups and tokens.

`leave` runs after the background worker was stopped, so that its work stays undone.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final
from unittest.mock import patch

import boto3

from holdfast import (
    Attr,
    Entity,
    EpochSeconds,
    IndexKey,
    Key,
    Stores,
    Table,
    attr,
    batch_put,
    keep_names,
    transact,
)
from holdfast.boto3 import InProcess, in_process
from holdfast.model.entities import Transact
from holdfast.operations import tables as requests
from holdfast.operations.tables import IndexDefinition, IndexProjection, KeyAttribute, KeySchema
from holdfast.runtime import create_backup, create_tables, list_backups
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.embedded.jobs import steps
from holdfast.stores.tables.embedded.jobs.worker import _step
from holdfast.stores.tables.embedded.storage import jobs

from .books import shelf
from .clock import WRITTEN_AT

MANY: Final = 12
# Fewer than all items, so that one step leaves a job half done.
STEP: Final = 5
REGION: Final = "us-east-1"
RESTORED: Final = "BallotsRestored"
RESTORED_TO_TIME: Final = "BallotsRestoredToTime"

parcels = Table("Parcels", "id", naming=keep_names, purpose="An index of these is being filled")
moths = Table("Moths", "id", ttl="ends", naming=keep_names, purpose="The lives of some of these are over")
flags = Table("Flags", "id", naming=keep_names, purpose="A lifetime was switched on a moment ago")
ballots = Table(
    "Ballots",
    "id",
    stream="NEW_AND_OLD_IMAGES",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="A stream and backups",
)
ruins = Table("Ruins", "id", naming=keep_names, purpose="Deleted, and its rows not removed yet")


class Parcel(Entity, table=parcels):
    id: Attr[str] = attr()
    town: Attr[str] = attr()

    of = Key(id)


class Moth(Entity, table=moths):
    id: Attr[str] = attr()
    ends: Attr[EpochSeconds | None] = attr(default=None)

    of = Key(id)


class Flag(Entity, table=flags):
    id: Attr[str] = attr()
    ends: Attr[EpochSeconds | None] = attr(default=None)

    of = Key(id)


class Ballot(Entity, table=ballots):
    id: Attr[str] = attr()
    vote: Attr[str] = attr()
    weight: Attr[Decimal] = attr(default=Decimal(1))
    stamps: Attr[frozenset[bytes]] = attr(default=frozenset())

    of = Key(id)


class Ruin(Entity, table=ruins):
    id: Attr[str] = attr()

    of = Key(id)


# Has a deleted index whose rows are not removed yet.
attic = Table("Attic", "id", naming=keep_names, purpose="An index of these was deleted")
by_size = attic.global_index("by-size", "size")


class Chest(Entity, table=attic):
    id: Attr[str] = attr()
    size: Attr[str] = attr()

    of = Key(id)
    of_size = IndexKey(by_size, size)


TABLES: Final = (parcels, moths, flags, ballots, attic)
BY_TOWN: Final = IndexDefinition("by-town", KeySchema("town", "id"), IndexProjection("ALL"))


def serve_wire(stores: Stores) -> InProcess:
    """Serve these stores to DynamoDB clients while the context is open."""
    assert isinstance(stores.tables, EmbeddedTables)
    return in_process(stores.tables)


@cache
def make_client(service: str = "dynamodb") -> Any:
    """Return a boto3 client, the same one for each service."""
    return boto3.client(
        service, region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing"
    )


# --- writing ------------------------------------------------------------------------------------------------


async def write(stores: Stores) -> dict[str, Any]:
    """Write the tables, and return what a DynamoDB client keeps."""
    await create_tables(stores, [ruins])
    await stores.run(batch_put([Parcel.put(Parcel(id=f"p-{n:03}", town=f"t-{n % 3}")) for n in range(MANY)]))
    ends = _moment(-5)
    flagged = [Flag(id=f"f-{n:03}", ends=ends if n % 2 else _moment(86400)) for n in range(MANY)]
    await stores.run(batch_put([*map(Flag.put, flagged)]))
    await stores.run(batch_put([Ruin.put(Ruin(id=f"r-{n:03}")) for n in range(MANY)]))
    await stores.run(batch_put([Chest.put(Chest(id=f"c-{n}", size="big")) for n in range(9)]))
    await _write_ballots(stores)
    with serve_wire(stores):
        return _write_wire(stores)


async def _write_ballots(stores: Stores) -> None:
    """Write ballots at one time, back them up, and change them at a later time."""
    clock: Any = stores.clock
    clock.moment = WRITTEN_AT - 100
    stamps = frozenset({b"\x00", b"\xff"})
    for number in range(6):
        ballot = Ballot(id=f"b-{number}", vote="yes", weight=Decimal(number) / 4, stamps=stamps)
        await stores.run(Ballot.put(ballot))
    await create_backup(stores, stores.physical_name(ballots), "ballots-as-cast")
    clock.moment = WRITTEN_AT - 50
    await stores.run(Ballot.of("b-0").update().set(Ballot.vote, "no"))
    await stores.run(Ballot.of("b-1").delete())
    clock.moment = WRITTEN_AT


def _write_wire(stores: Stores) -> dict[str, Any]:
    """Note what a DynamoDB client keeps: last evaluated keys, a shard iterator, and a transaction's token."""
    dynamodb, streams = make_client(), make_client("dynamodbstreams")
    table, parcel = stores.physical_name(ballots), stores.physical_name(parcels)
    arn = dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"]
    shard = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]["ShardId"]
    iterator = streams.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    read = streams.get_records(ShardIterator=iterator["ShardIterator"], Limit=2)
    scanned = dynamodb.scan(TableName=parcel, Limit=3)
    listed = dynamodb.list_tables(Limit=3)
    dynamodb.transact_write_items(**build_wire_transaction(table))
    backups = dynamodb.list_backups(TableName=table)["BackupSummaries"]
    return {
        "table_arn": dynamodb.describe_table(TableName=table)["Table"]["TableArn"],
        "stream_arn": arn,
        "shard": shard,
        "iterator": iterator["ShardIterator"],
        "next_iterator": read["NextShardIterator"],
        "records_read": [each["eventID"] for each in read["Records"]],
        "scanned": [each["id"]["S"] for each in scanned["Items"]],
        "scan_key": scanned["LastEvaluatedKey"],
        "last_table": listed["LastEvaluatedTableName"],
        "backup_arn": backups[0]["BackupArn"],
    }


def build_wire_transaction(table: str) -> dict[str, Any]:
    """Return a transaction as a client of DynamoDB sends it, with its token."""
    changes = {
        "Update": {
            "TableName": table,
            "Key": {"id": {"S": "b-2"}},
            "UpdateExpression": "ADD weight :one",
            "ConditionExpression": "attribute_exists(id)",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
    other = {"Put": {"TableName": table, "Item": {"id": {"S": "b-wire"}, "vote": {"S": "yes"}}}}
    return {"TransactItems": [changes, other], "ClientRequestToken": "a token of the wire"}


def build_transaction() -> Transact:
    """Return a transaction of every kind of action, with its token."""
    is_there = Ballot.vote.exists()
    return transact(
        Ballot.of("b-3").update().add(Ballot.weight, Decimal(1)).when(is_there),
        Ballot.put(Ballot(id="b-token", vote="yes")).if_absent(),
        Ballot.of("b-4").delete().when(Ballot.weight.between(Decimal(0), Decimal(9))),
        Ballot.of("b-5").check().when(~(Ballot.vote == "no")),
        token="a token of the library",
    )


async def leave(stores: Stores) -> dict[str, Any]:
    """Begin what the background worker would do at once, and do one step of each job."""
    name = stores.physical_name
    await stores.run(build_transaction())
    moths_ended = [Moth(id=f"m-{n}", ends=_moment(-5) if n % 2 else None) for n in range(8)]
    await stores.run(batch_put([*map(Moth.put, moths_ended)]))
    run = stores.tables.run
    town = KeyAttribute("town", "S")
    await run(
        requests.UpdateTable(
            name(parcels), (KeyAttribute("id", "S"), town), index_changes=(requests.CreateIndex(BY_TOWN),)
        )
    )
    await run(requests.UpdateTable(name(attic), index_changes=(requests.DeleteIndex("by-size"),)))
    await run(requests.UpdateTimeToLive(name(flags), "ends", True))
    await run(requests.DeleteTable(name(ruins)))
    backup = await run(requests.CreateBackup(name(ballots), "ballots-being-copied"))
    (first,) = [each for each in await list_backups(stores, name(ballots)) if each.status == "AVAILABLE"]
    source = requests.BackupName(name(ballots), first.id)
    await run(requests.RestoreTableFromBackup(source, RESTORED))
    await run(requests.RestoreTableToPointInTime(name(ballots), RESTORED_TO_TIME, WRITTEN_AT - 60))
    left = _step_each_job(stores)
    with serve_wire(stores):
        return {"jobs": left, "backup_id": backup.id, "described": describe_tables(stores)}


def describe_tables(stores: Stores) -> dict[str, Any]:
    """Return what DynamoDB's operations report about some tables, their lifetimes, streams and backups."""
    dynamodb, streams = make_client(), make_client("dynamodbstreams")
    found: dict[str, Any] = {}
    for name in [stores.physical_name(each) for each in (*TABLES, shelf)] + [RESTORED, RESTORED_TO_TIME]:
        asked = {"TableName": name}
        found[name] = {
            "table": dynamodb.describe_table(**asked)["Table"],
            "lifetime": dynamodb.describe_time_to_live(**asked)["TimeToLiveDescription"],
            "recovery": dynamodb.describe_continuous_backups(**asked)["ContinuousBackupsDescription"],
            "backups": [
                dynamodb.describe_backup(BackupArn=each["BackupArn"])["BackupDescription"]
                for each in dynamodb.list_backups(**asked)["BackupSummaries"]
            ],
            "streams": [
                streams.describe_stream(StreamArn=each["StreamArn"])["StreamDescription"]
                for each in streams.list_streams(**asked)["Streams"]
            ],
        }
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


def _step_each_job(stores: Stores) -> list[str]:
    """Do one step of each job, like a worker that is then killed; return the kinds of the remaining jobs."""
    tables: Any = stores.tables
    with tables.database.snapshot() as connection:
        pending = [id for id, _ in jobs.list_pending(connection)]
    with patch.multiple(steps, BACKFILL_BATCH_ITEMS=STEP, TRIM_BATCH_RECORDS=STEP):
        for id in pending:
            tables._run_unit(partial(_step, id))
    with tables.database.snapshot() as connection:
        return [type(job).__name__ for _, job in jobs.list_pending(connection)]


def _moment(seconds: float) -> datetime:
    """Return the time this many seconds after the archive was written."""
    return datetime.fromtimestamp(WRITTEN_AT + seconds, UTC)
