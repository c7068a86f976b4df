"""DescribeTimeToLive on the wire: decode the request, encode the status and the expiry attribute."""

from __future__ import annotations

from holdfast.operations.tables import DescribeTimeToLive, DescribeTimeToLiveResult
from holdfast.wire.arns import AwsLocation
from holdfast.wire.shapes import Request, Response, structure, table_name_checked_first

SHAPE = structure("DescribeTimeToLiveInput", TableName=table_name_checked_first())


def decode(request: Request) -> DescribeTimeToLive:
    return DescribeTimeToLive(table=request["TableName"])


def encode(
    operation: DescribeTimeToLive, result: DescribeTimeToLiveResult, location: AwsLocation
) -> Response:
    description: Response = {"TimeToLiveStatus": result.status}
    if result.attribute is not None:
        description["AttributeName"] = result.attribute
    return {"TimeToLiveDescription": description}
