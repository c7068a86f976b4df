"""The way to a connection that Amazon API Gateway holds: PostToConnection of its management API.

NOT PROVED against the service: tested on the shapes of requests and errors that Amazon documents. The client is a port of
one method, which `boto3.client("apigatewaymanagementapi", endpoint_url=…)` has; systems know no SDK.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from holdfast.errors import PartyFailed
from tripcortex.live.ports import ConnectionGone
from tripcortex.model import Connection

GONE: Final = "GoneException"
GONE_STATUS: Final = 410
# What the same call would meet again.
REFUSED: Final = frozenset({"PayloadTooLargeException", "ForbiddenException"})


class ManagementClient(Protocol):
    """Raises errors with the member `response`, as the SDK does: `{"Error": {"Code": …}, "ResponseMetadata": {…}}`."""

    def post_to_connection(self, *, ConnectionId: str, Data: bytes) -> Any: ...  # noqa: N803


class ApiGateway:
    def __init__(self, client: ManagementClient) -> None:
        self._client = client

    async def post(self, connection: Connection, body: str) -> None:
        try:
            # The SDK waits for the answer: in a thread, so that nobody else does.
            await asyncio.to_thread(
                self._client.post_to_connection, ConnectionId=connection.connection_id, Data=body.encode()
            )
        except Exception as error:
            raise _told(error) from error


def _told(error: Exception) -> ConnectionGone | PartyFailed:
    response = getattr(error, "response", None)
    told = response if isinstance(response, dict) else {}
    code = told.get("Error", {}).get("Code", type(error).__name__)
    status = told.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code == GONE or status == GONE_STATUS:
        return ConnectionGone("API Gateway does not hold the connection any more.")
    return PartyFailed(f"API Gateway did not take the message ({code}).", may_be_done=code not in REFUSED)
