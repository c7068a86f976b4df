"""DescribeBackup on the wire: a backup, and the table as it was when the backup was taken."""

from __future__ import annotations

from holdfast.operations.tables import BackupDescription, DescribeBackup
from holdfast.wire import restores
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_backup_description
from holdfast.wire.shapes import Request, Response, structure

SHAPE = structure("DescribeBackupInput", BackupArn=restores.backup_arn_shape(required=True))


def decode(request: Request) -> DescribeBackup:
    return DescribeBackup(backup=restores.parse_backup_name(request["BackupArn"]))


def encode(operation: DescribeBackup, result: BackupDescription, location: AwsLocation) -> Response:
    return {"BackupDescription": encode_backup_description(result, location)}
