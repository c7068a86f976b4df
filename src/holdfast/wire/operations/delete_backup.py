"""DeleteBackup on the wire: delete a backup and return its description."""

from __future__ import annotations

from holdfast.operations.tables import BackupDescription, DeleteBackup
from holdfast.wire import restores
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import backup_description
from holdfast.wire.shapes import Answer, Request, structure

SHAPE = structure("DeleteBackupInput", BackupArn=restores.backup_arn_text(required=True))


def decode(request: Request) -> DeleteBackup:
    return DeleteBackup(backup=restores.backup_name(request["BackupArn"]))


def encode(operation: DeleteBackup, result: BackupDescription, place: Place) -> Answer:
    return {"BackupDescription": backup_description(result, place)}
