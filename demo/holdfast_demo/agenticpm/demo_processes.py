"""The environment of the demo story: the sandboxes and the API, and turns of the agent.

People use the API over HTTP, tickets change in the tracker, the loop and the executor run as their
components, and the rules write the artefacts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from agenticpm.integrations.clients import IntegrationClients
from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.model import agent_settings
from agenticpm.model.entities import Integration, ProjectId
from agenticpm.model.events import get_now
from agenticpm.workers import actions, digest, escalations
from agenticpm.workers.loop import Loop, TickResult
from agenticpm.workers.writers import Writers
from holdfast import Stores, System
from holdfast.core.clock import RunClock
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from holdfast_demo.agenticpm.sandbox.outlook import OutlookSandbox, build_outlook_app
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app
from holdfast_demo.running_system import RunningSystem, run_system


@dataclass
class DemoProcesses(RunningSystem):
    """The running sandboxes, API and agent, inside `open_demo`."""

    jira: JiraSandbox
    resend: ResendSandbox
    outlook: OutlookSandbox
    clients: IntegrationClients

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
async def open_demo(
    stores: Stores, system: System, clock: RunClock, folder: Path, **sandbox: Any
) -> AsyncIterator[DemoProcesses]:
    """Start everything and store the sandbox credentials through the API; stop it at exit.

    The key that encrypts credentials is stored in the folder. `sandbox` are options of the Jira sandbox.
    """
    jira = JiraSandbox(clock=clock, **sandbox)
    resend, outlook = ResendSandbox(clock=clock), OutlookSandbox(clock=clock)
    variables = {"HOLDFAST_KEYS": f"file:{folder / 'keys.json'}", "HOLDFAST_REASONER": "rules"}
    running = run_system(
        stores,
        system,
        clock,
        sandboxes={
            Integration.jira: build_jira_app(jira),
            Integration.resend: build_resend_app(resend),
            Integration.outlook: build_outlook_app(outlook),
        },
        build_variables=lambda urls, url: variables,
        own_prefixes=["AGENTICPM_"],
    )
    async with running as at, IntegrationClients(stores.for_component("loop")) as clients:
        demo = DemoProcesses(**vars(at), jira=jira, resend=resend, outlook=outlook, clients=clients)
        await agent_settings.seed(stores)
        for integration, address in at.sandbox_urls.items():
            credentials = build_sandbox_credentials(Integration(integration), address)
            await demo.call_api("PUT", f"/integrations/{integration}/credentials", credentials)
        yield demo


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
