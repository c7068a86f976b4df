"""ListTables on the wire: decode the request, encode one page of table names."""

from __future__ import annotations

from holdfast.core.limits import MAX_LIST_TABLES
from holdfast.operations.tables import ListTables, ListTablesResult
from holdfast.wire.arns import AwsLocation
from holdfast.wire.shapes import NAME_PATTERN, Request, Response, integer, string, structure

SHAPE = structure(
    "ListTablesInput",
    Limit=integer(minimum=1, maximum=MAX_LIST_TABLES),
    ExclusiveStartTableName=string(pattern=NAME_PATTERN, min_length=3, max_length=255),
)


def decode(request: Request) -> ListTables:
    return ListTables(
        after=request.get("ExclusiveStartTableName"), limit=request.get("Limit", MAX_LIST_TABLES)
    )


def encode(operation: ListTables, result: ListTablesResult, location: AwsLocation) -> Response:
    response: Response = {"TableNames": list(result.names)}
    if result.last_name is not None:
        response["LastEvaluatedTableName"] = result.last_name
    return response
