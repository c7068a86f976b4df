"""The SDK clients of this engine: one for tables, one for streams."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.config.aws_clients import ServiceAddress, Timeouts, check_endpoint, make_clients, require_sdk
from holdfast.stores.tables.dynamodb.failures import failure_of


class Clients(NamedTuple):
    """One client per service, usable from any thread."""

    dynamodb: Any
    streams: Any
    endpoint: str

    def close(self) -> None:
        self.dynamodb.close()
        self.streams.close()


def made_clients(region: str | None, endpoint: str | None, timeouts: Timeouts, connections: int) -> Clients:
    require_sdk("The DynamoDB engine")
    check_endpoint(endpoint)
    place = ServiceAddress(region=region, endpoint=endpoint)
    try:
        dynamodb, streams = make_clients(("dynamodb", "dynamodbstreams"), place, timeouts, connections)
    except Exception as cause:
        raise failure_of(cause, "opening", place.display_name).error from cause
    return Clients(dynamodb, streams, endpoint or dynamodb.meta.endpoint_url)
