"""DeleteTable on the wire: decode the request (a table name), encode the description of the deleted table."""

from __future__ import annotations

from holdfast.operations.tables import DeleteTable, TableDescription
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_deleted_table_description
from holdfast.wire.shapes import Request, Response, structure, table_name_checked_first

SHAPE = structure("DeleteTableInput", TableName=table_name_checked_first())


def decode(request: Request) -> DeleteTable:
    return DeleteTable(table=request["TableName"])


def encode(operation: DeleteTable, result: TableDescription, location: AwsLocation) -> Response:
    return {"TableDescription": encode_deleted_table_description(result, location)}
