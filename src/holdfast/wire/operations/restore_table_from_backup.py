"""RestoreTableFromBackup on the wire: decode the request, encode the table created from a backup."""

from __future__ import annotations

from holdfast.operations.tables import RestoreTableFromBackup, TableDescription
from holdfast.wire import restores
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_table_description
from holdfast.wire.shapes import Request, Response

SHAPE = restores.restore_input_shape(
    "RestoreTableFromBackupInput",
    TargetTableName=restores.target_table_name_shape(),
    BackupArn=restores.backup_arn_shape(required=True),
)


def decode(request: Request) -> RestoreTableFromBackup:
    """Return the operation. Raise `InvalidRequest` for an invalid ARN or contradictory overrides."""
    return RestoreTableFromBackup(
        backup=restores.parse_backup_name(request["BackupArn"]),
        target=request["TargetTableName"],
        overrides=restores.parse_overrides(request),
    )


def encode(operation: RestoreTableFromBackup, result: TableDescription, location: AwsLocation) -> Response:
    return {"TableDescription": encode_table_description(result, location)}
