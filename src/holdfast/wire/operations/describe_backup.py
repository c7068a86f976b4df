"""DescribeBackup on the wire: decode the request (a backup ARN), encode the backup and its source table.

The source table is described as it was when the backup was taken.
"""

from __future__ import annotations

from holdfast.operations.tables import BackupDescription, DescribeBackup
from holdfast.wire import restores
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_backup_description
from holdfast.wire.shapes import Request, Response, structure

SHAPE = structure("DescribeBackupInput", BackupArn=restores.backup_arn_shape(required=True))


def decode(request: Request) -> DescribeBackup:
    """Return the operation. Raise `InvalidRequest` if the ARN is not that of a backup."""
    return DescribeBackup(backup=restores.parse_backup_name(request["BackupArn"]))


def encode(operation: DescribeBackup, result: BackupDescription, location: AwsLocation) -> Response:
    return {"BackupDescription": encode_backup_description(result, location)}
