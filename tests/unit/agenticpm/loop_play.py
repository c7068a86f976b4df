"""The agent on a small stage, for tests: a tracker, a mailbox and a mailer in this process that fail as they are told, real
stores in memory with the rights of each component, and a clock that stands until it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agenticpm.domain.tickets import (
    FieldChange,
    Health,
    MailMessage,
    MailPage,
    OutgoingMail,
    Plan,
    Stage,
    SyncPage,
    Ticket,
    Writer,
)
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model import agent_settings, patterns, projects
from agenticpm.model.entities import Action, Escalation, Event, Integration, Project, table
from agenticpm.model.events import get_now
from agenticpm.system import SYSTEM
from agenticpm.workers import actions
from agenticpm.workers.cycle import CycleReport
from agenticpm.workers.loop import Loop, TickResult
from agenticpm.workers.writers import Writers
from holdfast import Stores, open_memory_stores, provision
from holdfast.core.errors import ExternalServiceFailed, NotFound
from holdfast.operations.tables import Scan

# Five past eight in Sydney, on a Wednesday.
MORNING = datetime(2026, 2, 3, 21, 5, tzinfo=UTC)
INTERVAL_S = 15 * 60.0

Step = Callable[[str], None]
Key = tuple[str, str]


class HandClock:
    """Stands until it is moved."""

    def __init__(self, at: datetime = MORNING) -> None:
        self._now = at.timestamp()

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


async def nothing() -> None:
    return None


@dataclass
class PlayTracker:
    """A log of what changed, told page by page; a checkpoint is a place in it. Each effect is in the ledger.

    `fails` is raised in place of an answer; `lost` after an effect. `page_fails_at` names the question that fails.
    """

    clock: HandClock
    page_size: int = 50
    log: list[tuple[Ticket, tuple[FieldChange, ...]]] = field(default_factory=list)
    planned: Plan = field(default_factory=Plan)
    fails: Exception | None = None
    lost: Exception | None = None
    fails_at: int | None = None
    is_reset: bool = False
    stands_still: bool = False
    asked: list[str | None] = field(default_factory=list)
    ledger: list[dict[str, Any]] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[None]] = nothing

    def put(self, key: str, *changes: FieldChange, **fields: Any) -> Ticket:
        """A ticket anew, or as it is now."""
        now = get_now(self.clock)
        before = next((each for each, _ in reversed(self.log) if each.key == key), None)
        given: dict[str, Any] = {
            "id": key,
            "key": key,
            "title": f"Work on {key}",
            "status": "In Progress",
            "stage": Stage.in_progress,
            "has_criteria": True,
            "created_at": now,
        }
        known = given if before is None else before.model_dump()
        ticket = Ticket(**known | {"updated_at": now} | fields)
        self.log.append((ticket, changes))
        return ticket

    def block(self, key: str) -> None:
        change = FieldChange(
            id=f"{key}/{len(self.log)}",
            ticket=key,
            field="Flagged",
            after="Impediment",
            at=get_now(self.clock),
        )
        self.put(key, change, is_blocked=True)

    async def check_health(self) -> Health:
        return Health(is_ok=self.fails is None)

    async def fetch_plan(self, project_key: str) -> Plan:
        self._refuse()
        return self.planned

    async def fetch_changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        self.asked.append(checkpoint)
        await self.meanwhile()
        self._refuse()
        if self.fails_at is not None and len(self.asked) == self.fails_at:
            raise ExternalServiceFailed("The tracker went away between two pages.", may_be_done=False)
        is_reset = checkpoint is None or (self.is_reset and not checkpoint.startswith("again"))
        mark = "" if checkpoint is None else checkpoint.removeprefix("again ")
        begin = 0 if is_reset else int(mark)
        page = self.log[begin : begin + self.page_size]
        end = begin if self.stands_still else begin + len(page)
        prefix = "again " if self.is_reset else ""
        return SyncPage(
            tickets=tuple(ticket for ticket, _ in page),
            changes=tuple(change for _, changes in page for change in changes),
            checkpoint=f"{prefix}{end}",
            has_more=end < len(self.log),
            is_reset=is_reset,
        )

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        return self._effect({"what": "comment", "ticket": ticket, "text": text, "reference": reference})

    async def find_comment(self, ticket: str, reference: str) -> dict[str, Any] | None:
        return self._known("comment", reference)

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        return self._effect({"what": "move", "ticket": ticket, "status": status, "reference": reference})

    async def find_move(self, ticket: str, reference: str) -> dict[str, Any] | None:
        return self._known("move", reference)

    def _known(self, what: str, reference: str) -> dict[str, Any] | None:
        self._refuse()
        found = [each for each in self.ledger if (each["what"], each["reference"]) == (what, reference)]
        return {"number": self.ledger.index(found[0])} if found else None

    def _effect(self, entry: dict[str, Any]) -> dict[str, Any]:
        self._refuse()
        self.ledger.append(entry)
        if self.lost is not None:
            raise self.lost
        return {"number": len(self.ledger) - 1}

    def _refuse(self) -> None:
        if self.fails is not None:
            raise self.fails


@dataclass
class PlayMailbox:
    clock: HandClock
    page_size: int = 50
    mails: list[MailMessage] = field(default_factory=list)
    fails_at: int | None = None
    asked: list[str | None] = field(default_factory=list)

    def receive(self, subject: str) -> None:
        at = get_now(self.clock)
        self.mails.append(MailMessage(id=f"mail-{len(self.mails) + 1}", subject=subject, received_at=at))

    async def check_health(self) -> Health:
        return Health(is_ok=True)

    async def fetch_messages(self, checkpoint: str | None) -> MailPage:
        self.asked.append(checkpoint)
        if self.fails_at is not None and len(self.asked) == self.fails_at:
            raise ExternalServiceFailed("The mailbox went away.", may_be_done=False)
        begin = int(checkpoint or 0)
        page = self.mails[begin : begin + self.page_size]
        end = begin + len(page)
        return MailPage(messages=tuple(page), checkpoint=str(end), has_more=end < len(self.mails))


@dataclass
class PlayMailer:
    """The same key is one mail. `asked` are all the keys it was asked with, `ledger` the mails that went out."""

    fails: Exception | None = None
    lost: Exception | None = None
    asked: list[str] = field(default_factory=list)
    ledger: dict[str, OutgoingMail] = field(default_factory=dict)

    async def check_health(self) -> Health:
        return Health(is_ok=self.fails is None)

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]:
        self.asked.append(key)
        if self.fails is not None:
            raise self.fails
        self.ledger.setdefault(key, mail)
        if self.lost is not None:
            raise self.lost
        return {"id": key}


@dataclass
class PlayParties(IntegrationClients):
    """Those that are there; one that is not, is not configured."""

    there: dict[Integration, Any] = field(default_factory=dict)

    async def get_client(self, integration: Integration) -> Any:
        if integration not in self.there:
            raise NotFound(f"{integration} is not configured.")
        return self.there[integration]


@dataclass
class Play:
    stores: Stores
    clock: HandClock
    tracker: PlayTracker
    mailbox: PlayMailbox
    mailer: PlayMailer
    parties: PlayParties

    async def project(self, **given: Any) -> Project:
        wanted: dict[str, Any] = {
            "name": "Member profile",
            "source": "jira",
            "source_project_key": "MCU",
            "autonomy_level": "tactical",
        }
        return await projects.create(self.stores.for_component("api"), **wanted | given)

    def loop(self, step: Step | None = None, rules: Writer | None = None) -> Loop:
        stores = self.stores.for_component("loop")
        more = {} if step is None else {"on_step": step}
        return Loop(stores, self.parties, Writers(stores, rules=rules), **more)

    async def turn(self, loop: Loop | None = None) -> TickResult:
        """A turn, an interval later."""
        self.clock.advance(INTERVAL_S)
        return await (loop or self.loop()).tick()

    async def cycle(self, loop: Loop | None = None) -> CycleReport:
        """A turn with one project that was due."""
        turn = await self.turn(loop)
        assert turn.skip_reason is None, turn.skip_reason
        (cycle,) = turn.cycles
        return cycle

    async def execute(self) -> actions.ExecutionReport:
        return await actions.execute_due(self.stores.for_component("executor"), self.parties)

    # --- what is found --------------------------------------------------------------------------------------

    async def events(self, project: Project, type: str) -> list[Event]:
        """Oldest first."""
        found = await self.stores.all(patterns.project_events(project.id))
        return [each for each in reversed(found.items) if each.event_type == type]

    async def signals(self, project: Project) -> list[str]:
        told = [each.detail or {} for each in await self.events(project, "signal_detected")]
        return [f"{each['signal']}:{each['subject']}" for each in told]

    async def actions(self, project: Project | None) -> Sequence[Action]:
        return (
            await self.stores.all(patterns.project_actions(None if project is None else project.id))
        ).items

    async def escalations(self, project: Project) -> Sequence[Escalation]:
        return (await self.stores.all(patterns.project_escalations(project.id))).items

    async def mark(self, project: Project, integration: str, key: str) -> str | None:
        found = await self.stores.run(patterns.checkpoint(project.id, integration, key))
        return None if found is None else found.checkpoint_value

    async def items(self) -> dict[Key, dict[str, Any]]:
        """All that is in the table, by its keys."""
        found = await self.stores.tables.run(Scan(self.stores.physical_name(table)))
        assert found.last_key is None
        return {(str(each["PK"]), str(each["SK"])): dict(each) for each in found.items or ()}


Story = Callable[[Play], Awaitable[None]]


def played(story: Story) -> None:
    async def on_stores() -> None:
        clock = HandClock()
        async with open_memory_stores(SYSTEM, clock=clock) as stores:
            await provision(stores, SYSTEM)
            await agent_settings.seed(stores)
            tracker, mailbox, mailer = PlayTracker(clock), PlayMailbox(clock), PlayMailer()
            there = {Integration.jira: tracker, Integration.outlook: mailbox, Integration.resend: mailer}
            parties = PlayParties(stores, there=there)
            await story(Play(stores, clock, tracker, mailbox, mailer, parties))

    asyncio.run(on_stores())
