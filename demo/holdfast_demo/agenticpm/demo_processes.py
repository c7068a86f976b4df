"""The environment of the demo story: sandboxes, API and agent workers, all started in one process.

Nothing is mocked: people use the API over HTTP, tickets change in the tracker, the loop and the executor run
as their components, and the rules write the artefacts. Only the clock is advanced by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx2

from agenticpm.api.routes import build_routes
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.model import agent_settings
from agenticpm.model.entities import Integration, ProjectId
from agenticpm.model.events import get_now
from agenticpm.workers import actions, digest, escalations
from agenticpm.workers.loop import Loop, TickResult
from agenticpm.workers.writers import Writers
from holdfast import Stores, System, web
from holdfast.core.clock import RunClock
from holdfast.web.demo_env import patch_environ, silence_loggers
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from holdfast_demo.agenticpm.sandbox.outlook import OutlookSandbox, build_outlook_app
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app

TIMEOUT_S: Final = 60.0
QUIET: Final = ("holdfast", "agenticpm", "uvicorn", "httpx2", "httpcore2", "asyncio")


@dataclass
class DemoProcesses:
    """The running sandboxes, API and agent, inside `start_demo`."""

    stores: Stores
    clock: RunClock
    jira: JiraSandbox
    resend: ResendSandbox
    outlook: OutlookSandbox
    clients: IntegrationClients
    http: httpx2.AsyncClient

    # --- what people do -------------------------------------------------------------------------------------

    async def call_api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the API as a person does and return the JSON or text.

        Raise AssertionError if it is refused.
        """
        answer = await self.http.request(method, path, json=body, headers=headers)
        if answer.is_error:
            raise AssertionError(f"{method} {path} was refused: {answer.text}")
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    async def call_api_refused(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, str]:
        """Call the API with a request that it refuses; return the status and the problem's detail."""
        answer = await self.http.request(method, path, json=body, headers=headers)
        return answer.status_code, str(answer.json().get("detail", ""))

    async def edit_ticket(self, key: str, **fields: Any) -> None:
        """Advance the clock by a minute and change a ticket in the tracker."""
        self.clock.advance(60)
        self.jira.data.edit(key, **fields)

    # --- the agent ------------------------------------------------------------------------------------------

    async def run_turn(self) -> TickResult:
        """Advance the clock by one polling interval and run one tick of the loop."""
        settings = await agent_settings.load(self.stores)
        self.clock.advance(settings.polling_interval_minutes * 60)
        stores = self.stores.for_component("loop")
        return await Loop(stores, self.clients, Writers(stores)).tick()

    async def execute_due(self) -> actions.ExecutionReport:
        return await actions.execute_due(self.stores.for_component("executor"), self.clients)

    async def make_daily_digest(self) -> digest.Digest | None:
        return await digest.make_daily_digest(self.stores.for_component("loop"))

    async def expire_escalations(self) -> int:
        return await escalations.expire_due(self.stores.for_component("executor"))

    async def advance_to_morning(self, days: int = 0) -> None:
        """Advance the clock by this many days and then to a minute after the next start of working hours."""
        settings = await agent_settings.load(self.stores)
        self.clock.advance(days * 86400)
        now = get_now(self.clock)
        if agent_settings.is_working_hours(settings, now):
            now += timedelta(hours=14)
        opening = agent_settings.find_next_opening(settings, now)
        self.clock.advance((opening - get_now(self.clock)).total_seconds() + 60)

    async def advance_past_hold(self) -> None:
        """Advance the clock past the hold of all held actions."""
        settings = await agent_settings.load(self.stores)
        self.clock.advance(settings.hold_queue_minutes * 60 + 1)

    # --- what they find -------------------------------------------------------------------------------------

    @property
    def sent_mails(self) -> Sequence[dict[str, Any]]:
        return self.resend.ledger

    @property
    def tracker_effects(self) -> Sequence[dict[str, Any]]:
        """The comments and transitions in the Jira sandbox's ledger."""
        return self.jira.ledger


@asynccontextmanager
async def start_demo(
    stores: Stores, system: System, clock: RunClock, folder: Path, **sandbox: Any
) -> AsyncIterator[DemoProcesses]:
    """Start everything and store the sandbox credentials through the API; stop it at exit.

    The key that encrypts credentials is stored in the folder. `sandbox` are options of the Jira sandbox.
    """
    jira = JiraSandbox(clock=clock, **sandbox)
    resend, outlook = ResendSandbox(clock=clock), OutlookSandbox(clock=clock)
    variables = {"HOLDFAST_KEYS": f"file:{folder / 'keys.json'}", "HOLDFAST_REASONER": "rules"}
    with silence_loggers(*QUIET), patch_environ(variables, without=["AGENTICPM_"]), ExitStack() as stack:
        urls = {
            Integration.jira: stack.enter_context(web.serve_in_thread(build_jira_app(jira))),
            Integration.resend: stack.enter_context(web.serve_in_thread(build_resend_app(resend))),
            Integration.outlook: stack.enter_context(web.serve_in_thread(build_outlook_app(outlook))),
        }
        routers = build_routes(stores.for_component("api"))
        url = stack.enter_context(web.serve_in_thread(web.make_app(system.title, "demo", routers)))
        async with (
            httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as http,
            IntegrationClients(stores.for_component("loop")) as clients,
        ):
            stage = DemoProcesses(stores, clock, jira, resend, outlook, clients, http)
            await agent_settings.seed(stores)
            for integration, address in urls.items():
                credentials = build_sandbox_credentials(integration, address)
                (
                    await http.put(f"/integrations/{integration}/credentials", json=credentials)
                ).raise_for_status()
            yield stage


async def onboard_project(stage: DemoProcesses, **wanted: Any) -> ProjectId:
    """Create the project of the Jira sandbox through the API and return its id; `wanted` overrides fields."""
    given: dict[str, Any] = {
        "name": "Member Centre Upgrade",
        "source": "jira",
        "sourceProjectKey": "MCU",
        "autonomyLevel": "tactical",
        "config": {"stakeholders": ["sponsor@example.com"], "mail": True},
    }
    created = await stage.call_api("POST", "/projects", given | wanted)
    return ProjectId(created["id"])
