"""ListTables on the wire: the names of the tables, one page at a time."""

from __future__ import annotations

from holdfast.core.limits import LIST_TABLES_MAX
from holdfast.operations.tables import ListTables, ListTablesResult
from holdfast.wire.arns import AwsLocation
from holdfast.wire.shapes import NAME_PATTERN, Request, Response, integer, string, structure

SHAPE = structure(
    "ListTablesInput",
    Limit=integer(minimum=1, maximum=LIST_TABLES_MAX),
    ExclusiveStartTableName=string(pattern=NAME_PATTERN, min_length=3, max_length=255),
)


def decode(request: Request) -> ListTables:
    return ListTables(
        after=request.get("ExclusiveStartTableName"), limit=request.get("Limit", LIST_TABLES_MAX)
    )


def encode(operation: ListTables, result: ListTablesResult, location: AwsLocation) -> Response:
    response: Response = {"TableNames": list(result.names)}
    if result.last_name is not None:
        response["LastEvaluatedTableName"] = result.last_name
    return response
