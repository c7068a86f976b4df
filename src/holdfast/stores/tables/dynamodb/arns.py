"""ARNs: the service identifies streams and backups by ARN, our operations by a table and a label or id.

All ARNs of one account and region share a prefix, which is learned from the first ARN received. A name whose
`spelling` is an ARN is used as it is.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import BackupNotFound, NotFound
from holdfast.operations.tables import BackupName, StreamName
from holdfast.stores.tables.dynamodb.service import Service

_TABLE: Final = ":table/"


def stream_of(arn: str) -> StreamName:
    table, _, label = arn.partition(_TABLE)[2].partition("/stream/")
    return StreamName(table, label)


def backup_of(arn: str) -> BackupName:
    table, _, backup_id = arn.partition(_TABLE)[2].partition("/backup/")
    return BackupName(table, backup_id)


def learn(arn: str, service: Service) -> None:
    service.arn_prefix = arn.partition(_TABLE)[0]


async def stream_arn(stream: StreamName, service: Service) -> str:
    if stream.spelling.startswith("arn:"):
        return stream.spelling
    if service.arn_prefix is None:
        answer = await service.ask("ListStreams", {"TableName": stream.table, "Limit": 1})
        if not answer["Streams"]:
            raise NotFound(f"Requested resource not found: Stream: {stream} not found")
        learn(answer["Streams"][0]["StreamArn"], service)
    return f"{service.arn_prefix}{_TABLE}{stream.table}/stream/{stream.label}"


async def backup_arn(backup: BackupName, service: Service) -> str:
    if backup.spelling.startswith("arn:"):
        return backup.spelling
    if service.arn_prefix is None:
        request = {"TableName": backup.table, "BackupType": "ALL", "Limit": 1}
        answer = await service.ask("ListBackups", request)
        if not answer["BackupSummaries"]:
            raise BackupNotFound(f"Backup not found: {backup}")
        learn(answer["BackupSummaries"][0]["BackupArn"], service)
    return f"{service.arn_prefix}{_TABLE}{backup.table}/backup/{backup.id}"
