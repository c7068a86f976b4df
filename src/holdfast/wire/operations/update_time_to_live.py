"""UpdateTimeToLive on the wire: set or clear the attribute that holds an item's expiry time."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import LifetimeSpecification, UpdateTimeToLive
from holdfast.wire.arns import Place
from holdfast.wire.shapes import Answer, Request, boolean, demanded_table_name, string, structure

SHAPE = structure(
    "UpdateTimeToLiveInput",
    TableName=demanded_table_name(),
    TimeToLiveSpecification=structure(
        "TimeToLiveSpecification",
        Enabled=boolean(required=True),
        AttributeName=string(required=True, shortest=1, longest=255),
    ),
)


def decode(request: Request) -> UpdateTimeToLive:
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


def encode(operation: UpdateTimeToLive, result: LifetimeSpecification, place: Place) -> Answer:
    return {"TimeToLiveSpecification": {"Enabled": result.enabled, "AttributeName": result.attribute}}
