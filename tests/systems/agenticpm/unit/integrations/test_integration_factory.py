"""Tests of the client factory, against the sandboxes of Asana, Outlook and Resend over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from agenticpm.domain.tickets import Health
from agenticpm.integrations.factory import build_sandbox_credentials, open_client
from agenticpm.model.entities import Integration
from holdfast.core.errors import InvalidRequest
from holdfast.web import serve_in_thread
from holdfast_demo.agenticpm.sandbox.asana import AsanaSandbox, build_asana_app
from holdfast_demo.agenticpm.sandbox.outlook import OutlookSandbox, build_outlook_app
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app

SECRET = "s3cr3t-of-the-test"


async def check_health(integration: str, credentials: dict[str, Any]) -> Health:
    """Open the client and return its health."""
    async with open_client(integration, credentials) as client:
        return await client.check_health()


SANDBOXES: list[tuple[str, Starlette, dict[str, Any]]] = [
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


@pytest.mark.parametrize(("integration", "app", "credentials"), SANDBOXES)
async def test_client_sends_its_credentials(
    integration: str, app: Starlette, credentials: dict[str, Any]
) -> None:
    """The right secret is healthy, another one is not, and the result does not contain it."""
    with serve_in_thread(app) as url:
        at = {"base_url": url} | ({"login_url": url} if integration == "outlook" else {})
        assert (await check_health(integration, credentials | at)).is_ok
        (name,) = [name for name, value in credentials.items() if value == SECRET]
        wrong = await check_health(integration, credentials | at | {name: "wrong-secret-7"})
    assert not wrong.is_ok
    assert "wrong-secret-7" not in wrong.detail


@pytest.mark.parametrize(
    ("integration", "app"),
    [
        ("asana", build_asana_app(AsanaSandbox())),
        ("outlook", build_outlook_app(OutlookSandbox())),
        ("resend", build_resend_app(ResendSandbox())),
    ],
)
async def test_local_sandbox_needs_no_real_credentials(integration: str, app: Starlette) -> None:
    with serve_in_thread(app) as url:
        assert (await check_health(integration, build_sandbox_credentials(integration, url))).is_ok


@pytest.mark.parametrize(
    "address", ["https://app.asana.com", "http://127.0.0.1.example.com", "nowhere", "http://[x"]
)
def test_remote_address_is_not_a_sandbox(address: str) -> None:
    with pytest.raises(InvalidRequest, match="expected an address on this machine"):
        build_sandbox_credentials(Integration.asana, address)


async def test_every_integration_has_a_client_that_sends_nothing_when_opened() -> None:
    opened = []
    for integration in Integration:
        async with open_client(
            integration, build_sandbox_credentials(integration, "http://127.0.0.1:9")
        ) as client:
            opened.append(type(client).__name__)

    assert opened == ["JiraTracker", "AsanaTracker", "OutlookMailbox", "ResendMailer"]


async def test_unreachable_service_is_unhealthy_and_raises_nothing() -> None:
    for integration in Integration:
        found = await check_health(integration, build_sandbox_credentials(integration, "http://127.0.0.1:9"))
        assert not found.is_ok
        assert "No connection" in found.detail


async def test_does_not_follow_a_redirect_with_credentials() -> None:
    reached: list[str] = []

    async def elsewhere(request: Request) -> Response:
        reached.append(request.headers.get("authorization", ""))
        return Response("{}")

    async def redirect(request: Request) -> Response:
        return RedirectResponse("/elsewhere")

    routes = [Route("/elsewhere", elsewhere), Route("/{rest:path}", redirect)]
    with serve_in_thread(Starlette(routes=routes)) as url:
        for integration in Integration:
            assert not (await check_health(integration, build_sandbox_credentials(integration, url))).is_ok
    assert reached == []
