"""DescribeTable on the wire: decode the request (a table name), encode the table's description."""

from __future__ import annotations

from holdfast.operations.tables import DescribeTable, TableDescription
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_table_description
from holdfast.wire.shapes import Request, Response, structure, table_name_checked_first

SHAPE = structure("DescribeTableInput", TableName=table_name_checked_first())


def decode(request: Request) -> DescribeTable:
    return DescribeTable(table=request["TableName"])


def encode(operation: DescribeTable, result: TableDescription, location: AwsLocation) -> Response:
    return {"Table": encode_table_description(result, location)}
