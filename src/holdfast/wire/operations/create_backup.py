"""CreateBackup on the wire: back up the current state of a table under a name."""

from __future__ import annotations

from holdfast.operations.tables import BackupSummary, CreateBackup
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import backup_details
from holdfast.wire.shapes import NAME_PATTERN, Answer, Request, string, structure, table_name

SHAPE = structure(
    "CreateBackupInput",
    TableName=table_name(),
    BackupName=string(required=True, pattern=NAME_PATTERN, shortest=3, longest=255),
)


def decode(request: Request) -> CreateBackup:
    return CreateBackup(table=request["TableName"], name=request["BackupName"])


def encode(operation: CreateBackup, result: BackupSummary, place: Place) -> Answer:
    return {"BackupDetails": backup_details(result, place)}
