"""A system with every kind of work, a console over it in a folder, and a browser without a window.

async with open_site(tmp_path) as site:
    page = await site.client("ann").get("/work")
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from holdfast import Attr, Component, EpochSeconds, IndexKey, Key, Queue, Rate, Stores, System, Table, attr
from holdfast.config.settings import Settings
from holdfast.console.access import COOKIE
from holdfast.console.accounts import DemoAccounts
from holdfast.console.app import build_console_app
from holdfast.console.context import Console
from holdfast.console.model import AUDIT, CONSOLE, SESSIONS, AuditPhase, ConsoleAudit, SignIn
from holdfast.console.users import User
from holdfast.core.errors import ExternalServiceFailed, InvalidRequest, NotFound
from holdfast.flows import FLOWS
from holdfast.guarantees import (
    BREAKERS,
    LEASES,
    OUTBOX,
    Breaker,
    Circuit,
    DelayedAction,
    DelayedActions,
    Lease,
    LeaseItem,
    Outbox,
    Review,
    redact,
)
from holdfast.model.entities import TimestampMillis
from holdfast.model.system import Admin, Explanation, Privacy
from holdfast.operations.queues import ChangeVisibility, OutgoingMessage, ReceiveMessages, SendMessages
from holdfast.runtime import open_stores, provision, start_system
from tests.unit.flows.errands import (
    ERRANDS,
    Errand,
    create_errand,
    errands,
    happened,
    history,
    steps,
)

RATE = Rate("order")
PHONE = "+1 202 555 0143"
CSRF = "t" * 43
LETTER_TIME_S = 1800.0


class Parcel(BaseModel):
    order: str
    phone: str = PHONE


parcels = Queue(
    "parcels",
    Parcel,
    fifo=True,
    group=lambda parcel: parcel.order,
    deduplication=lambda parcel: parcel.order,
    max_receives=2,
    purpose="Parcels to pack",
)
SHOP_OUTBOX = Outbox(parcels, prefix="OB", rate=RATE, shards=1)

letters = Table("ShopLetters", "PK", "SK", ttl="TTL")
by_due = letters.global_index("by-due", "DuePK", "DueSK")


class Letter(DelayedAction, table=letters):
    desk: Attr[str] = attr()
    id: Attr[str] = attr()
    text: Attr[str] = attr()
    detail: Attr[dict[str, Any] | None] = attr(default=None)
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[TimestampMillis | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr("TTL", default=None)

    of = Key("DESK#" + desk, "LETTER#" + id)
    due = IndexKey(by_due, "LETTER#" + queue, held_until + "#" + id)


def make_letter(id: str = "letter-1", **more: Any) -> Letter:
    return Letter(**{"desk": "d-1", "id": id, "text": "Hello"} | more)


def refuse_shouting(stores: Stores, review: Review[Letter]) -> list[Any]:
    if str(review.changes.get("text", "")).isupper():
        raise InvalidRequest("Invalid text: do not shout.")
    return []


LETTERS = DelayedActions(
    Letter, prefix="LQ", rate=RATE, example=make_letter, payload=("text", "detail"), on_review=refuse_shouting
)
BREAKER = Breaker(Circuit, prefix="CB", rate=RATE, counted_errors=(ExternalServiceFailed,), failures=2)
LEASE = Lease(LeaseItem, prefix="LE", rate=RATE, lease_s=60)


async def explain(stores: Stores, id: str) -> Explanation:
    """Explain orders by their ids, `order-N`: each follows the one before it."""
    if not id.startswith("order-"):
        raise InvalidRequest(f"Invalid id {id!r}.")
    number = int(id.removeprefix("order-"))
    if number > 9:
        raise NotFound(f"No order {id}.")
    lines = [f"{id} was asked for by {PHONE} after order-{number - 1}, as errand e-1 and letter-1."]
    data = {
        "order_id": id,
        "before": {"id": f"order-{number - 1}"},
        "errand_id": "e-1",
        "letter_id": "letter-1",
    }
    return Explanation(lines, data)


SHOP = System(
    "shop",
    "Sells things",
    title="Shop",
    tables=(letters, errands, history, FLOWS, OUTBOX, BREAKERS, LEASES),
    queues=(parcels, steps),
    components=(
        Component("support", uses=(LETTERS.reads, BREAKER.reads, LEASE.observer)),
        Component(
            "worker",
            uses=(
                create_errand,
                happened,
                ERRANDS,
                LETTERS.author,
                LETTERS.executor,
                BREAKER,
                LEASE.holder,
                SHOP_OUTBOX,
            ),
        ),
    ),
    admin=Admin(why=explain),
    privacy=Privacy(redact_logs=redact),
)
EMPTY = System("quiet", "Does nothing", title="Quiet")

USERS = {
    "ann": User("ann", frozenset({"viewer", "operator", "personal"})),
    "bob": User("bob", frozenset({"shop:viewer"})),
    "cleo": User("cleo", frozenset({"quiet:operator"})),
    "dan": User("dan", frozenset({"shop:operator"})),
}


class FixedAccounts(DemoAccounts):
    """Accounts with the users of these tests."""

    is_demo = False

    def find_user(self, sign_in: SignIn) -> User | None:
        return USERS.get(sign_in.user)


@dataclass
class Page:
    """A response: its status, its text without tags, and the address and the notice that it leads to."""

    response: httpx.Response

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def html(self) -> str:
        return self.response.text

    @property
    def text(self) -> str:
        """The text of the page's content as a person reads it."""
        content = self.html.partition('<main id="content"')[2]
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", content)))

    @property
    def location(self) -> str:
        return self.response.headers["location"]

    @property
    def notice(self) -> str:
        """The notice that a form leaves for the next page."""
        return unquote(self.response.cookies["holdfast_notice"])


