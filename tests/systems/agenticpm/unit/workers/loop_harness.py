"""Harness for tests of the agent: stores in memory, fake integrations that fail on demand, a manual clock.

Each component runs with its own rights.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agenticpm.domain.autonomy import MAIL
from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import (
    FieldChange,
    Health,
    MailMessage,
    MailPage,
    OutgoingMail,
    Plan,
    SyncPage,
    Ticket,
    TicketStage,
    Writer,
)
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model import agent_settings, patterns
from agenticpm.model.artefacts import load_content
from agenticpm.model.entities import (
    Action,
    ActionType,
    Artefact,
    Escalation,
    Event,
    Integration,
    Project,
    table,
)
from agenticpm.model.events import get_now
from agenticpm.system import SYSTEM
from agenticpm.workers import actions
from agenticpm.workers.cycle import CycleReport
from agenticpm.workers.loop import Loop, TickResult
from agenticpm.workers.writers import Writers
from holdfast import Stores, open_memory_stores, provision
from holdfast.core.errors import ExternalServiceFailed, NotFound
from holdfast.operations.tables import Scan
from tests.systems.agenticpm.unit.samples import ManualClock, create_project

# A Wednesday in Sydney, 08:05.
MORNING = datetime(2026, 2, 3, 21, 5, tzinfo=UTC)
INTERVAL_S = 15 * 60.0
HOLD_S = 30 * 60.0

Step = Callable[[str], None]
Key = tuple[str, str]


async def do_nothing() -> None:
    return None


@dataclass
class FakeTracker:
    """A tracker with a log of changes, served page by page. A checkpoint is an index into the log.

    Effects go into the ledger. `fails` is raised instead of an answer, `fails_after` after an effect;
    `fails_at` is the number of the read that fails. With `is_stuck`, the checkpoint never advances; with
    `is_reset`, the next read starts from the beginning. `checkpoints` are those of all reads; `on_fetch` is
    called in each.
    """

    clock: ManualClock
    page_size: int = 50
    log: list[tuple[Ticket, tuple[FieldChange, ...]]] = field(default_factory=list)
    planned: Plan = field(default_factory=Plan)
    fails: Exception | None = None
    fails_after: Exception | None = None
    fails_at: int | None = None
    is_reset: bool = False
    is_stuck: bool = False
    checkpoints: list[str | None] = field(default_factory=list)
    ledger: list[dict[str, Any]] = field(default_factory=list)
    on_fetch: Callable[[], Awaitable[None]] = do_nothing

    def put(self, key: str, *changes: FieldChange, **fields: Any) -> Ticket:
        """Create the ticket, or change the fields given."""
        now = get_now(self.clock)
        before = next((each for each, _ in reversed(self.log) if each.key == key), None)
        given: dict[str, Any] = {
            "id": key,
            "key": key,
            "title": f"Work on {key}",
            "status": "In Progress",
            "stage": TicketStage.in_progress,
            "has_criteria": True,
            "created_at": now,
        }
        known = given if before is None else before.model_dump()
        ticket = Ticket(**known | {"updated_at": now} | fields)
        self.log.append((ticket, changes))
        return ticket

    def block(self, key: str) -> None:
        """Flag the ticket as blocked, with the field change; create it if needed."""
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
        self._raise_if_failing()
        return self.planned

    async def fetch_changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        """Record the checkpoint, fail if configured, and return the page of the log after it."""
        self.checkpoints.append(checkpoint)
        await self.on_fetch()
        self._raise_if_failing()
        if self.fails_at is not None and len(self.checkpoints) == self.fails_at:
            raise ExternalServiceFailed("The tracker went away between two pages.", may_be_done=False)
        is_reset = checkpoint is None or (self.is_reset and not checkpoint.startswith("again"))
        mark = "" if checkpoint is None else checkpoint.removeprefix("again ")
        begin = 0 if is_reset else int(mark)
        page = self.log[begin : begin + self.page_size]
        end = begin if self.is_stuck else begin + len(page)
        prefix = "again " if self.is_reset else ""
        return SyncPage(
            tickets=tuple(ticket for ticket, _ in page),
            changes=tuple(change for _, changes in page for change in changes),
            checkpoint=f"{prefix}{end}",
            has_more=end < len(self.log),
            is_reset=is_reset,
        )

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        return self._apply({"what": "comment", "ticket": ticket, "text": text, "reference": reference})

    async def find_comment(self, ticket: str, reference: str) -> dict[str, Any] | None:
        return self._find("comment", reference)

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        return self._apply({"what": "move", "ticket": ticket, "status": status, "reference": reference})

    async def find_move(self, ticket: str, reference: str) -> dict[str, Any] | None:
        return self._find("move", reference)

    def _find(self, what: str, reference: str) -> dict[str, Any] | None:
        """Return the outcome of the effect with this reference, or None."""
        self._raise_if_failing()
        found = [each for each in self.ledger if (each["what"], each["reference"]) == (what, reference)]
        return {"number": self.ledger.index(found[0])} if found else None

    def _apply(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Add an effect to the ledger and return its outcome."""
        self._raise_if_failing()
        self.ledger.append(entry)
        if self.fails_after is not None:
            raise self.fails_after
        return {"number": len(self.ledger) - 1}

    def _raise_if_failing(self) -> None:
        """Raise `fails` if it is set."""
        if self.fails is not None:
            raise self.fails


