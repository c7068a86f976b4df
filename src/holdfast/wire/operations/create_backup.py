"""CreateBackup on the wire: decode the request (a table and a backup name), encode the backup's details."""

from __future__ import annotations

from holdfast.operations.tables import BackupSummary, CreateBackup
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_backup_details
from holdfast.wire.shapes import NAME_PATTERN, Request, Response, string, structure, table_name

SHAPE = structure(
    "CreateBackupInput",
    TableName=table_name(),
    BackupName=string(required=True, pattern=NAME_PATTERN, min_length=3, max_length=255),
)


def decode(request: Request) -> CreateBackup:
    return CreateBackup(table=request["TableName"], name=request["BackupName"])


def encode(operation: CreateBackup, result: BackupSummary, location: AwsLocation) -> Response:
    return {"BackupDetails": encode_backup_details(result, location)}
