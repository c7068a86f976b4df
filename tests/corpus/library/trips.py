"""Part of the corpus: a flow with items in every kind of state, from a due step to parked.

The states are: step due, step in retry, put off, waiting, timed, parked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from holdfast import Attr, Entity, Key, Put, Rate, Stores, Table, attr, keep_names, pattern
from holdfast.core.errors import (
    AlreadyExists,
    ExternalServiceFailed,
    InvalidRequest,
    RateLimited,
    StoreFileError,
)
from holdfast.flows import FLOWS, Answer, Cancel, Flow, FlowItem, Next, Retry, State, Step, StepContext, Wait
from holdfast.flows.worker import StepWorker
from holdfast.guarantees import OUTBOX
from holdfast.model.entities import TimestampSeconds
from holdfast.operations.tables import PutItem
from holdfast.security.secrets import EnvironmentSecrets, Secrets

from .clock import WRITTEN_AT
from .process import Killed, make_dying_process

DEADLINE_S: Final = 1800.0
TIMER_S: Final = 600.0
SECRETS: Final = Secrets(EnvironmentSecrets({"HOLDFAST_SECRET_TRIPS_TOKEN": "a secret of the corpus"}))

trips = Table("Trips", "traveller", "trip", naming=keep_names, purpose="Trips, each driven by the flow")
trip_log = Table("TripLog", "trip", "what", naming=keep_names, purpose="What happened to each trip")


class Trip(FlowItem, table=trips):
    traveller: Attr[str] = attr()
    trip: Attr[str] = attr()
    # The outcome of this trip's step, chosen by the writer of the corpus.
    fate: Attr[str] = attr(default="")
    shown: Attr[str] = attr(default="")
    chosen: Attr[str | None] = attr(default=None)
    changed_at: Attr[TimestampSeconds | None] = attr(default=None)

    of = Key(traveller, trip)


class Logged(Entity, table=trip_log):
    """One effect, created: creating it a second time would fail."""

    trip: Attr[str] = attr()
    what: Attr[str] = attr()

    of = Key(trip, what)


@pattern("TR1", "A trip is asked for", rate=Rate("trip"), example=(Trip(traveller="t", trip="1"),))
def create_trip(trip: Trip) -> Put[Trip]:
    return Trip.create(trip)


@pattern("TR2", "Note what happened to a trip", rate=Rate("trip"), example=("1", "Plan"))
def logged(trip: str, what: str) -> Put[Logged]:
    return Logged.create(Logged(trip=trip, what=what))


# Errors of steps, by the fate of the trip. `tools` of a healthy worker lifts the fate.
FATES: Final[dict[str, Callable[[], Exception]]] = {
    "retried: party": lambda: ExternalServiceFailed("The shop answered 502.", may_be_done=False),
    "retried: there": lambda: AlreadyExists("The seat is taken."),
    "retried: foreign": lambda: ValueError("not kept"),
    "put off": lambda: RateLimited("The window is full.", retry_after_s=90),
    "parked: failed": lambda: StoreFileError("The file is damaged."),
    "parked: foreign": lambda: ZeroDivisionError("not kept"),
}


def build_step(name: str, to: str) -> Callable[[StepContext[Trip]], Awaitable[Next]]:
    """Return a step handler that logs its name and continues in state `to`, or fails by the trip's fate."""

    async def run_step(run: StepContext[Trip]) -> Next:
        if run.tools is not None and run.item.fate in run.tools:
            raise run.tools[run.item.fate]()
        if run.tools is not None and run.item.fate == "parked: mistake":
            return Next("nowhere")
        return Next(to, writes=(logged(run.item.trip, name),))

    return run_step


def choose(run: StepContext[Trip], given: Mapping[str, Any]) -> Next:
    """Answer the offer with a seat. Raise `InvalidRequest` if none is given."""
    if given.get("seat") is None:
        raise InvalidRequest("Name a seat.")
    return Next("chosen", {"chosen": given["seat"]}, writes=(logged(run.item.trip, "Choice"),))


def cancel_trip(run: StepContext[Trip], reason: str) -> Next:
    """Return the transition of a cancellation, with a log entry that has the reason."""
    return Next("cancelled", writes=(logged(run.item.trip, f"Cancelled: {reason}"),))


STATES: Final = (
    State(
        "asked",
        Step(
            "Plan",
            build_step("Plan", "planned"),
            to=("planned",),
            retries=(
                Retry(
                    (ExternalServiceFailed, AlreadyExists, ValueError),
                    max_attempts=3,
                    retry_delay_s=60,
                    max_retry_delay_s=60,
                ),
            ),
        ),
        shown_as="new",
    ),
    State("planned", Step("Offer", build_step("Offer", "offered"), to=("offered",)), shown_as="open"),
    State(
        "offered",
        Wait({"choose": Answer(choose, to=("chosen",))}, deadline_s=DEADLINE_S, deadline_to="cancelled"),
        shown_as="asked",
    ),
    State("chosen", Step("Book", build_step("Book", "resting"), to=("resting",)), shown_as="open"),
    State("resting", Wait(deadline_s=TIMER_S, deadline_to="rested"), shown_as="open"),
    State("rested", Step("Confirm", build_step("Confirm", "done"), to=("done",)), shown_as="open"),
    State("done", shown_as="done"),
    State("cancelled", shown_as="ended"),
)
# A state that newer code knew and this code does not.
NEWER: Final = State(
    "reviewed", Step("Review", build_step("Review", "asked"), to=("asked",)), shown_as="open"
)

steps = Flow.queue("trip-steps", visibility_s=30)


