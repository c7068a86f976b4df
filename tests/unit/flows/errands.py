"""Example for the flow tests: an errand with four steps and a wait, its system, and a hand-driven worker.

The table `ErrandHistory` holds each effect of a step once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import model_validator

from holdfast import (
    Attr,
    Component,
    Entity,
    IndexKey,
    Key,
    Load,
    Put,
    Rate,
    Stores,
    System,
    Table,
    Volume,
    attr,
    open_memory_stores,
    pattern,
)
from holdfast.core.clock import Clock
from holdfast.core.errors import ExternalServiceFailed, InvalidRequest, RateLimited, error_label
from holdfast.flows import FLOWS, Answer, Cancel, Flow, FlowItem, Next, Retry, State, Step, StepContext, Wait
from holdfast.flows.worker import StepWorker
from holdfast.guarantees import OUTBOX
from holdfast.model.entities import TimestampSeconds
from holdfast.model.system import Design
from holdfast.runtime import create_queues, create_tables
from holdfast.security.secrets import EnvironmentSecrets, Secrets

NOON = datetime(2026, 2, 4, 12, tzinfo=UTC).timestamp()
DEADLINE_S = 1800.0
SECRETS = Secrets(EnvironmentSecrets({"HOLDFAST_SECRET_ERRANDS_TOKEN": "not-so-secret"}))
OFFERS = {"red", "green"}


class Shown(StrEnum):
    new = "new"
    open = "open"
    asked = "asked"
    done = "done"
    failed = "failed"
    ended = "ended"


errands = Table("Errands", "owner", "errandId")
by_status = errands.global_index("by-status", "listed", "errandId")
history = Table("ErrandHistory", "errandId", "what")


class Errand(FlowItem, table=errands):
    owner: Attr[str] = attr()
    errand_id: Attr[str] = attr()
    status: Attr[Shown] = attr(default=Shown.new)
    chosen: Attr[str | None] = attr(default=None)
    plan: Attr[str | None] = attr(default=None)
    reason: Attr[str | None] = attr(default=None)
    changed_at: Attr[TimestampSeconds | None] = attr(default=None)
    flow_token: Attr[str | None] = attr("taskToken", default=None)

    of = Key(owner, errand_id)
    listed = IndexKey(by_status, "STATUS#" + status, errand_id)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Raise if the chosen offer is the owner: a rule over two attributes, which neither shows alone."""
        if self.chosen == self.owner:
            raise ValueError("nobody chooses themselves")
        return self


class Happened(Entity, table=history):
    """One effect of one step, created conditionally so that a second one is refused."""

    errand_id: Attr[str] = attr()
    what: Attr[str] = attr()

    of = Key(errand_id, what)


rate = Rate("errand")
EXAMPLE: Errand = Errand(owner="o-1", errand_id="e-1", flow_state="asked")


@pattern("ER1", "An errand is asked for", rate=rate, example=(EXAMPLE,))
def create_errand(errand: Errand) -> Put[Errand]:
    return Errand.create(errand)


@pattern("ER2", "What happened to an errand", rate=rate, example=("e-1", "Plan"))
def happened(errand_id: str, what: str) -> Put[Happened]:
    return Happened.create(Happened(errand_id=errand_id, what=what))


@dataclass
class Tools:
    """Dependencies of the steps: tests script the steps' behaviour here and read what ran."""

    ran: list[str] = field(default_factory=list)
    # Errors to raise instead of running a step, in order, by step name.
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    # Hooks that run within a step, by step name.
    within: dict[str, Callable[[StepContext[Errand]], Awaitable[None]]] = field(default_factory=dict)
    gives: dict[str, Any] = field(default_factory=dict)
    # Suffix of each effect's name: empty, a duplicate is refused; unique, a duplicate is visible.
    mark: Callable[[], str] = str

    async def does(self, name: str, run: StepContext[Errand]) -> None:
        """Record that the step ran, run its hook, and raise its next scripted error."""
        self.ran.append(name)
        if name in self.within:
            await self.within[name](run)
        if raised := self.errors.get(name):
            raise raised.pop(0)


