"""MCP over streamable HTTP: the route POST /mcp in an app with the middleware of every API of Holdfast.

Each request is complete in itself, so that any process may answer it: there are no sessions, and no stream
from the server to its clients. A client cancels a call by closing its connection. Callers authenticate with a
bearer token (`AgentGuard`); without a configured one, only this machine is answered.

    connection (host, origin) → middleware (correlation id, size) → guard → body (size, time) → the SDK
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast import __version__
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import CallerForbidden, CallerRefused
from holdfast.core.limits import MIB
from holdfast.core.readiness import DEFAULT_TIMEOUT_S, Probe, Readiness
from holdfast.mcp.scopes import EVERY_SCOPE, SCOPES_STATE, Scopes
from holdfast.mcp.server import MAX_CALL_S, build_server
from holdfast.mcp.tools import AGENT
from holdfast.model.components import Component
from holdfast.reports.used_stores import find_used_stores
from holdfast.runtime.store_probes import build_store_probes, merge_used_stores
from holdfast.runtime.stores import Stores
from holdfast.runtime.telemetry.metrics import open_metrics
from holdfast.web import make_app
from holdfast.web.bodies import read_body
from holdfast.web.direct_route import DirectRoute
from holdfast.web.tokens import Verifier, get_bearer_token, require_token

with explain_missing(__name__, "api"):
    from fastapi import APIRouter, FastAPI
    from fastapi.security import HTTPBearer
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.types import Message, Receive, Scope, Send

with explain_missing(__name__, "mcp"):
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import INVALID_REQUEST

PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
# Arguments of a tool: an item of a table has 400 KB at most.
MAX_REQUEST_BYTES: Final = MIB

_NOT_A_MESSAGE: Final = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {
        "code": INVALID_REQUEST,
        "message": "Invalid body: expected one request or notification of JSON-RPC 2.0.",
    },
}

OpenStores = Callable[[], AbstractAsyncContextManager[Sequence[Stores]]]


class AgentGuard:
    """Authenticates the callers: by tokens of an issuer, by one shared token, or not at all.

    `verifier` verifies the tokens of `issuer` for the audience `url`, which is the address of this server. A
    token needs one of `scopes` at least; what it permits is decided for each tool. `token` guards the metrics
    in any case.
    """

    def __init__(
        self,
        *,
        token: str = "",
        verifier: Verifier | None = None,
        issuer: str = "",
        url: str = "",
        scopes: Sequence[str] = (),
    ) -> None:
        self._check_shared = require_token(token) if token and verifier is None else None
        self._read_credentials = HTTPBearer(auto_error=False)
        self._verifier, self._issuer, self._url, self._scopes = verifier, issuer, url, list(scopes)
        self.token = token
        self.is_open = verifier is None and not token

    async def authenticate(self, request: Request) -> Scopes:
        """Return the caller's scopes. Raise `CallerRefused` or `HTTPException`, answered with 401 or 403."""
        if self._verifier is not None:
            return await self._verify(request, self._verifier)
        if self._check_shared is not None:
            self._check_shared(await self._read_credentials(request))
        return EVERY_SCOPE

    async def _verify(self, request: Request, verifier: Verifier) -> Scopes:
        try:
            verified = await verifier.verify(get_bearer_token(request))
            if verified.scopes.isdisjoint(self._scopes):
                raise CallerForbidden(self._scopes)
        except CallerRefused as refused:
            refused.challenge = self._add_metadata(getattr(refused, "challenge", "Bearer"))  # type: ignore[attr-defined]
            raise
        return Scopes(verified.scopes)

    def _add_metadata(self, challenge: str) -> str:
        """Return the challenge with the address that tells a client where to get a token (RFC 9728)."""
        separator = ", " if " " in challenge else " "
        scope = "" if "scope=" in challenge else f', scope="{" ".join(self._scopes)}"'
        return f'{challenge}{separator}resource_metadata="{self.metadata_url}"{scope}'

    @property
    def metadata_url(self) -> str:
        """The address of the protected resource metadata: the path of the server follows the well-known
        one.
        """
        url = urlsplit(self._url)
        return f"{url.scheme}://{url.netloc}{METADATA_PATH}{url.path.rstrip('/')}"

    def build_metadata_router(self) -> APIRouter:
        """Build the route of the protected resource metadata; no route without an issuer."""
        router = APIRouter(tags=["protocol"])
        if self._verifier is None:
            return router
        metadata = {
            "resource": self._url,
            "authorization_servers": [self._issuer],
            "scopes_supported": self._scopes,
            "bearer_methods_supported": ["header"],
        }

        @router.get(urlsplit(self.metadata_url).path, summary="Protected resource metadata (RFC 9728)")
        async def protected_resource() -> JSONResponse:
            return JSONResponse(metadata)

        return router