def build_flow(states: tuple[State, ...], begins: str = "asked") -> Flow[Trip]:
    """Return the flow over these states, beginning in the state `begins`."""
    return Flow(
        "trip",
        Trip,
        queue=steps,
        prefix="TF",
        rate=Rate("step"),
        example=Trip(traveller="t", trip="1"),
        initial_state=begins,
        states=states,
        cancel=Cancel(cancel_trip, from_states=("asked", "offered"), to="cancelled"),
        shown_attribute=Trip.shown,
        changed_attribute=Trip.changed_at,
        token_secret="trips/token",
        secrets=SECRETS,
        shards=2,
    )


TRIPS: Final = build_flow(STATES)
NEWER_TRIPS: Final = build_flow((NEWER, *STATES), begins="reviewed")

TABLES: Final = (trips, trip_log, FLOWS, OUTBOX)
PATTERNS: Final = (create_trip, logged, *TRIPS.patterns)
QUEUES: Final = (steps,)


# --- writing ------------------------------------------------------------------------------------------------


async def write(stores: Stores) -> dict[str, Any]:
    """Leave trips in every state, and return their tokens, executions and an open cursor."""
    await _park_as_lost(stores)
    for fate in ("waiting", "late", "resting", *FATES, "parked: mistake"):
        await begin(stores, fate)
    await work(stores, FATES)
    tokens = {}
    for name in ("waiting", "late"):
        tokens[name] = TRIPS.make_token(await read_trip(stores, name))
    resting = await read_trip(stores, "resting")
    await TRIPS.answer(stores, resting, "choose", token=TRIPS.make_token(resting), given={"seat": "7A"})
    await work(stores, FATES)
    await _park_by_other_reasons(stores)
    await _write_messages(stores)
    standing = await TRIPS.list_executions(stores)
    assert {each.state for each in standing} == {"asked", "offered", "resting", "reviewed"}
    return {
        "tokens": tokens,
        "places": {
            place.key: {
                "state": place.state,
                "error": place.error,
                "parked_for": place.parked_for,
                "parked": place.parked,
                "attempts": place.attempts,
                "delays": place.delays,
            }
            for place in standing
        },
        "cursor": (await stores.run(TRIPS.pattern_set.executions(1).page(2))).cursor,
    }


async def _park_by_other_reasons(stores: Stores) -> None:
    """Park a trip whose state this code does not know, and one that it cannot read."""
    unknown = NEWER_TRIPS.initial(stores, _make_trip("parked: unknown state"))
    await stores.transact(create_trip(unknown), *NEWER_TRIPS.start_writes(stores, unknown))
    await NEWER_TRIPS.dispatch_now(stores, unknown)
    await work(stores, {})
    unreadable = await begin(stores, "parked: unreadable")
    await _spoil(stores, unreadable)
    await work(stores, {})


async def _spoil(stores: Stores, trip: Trip) -> None:
    """Write an attribute that this code cannot read, as other code might."""
    item = {**trip.to_item(), "version": "not a number"}
    await stores.tables.run(PutItem(stores.physical_name(trips), item))


async def _park_as_lost(stores: Stores) -> None:
    """Park a trip whose message ended every worker that received it."""
    clock: Any = stores.clock
    clock.advance(-86400)
    await begin(stores, "parked: lost")
    while not any(place.is_parked for place in await TRIPS.list_executions(stores)):
        await _die_over_a_message(stores)
        clock.advance(steps.visibility_s + 1)
        await TRIPS.sweep(stores)
    clock.moment = WRITTEN_AT


async def _die_over_a_message(stores: Stores) -> None:
    """Receive a step and be killed while handling it."""
    dying, tables = make_dying_process(stores)

    async def dies(run: StepContext[Trip]) -> Next:
        tables.kill()
        raise Killed

    flow = build_flow((State("asked", Step("Plan", dies, to=("planned",)), shown_as="new"), *STATES[1:]))
    for received in await stores.run(steps.receive(1)):
        with suppress(Killed):
            await StepWorker(flow, dying).handle(received)
            await stores.run(steps.delete(received))


async def _write_messages(stores: Stores) -> None:
    """Leave a step in the outbox, one in the queue, and one that a worker received and did not finish."""
    for fate in ("step received", "step sent"):
        await begin(stores, fate)
        if fate == "step received":
            await stores.run(steps.receive(1))
    trip = TRIPS.initial(stores, _make_trip("step in the outbox"))
    await stores.transact(create_trip(trip), *TRIPS.start_writes(stores, trip))


def _make_trip(fate: str) -> Trip:
    return Trip(traveller="t-1", trip=fate, fate=fate)


async def begin(stores: Stores, fate: str) -> Trip:
    """Create a trip with this fate and dispatch its first step."""
    trip = TRIPS.initial(stores, _make_trip(fate))
    await stores.transact(create_trip(trip), *TRIPS.start_writes(stores, trip))
    await TRIPS.dispatch_now(stores, trip)
    return trip


async def work(stores: Stores, tools: Any) -> int:
    """Handle every message of the queue and return how many there were.

    `tools` are the errors that steps raise, by fate; None means a healthy worker.
    """
    driver, done = StepWorker(TRIPS, stores, tools), 0
    while received := await stores.run(steps.receive(1)):
        await driver.handle(received[0])
        await stores.run(steps.delete(received[0]))
        done += 1
    return done


async def read_trip(stores: Stores, name: str) -> Trip:
    found = await stores.run(Trip.of("t-1").get(name).consistent())
    assert found is not None, name
    return found


async def read_log(stores: Stores, name: str) -> set[str]:
    """Return the effects that were logged for the trip."""
    return {each.what for each in await stores.all(Logged.of(name).query())}
