"""Factory of the integration clients: open a client from an integration's name and credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from agenticpm.domain.tickets import Mailbox, Mailer, Tracker
from agenticpm.integrations.credentials import (
    AsanaCredentials,
    JiraCredentials,
    OutlookCredentials,
    ResendCredentials,
    parse_credentials,
)
from agenticpm.model.entities import Integration
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidRequest
from holdfast.web.external_addresses import is_local

TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 3.0
MAX_CONNECTIONS: Final = 8
SANDBOX_CREDENTIALS: Final[Mapping[Integration, Mapping[str, str]]] = {
    Integration.jira: {"email": "agent@example.com", "api_token": "sandbox"},
    Integration.asana: {"token": "sandbox"},
    Integration.outlook: {"mailbox": "pm@example.com", "access_token": "sandbox"},
    Integration.resend: {"api_key": "sandbox", "sender": "The agent <agent@example.com>"},
}


@asynccontextmanager
async def open_client(
    integration: Integration | str, credentials: Mapping[str, Any], *, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Tracker | Mailbox | Mailer]:
    """Open the client of an integration while the context lasts. Opening makes no request.

    Raise InvalidRequest if the credentials are invalid.
    """
    match parse_credentials(integration, credentials):
        case JiraCredentials() as found:
            from agenticpm.integrations.jira.tracker import JiraTracker

            auth = httpx2.BasicAuth(found.email, found.api_token.get_secret_value())
            async with _build_http_client(found.base_url, auth=auth) as http:
                yield JiraTracker(http, clock=clock)
        case AsanaCredentials() as found:
            from agenticpm.integrations.asana.tracker import AsanaTracker

            async with _build_http_client(found.base_url, bearer=found.token.get_secret_value()) as http:
                yield AsanaTracker(http)
        case OutlookCredentials() as found:
            from agenticpm.integrations.outlook.mailbox import GraphTokens, OutlookMailbox

            async with _build_http_client(found.base_url) as http:
                yield OutlookMailbox(http, found.mailbox, GraphTokens(http, found, clock))
        case ResendCredentials() as found:
            from agenticpm.integrations.resend.mailer import ResendMailer

            async with _build_http_client(found.base_url, bearer=found.api_key.get_secret_value()) as http:
                yield ResendMailer(http, found.sender)


def build_sandbox_credentials(integration: Integration | str, address: str) -> dict[str, Any]:
    """Return the fixed credentials for a local sandbox.

    Raise InvalidRequest if the address is on another machine.
    """
    if not is_local(address):
        raise InvalidRequest(
            f"Invalid sandbox address {address}: expected an address on this machine. "
            "Other addresses need credentials."
        )
    return {"base_url": address, **SANDBOX_CREDENTIALS[Integration(integration)]}


def _build_http_client(
    base_url: str, *, bearer: str | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """Build an HTTP client that does not follow redirects: credentials go only to the configured address."""
    headers = {"accept": "application/json", "user-agent": "agenticpm"}
    return httpx2.AsyncClient(
        base_url=base_url,
        auth=auth,
        headers=headers if bearer is None else {**headers, "authorization": f"Bearer {bearer}"},
        timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        follow_redirects=False,
    )