class Client:
    """A signed-in user's browser."""

    def __init__(self, app: FastAPI, session: str) -> None:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://localhost", cookies={COOKIE: session}
        )

    async def get(self, path: str, **parameters: str) -> Page:
        return Page(await self._client.get(path, params=parameters or None))

    async def post(self, path: str, fields: Mapping[str, Any] | None = None, *, csrf: str = CSRF) -> Page:
        return Page(await self._client.post(path, data={"csrf": csrf, **(fields or {})}))


@dataclass
class Site:
    """A console over the shop, and what its tests put there."""

    app: FastAPI
    stores: Stores
    sessions: dict[str, str] = field(default_factory=dict)

    @property
    def console(self) -> Console:
        console: Console = self.app.state.console
        return console

    def client(self, user: str = "ann") -> Client:
        return Client(self.app, self.sessions[user])

    async def list_audit(self) -> list[ConsoleAudit]:
        """Return the entries of the day without intents: each of these has an outcome."""
        return [each for each in await self.list_entries() if each.phase is not AuditPhase.INTENT]

    async def list_entries(self) -> list[ConsoleAudit]:
        """Return all entries of the day, oldest first."""
        day = self.console.own.now().date().isoformat()
        return [each async for each in self.console.own.each(AUDIT.pattern_set.history(day))]

    async def send_parcels(self, *groups: str) -> None:
        """Send one message for each group, in this order."""
        messages = tuple(
            OutgoingMessage(
                body=Parcel(order=f"order-{number}").model_dump_json(),
                group=group,
                deduplication=f"{number}",
                attributes={"correlation": f"c-{number}"},
            )
            for number, group in enumerate(groups)
        )
        await self.queues.run(SendMessages("parcels.fifo", messages))

    async def kill_parcels(self) -> None:
        """Receive until every message is a dead letter."""
        while received := await self.queues.run(ReceiveMessages("parcels.fifo", 10)):
            receipts = tuple(each.receipt for each in received)
            await self.queues.run(ChangeVisibility("parcels.fifo", receipts, 0))

    @property
    def queues(self) -> Any:
        return self.stores.engines.get("queues")

    async def delay(self, letter: Letter | None = None, *, for_s: float = LETTER_TIME_S) -> Letter:
        put = LETTERS.delay(self.stores, letter or make_letter(), for_s=for_s)
        await self.stores.run(put)
        return put.entity

    async def begin_errand(self, errand_id: str = "e-1") -> Errand:
        errand = ERRANDS.initial(self.stores, Errand(owner="o-1", errand_id=errand_id))
        await self.stores.transact(create_errand(errand), *ERRANDS.start_writes(self.stores, errand))
        return errand


@asynccontextmanager
async def open_site(folder: Path) -> AsyncIterator[Site]:
    """Open a console over the shop and over a system without work, on embedded stores in a folder."""
    settings = Settings().in_folder(folder)
    stores = open_stores(settings=settings)
    try:
        shop, own = stores.for_system(SHOP), stores.for_system(CONSOLE)
        await start_system(SHOP, shop)
        await provision(own, CONSOLE)
        app = build_console_app(settings, own, [shop, stores.for_system(EMPTY)], FixedAccounts())
        site = Site(app, shop)
        for name in USERS:
            site.sessions[name] = await SESSIONS.begin(own, SignIn(user=name, method="local", csrf=CSRF))
        yield site
    finally:
        await stores.close()


__all__ = [
    "BREAKER",
    "ERRANDS",
    "LEASE",
    "LETTERS",
    "PHONE",
    "SHOP_OUTBOX",
    "Errand",
    "Letter",
    "Site",
    "open_site",
]
