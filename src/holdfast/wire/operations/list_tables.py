"""ListTables on the wire: the names of the tables, one page at a time."""

from __future__ import annotations

from holdfast.core.limits import LIST_TABLES_MAX
from holdfast.operations.tables import ListTables, ListTablesResult
from holdfast.wire.arns import Place
from holdfast.wire.shapes import NAME_PATTERN, Answer, Request, integer, string, structure

SHAPE = structure(
    "ListTablesInput",
    Limit=integer(least=1, most=LIST_TABLES_MAX),
    ExclusiveStartTableName=string(pattern=NAME_PATTERN, shortest=3, longest=255),
)


def decode(request: Request) -> ListTables:
    return ListTables(
        after=request.get("ExclusiveStartTableName"), limit=request.get("Limit", LIST_TABLES_MAX)
    )


def encode(operation: ListTables, result: ListTablesResult, place: Place) -> Answer:
    answer: Answer = {"TableNames": list(result.names)}
    if result.last_name is not None:
        answer["LastEvaluatedTableName"] = result.last_name
    return answer
