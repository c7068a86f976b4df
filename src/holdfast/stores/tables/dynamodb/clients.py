"""The SDK clients of the DynamoDB engine: one for tables, one for streams."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.config.aws_clients import ServiceAddress, Timeouts, check_endpoint, make_clients, require_sdk
from holdfast.stores.tables.dynamodb.errors import map_error


class Clients(NamedTuple):
    """One client per service, usable from any thread."""

    dynamodb: Any
    streams: Any
    endpoint: str

    def close(self) -> None:
        """Close the connections of both clients."""
        self.dynamodb.close()
        self.streams.close()


def open_clients(region: str | None, endpoint: str | None, timeouts: Timeouts, connections: int) -> Clients:
    """Create the clients without sending a request.

    Raise `SettingsError` if the region, endpoint or credentials are unusable. `connections` limits each
    client's pool.
    """
    require_sdk("The DynamoDB engine")
    check_endpoint(endpoint)
    address = ServiceAddress(region=region, endpoint=endpoint)
    try:
        dynamodb, streams = make_clients(("dynamodb", "dynamodbstreams"), address, timeouts, connections)
    except Exception as cause:
        raise map_error(cause, "opening", address.display_name).error from cause
    return Clients(dynamodb, streams, endpoint or dynamodb.meta.endpoint_url)
