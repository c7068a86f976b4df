"""DescribeContinuousBackups on the wire: decode the request, encode the state of point-in-time recovery."""

from __future__ import annotations

from holdfast.operations.tables import ContinuousBackups, DescribeContinuousBackups
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_continuous_backups
from holdfast.wire.shapes import Request, Response, structure, table_name

SHAPE = structure("DescribeContinuousBackupsInput", TableName=table_name())


def decode(request: Request) -> DescribeContinuousBackups:
    return DescribeContinuousBackups(table=request["TableName"])


def encode(
    operation: DescribeContinuousBackups, result: ContinuousBackups, location: AwsLocation
) -> Response:
    return encode_continuous_backups(result)
