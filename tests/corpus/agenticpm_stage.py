"""Run AgenticPM's API and workers on a data folder, with fresh sandboxes of Jira, Outlook and Resend.

An action is held for one site, and is refused when the credentials lead to another one. The credentials in
a data folder name the addresses that its sandboxes had; fresh sandboxes listen on other ports. So the
credentials name addresses where nothing listens, and an HTTP proxy forwards requests for them to the
sandboxes. Resend has no credentials: a variable names its sandbox, as with `holdfast up`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx2
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Host, Mount

from agenticpm.system import SYSTEM
from holdfast import Stores, open_stores, provision
from holdfast.cli.commands.run import build_system_app
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread
from holdfast.web.demo_env import patch_environ, silence_loggers
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from holdfast_demo.agenticpm.sandbox.outlook import OutlookSandbox, build_outlook_app
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app
from tests.system_processes import build_variables

NAME: Final = "agenticpm"
JIRA: Final = {
    "base_url": "http://127.0.0.2:8801",
    "email": "agent@example.com",
    "api_token": "the-api-token-of-the-corpus",
}
OUTLOOK: Final = {
    "base_url": "http://127.0.0.3:8802",
    "login_url": "http://127.0.0.3:8802",
    "mailbox": "pm@example.com",
    "tenant": "corpus.example",
    "client_id": "the-client-of-the-corpus",
    "client_secret": "the-client-secret-of-the-corpus",
}
# By this header the one server knows which sandbox a request is for.
HOSTS: Final[Mapping[str, Mapping[str, str]]] = {
    "jira": {"host": "127.0.0.2"},
    "outlook": {"host": "127.0.0.3"},
    "resend": {},
}
LOGGERS: Final = ("holdfast", "agenticpm", "uvicorn", "httpx2", "httpcore2", "asyncio")


@dataclass(frozen=True)
class Step:
    """One request that changed something at a sandbox, and when it was made."""

    at: float
    service: str
    path: str
    body: Any = None
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Stage:
    """AgenticPM on a data folder, its API, and fresh sandboxes.

    `variables` are for the environment of worker processes; `steps` are the requests that `change` made.
    """

    stores: Stores
    clock: RunClock
    jira: JiraSandbox
    outlook: OutlookSandbox
    resend: ResendSandbox
    api: httpx2.AsyncClient
    sandboxes: httpx2.AsyncClient
    variables: Mapping[str, str]
    steps: list[Step] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the API and return the JSON of its answer; fail if it refuses."""
        answer = await self.api.request(method, path, json=body, headers=headers)
        assert not answer.is_error, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    async def list_items(self, path: str, cursor: str | None = None) -> list[Any]:
        """Return the items of a list of the API: all pages after `cursor`, or all there are."""
        found: list[Any] = []
        while True:
            page = await self.get_page(path, cursor)
            found += page["items"]
            cursor = page["cursor"]
            if cursor is None:
                return found

    async def get_page(self, path: str, cursor: str | None = None) -> Any:
        """Return one page of a list of the API: the one after `cursor`, or the first."""
        after = {} if cursor is None else {"cursor": cursor}
        answer = await self.api.get(httpx2.URL(path).copy_merge_params(after))
        assert not answer.is_error, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    async def run(self, component: str, schedule: str) -> None:
        """Run a schedule of a component once, as a worker process does."""
        [found] = [each for each in SYSTEM.get_component(component).schedules if each.name == schedule]
        await found.run(self.stores.for_component(component))

    async def change(self, service: str, path: str, body: Any = None, *, method: str = "POST") -> None:
        """Change something at a sandbox, as a user of that service does."""
        step = Step(self.clock.now(), service, path, body, method)
        await self.replay(step)
        self.steps.append(step)

    async def replay(self, step: Step) -> None:
        """Make the request of a step at its sandbox, moving the clock forward to its time."""
        self.clock.advance(max(0.0, step.at - self.clock.now()))
        answer = await self.sandboxes.request(
            step.method,
            step.path,
            json=step.body,
            headers={**HOSTS[step.service], **step.headers},
            auth=(JIRA["email"], JIRA["api_token"]),
        )
        assert not answer.is_error, f"{step}: {answer.status_code} {answer.text}"

    def build_effect_steps(self) -> list[Step]:
        """Return the steps that give fresh sandboxes what AgenticPM did at these."""
        comments = [
            Step(
                datetime.fromisoformat(entry["at"]).timestamp(),
                "jira",
                f"/rest/api/3/issue/{entry['ticket']}/comment",
                {"body": entry["body"], "properties": entry["properties"]},
            )
            for entry in self.jira.ledger
        ]
        mails = [
            Step(entry["s"], "resend", "/emails", entry["body"], headers={"idempotency-key": entry["key"]})
            for entry in self.resend.ledger
        ]
        return [*comments, *mails]


@asynccontextmanager
async def open_stage(data: Path, clock_file: Path, begins: float) -> AsyncIterator[Stage]:
    """Open the stores in `data`, and serve the sandboxes and the API. The clock starts at `begins`."""
    clock = RunClock(clock_file, start=begins)
    jira = JiraSandbox(clock=clock, email=JIRA["email"], api_token=JIRA["api_token"])
    # The sandbox's API cannot add a project.
    jira.data.add_project("WEB", "Website")
    jira.data.add_project("QUIET", "Nothing happens here")
    outlook = OutlookSandbox(clock=clock, secret=OUTLOOK["client_secret"])
    resend = ResendSandbox(clock=clock)
    apps: list[BaseRoute] = [
        Host(HOSTS["jira"]["host"], build_jira_app(jira)),
        Host(HOSTS["outlook"]["host"], build_outlook_app(outlook)),
        Mount("/", build_resend_app(resend)),
    ]
    async with AsyncExitStack() as stack:
        stack.enter_context(silence_loggers(*LOGGERS))
        url = stack.enter_context(serve_in_thread(Starlette(routes=apps)))
        variables = {
            **build_variables(data, data / "keys.json", clock_file),
            "HOLDFAST_REASONER": "rules",
            "AGENTICPM_RESEND_URL": url,
            "HTTP_PROXY": url,
            "NO_PROXY": "127.0.0.1",
        }
        stack.enter_context(patch_environ(variables, without=["AGENTICPM_", "http_proxy", "no_proxy"]))
        stores = await stack.enter_async_context(open_stores(SYSTEM, Settings.load()))
        await provision(stores, SYSTEM)
        transport = httpx2.ASGITransport(app=build_system_app(SYSTEM, stores, component="api"))
        api = httpx2.AsyncClient(base_url="http://localhost", transport=transport)
        # Loading certificates for each test takes longer than the rest of the test.
        sandboxes = httpx2.AsyncClient(base_url=url, verify=False)
        for client in (api, sandboxes):
            await stack.enter_async_context(client)
        yield Stage(stores, clock, jira, outlook, resend, api, sandboxes, variables)
