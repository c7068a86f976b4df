"""DescribeLimits on the wire: decode the empty request, encode the capacity quotas of an account."""

from __future__ import annotations

from holdfast.operations.tables import DescribeLimits, DescribeLimitsResult
from holdfast.wire.arns import AwsLocation
from holdfast.wire.shapes import Request, Response, structure

SHAPE = structure("DescribeLimitsInput")


def decode(request: Request) -> DescribeLimits:
    return DescribeLimits()


def encode(operation: DescribeLimits, result: DescribeLimitsResult, location: AwsLocation) -> Response:
    return {
        "AccountMaxReadCapacityUnits": result.account_read,
        "AccountMaxWriteCapacityUnits": result.account_write,
        "TableMaxReadCapacityUnits": result.table_read,
        "TableMaxWriteCapacityUnits": result.table_write,
    }