def build_effect(run: StepContext[Errand], name: str) -> Put[Happened]:
    """Build the write of a step's effect, which is refused if it exists."""
    return happened(run.item.errand_id, name + (run.tools.mark() if run.tools else ""))


def make_step(name: str, to: str, **changes: Any) -> Callable[[StepContext[Errand]], Awaitable[Next]]:
    """Return a step function that leads to `to` with an effect, unless `Tools` scripts something else."""

    async def run_step(run: StepContext[Errand]) -> Next:
        await run.tools.does(name, run)
        following = Next(to, changes, writes=(build_effect(run, name),))
        given: Next = run.tools.gives.get(name, following)
        return given

    return run_step


def give_up(run: StepContext[Errand], error: Exception) -> Next:
    """Lead to `failed` with the error's label: the `on_failure` of the steps."""
    return Next("failed", {"reason": error_label(error), "plan": None}, writes=(build_effect(run, "GaveUp"),))


def choose(run: StepContext[Errand], given: Mapping[str, Any]) -> Next:
    """Answer the wait with one of the offers; refuse any other."""
    if given.get("offer") not in OFFERS:
        raise InvalidRequest("There is no such offer.")
    return Next("chosen", {"chosen": given["offer"]}, writes=(build_effect(run, "Choice"),))


async def refuse(run: StepContext[Errand], given: Mapping[str, Any]) -> Next:
    """Answer the wait by refusing all offers."""
    return Next("cancelled", {"reason": "refused"})


def expire(run: StepContext[Errand]) -> Next:
    """End the wait at its deadline."""
    return Next("cancelled", {"reason": "expired"}, writes=(build_effect(run, "Expired"),))


def cancel(run: StepContext[Errand], reason: str) -> Next:
    """Cancel the errand with the reason."""
    return Next("cancelled", {"reason": reason}, writes=(build_effect(run, "Cancelled"),))


STATES = (
    State(
        "asked",
        Step(
            "Plan",
            make_step("Plan", "planned", plan="a plan"),
            to=("planned", "failed"),
            retries=(Retry(ExternalServiceFailed, max_attempts=3, retry_delay_s=1, max_retry_delay_s=60),),
            on_failure=give_up,
        ),
        shown_as=Shown.new,
    ),
    State(
        "planned",
        Step("Offer", make_step("Offer", "offered"), to=("offered",), timeout_s=30),
        shown_as=Shown.open,
    ),
    State(
        "offered",
        Wait(
            {"choose": Answer(choose, to=("chosen",)), "refuse": Answer(refuse, to=("cancelled",))},
            deadline_s=DEADLINE_S,
            on_deadline=expire,
            deadline_to="cancelled",
        ),
        shown_as=Shown.asked,
    ),
    State(
        "chosen",
        Step(
            "Book", make_step("Book", "booked"), to=("booked", "failed"), on_failure=give_up, max_delay_s=3600
        ),
        shown_as=Shown.open,
    ),
    State("booked", Step("Confirm", make_step("Confirm", "done"), to=("done",)), shown_as=Shown.open),
    State("done", shown_as=Shown.done),
    State("failed", shown_as=Shown.failed, is_failure=True),
    State("cancelled", shown_as=Shown.ended),
)


def get_step(state: State) -> Step:
    """Return the state's step; fail if it has none."""
    assert isinstance(state.action, Step)
    return state.action


steps = Flow.queue("errand-steps", visibility_s=30)


def make_flow(states: tuple[State, ...] = STATES, **more: Any) -> Flow[Errand]:
    """Build the flow, or another version of it with the same name and queue."""
    terms: dict[str, Any] = {
        "queue": steps,
        "prefix": "FL",
        "rate": rate,
        "example": EXAMPLE,
        "initial_state": "asked",
        "states": states,
        "shown_attribute": Errand.status,
        "changed_attribute": Errand.changed_at,
        "cancel": Cancel(cancel, from_states=("asked", "planned", "offered"), to="cancelled"),
        "token_secret": "errands/token",
        "secrets": SECRETS,
    }
    return Flow("errand", Errand, **terms | more)


ERRANDS = make_flow()


@asynccontextmanager
async def open_tools(stores: Stores) -> AsyncIterator[Tools]:
    """Yield tools without a script."""
    yield Tools()


