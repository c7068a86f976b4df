"""A console over stores in memory, and browsers without a window: cookies, forms, no scripts."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI

from holdfast import Stores, System, open_memory_stores
from holdfast.config.settings import Settings
from holdfast.console.accounts import Accounts, open_accounts
from holdfast.console.app import build_console_app
from holdfast.console.context import Console
from holdfast.console.model import CONSOLE, ConsoleAudit, newest_entries
from holdfast.console.sign_in.user_file import LocalUser, UserFile
from tests.unit.guarantees.idempotency.once_records import ManualClock

NOON: Final = 1770206400.0
PASSWORD: Final = "correct horse battery staple"
URL: Final = "http://127.0.0.1:8300"
_CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')
# Cheap, so that tests need not wait; the parameters are part of each hash.
_HASHER: Final = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Browser:
    """One browser at the console: it keeps cookies and follows no redirect by itself."""

    def __init__(self, app: FastAPI, url: str, address: str) -> None:
        transport = httpx.ASGITransport(app, client=(address, 50_000))
        self.client = httpx.AsyncClient(transport=transport, base_url=url)

    async def get(
        self, path: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Return the response, which must have the status."""
        response = await self.client.get(path, headers=headers)
        assert response.status_code == status, (response.status_code, response.text[:2000])
        return response

    async def read(self, path: str, status: int = 200) -> str:
        """Return the text of a page, unescaped."""
        return html.unescape((await self.get(path, status)).text)

    async def post(self, path: str, status: int = 303, **fields: str) -> httpx.Response:
        """Send a form with the token of the session, if there is one."""
        found = _CSRF.search((await self.client.get("/account")).text)
        token = {"csrf": found[1]} if found else {}
        response = await self.client.post(path, data=token | fields)
        assert response.status_code == status, (response.status_code, response.text[:2000])
        return response

    async def sign_in(self, name: str, password: str = PASSWORD, status: int = 303) -> httpx.Response:
        """Send the form of the sign-in page."""
        response = await self.client.post("/sign-in/password", data={"name": name, "password": password})
        assert response.status_code == status, (response.status_code, response.text[:2000])
        return response

    async def is_signed_in(self) -> bool:
        """Return whether the account page shows an account."""
        return (await self.client.get("/account")).status_code == 200


@dataclass
class ConsoleUnderTest:
    """A console in this process, its clock and its file of users."""

    app: FastAPI
    own: Stores
    clock: ManualClock
    users: Path
    url: str
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def console(self) -> Console:
        console: Console = self.app.state.console
        return console

    async def open_browser(self, address: str = "127.0.0.1") -> Browser:
        """Return another browser."""
        browser = Browser(self.app, self.url, address)
        await self.stack.enter_async_context(browser.client)
        return browser

    async def sign_in(self, name: str) -> Browser:
        """Return another browser in which this user is signed in."""
        browser = await self.open_browser()
        await browser.sign_in(name)
        return browser

    async def read_audit(self) -> list[ConsoleAudit]:
        """Return the entries of the day, oldest first."""
        day = self.own.now().date().isoformat()
        return list(reversed([each async for each in self.own.each(newest_entries(day))]))

    async def list_actions(self) -> list[tuple[str, str]]:
        """Return the user and the action of each entry of the day."""
        return [(each.user, each.action) for each in await self.read_audit()]


def write_users(path: Path, users: Mapping[str, Sequence[str]], password: str = PASSWORD) -> None:
    """Write users with these roles and one password into the file, in place of those that it has."""
    hash = _HASHER.hash(password)
    with UserFile(path).edit() as found:
        found.clear()
        found.update({name: LocalUser(name, hash, frozenset(roles)) for name, roles in users.items()})


@asynccontextmanager
async def open_console(
    folder: Path,
    *systems: System,
    users: Mapping[str, Sequence[str]] | None = None,
    accounts: Accounts | None = None,
    **settings: Any,
) -> AsyncIterator[ConsoleUnderTest]:
    """Open a console over systems whose stores are in memory; without users it is a demo."""
    clock, file = ManualClock(NOON), folder / "users.toml"
    if users is not None:
        write_users(file, users)
        settings["console_users"] = str(file)
    used = Settings(**settings)
    used._check()
    async with open_memory_stores(clock=clock) as stores, AsyncExitStack() as stack:
        own = stores.for_system(CONSOLE)
        app = build_console_app(
            used, own, [stores.for_system(each) for each in systems], accounts or open_accounts(used)
        )
        await stack.enter_async_context(app.router.lifespan_context(app))
        yield ConsoleUnderTest(app, own, clock, file, used.console_url or URL, stack)
