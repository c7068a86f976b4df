"""The pages of a console without its background work: tests keep the samples themselves."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx

from holdfast import Stores, open_memory_stores
from holdfast.config.settings import Settings
from holdfast.console.app import build_console_app
from holdfast.console.context import Console
from holdfast.console.model import CONSOLE
from holdfast.console.overview.records import SAMPLER
from holdfast.console.overview.sampler import LEASE_NAME, Sampler
from holdfast.console.overview.samples import Sample
from holdfast.console.users import ROLES
from holdfast.core.clock import Clock
from holdfast.runtime import provision
from tests.console_client import OneUser

CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass(frozen=True)
class Pages:
    """The pages of a console for one signed-in user."""

    http: httpx.AsyncClient
    console: Console

    async def get(self, path: str, status: int = 200) -> str:
        """Return the text of a page, unescaped; the response must have the status."""
        return html.unescape(await self.get_raw(path, status))

    async def get_raw(self, path: str, status: int = 200) -> str:
        """Return the text of a page as it was sent."""
        response = await self.http.get(path)
        assert response.status_code == status, response.text
        return response.text

    async def get_part(self, path: str, target: str) -> str:
        """Return what htmx loads into the element with this id."""
        response = await self.http.get(path, headers={"hx-request": "true", "hx-target": target})
        assert response.status_code == 200, response.text
        return response.text

    async def post(self, path: str, status: int = 303) -> str:
        """Send a form with the token of the session, and return the text of the page that follows it."""
        found = CSRF.search(await self.get_raw("/"))
        assert found is not None
        response = await self.http.post(path, data={"csrf": found[1]})
        assert response.status_code == status, response.text
        return await self.get(response.headers["location"]) if status == 303 else response.text

    async def keep(self, samples: Sequence[Sample]) -> None:
        """Keep samples as the sampler does."""
        own = self.console.own
        sampler = Sampler(own, {}, self.console.settings)
        lease = await SAMPLER.take(own, LEASE_NAME)
        for each in samples:
            await sampler.keep(lease, each)
        await lease.release()


@asynccontextmanager
async def open_pages(
    *stores: Stores,
    settings: Settings | None = None,
    roles: Collection[str] = tuple(ROLES),
    clock: Clock | None = None,
) -> AsyncIterator[Pages]:
    """Sign in to a console over these stores, as a user with the roles."""
    async with open_memory_stores(CONSOLE, clock=clock) as own:
        await provision(own, CONSOLE)
        app = build_console_app(settings or Settings(), own, stores, OneUser(roles))
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8300") as http:
            assert (await http.post("/sign-in/demo")).status_code == 303
            console: Console = app.state.console
            try:
                yield Pages(http, console)
            finally:
                await console.measurements.close()
