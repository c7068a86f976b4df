"""DescribeBackup on the wire: a backup, and the table as it was when the backup was taken."""

from __future__ import annotations

from holdfast.operations.tables import BackupDescription, DescribeBackup
from holdfast.wire import restores
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import backup_description
from holdfast.wire.shapes import Answer, Request, structure

SHAPE = structure("DescribeBackupInput", BackupArn=restores.backup_arn_text(required=True))


def decode(request: Request) -> DescribeBackup:
    return DescribeBackup(backup=restores.backup_name(request["BackupArn"]))


def encode(operation: DescribeBackup, result: BackupDescription, place: Place) -> Answer:
    return {"BackupDescription": backup_description(result, place)}
