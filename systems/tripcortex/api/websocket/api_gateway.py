"""Gateway to WebSocket connections that Amazon API Gateway holds (PostToConnection of its management API).

NOT TESTED against the service, only against the request and error shapes that Amazon documents. The client is
a port with one method, which `boto3.client("apigatewaymanagementapi", endpoint_url=…)` has; systems do not
import an SDK.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from holdfast.core.errors import ExternalServiceFailed
from tripcortex.api.websocket.ports import ConnectionGone
from tripcortex.model.entities import Connection

GONE_CODE: Final = "GoneException"
GONE_STATUS: Final = 410
# A retry would fail in the same way.
REFUSED_CODES: Final = frozenset({"PayloadTooLargeException", "ForbiddenException"})


class ManagementClient(Protocol):
    """The client of the management API.

    Its errors have the SDK's `response`: `{"Error": {"Code": …}, "ResponseMetadata": {…}}`.
    """

    def post_to_connection(self, *, ConnectionId: str, Data: bytes) -> Any: ...  # noqa: N803


class ApiGateway:
    """The gateway to connections that Amazon API Gateway holds."""

    def __init__(self, client: ManagementClient) -> None:
        self._client = client

    async def post(self, connection: Connection, body: str) -> None:
        """Send a frame, in a thread. Raise `ConnectionGone` or `ExternalServiceFailed`."""
        try:
            # The SDK blocks, so call it in a thread.
            await asyncio.to_thread(
                self._client.post_to_connection, ConnectionId=connection.connection_id, Data=body.encode()
            )
        except Exception as error:
            raise _map_error(error) from error


def _map_error(error: Exception) -> ConnectionGone | ExternalServiceFailed:
    """Return `ConnectionGone` for a closed connection, else `ExternalServiceFailed`; the caller raises it."""
    response = getattr(error, "response", None)
    details = response if isinstance(response, dict) else {}
    code = details.get("Error", {}).get("Code", type(error).__name__)
    status = details.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code == GONE_CODE or status == GONE_STATUS:
        return ConnectionGone("API Gateway no longer holds the connection.")
    return ExternalServiceFailed(
        f"API Gateway did not accept the message ({code}).", may_be_done=code not in REFUSED_CODES
    )
