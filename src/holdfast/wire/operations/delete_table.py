"""DeleteTable on the wire: delete a table and its items."""

from __future__ import annotations

from holdfast.operations.tables import DeleteTable, TableDescription
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import deleted_table_description
from holdfast.wire.shapes import Answer, Request, demanded_table_name, structure

SHAPE = structure("DeleteTableInput", TableName=demanded_table_name())


def decode(request: Request) -> DeleteTable:
    return DeleteTable(table=request["TableName"])


def encode(operation: DeleteTable, result: TableDescription, place: Place) -> Answer:
    return {"TableDescription": deleted_table_description(result, place)}
