"""Run the Richpanel middleware on a data folder, with a fresh sandbox of the help desk and the shop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx2

from holdfast.cli.commands.run import build_system_app
from holdfast.config.settings import Settings
from holdfast.operations.queues import Redrive
from holdfast.web.demo_env import patch_environ, silence_loggers
from richpanel.domain.orders import hash_email
from richpanel.model import patterns
from richpanel.model.entities import CustomerLink, IdempotencyRecord, RecordKind, events
from richpanel.system import SYSTEM
from tests.system_processes import build_variables as build_folder_variables
from tests.systems.richpanel.acceptance.middleware import (
    EMAIL,
    SECRET,
    SECRET_VARIABLE,
    START,
    ManualClock,
    Middleware,
    start_middleware,
)

NAME: Final = "richpanel"
LOGGERS: Final = ("holdfast", "richpanel", "uvicorn", "httpx2", "httpcore2", "asyncio")
# The help desk's paths that cause an effect, and the body member that names the effect.
EFFECTS: Final = {
    "message": ("messages", "text"),
    "note": ("notes", "text"),
    "tag": ("tags", "tag"),
    "assign": ("assignee", "team"),
}

A_DAY: Final = timedelta(days=1)
# Paged queries: a function of the cursor, and the key of an item.
QUESTIONS: Final[dict[str, tuple[Callable[[str | None], Any], Callable[[Any], str]]]] = {
    "history": (
        lambda after: patterns.AUDIT.pattern_set.history("long", 4, after),
        lambda entry: str(entry.place),
    ),
    "span": (
        lambda after: patterns.AUDIT.pattern_set.between("long", START - A_DAY, START + A_DAY, 4, after),
        lambda entry: str(entry.place),
    ),
    "conversations of a customer": (
        lambda after: patterns.conversations_of_customer(hash_email(EMAIL)).page(3, after),
        lambda row: str(row[CustomerLink.conversation_id]),
    ),
    "customers of a conversation": (
        lambda after: patterns.customers_of_conversation("shared").page(1, after),
        lambda link: str(link.customer_hash),
    ),
    "records of a kind": (
        lambda after: (
            IdempotencyRecord.scan(reason="A test asks for them in pages")
            .where(IdempotencyRecord.kind == RecordKind.action, IdempotencyRecord.act_until.not_exists())
            .page(7, after)
        ),
        lambda record: str(record.event_id),
    ),
}


@dataclass(kw_only=True)
class CorpusStage(Middleware):
    """Stage with the API, and a help desk whose requests can be recorded and replayed."""

    api: httpx2.AsyncClient

    def build_steps(self) -> list[dict[str, Any]]:
        """Return the requests that give a fresh help desk the tickets, messages and effects of this one, by
        time.
        """
        desk = self.sandbox.desk
        said = [
            {
                "at": _to_timestamp(message.created_at),
                "path": f"/sandbox/tickets/{ticket.id}/messages",
                "body": {"id": message.id, "text": message.text},
            }
            for ticket in desk._tickets.values()
            for message in ticket.messages
            if message.author == "customer"
        ]
        opened = [
            {
                "at": _to_timestamp(ticket.messages[0].created_at),
                "path": "/sandbox/tickets",
                "body": {"id": ticket.id, "channel": ticket.channel, "customer": ticket.customer},
            }
            for ticket in desk._tickets.values()
        ]
        done = [
            {
                "at": _to_timestamp(entry.at),
                "path": f"/v1/tickets/{entry.ticket_id}/{EFFECTS[entry.effect][0]}",
                "body": {EFFECTS[entry.effect][1]: entry.value, "reference": entry.reference},
            }
            for entry in desk.ledger
        ]
        return sorted([*opened, *said, *done], key=lambda step: step["at"])

    async def replay(self, step: dict[str, Any]) -> None:
        """Make the request of a step at the help desk, with the clock moved to its time."""
        self.clock.advance(step["at"] - self.clock.now())
        (await self.desk_http.post(step["path"], json=step["body"])).raise_for_status()

    async def redrive(self) -> int:
        """Move the dead letters back into the queue; return how many."""
        environment = self.stores.environment
        names = events.physical_name(environment, dead_letter=True), events.physical_name(environment)
        moved: int = await self.stores.engines.get("queues").run(Redrive(*names))
        return moved

    def list_references(self, conversation: str) -> list[str]:
        """Return the keys of the effects on a conversation, in the order of the help desk's ledger."""
        return [each.reference for each in self.ledger if each.ticket_id == conversation]


def build_variables(data: Path) -> dict[str, str]:
    """Return the environment variables that open the data folder, with the webhook secret."""
    return {**build_folder_variables(data, data / "keys.json"), SECRET_VARIABLE: SECRET}


@asynccontextmanager
async def open_stage(data: Path, begins: float) -> AsyncIterator[CorpusStage]:
    """Open the stores in `data`, and serve the sandbox, the ingress and the API.

    The clock starts at `begins`, and the replay archive is on.
    """
    with silence_loggers(*LOGGERS), patch_environ(build_variables(data)):
        async with start_middleware(Settings.load(), ManualClock(begins), archive=True) as middleware:
            app = build_system_app(SYSTEM, middleware.stores, component="api")
            async with httpx2.AsyncClient(
                base_url="http://localhost", transport=httpx2.ASGITransport(app=app)
            ) as api:
                yield CorpusStage(**vars(middleware), api=api)


def _to_timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
