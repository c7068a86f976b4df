"""The parts that Query and Scan share: the check of Select, and the response of one page."""

from __future__ import annotations

from typing import Final

from holdfast.operations.tables import CapacityDetail, PageResult
from holdfast.wire import capacity
from holdfast.wire.shapes import Request, Response, Shape, string
from holdfast.wire.values import encode_item

SELECT: Final[Shape] = string(
    enum=("SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")
)


def find_select_error(request: Request) -> str | None:
    """Return the reason why Select conflicts with the other parameters, or None."""
    select = request.get("Select")
    if select is None:
        return None
    if "ProjectionExpression" in request and select != "SPECIFIC_ATTRIBUTES":
        wanted = "only the Count" if select == "COUNT" else select
        return f"Cannot specify the ProjectionExpression when choosing to get {wanted}"
    if "ProjectionExpression" not in request and select == "SPECIFIC_ATTRIBUTES":
        return (
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
            "SPECIFIC_ATTRIBUTES"
        )
    if select == "ALL_PROJECTED_ATTRIBUTES" and "IndexName" not in request:
        return "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"
    return None


def encode_page(result: PageResult, detail: CapacityDetail) -> Response:
    """Encode a page as the response of Query or Scan: without Items for a count, with capacity if
    requested.
    """
    response: Response = (
        {} if result.items is None else {"Items": [encode_item(each) for each in result.items]}
    )
    response["Count"] = result.count
    response["ScannedCount"] = result.scanned_count
    if result.last_key is not None:
        response["LastEvaluatedKey"] = encode_item(result.last_key)
    return capacity.add_consumed_capacity(response, result.capacity, detail)
