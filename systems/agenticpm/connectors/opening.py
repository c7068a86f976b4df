"""From an integration and its credentials to a port that can be asked: the client, its patience and its proof of who we are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from agenticpm.connectors.credentials import (
    AsanaCredentials,
    JiraCredentials,
    OutlookCredentials,
    ResendCredentials,
    checked,
)
from agenticpm.model import Integration
from agenticpm.tickets import Mailbox, Mailer, Tracker
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import InvalidRequest
from holdfast.web.party_addresses import is_of_this_machine

TIMEOUT_S: Final = 10.0
CONNECT_S: Final = 3.0
CONNECTIONS_MAX: Final = 8
SANDBOX_MEMBERS: Final[Mapping[Integration, Mapping[str, str]]] = {
    Integration.jira: {"email": "agent@example.com", "api_token": "sandbox"},
    Integration.asana: {"token": "sandbox"},
    Integration.outlook: {"mailbox": "pm@example.com", "access_token": "sandbox"},
    Integration.resend: {"api_key": "sandbox", "sender": "The agent <agent@example.com>"},
}


@asynccontextmanager
async def open_party(
    integration: Integration | str, credentials: Mapping[str, Any], *, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Tracker | Mailbox | Mailer]:
    """The port of an integration, open while the context lasts. Nothing is asked before the port is.

    Credentials that cannot be used are InvalidRequest.
    """
    match checked(integration, credentials):
        case JiraCredentials() as found:
            from agenticpm.connectors.jira import JiraTracker

            auth = httpx2.BasicAuth(found.email, found.api_token.get_secret_value())
            async with _client(found.base_url, auth=auth) as http:
                yield JiraTracker(http, clock=clock)
        case AsanaCredentials() as found:
            from agenticpm.connectors.asana import AsanaTracker

            async with _client(found.base_url, bearer=found.token.get_secret_value()) as http:
                yield AsanaTracker(http)
        case OutlookCredentials() as found:
            from agenticpm.connectors.outlook import GraphTokens, OutlookMailbox

            async with _client(found.base_url) as http:
                yield OutlookMailbox(http, found.mailbox, GraphTokens(http, found, clock))
        case ResendCredentials() as found:
            from agenticpm.connectors.resend import ResendMailer

            async with _client(found.base_url, bearer=found.api_key.get_secret_value()) as http:
                yield ResendMailer(http, found.sender)


def sandbox_credentials(integration: Integration | str, address: str) -> dict[str, Any]:
    """What a stand-in on this machine is told, which asks for no secret. An address of another machine is InvalidRequest."""
    if not is_of_this_machine(address):
        raise InvalidRequest(
            f"{address} is not on this machine, and only a stand-in here needs no credentials."
        )
    return {"base_url": address, **SANDBOX_MEMBERS[Integration(integration)]}


def _client(
    base_url: str, *, bearer: str | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """A redirect is not followed: the credentials go to the address they were given for, and nowhere else."""
    headers = {"accept": "application/json", "user-agent": "agenticpm"}
    return httpx2.AsyncClient(
        base_url=base_url,
        auth=auth,
        headers=headers if bearer is None else {**headers, "authorization": f"Bearer {bearer}"},
        timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
        follow_redirects=False,
    )
