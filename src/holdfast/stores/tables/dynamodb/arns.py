"""ARNs of streams and backups, converted to and from the names that operations use.

All ARNs of one account and region share a prefix, which the engine takes from the first ARN it receives. A
name whose `spelling` is an ARN is used as it is.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import BackupNotFound, NotFound
from holdfast.operations.tables import BackupName, StreamName
from holdfast.stores.tables.dynamodb.service import Service

_TABLE: Final = ":table/"


def parse_stream_arn(arn: str) -> StreamName:
    """Return the table and label in a stream's ARN."""
    table, _, label = arn.partition(_TABLE)[2].partition("/stream/")
    return StreamName(table, label)


def parse_backup_arn(arn: str) -> BackupName:
    """Return the table and id in a backup's ARN."""
    table, _, backup_id = arn.partition(_TABLE)[2].partition("/backup/")
    return BackupName(table, backup_id)


def remember_prefix(arn: str, service: Service) -> None:
    """Store the part of the ARN before the table, which all ARNs of the account and region share."""
    service.arn_prefix = arn.partition(_TABLE)[0]


async def get_stream_arn(stream: StreamName, service: Service) -> str:
    """Return the ARN of a stream.

    If the prefix is unknown, list a stream of the table to find it; raise `NotFound` if the table has none.
    """
    if stream.spelling.startswith("arn:"):
        return stream.spelling
    if service.arn_prefix is None:
        response = await service.send("ListStreams", {"TableName": stream.table, "Limit": 1})
        if not response["Streams"]:
            raise NotFound(f"Requested resource not found: Stream: {stream} not found")
        remember_prefix(response["Streams"][0]["StreamArn"], service)
    return f"{service.arn_prefix}{_TABLE}{stream.table}/stream/{stream.label}"


async def get_backup_arn(backup: BackupName, service: Service) -> str:
    """Return the ARN of a backup.

    If the prefix is unknown, list a backup of the table to find it; raise `BackupNotFound` if the table has
    none.
    """
    if backup.spelling.startswith("arn:"):
        return backup.spelling
    if service.arn_prefix is None:
        request = {"TableName": backup.table, "BackupType": "ALL", "Limit": 1}
        response = await service.send("ListBackups", request)
        if not response["BackupSummaries"]:
            raise BackupNotFound(f"Backup not found: {backup}")
        remember_prefix(response["BackupSummaries"][0]["BackupArn"], service)
    return f"{service.arn_prefix}{_TABLE}{backup.table}/backup/{backup.id}"
