"""Handlers of Query and Scan on DynamoDB: each call reads one page."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.tables import PageResult, Query, Scan
from holdfast.stores.tables.dynamodb import capacity
from holdfast.stores.tables.dynamodb.expiry import Expiry, load_expiry
from holdfast.stores.tables.dynamodb.expressions import encode_expressions
from holdfast.stores.tables.dynamodb.service import Request, Service
from holdfast.stores.tables.dynamodb.values import decode_item, encode_item


async def query(operation: Query, service: Service) -> PageResult:
    """Read one page of a query.

    The filter hides expired items, unless the lifetime attribute is a key of the queried table or index: a
    filter may not name a key. The service reveals that by refusing the filter; then the items are filtered
    here.
    """
    expiry = await load_expiry(operation.table, service) if operation.hide_expired else None
    if expiry is None:
        return await _send_query(operation, service)
    target = (operation.table, operation.index)
    if target not in service.keyed_by_lifetime:
        try:
            return await _send_query(
                replace(operation, filter=expiry.build_filter(operation.filter)), service
            )
        except InvalidRequest:
            # If the request was refused for another reason, it is refused again below.
            pass
    page = await _query_and_filter(operation, expiry, service)
    service.keyed_by_lifetime.add(target)
    return page


async def scan(operation: Scan, service: Service) -> PageResult:
    """Read one page of a scan. The filter hides expired items."""
    expiry = await load_expiry(operation.table, service) if operation.hide_expired else None
    page_filter = operation.filter if expiry is None else expiry.build_filter(operation.filter)
    request = {
        **_encode_page_request(operation),
        **encode_expressions(page_filter=page_filter, projection=operation.projection),
    }
    if operation.segments is not None:
        request |= {"Segment": operation.segment, "TotalSegments": operation.segments}
    return await _send_page("Scan", request, operation, service)


async def _send_query(operation: Query, service: Service) -> PageResult:
    """Send one Query request and return its page."""
    request = {
        **_encode_page_request(operation),
        "ScanIndexForward": operation.forward,
        **encode_expressions(
            key_condition=operation.key_condition,
            page_filter=operation.filter,
            projection=operation.projection,
        ),
    }
    return await _send_page("Query", request, operation, service)


async def _query_and_filter(operation: Query, expiry: Expiry, service: Service) -> PageResult:
    """Read a page and remove expired items from it. Counting the visible items requires reading them."""
    is_count = operation.select == "COUNT"
    projection = (Path(expiry.attribute),) if is_count else expiry.widen_projection(operation.projection)
    widened = replace(operation, projection=projection, select=None if is_count else operation.select)
    page = await _send_query(widened, service)
    visible = (expiry.project_visible(item, operation.projection) for item in page.items or ())
    items = [item for item in visible if item is not None]
    return replace(page, items=None if is_count else items, count=len(items))


def _encode_page_request(operation: Query | Scan) -> Request:
    """Return the request members that Query and Scan have in common."""
    request: Request = {
        "TableName": operation.table,
        "ConsistentRead": operation.consistent,
        **capacity.encode_detail(operation.capacity),
    }
    if operation.index is not None:
        request["IndexName"] = operation.index
    if operation.select is not None:
        request["Select"] = operation.select
    if operation.limit is not None:
        request["Limit"] = operation.limit
    if operation.start_key is not None:
        request["ExclusiveStartKey"] = encode_item(operation.start_key)
    return request


async def _send_page(action: str, request: Request, operation: Query | Scan, service: Service) -> PageResult:
    """Send the request and return the page; a count has no items."""
    response = await service.send(action, request)
    is_count = operation.select == "COUNT"
    return PageResult(
        None if is_count else [decode_item(item) for item in response.get("Items", ())],
        response["Count"],
        response["ScannedCount"],
        decode_item(response["LastEvaluatedKey"]) if response.get("LastEvaluatedKey") else None,
        capacity.parse_capacity(response, "read", operation.capacity),
    )