@dataclass
class FakeMailbox:
    """A mailbox served page by page.

    A checkpoint is an index into `mails`; `fails_at` is the read that fails.
    """

    clock: ManualClock
    page_size: int = 50
    mails: list[MailMessage] = field(default_factory=list)
    fails_at: int | None = None
    checkpoints: list[str | None] = field(default_factory=list)

    def receive(self, subject: str) -> None:
        """Add a mail that arrives now."""
        at = get_now(self.clock)
        self.mails.append(MailMessage(id=f"mail-{len(self.mails) + 1}", subject=subject, received_at=at))

    async def check_health(self) -> Health:
        return Health(is_ok=True)

    async def fetch_messages(self, checkpoint: str | None) -> MailPage:
        self.checkpoints.append(checkpoint)
        if self.fails_at is not None and len(self.checkpoints) == self.fails_at:
            raise ExternalServiceFailed("The mailbox went away.", may_be_done=False)
        begin = int(checkpoint or 0)
        page = self.mails[begin : begin + self.page_size]
        end = begin + len(page)
        return MailPage(messages=tuple(page), checkpoint=str(end), has_more=end < len(self.mails))


@dataclass
class FakeMailer:
    """Mailer that sends one mail per key. `keys` holds the key of every request, `ledger` the mails sent."""

    fails: Exception | None = None
    fails_after: Exception | None = None
    keys: list[str] = field(default_factory=list)
    ledger: dict[str, OutgoingMail] = field(default_factory=dict)

    async def check_health(self) -> Health:
        return Health(is_ok=self.fails is None)

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]:
        self.keys.append(key)
        if self.fails is not None:
            raise self.fails
        self.ledger.setdefault(key, mail)
        if self.fails_after is not None:
            raise self.fails_after
        return {"id": key}


@dataclass
class FakeClients(IntegrationClients):
    """Clients of the integrations in `configured`; any other integration is not configured."""

    configured: dict[Integration, Any] = field(default_factory=dict)

    async def get_client(self, integration: Integration) -> Any:
        if integration not in self.configured:
            raise NotFound(f"{integration} is not configured.")
        return self.configured[integration]


