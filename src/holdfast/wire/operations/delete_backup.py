"""DeleteBackup on the wire: decode the request (a backup ARN), encode the deleted backup's description."""

from __future__ import annotations

from holdfast.operations.tables import BackupDescription, DeleteBackup
from holdfast.wire import restores
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_backup_description
from holdfast.wire.shapes import Request, Response, structure

SHAPE = structure("DeleteBackupInput", BackupArn=restores.backup_arn_shape(required=True))


def decode(request: Request) -> DeleteBackup:
    """Return the operation. Raise `InvalidRequest` if the ARN is not that of a backup."""
    return DeleteBackup(backup=restores.parse_backup_name(request["BackupArn"]))


def encode(operation: DeleteBackup, result: BackupDescription, location: AwsLocation) -> Response:
    return {"BackupDescription": encode_backup_description(result, location)}