def build_http_app(
    title: str,
    open_stores: OpenStores,
    guard: AgentGuard,
    *,
    max_call_s: float = MAX_CALL_S,
    health_timeout_s: float = DEFAULT_TIMEOUT_S,
) -> FastAPI:
    """Build the app. It opens the stores when it starts, and closes them after the last request.

    `health_timeout_s` limits how long /health/ready and /metrics wait for a store.
    """
    endpoint = _Endpoint(guard)
    readiness, metrics = Readiness(timeout_s=health_timeout_s), open_metrics(timeout_s=health_timeout_s)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with open_stores() as stores:
            manager = _build_manager(stores, max_call_s)
            readiness.add_probes(_build_probes(stores))
            for each in stores:
                metrics.add_stores(each, _list_agents(each))
            async with manager.run():
                endpoint.handle = manager.handle_request
                yield

    return make_app(
        title,
        __version__,
        (),
        self_authenticated=[endpoint.build_router(), guard.build_metadata_router()],
        lifespan=lifespan,
        readiness=readiness,
        metrics=metrics,
        token=guard.token or None,
        max_body_bytes=MAX_REQUEST_BYTES,
    )


def _build_manager(stores: Sequence[Stores], max_call_s: float) -> StreamableHTTPSessionManager:
    """Build the SDK's part, which answers the requests."""
    return StreamableHTTPSessionManager(
        build_server(stores, is_local=False, max_call_s=max_call_s),
        stateless=True,
        # The server has checked the Host and Origin headers (`core/http/hosts.py`).
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_REQUEST_BYTES,
    )


def _build_probes(stores: Sequence[Stores]) -> dict[str, Probe]:
    """Return a probe for each store that the tools use. The systems have the same engines."""
    systems = [each.system for each in stores if each.system is not None]
    used = merge_used_stores([find_used_stores(system, [AGENT]) for system in systems])
    return build_store_probes(stores[0], used)


def _list_agents(stores: Stores) -> list[Component]:
    """Return the component whose patterns are the tools."""
    return [] if stores.system is None else [stores.system.get_component(AGENT)]


class _Endpoint:
    """The route of the protocol: authenticates the caller, reads the body, and hands both to the SDK."""

    def __init__(self, guard: AgentGuard) -> None:
        self._guard = guard
        # Set while the app runs.
        self.handle: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None

    def build_router(self) -> APIRouter:
        # A GET would open a stream on which nothing is ever sent: it is answered with 405.
        router = APIRouter(route_class=DirectRoute, tags=["protocol"])

        @router.post(PATH, summary="Model Context Protocol", response_class=JSONResponse)
        async def call(request: Request) -> Response:
            setattr(request.state, SCOPES_STATE, await self._guard.authenticate(request))
            body = await read_body(request, MAX_REQUEST_BYTES)
            if not _is_message(body):
                return JSONResponse(_NOT_A_MESSAGE, 400)
            assert self.handle is not None
            return _ProtocolResponse(self.handle, body)

        return router


def _is_message(body: bytes) -> bool:
    """Return whether the body is one request or notification of JSON-RPC. The SDK's answer to anything else
    quotes the body.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if (
        not isinstance(found, dict)
        or found.get("jsonrpc") != "2.0"
        or not isinstance(found.get("method"), str)
    ):
        return False
    has_valid_id = isinstance(found.get("id", 0), int | str) and not isinstance(found.get("id"), bool)
    return has_valid_id and isinstance(found.get("params", {}), dict)


class _ProtocolResponse(Response):
    """The response that the SDK gives to a body that has been read."""

    def __init__(self, handle: Callable[[Scope, Receive, Send], Awaitable[None]], body: bytes) -> None:
        super().__init__()
        self._handle, self._request_body = handle, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()  # the end of the connection: the client cancels the call
            is_read = True
            return {"type": "http.request", "body": self._request_body, "more_body": False}

        await self._handle(scope, replay, send)
