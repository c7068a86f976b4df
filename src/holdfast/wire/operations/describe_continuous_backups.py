"""DescribeContinuousBackups on the wire: whether point-in-time recovery is on, and the restorable times."""

from __future__ import annotations

from holdfast.operations.tables import ContinuousBackups, DescribeContinuousBackups
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import continuous_backups
from holdfast.wire.shapes import Answer, Request, structure, table_name

SHAPE = structure("DescribeContinuousBackupsInput", TableName=table_name())


def decode(request: Request) -> DescribeContinuousBackups:
    return DescribeContinuousBackups(table=request["TableName"])


def encode(operation: DescribeContinuousBackups, result: ContinuousBackups, place: Place) -> Answer:
    return continuous_backups(result)
