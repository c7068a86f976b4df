"""What the story is played on: the parties' sandboxes and the API over HTTP, and the agent's work, in one process.

Nothing is left out or replaced: people use the API, tickets change at the tracker, the loop and the executor run as their
components, the writer is the rules. Only the clock is moved by hand, where everybody would wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx2

from agenticpm import actions, configs, digest, escalations
from agenticpm.connectors.opening import sandbox_credentials
from agenticpm.events import moment
from agenticpm.loop import Loop, Turn
from agenticpm.model import Integration, ProjectId
from agenticpm.parties import Parties
from agenticpm.routes import routes
from agenticpm.sandbox.jira import JiraSandbox, jira_app
from agenticpm.sandbox.outlook import OutlookSandbox, outlook_app
from agenticpm.sandbox.resend import ResendSandbox, resend_app
from agenticpm.writers import Writers
from holdfast import Stores, System, web
from holdfast.clock import RunClock
from holdfast.web.staging import environment, quiet

TIMEOUT_S: Final = 60.0
QUIET: Final = ("holdfast", "agenticpm", "uvicorn", "httpx2", "httpcore2", "asyncio")


@dataclass
class Stage:
    """The parties, the API and the agent, for as long as `staged` is entered."""

    stores: Stores
    clock: RunClock
    jira: JiraSandbox
    resend: ResendSandbox
    outlook: OutlookSandbox
    parties: Parties
    http: httpx2.AsyncClient

    # --- what people do --------------------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The API, as a person uses it."""
        answer = await self.http.request(method, path, json=body, headers=headers)
        if answer.is_error:
            raise AssertionError(f"{method} {path} was refused: {answer.text}")
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    async def refused(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        answer = await self.http.request(method, path, json=body, headers=headers)
        return answer.status_code, str(answer.json().get("detail", ""))

    async def edit(self, key: str, **fields: Any) -> None:
        """Somebody changes a ticket."""
        self.clock.advance(60)
        self.jira.desk.edit(key, **fields)

    # --- the agent -------------------------------------------------------------------------------------------

    async def turn(self) -> Turn:
        """One turn of the loop, an interval later."""
        settings = await configs.read(self.stores)
        self.clock.advance(settings.polling_interval_minutes * 60)
        stores = self.stores.for_component("loop")
        return await Loop(stores, self.parties, Writers(stores)).tick()

    async def execute(self) -> actions.Executed:
        return await actions.execute_due(self.stores.for_component("executor"), self.parties)

    async def daily(self) -> digest.Digest | None:
        return await digest.daily(self.stores.for_component("loop"))

    async def expire(self) -> int:
        return await escalations.expire_due(self.stores.for_component("executor"))

    async def morning(self, days: int = 0) -> None:
        """The clock at the next beginning of work, so many days on."""
        settings = await configs.read(self.stores)
        self.clock.advance(days * 86400)
        now = moment(self.clock)
        if configs.is_working_hours(settings, now):
            now += timedelta(hours=14)
        opening = configs.next_opening(settings, now)
        self.clock.advance((opening - moment(self.clock)).total_seconds() + 60)

    async def hold_over(self) -> None:
        """The clock past the hold of what was held until now."""
        settings = await configs.read(self.stores)
        self.clock.advance(settings.hold_queue_minutes * 60 + 1)

    # --- what they find --------------------------------------------------------------------------------------

    @property
    def mails(self) -> Sequence[dict[str, Any]]:
        return self.resend.ledger

    @property
    def at_tracker(self) -> Sequence[dict[str, Any]]:
        return self.jira.ledger


@asynccontextmanager
async def staged(
    stores: Stores, system: System, clock: RunClock, folder: Path, **sandbox: Any
) -> AsyncIterator[Stage]:
    """Everything open, and closed again. The key that credentials are sealed with is kept in the folder."""
    jira = JiraSandbox(clock=clock, **sandbox)
    resend, outlook = ResendSandbox(clock=clock), OutlookSandbox(clock=clock)
    variables = {"HOLDFAST_KEYS": f"file:{folder / 'keys.json'}", "HOLDFAST_REASONER": "rules"}
    with quiet(*QUIET), environment(variables, without=["AGENTICPM_"]), ExitStack() as stack:
        urls = {
            Integration.jira: stack.enter_context(web.serving(jira_app(jira))),
            Integration.resend: stack.enter_context(web.serving(resend_app(resend))),
            Integration.outlook: stack.enter_context(web.serving(outlook_app(outlook))),
        }
        routers = routes(stores.for_component("api"))
        url = stack.enter_context(web.serving(web.make_app(system.title, "demo", routers)))
        async with (
            httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as http,
            Parties(stores.for_component("loop")) as parties,
        ):
            stage = Stage(stores, clock, jira, resend, outlook, parties, http)
            await configs.seed(stores)
            for integration, address in urls.items():
                credentials = sandbox_credentials(integration, address)
                (
                    await http.put(f"/integrations/{integration}/credentials", json=credentials)
                ).raise_for_status()
            yield stage


async def onboarded(stage: Stage, **wanted: Any) -> ProjectId:
    """A project of the Jira sandbox."""
    given: dict[str, Any] = {
        "name": "Member Centre Upgrade",
        "source": "jira",
        "sourceProjectKey": "MCU",
        "autonomyLevel": "tactical",
        "config": {"stakeholders": ["sponsor@example.com"], "mail": True},
    }
    made = await stage.ask("POST", "/projects", given | wanted)
    return ProjectId(made["id"])
