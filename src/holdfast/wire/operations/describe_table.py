"""DescribeTable on the wire: return the current description of a table."""

from __future__ import annotations

from holdfast.operations.tables import DescribeTable, TableDescription
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import table_description
from holdfast.wire.shapes import Answer, Request, demanded_table_name, structure

SHAPE = structure("DescribeTableInput", TableName=demanded_table_name())


def decode(request: Request) -> DescribeTable:
    return DescribeTable(table=request["TableName"])


def encode(operation: DescribeTable, result: TableDescription, place: Place) -> Answer:
    return {"Table": table_description(result, place)}
