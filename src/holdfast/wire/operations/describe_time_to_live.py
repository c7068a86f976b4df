"""DescribeTimeToLive on the wire: whether a table's items expire, and the attribute that holds the expiry
time.
"""

from __future__ import annotations

from holdfast.operations.tables import DescribeTimeToLive, DescribeTimeToLiveResult
from holdfast.wire.arns import Place
from holdfast.wire.shapes import Answer, Request, demanded_table_name, structure

SHAPE = structure("DescribeTimeToLiveInput", TableName=demanded_table_name())


def decode(request: Request) -> DescribeTimeToLive:
    return DescribeTimeToLive(table=request["TableName"])


def encode(operation: DescribeTimeToLive, result: DescribeTimeToLiveResult, place: Place) -> Answer:
    told: Answer = {"TimeToLiveStatus": result.status}
    if result.attribute is not None:
        told["AttributeName"] = result.attribute
    return {"TimeToLiveDescription": told}