SYSTEM = System(
    "errands",
    "Errands, each done once",
    tables=(errands, history, FLOWS, OUTBOX),
    patterns=(create_errand, happened, *ERRANDS.patterns),
    queues=(steps,),
    flows=(ERRANDS,),
    design=Design(load=Load({"errand": Volume(per_month=100_000, distinct_keys=100_000)})),
    components=(
        Component(
            "api",
            uses=(
                create_errand,
                happened,
                ERRANDS.pattern_set.begin,
                ERRANDS.answerer,
            ),
        ),
        Component(
            "worker",
            uses=(ERRANDS.reads, ERRANDS.writes, happened),
            consumers=(ERRANDS.consumer(open_tools),),
            schedules=ERRANDS.schedules,
        ),
    ),
)


class HandClock:
    """Clock that tests move."""

    def __init__(self, now: float = NOON) -> None:
        self.moment = now

    def now(self) -> float:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += seconds


class Bench:
    """One process of a flow, driven by hand: it handles messages and sweeps when a test says so."""

    def __init__(self, stores: Stores, clock: HandClock, flow: Flow[Errand] = ERRANDS) -> None:
        self.stores, self.clock, self.flow, self.tools = stores, clock, flow, Tools()

    def with_flow(self, flow: Flow[Errand]) -> Bench:
        """Return a bench on the same stores with another flow."""
        return Bench(self.stores, self.clock, flow)

    async def begin(self, errand_id: str = "e-1") -> Errand:
        """Create an errand, start its flow, and send its first step."""
        errand = self.flow.initial(self.stores, Errand(owner="o-1", errand_id=errand_id))
        await self.stores.transact(create_errand(errand), *self.flow.start_writes(self.stores, errand))
        await self.flow.dispatch_now(self.stores, errand)
        return errand

    async def work(self, *, messages_max: int = 100) -> int:
        """Handle messages until the queue is empty; return their number."""
        driver, done = StepWorker(self.flow, self.stores, self.tools), 0
        while done < messages_max and (received := await self.stores.run(steps.receive(1))):
            await driver.handle(received[0])
            await self.stores.run(steps.delete(received[0]))
            done += 1
        return done

    async def pass_time(self, seconds: float) -> int:
        """Move the clock, sweep, and work; return the number of messages."""
        self.clock.advance(seconds)
        await self.flow.sweep(self.stores)
        return await self.work()

    async def get_errand(self, errand_id: str = "e-1") -> Errand:
        """Return the stored errand; fail if there is none."""
        found = await self.stores.run(Errand.of("o-1").get(errand_id).consistent())
        assert found is not None
        return found

    async def begin_and_reach_offer(self, errand_id: str = "e-1") -> Errand:
        """Start an errand and run its steps up to the wait `offered`."""
        await self.begin(errand_id)
        await self.work()
        errand = await self.get_errand(errand_id)
        assert errand.flow_state == "offered"
        return errand

    async def choose(self, errand: Errand, offer: str = "red") -> Errand:
        """Answer the errand's wait with an offer and its token."""
        return await self.flow.answer(
            self.stores, errand, "choose", token=self.flow.make_token(errand), given={"offer": offer}
        )

    async def list_effects(self, errand_id: str = "e-1") -> list[str]:
        """Return the effects of the errand's steps, sorted by name."""
        return [each.what for each in await self.stores.all(Happened.of(errand_id).query())]


async def create_stores(stores: Stores) -> None:
    """Create the tables and queues of the errand system."""
    await create_tables(stores, SYSTEM.tables)
    await create_queues(stores, SYSTEM.queues)


async def open_bench(clock: Clock | None = None) -> Bench:
    """Open a bench on in-memory stores with a hand-moved clock."""
    hand = HandClock()
    stores = open_memory_stores(SYSTEM, clock=hand)
    await create_stores(stores)
    return Bench(stores, hand)


def make_rate_limit(seconds: float) -> RateLimited:
    """Return a transient error with this retry time."""
    return RateLimited("The window is full.", retry_after_s=seconds)


def make_failure() -> ExternalServiceFailed:
    """Return an error of an external service that did nothing."""
    return ExternalServiceFailed("The shop answered 502.", may_be_done=False)
