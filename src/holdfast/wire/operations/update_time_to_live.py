"""UpdateTimeToLive on the wire: decode a change of the expiry attribute, encode the new specification."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import TimeToLiveSpecification, UpdateTimeToLive
from holdfast.wire.arns import AwsLocation
from holdfast.wire.shapes import Request, Response, boolean, string, structure, table_name_checked_first

SHAPE = structure(
    "UpdateTimeToLiveInput",
    TableName=table_name_checked_first(),
    TimeToLiveSpecification=structure(
        "TimeToLiveSpecification",
        Enabled=boolean(required=True),
        AttributeName=string(required=True, min_length=1, max_length=255),
    ),
)


def decode(request: Request) -> UpdateTimeToLive:
    """Return the operation. Raise `InvalidRequest` without a specification."""
    specification = request.get("TimeToLiveSpecification")
    if specification is None:
        raise InvalidRequest(
            "1 validation error detected: Value null at 'timeToLiveSpecification' failed to satisfy "
            "constraint: Member must not be null"
        )
    return UpdateTimeToLive(
        table=request["TableName"],
        attribute=specification["AttributeName"],
        enabled=specification["Enabled"],
    )


def encode(operation: UpdateTimeToLive, result: TimeToLiveSpecification, location: AwsLocation) -> Response:
    return {"TimeToLiveSpecification": {"Enabled": result.enabled, "AttributeName": result.attribute}}
