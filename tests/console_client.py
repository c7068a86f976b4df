"""A signed-in user of the console, without a browser: pages by their address, forms by their fields."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx

from holdfast import open_memory_stores
from holdfast.config.settings import Settings
from holdfast.console.accounts import DEMO_METHOD, DemoAccounts
from holdfast.console.app import build_console_app
from holdfast.console.model import CONSOLE, SignIn
from holdfast.console.users import ROLES, User
from holdfast.runtime.stores import Stores

USER_NAME: Final = "ada"
_CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')


class OneUser(DemoAccounts):
    """Accounts of one user, whom one click signs in, with the given roles."""

    def __init__(self, roles: Collection[str]) -> None:
        self.user = User(USER_NAME, frozenset(roles))

    def find_user(self, sign_in: SignIn) -> User | None:
        """Return the user for every session."""
        return self.user if sign_in.method == DEMO_METHOD else None


class ConsoleClient:
    """The pages of a console, for one signed-in user. `own` are the stores of the console's own data."""

    def __init__(self, client: httpx.AsyncClient, own: Stores) -> None:
        self._client, self.own = client, own

    async def get(self, path: str, status: int = 200) -> str:
        """Return the text of a page, unescaped; the response must have the status."""
        response = await self._client.get(path)
        assert response.status_code == status, (response.status_code, response.text)
        return html.unescape(response.text)

    async def get_fragment(self, path: str) -> str:
        """Return what htmx gets of a page."""
        return html.unescape((await self._client.get(path, headers={"hx-request": "true"})).text)

    async def get_raw(self, path: str) -> str:
        """Return the text of a page as it was sent."""
        return (await self._client.get(path)).text

    async def post(self, path: str, status: int = 303, **fields: str) -> str:
        """Send a form with the token of the session, and return the text of the page that follows it."""
        csrf = await self._read_csrf()
        response = await self._client.post(path, data={"csrf": csrf, **fields})
        assert response.status_code == status, (response.status_code, response.text)
        if status != 303:
            return html.unescape(response.text)
        return await self.get(response.headers["location"])

    async def post_for_location(self, path: str, **fields: str) -> str:
        """Send a form and return the address that the answer leads to."""
        response = await self._client.post(path, data={"csrf": await self._read_csrf(), **fields})
        assert response.status_code == 303, (response.status_code, response.text)
        return response.headers["location"]

    async def _read_csrf(self) -> str:
        page = await self._client.get("/")
        found = _CSRF.search(page.text)
        assert found, page.text
        return found[1]


@asynccontextmanager
async def open_console_client(
    *stores: Stores,
    roles: Collection[str] = tuple(ROLES),
    settings: Settings | None = None,
    broken: Mapping[str, str] | None = None,
) -> AsyncIterator[ConsoleClient]:
    """Sign in to a console over these stores, as a user with the roles. `broken` are systems that did not
    load.
    """
    async with open_memory_stores(CONSOLE, clock=stores[0].clock if stores else None) as own:
        app = build_console_app(settings or Settings(), own, stores, OneUser(roles), broken)
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50000))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8300") as client,
        ):
            signed_in = await client.post("/sign-in/demo")
            assert signed_in.status_code == 303, signed_in.text
            yield ConsoleClient(client, own)
