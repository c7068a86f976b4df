"""Query and Scan: one page."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.tables import PageResult, Query, Scan
from holdfast.stores.tables.dynamodb import capacity
from holdfast.stores.tables.dynamodb.expiry import Expiry, expiry_of
from holdfast.stores.tables.dynamodb.expressions import expressed
from holdfast.stores.tables.dynamodb.service import Request, Service
from holdfast.stores.tables.dynamodb.values import plain_item, tagged_item


async def query(operation: Query, service: Service) -> PageResult:
    """Run one page of a query.

    The filter hides expired items, unless the lifetime attribute is a key of the queried table or index: a
    filter may not name a key. The service reveals that by refusing the filter; then the items are filtered
    here.
    """
    expiry = await expiry_of(operation.table, service) if operation.hide_expired else None
    if expiry is None:
        return await _query(operation, service)
    place = (operation.table, operation.index)
    if place not in service.keyed_by_lifetime:
        try:
            return await _query(replace(operation, filter=expiry.beside(operation.filter)), service)
        except InvalidRequest:
            # If the request was refused for another reason, it is refused again below.
            pass
    page = await _sifted(operation, expiry, service)
    service.keyed_by_lifetime.add(place)
    return page


async def scan(operation: Scan, service: Service) -> PageResult:
    expiry = await expiry_of(operation.table, service) if operation.hide_expired else None
    keeps = operation.filter if expiry is None else expiry.beside(operation.filter)
    request = {
        **_page_request(operation),
        **expressed(keeps=keeps, projection=operation.projection),
    }
    if operation.segments is not None:
        request |= {"Segment": operation.segment, "TotalSegments": operation.segments}
    return await _page("Scan", request, operation, service)


async def _query(operation: Query, service: Service) -> PageResult:
    request = {
        **_page_request(operation),
        "ScanIndexForward": operation.forward,
        **expressed(
            key_condition=operation.key_condition, keeps=operation.filter, projection=operation.projection
        ),
    }
    return await _page("Query", request, operation, service)


async def _sifted(operation: Query, expiry: Expiry, service: Service) -> PageResult:
    """Return a page without expired items, filtered here. Counting the visible items requires reading
    them.
    """
    counts = operation.select == "COUNT"
    projection = (Path(expiry.attribute),) if counts else expiry.widened(operation.projection)
    asked = replace(operation, projection=projection, select=None if counts else operation.select)
    page = await _query(asked, service)
    seen = (expiry.shown_of(item, operation.projection) for item in page.items or ())
    items = [item for item in seen if item is not None]
    return replace(page, items=None if counts else items, count=len(items))


def _page_request(operation: Query | Scan) -> Request:
    request: Request = {
        "TableName": operation.table,
        "ConsistentRead": operation.consistent,
        **capacity.asked(operation.capacity),
    }
    if operation.index is not None:
        request["IndexName"] = operation.index
    if operation.select is not None:
        request["Select"] = operation.select
    if operation.limit is not None:
        request["Limit"] = operation.limit
    if operation.start_key is not None:
        request["ExclusiveStartKey"] = tagged_item(operation.start_key)
    return request


async def _page(action: str, request: Request, operation: Query | Scan, service: Service) -> PageResult:
    answer = await service.ask(action, request)
    counts = operation.select == "COUNT"
    return PageResult(
        None if counts else [plain_item(item) for item in answer.get("Items", ())],
        answer["Count"],
        answer["ScannedCount"],
        plain_item(answer["LastEvaluatedKey"]) if answer.get("LastEvaluatedKey") else None,
        capacity.consumed(answer, "read", operation.capacity),
    )
