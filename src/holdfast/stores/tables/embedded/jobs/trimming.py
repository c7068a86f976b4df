"""Removal of outdated data: change log records, closed streams, client tokens, system backups."""

from __future__ import annotations

from holdfast.core.limits import STREAM_RETENTION_S, TRANSACTION_TOKEN_LIFETIME_S, TRIM_BATCH_RECORDS
from holdfast.stores.sqlite import Connection
from holdfast.stores.tables.embedded.records import DropJob, StreamRecord
from holdfast.stores.tables.embedded.storage import backups, jobs, streams, tokens
from holdfast.stores.tables.embedded.storage.catalog import Catalog
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Table


def is_due(connection: Connection, catalog: Catalog, now: float) -> bool:
    """Return whether there is something to trim. A cheap check that changes nothing."""
    if tokens.has_older(connection, now - TRANSACTION_TOKEN_LIFETIME_S):
        return True
    if any(_is_over(stream, now) for stream in streams.every(connection)):
        return True
    if any(_ends(backup.summary.expires_at, now) for backup in backups.every(connection)):
        return True
    return any(
        streams.has_older(connection, table.number, _horizon_ms(table, now))
        for table in catalog.tables.values()
        if not table.record.copies
    )


def trim(writer: Writer) -> None:
    now, connection = writer.now, writer.connection
    tokens.trim(connection, now - TRANSACTION_TOKEN_LIFETIME_S, TRIM_BATCH_RECORDS)
    for stream in streams.every(connection):
        if _is_over(stream, now):
            _forget_stream(stream, writer)
    for backup in backups.every(connection):
        if _ends(backup.summary.expires_at, now):
            backups.remove(connection, backup.summary.id)
            jobs.add(connection, DropJob(backup.number))
    for table in writer.catalog.tables.values():
        # Also tables that no longer log: their earlier records still have to be trimmed.
        if not table.record.copies:
            streams.trim(connection, table.number, _horizon_ms(table, now), TRIM_BATCH_RECORDS)


def _ends(moment: float | None, now: float) -> bool:
    return moment is not None and moment <= now


def _is_over(stream: StreamRecord, now: float) -> bool:
    return stream.closed_at is not None and stream.closed_at <= now - STREAM_RETENTION_S


def _forget_stream(stream: StreamRecord, writer: Writer) -> None:
    connection = writer.connection
    streams.remove(connection, stream)
    orphaned = stream.number not in writer.catalog.numbers and not streams.of_number(
        connection, stream.number
    )
    if orphaned and not any(backup.number == stream.number for backup in backups.every(connection)):
        jobs.add(connection, DropJob(stream.number))


def _horizon_ms(table: Table, now: float) -> int:
    """Return the time before which log records are trimmed: a day for streams, the recovery window with
    recovery.
    """
    record = table.record
    kept = STREAM_RETENTION_S if record.recovery_since is None else record.recovery_days * 86400
    return int((now - kept) * 1000)
