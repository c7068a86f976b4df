"""From an integration and its credentials to a port: against every stand-in over real HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from agenticpm.demo.sandbox.asana import AsanaSandbox, build_asana_app
from agenticpm.demo.sandbox.outlook import OutlookSandbox, build_outlook_app
from agenticpm.demo.sandbox.resend import ResendSandbox, build_resend_app
from agenticpm.domain.tickets import Health
from agenticpm.integrations.factory import build_sandbox_credentials, open_client
from agenticpm.model.entities import Integration
from holdfast.core.errors import InvalidRequest
from holdfast.web import serve_in_thread

SECRET = "s3cr3t-of-the-test"


def health(integration: str, credentials: dict[str, Any]) -> Health:
    async def run() -> Health:
        async with open_client(integration, credentials) as party:
            return await party.check_health()

    return asyncio.run(run())


STAND_INS: list[tuple[str, Starlette, dict[str, Any]]] = [
    ("asana", build_asana_app(AsanaSandbox(token=SECRET)), {"token": SECRET}),
    (
        "outlook",
        build_outlook_app(OutlookSandbox(secret=SECRET)),
        {"mailbox": "pm@example.com", "tenant": "t", "client_id": "c", "client_secret": SECRET},
    ),
    (
        "outlook",
        build_outlook_app(OutlookSandbox(access_token=SECRET)),
        {"mailbox": "pm@example.com", "access_token": SECRET},
    ),
    (
        "resend",
        build_resend_app(ResendSandbox(api_key=SECRET)),
        {"api_key": SECRET, "sender": "agent@example.com"},
    ),
]


@pytest.mark.parametrize(("integration", "app", "credentials"), STAND_INS)
def test_a_party_is_asked_with_the_credentials_it_was_given(
    integration: str, app: Starlette, credentials: dict[str, Any]
) -> None:
    with serve_in_thread(app) as url:
        at = {"base_url": url} | ({"login_url": url} if integration == "outlook" else {})
        assert health(integration, credentials | at).is_ok
        (name,) = [name for name, value in credentials.items() if value == SECRET]
        wrong = health(integration, credentials | at | {name: "another"})
    assert not wrong.is_ok
    assert "another" not in wrong.detail.replace("to another place", "")


@pytest.mark.parametrize(
    ("integration", "app"),
    [
        ("asana", build_asana_app(AsanaSandbox())),
        ("outlook", build_outlook_app(OutlookSandbox())),
        ("resend", build_resend_app(ResendSandbox())),
    ],
)
def test_a_stand_in_on_this_machine_needs_no_credentials_of_anybody(integration: str, app: Starlette) -> None:
    with serve_in_thread(app) as url:
        assert health(integration, build_sandbox_credentials(integration, url)).is_ok


@pytest.mark.parametrize(
    "address", ["https://app.asana.com", "http://127.0.0.1.example.com", "nowhere", "http://[x"]
)
def test_what_is_not_on_this_machine_is_no_stand_in(address: str) -> None:
    with pytest.raises(InvalidRequest, match="expected an address on this machine"):
        build_sandbox_credentials(Integration.asana, address)


def test_every_integration_has_a_port_and_nothing_is_asked_before_the_port_is() -> None:
    async def run() -> list[str]:
        opened = []
        for integration in Integration:
            async with open_client(
                integration, build_sandbox_credentials(integration, "http://127.0.0.1:9")
            ) as party:
                opened.append(type(party).__name__)
        return opened

    assert asyncio.run(run()) == ["JiraTracker", "AsanaTracker", "OutlookMailbox", "ResendMailer"]


def test_refuses_credentials_that_cannot_be_used_before_anything_is_asked() -> None:
    with pytest.raises(InvalidRequest, match="token: Field required"):
        health("asana", {"base_url": "https://app.asana.com"})


def test_a_party_that_is_not_there_is_not_healthy_and_raises_nothing() -> None:
    for integration in Integration:
        found = health(integration, build_sandbox_credentials(integration, "http://127.0.0.1:9"))
        assert not found.is_ok
        assert "No connection" in found.detail


def test_a_redirect_is_not_followed_with_our_credentials() -> None:
    reached: list[str] = []

    async def elsewhere(request: Request) -> Response:
        reached.append(request.headers.get("authorization", ""))
        return Response("{}")

    async def redirect(request: Request) -> Response:
        return RedirectResponse("/elsewhere")

    routes = [Route("/elsewhere", elsewhere), Route("/{rest:path}", redirect)]
    with serve_in_thread(Starlette(routes=routes)) as url:
        for integration in Integration:
            assert not health(integration, build_sandbox_credentials(integration, url)).is_ok
    assert reached == []