@dataclass
class Harness:
    """The stores, clock and fakes of one story, and functions that run the agent and read its results."""

    stores: Stores
    clock: ManualClock
    tracker: FakeTracker
    mailbox: FakeMailbox
    mailer: FakeMailer
    clients: FakeClients

    async def create_project(self, **given: Any) -> Project:
        """Create a tactical Jira project with the rights of `api`; `given` overrides its fields."""
        return await create_project(
            self.stores.for_component("api"), **{"autonomy_level": "tactical"} | given
        )

    async def hold_action(self, project: Project | None, detail: dict[str, Any]) -> Action:
        """Hold an action for half an hour, one second after the last, and return it."""
        self.clock.advance(1)
        stores = self.stores.for_component("loop")
        type = ActionType.email_sent if detail["kind"] == MAIL else ActionType.jira_update
        id = None if project is None else project.id
        await stores.transact(*actions.build_hold(stores, id, type, "Ask", detail, hold_s=HOLD_S))
        return (await self.actions(project))[0]

    def make_loop(self, step: Step | None = None, rules: Writer | None = None) -> Loop:
        """Make a loop with the rights of its component.

        `step` is its step hook, `rules` replaces the rules writer.
        """
        stores = self.stores.for_component("loop")
        more = {} if step is None else {"on_step": step}
        return Loop(stores, self.clients, Writers(stores, rules=rules), **more)

    async def run_turn(self, loop: Loop | None = None) -> TickResult:
        """Advance the clock by one polling interval and run one tick of the loop."""
        self.clock.advance(INTERVAL_S)
        return await (loop or self.make_loop()).tick()

    async def run_cycle(self, loop: Loop | None = None) -> CycleReport:
        """Run a turn in which exactly one project is due, and return its cycle."""
        turn = await self.run_turn(loop)
        assert turn.skip_reason is None, turn.skip_reason
        (cycle,) = turn.cycles
        return cycle

    async def execute(self) -> actions.ExecutionReport:
        """Execute the due actions once, with the rights of the executor."""
        return await actions.execute_due(self.stores.for_component("executor"), self.clients)

    # --- results --------------------------------------------------------------------------------------------

    async def events(self, project: Project, type: str) -> list[Event]:
        """Return the project's events of one type, oldest first."""
        found = await self.stores.all(patterns.project_events(project.id))
        return [each for each in reversed(found.items) if each.event_type == type]

    async def signals(self, project: Project) -> list[str]:
        """Return the keys of the project's reported signals, oldest first."""
        details = [each.detail or {} for each in await self.events(project, "signal_detected")]
        return [f"{each['signal']}:{each['subject']}" for each in details]

    async def actions(self, project: Project | None) -> Sequence[Action]:
        """Return the project's actions, newest first; with None, those without a project."""
        return (
            await self.stores.all(patterns.project_actions(None if project is None else project.id))
        ).items

    async def reload(self, action: Action) -> Action:
        """Return the stored action."""
        found = await self.stores.all(patterns.project_actions(action.project_id))
        return next(each for each in found if each.id == action.id)

    async def artefact(self, project: Project, type: ArtefactType) -> Artefact:
        """Return the stored artefact, which must exist."""
        found = await self.stores.run(patterns.artefact(project.id, type))
        assert found is not None
        return found

    async def count_tickets(self, project: Project) -> int:
        """Return the number of tickets in the backlog summary."""
        found = await self.artefact(project, ArtefactType.backlog_summary)
        return int((await load_content(self.stores, found))["summary"]["total_items"])

    async def escalations(self, project: Project) -> Sequence[Escalation]:
        """Return the project's escalations, by id."""
        return (await self.stores.all(patterns.project_escalations(project.id))).items

    async def checkpoint(self, project: Project, integration: str, key: str) -> str | None:
        """Return the value of a checkpoint, or None."""
        found = await self.stores.run(patterns.checkpoint(project.id, integration, key))
        return None if found is None else found.checkpoint_value

    async def items(self) -> dict[Key, dict[str, Any]]:
        """Return every item of the table, by key."""
        found = await self.stores.tables.run(Scan(self.stores.physical_name(table)))
        assert found.last_key is None
        return {(str(each["PK"]), str(each["SK"])): dict(each) for each in found.items or ()}


@asynccontextmanager
async def open_harness() -> AsyncIterator[Harness]:
    """Open a harness on a working morning in Sydney: stores in memory and fake services."""
    clock = ManualClock(MORNING)
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await provision(stores, SYSTEM)
        await agent_settings.seed(stores)
        tracker, mailbox, mailer = FakeTracker(clock), FakeMailbox(clock), FakeMailer()
        there = {Integration.jira: tracker, Integration.outlook: mailbox, Integration.resend: mailer}
        clients = FakeClients(stores, configured=there)
        yield Harness(stores, clock, tracker, mailbox, mailer, clients)
