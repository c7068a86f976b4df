"""RestoreTableFromBackup on the wire: create a table from a backup of another."""

from __future__ import annotations

from holdfast.operations.tables import RestoreTableFromBackup, TableDescription
from holdfast.wire import restores
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import table_description
from holdfast.wire.shapes import Answer, Request

SHAPE = restores.restore_input(
    "RestoreTableFromBackupInput",
    TargetTableName=restores.target_table_name(),
    BackupArn=restores.backup_arn_text(required=True),
)


def decode(request: Request) -> RestoreTableFromBackup:
    return RestoreTableFromBackup(
        backup=restores.backup_name(request["BackupArn"]),
        target=request["TargetTableName"],
        overrides=restores.overrides(request),
    )


def encode(operation: RestoreTableFromBackup, result: TableDescription, place: Place) -> Answer:
    return {"TableDescription": table_description(result, place)}
