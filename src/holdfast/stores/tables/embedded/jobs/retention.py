"""Retention: removal of old change log records, closed streams, client tokens and expired backups."""

from __future__ import annotations

from holdfast.core.limits import STREAM_RETENTION_S, TRANSACTION_TOKEN_LIFETIME_S, TRIM_BATCH_RECORDS
from holdfast.stores.sqlite import Connection
from holdfast.stores.tables.embedded.records import DropJob, StreamRecord
from holdfast.stores.tables.embedded.storage import backups, jobs, streams, tokens
from holdfast.stores.tables.embedded.storage.catalog import Catalog
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Table


def is_due(connection: Connection, catalog: Catalog, now: float) -> bool:
    """Return whether there is something to trim. This is a cheap check that changes nothing."""
    if tokens.has_older(connection, now - TRANSACTION_TOKEN_LIFETIME_S):
        return True
    if any(_is_outdated(stream, now) for stream in streams.list_all(connection)):
        return True
    if any(_is_past(backup.summary.expires_at, now) for backup in backups.list_all(connection)):
        return True
    return any(
        streams.has_older(connection, table.number, _get_horizon_ms(table, now))
        for table in catalog.tables.values()
        if not table.record.copies
    )


def trim(writer: Writer) -> None:
    """Remove at most one batch of tokens and of each table's log records, and all outdated streams and
    backups.

    The log of a table that is being copied is left alone.
    """
    now, connection = writer.now, writer.connection
    tokens.trim(connection, now - TRANSACTION_TOKEN_LIFETIME_S, TRIM_BATCH_RECORDS)
    for stream in streams.list_all(connection):
        if _is_outdated(stream, now):
            _remove_stream(stream, writer)
    for backup in backups.list_all(connection):
        if _is_past(backup.summary.expires_at, now):
            backups.remove(connection, backup.summary.id)
            jobs.add(connection, DropJob(backup.number))
    for table in writer.catalog.tables.values():
        # Also tables that no longer log: their earlier records still have to be trimmed.
        if not table.record.copies:
            streams.trim(connection, table.number, _get_horizon_ms(table, now), TRIM_BATCH_RECORDS)


def _is_past(moment: float | None, now: float) -> bool:
    """Return whether the moment is set and not after `now`."""
    return moment is not None and moment <= now


def _is_outdated(stream: StreamRecord, now: float) -> bool:
    """Return whether the stream was closed more than a day ago."""
    return stream.closed_at is not None and stream.closed_at <= now - STREAM_RETENTION_S


def _remove_stream(stream: StreamRecord, writer: Writer) -> None:
    """Remove the stream's record.

    Add a job that drops its log if no table, stream or backup uses it any more.
    """
    connection = writer.connection
    streams.remove(connection, stream)
    is_orphaned = stream.number not in writer.catalog.tables_by_number and not streams.find_by_number(
        connection, stream.number
    )
    if is_orphaned and not any(backup.number == stream.number for backup in backups.list_all(connection)):
        jobs.add(connection, DropJob(stream.number))


def _get_horizon_ms(table: Table, now: float) -> int:
    """Return the time up to which log records are trimmed: the start of the recovery window, or a day ago."""
    record = table.record
    retention_s = STREAM_RETENTION_S if record.recovery_since is None else record.recovery_days * 86400
    return int((now - retention_s) * 1000)
