"""Workers on in-memory queues: order within a group, concurrency, failed messages, visibility, shutdown."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    Component,
    Consumer,
    ReceivedMessage,
    Schedule,
    Stores,
    System,
    open_memory_stores,
    provision,
    run_worker,
)
from holdfast.core.clock import Clock
from holdfast.core.correlation import bind_correlation_id, get_correlation_id
from holdfast.core.errors import (
    CircuitOpen,
    DeclarationError,
    ExternalServiceFailed,
    InProgress,
    InvalidRequest,
    NotFound,
    RateLimited,
    RetryLater,
    StoreUnreachable,
)
from holdfast.core.logs import setup_logs
from holdfast.core.rng import RNG
from holdfast.model.patterns import Pattern
from holdfast.model.queues import ChangeVisibility, ConsumerPatterns
from holdfast.operations.queues import DeleteQueue, OutgoingMessage, ReceiveMessages, SendMessages
from holdfast.runtime import WorkerGroup, get_queue_reports
from holdfast.runtime.workers.backoff import compute_backoff
from tests.unit.runtime import post_office as office
from tests.unit.runtime.post_office import SYSTEM, Letter

Handle = Callable[[ReceivedMessage[Letter]], Awaitable[None]]

WAIT_S = 0.05


def make_carrier(handle: Handle, **more: Any) -> Component:
    """Build a component that handles the letters with this handler. `more` are arguments of `Consumer`."""

    @asynccontextmanager
    async def handling(_: Stores) -> AsyncIterator[Handle]:
        yield handle

    given: dict[str, Any] = {"queue": office.letters, "retry_delay_s": 0.0} | more
    consumer = Consumer(open_handler=handling, **given)
    return Component("carrier", uses=(office.deliver,), consumers=(consumer,))


def make_porter(handle: Handle, **more: Any) -> Component:
    """Build a component that handles the parcels with this handler. `more` are arguments of `Consumer`."""

    @asynccontextmanager
    async def handling(_: Stores) -> AsyncIterator[Handle]:
        yield handle

    consumer = Consumer(office.parcels, handling, **({"retry_delay_s": 0.0} | more))
    return Component("carrier", consumers=(consumer,))


def observe_holds(observe: Callable[[float], None]) -> ConsumerPatterns:
    """Return the patterns of the letters' consumers. `observe` gets the seconds of each change of
    visibility.
    """
    observed = ConsumerPatterns(office.letters, ("P2", "P3", "P4"), office.LETTER)

    def hold(received: ReceivedMessage[Letter] | None, seconds: float) -> ChangeVisibility[Letter]:
        assert received is not None
        observe(seconds)
        return office.letters.change_visibility(received, seconds=seconds)

    observed.change_visibility = Pattern(hold, "P4", "Hold", office.LETTER, ())
    return observed


def with_component(component: Component) -> System:
    """Return the post office with this component alone."""
    own = {each.id for each in component.patterns}
    consumed = {each.name for each in component.consumers}
    return replace(
        SYSTEM,
        components=[component],
        patterns=[each for each in SYSTEM.patterns if each.id not in own],
        queues=[each for each in SYSTEM.queues if each.name not in consumed],
    )


@asynccontextmanager
async def open_worker_stores(component: Component, clock: Clock | None = None) -> AsyncIterator[Stores]:
    """Open in-memory stores with the tables and queues of the post office, for this component."""
    system = with_component(component)
    async with open_memory_stores(system, clock=clock) as stores:
        await provision(stores, system)
        yield stores


async def post(stores: Stores, *letters: str) -> None:
    """Post letters: `A1` is letter A1 to address A."""
    for each in letters:
        await stores.run(office.post(Letter(id=each, address=each[0])))


async def read_backlog(stores: Stores, name: str = "letters") -> tuple[int, int | None]:
    """Return how many messages wait, and how many are dead."""
    [report] = [each for each in await get_queue_reports(stores, SYSTEM.queues) if each.queue == name]
    return report.waiting.backlog, report.dead


class RecordingHandler:
    """Handler that records its messages, sets `enough` after the wanted number, and then calls `then`."""

    def __init__(self, wanted: int = 1, then: Handle | None = None) -> None:
        self.ids: list[str] = []
        self.receives: list[int] = []
        self.enough = asyncio.Event()
        self._wanted, self._then = wanted, then

    async def __call__(self, received: ReceivedMessage[Letter]) -> None:
        self.ids.append(received.message.id)
        self.receives.append(received.receive_count)
        if len(self.ids) >= self._wanted:
            self.enough.set()
        if self._then is not None:
            await self._then(received)


class ManualClock:
    """Clock that moves only when the test sets `moment`."""

    def __init__(self) -> None:
        self.moment = 1_000_000.0

    def now(self) -> float:
        return self.moment


class FaultyQueues:
    """Queue engine in front of the real one of these stores.

    It records the count of each receive, fails the first `failures_left` receives, and returns all messages
    as of one `group` if that is set, as some engines do.
    """

    def __init__(self, stores: Stores) -> None:
        self._engine = stores.engines.get("queues")
        stores.engines._open["queues"] = self
        self.failures_left = 0
        self.group: str | None = None
        self.counts: list[int] = []

    async def run(self, operation: Any) -> Any:
        """Run the operation; only receives are recorded, failed or changed."""
        if not isinstance(operation, ReceiveMessages):
            return await self._engine.run(operation)
        if self.failures_left:
            self.failures_left -= 1
            raise StoreUnreachable("The cable is cut.")
        self.counts.append(operation.count)
        found = await self._engine.run(operation)
        if self.group is not None:
            found = tuple(msgspec.structs.replace(each, group=self.group) for each in found)
        return found

    def close(self) -> None:
        self._engine.close()


# --- order and parallel work --------------------------------------------------------------------------------


@pytest.mark.proves("RP-25")
def test_handles_each_group_in_order_one_at_a_time_and_groups_in_parallel() -> None:
    async def story() -> tuple[list[str], int]:
        together, at_work, most_of_a_group = asyncio.Barrier(3), dict.fromkeys("ABC", 0), 0

        async def meet(received: ReceivedMessage[Letter]) -> None:
            nonlocal most_of_a_group
            address = received.message.address
            at_work[address] += 1
            most_of_a_group = max(most_of_a_group, at_work[address])
            # No handler proceeds before one of each group has arrived.
            await together.wait()
            at_work[address] -= 1

        handle = RecordingHandler(9, meet)
        component = make_carrier(handle)
        async with open_worker_stores(component) as stores:
            await post(stores, *(f"{address}{number}" for number in range(3) for address in "ABC"))
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                await handle.enough.wait()
        return handle.ids, most_of_a_group

    ids, most_of_a_group = asyncio.run(story())
    assert [[each for each in ids if each[0] == address] for address in "ABC"] == [
        ["A0", "A1", "A2"],
        ["B0", "B1", "B2"],
        ["C0", "C1", "C2"],
    ]
    assert most_of_a_group == 1


async def test_limits_concurrent_handlers_to_the_consumers_setting() -> None:
    at_work, most, two = 0, 0, asyncio.Barrier(2)

    async def meet(_: ReceivedMessage[Letter]) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await two.wait()
        at_work -= 1

    handle = RecordingHandler(6, meet)
    component = make_carrier(handle, concurrency=2)
    async with open_worker_stores(component) as stores:
        await post(stores, "A1", "B1", "C1", "D1", "E1", "F1")
        async with WorkerGroup(stores, [component], wait_s=WAIT_S):
            await handle.enough.wait()
    assert most == 2


def test_receives_ten_messages_at_once_with_more_free_slots() -> None:
    async def story() -> list[int]:
        handle = RecordingHandler(3)
        component = make_carrier(handle, concurrency=64)
        async with open_worker_stores(component) as stores:
            between = FaultyQueues(stores)
            await post(stores, "A1", "B1", "C1")
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                await handle.enough.wait()
        return between.counts

    assert asyncio.run(story())[0] == 10


def test_releases_messages_behind_a_failure_in_the_same_group_unhandled() -> None:
    """From then on the messages are received one by one."""

    async def story() -> tuple[list[str], list[int]]:
        async def fail_once(received: ReceivedMessage[Letter]) -> None:
            if received.message.id == "p1" and received.receive_count == 1:
                raise RetryLater("not now", retry_after_s=0)

        handle = RecordingHandler(4, fail_once)
        component = make_porter(handle)
        async with open_worker_stores(component) as stores:
            between = FaultyQueues(stores)
            between.group = "one group"
            for number in (1, 2, 3):
                await stores.run(office.hand_in(Letter(id=f"p{number}")))
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                await handle.enough.wait()
            assert await read_backlog(stores, "parcels") == (0, 0)
        return handle.ids, between.counts

    ids, counts = asyncio.run(story())
    assert ids == ["p1", "p1", "p2", "p3"]
    # On such an engine a failing message would drag the others into the dead letters, so they are received
    # one by one.
    assert counts[0] > 1
    assert set(counts[1:]) == {1}


async def test_binds_the_messages_correlation_id_around_its_handler() -> None:
    bound: list[str | None] = []

    async def write_down(_: ReceivedMessage[Letter]) -> None:
        bound.append(get_correlation_id())

    handle = RecordingHandler(2, write_down)
    component = make_carrier(handle)
    async with open_worker_stores(component) as stores:
        with bind_correlation_id("webhook-7"):
            await post(stores, "A1")
        with bind_correlation_id("webhook-8"):
            await post(stores, "A2")
        async with WorkerGroup(stores, [component], wait_s=WAIT_S):
            await handle.enough.wait()
    assert bound == ["webhook-7", "webhook-8"]


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-40")
@pytest.mark.parametrize(
    "error",
    [
        RetryLater("later", retry_after_s=40),
        InProgress("another has it", retry_after_s=40),
        CircuitOpen("open", retry_after_s=40),
        RateLimited("full", retry_after_s=40),
        ExternalServiceFailed("429", may_be_done=False, retry_after_s=40),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_message_with_a_retry_time_waits_exactly_that_long(error: RetryLater) -> None:
    held: list[float] = []
    has_held = asyncio.Event()

    def observe(seconds: float) -> None:
        held.append(seconds)
        has_held.set()

    async def fail(_: ReceivedMessage[Letter]) -> None:
        raise error

    component = make_carrier(fail, pattern_set=observe_holds(observe), retry_delay_s=5, max_retry_delay_s=9)
    async with open_worker_stores(component) as stores:
        await post(stores, "A1")
        async with WorkerGroup(stores, [component], wait_s=WAIT_S):
            await has_held.wait()
        assert await read_backlog(stores) == (1, 0)
    assert held == [40]


@pytest.mark.proves("RP-40")
def test_message_that_keeps_failing_becomes_a_dead_letter_and_is_logged_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> tuple[list[int], tuple[int, int | None]]:
        async def fail(_: ReceivedMessage[Letter]) -> None:
            raise ZeroDivisionError("a mistake")

        async def follow(received: ReceivedMessage[Letter]) -> None:
            if received.message.id == "A1":
                await fail(received)

        handle = RecordingHandler(4, follow)
        component = make_carrier(handle)
        async with open_worker_stores(component) as stores:
            with bind_correlation_id("webhook-9"):
                await post(stores, "A1", "A2")
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                await handle.enough.wait()
            return handle.receives, await read_backlog(stores)

    with caplog.at_level(logging.ERROR):
        receives, left = asyncio.run(story())

    # Three attempts of the first, then the second of its group follows.
    assert receives == [1, 2, 3, 1]
    assert left == (0, 1)
    failures = [record for record in caplog.records if record.exc_info]
    assert [re.split("; | and ", record.getMessage().split(" on ")[1])[0] for record in failures] == [
        "receive 1",
        "receive 2",
        "receive 3 of 3",
    ]
    assert failures[-1].getMessage().endswith("moves to the dead-letter queue: ZeroDivisionError: a mistake")


def test_logs_an_error_with_the_reason_if_retries_use_up_all_receives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> tuple[int, int | None]:
        async def wait(received: ReceivedMessage[Letter]) -> None:
            if received.message.id == "A1":
                raise CircuitOpen("The bank is resting.", retry_after_s=0)

        handle = RecordingHandler(4, wait)
        component = make_carrier(handle)
        async with open_worker_stores(component) as stores:
            await post(stores, "A1", "A2")
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                await handle.enough.wait()
            return await read_backlog(stores)

    with caplog.at_level(logging.INFO):
        assert asyncio.run(story()) == (0, 1)

    logged = [
        (each.levelname, each.getMessage()) for each in caplog.records if "The message" in each.getMessage()
    ]
    assert [level for level, _ in logged] == ["INFO", "INFO", "ERROR"]
    assert (
        "failed on receive 3 of 3 and moves to the dead-letter queue: CircuitOpen: The bank is resting."
        in logged[-1][1]
    )


def test_logs_a_message_interrupted_on_its_last_receive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async def linger(received: ReceivedMessage[Letter]) -> None:
            if received.receive_count < 3:
                raise RetryLater("Not now.", retry_after_s=0)
            await asyncio.Event().wait()

        handle = RecordingHandler(3, linger)
        component = make_carrier(handle)
        async with open_worker_stores(component) as stores:
            await post(stores, "A1")
            stop = asyncio.Event()
            working = asyncio.create_task(run_worker(stores, component, stop=stop, grace_s=0, wait_s=WAIT_S))
            await handle.enough.wait()
            stop.set()
            await working

    asyncio.run(story())

    [logged] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "released unhandled on its last receive and moves to the dead-letter queue" in logged


def test_log_lines_name_their_component_in_a_shared_process() -> None:
    stream = io.StringIO()

    def make_component(name: str) -> Component:
        async def log_sweep(_: Stores) -> None:
            logging.getLogger("holdfast.tests").warning("swept")
            swept[name].set()

        return Component(name, schedules=(Schedule("sweep", 60, log_sweep),))

    swept = {"early": asyncio.Event(), "late": asyncio.Event()}

    async def story() -> None:
        components = [make_component(name) for name in swept]
        system = replace(SYSTEM, components=components)
        async with open_memory_stores(system) as stores, WorkerGroup(stores, components):
            await asyncio.gather(*(each.wait() for each in swept.values()))

    handler = setup_logs(stream, system="postoffice")
    try:
        asyncio.run(story())
    finally:
        logging.getLogger().removeHandler(handler)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {each["component"] for each in lines if each["message"] == "swept"} == {"early", "late"}


async def test_worker_is_ready_once_each_consumer_has_its_handler() -> None:
    may_begin, is_there = asyncio.Event(), []

    @asynccontextmanager
    async def handling(_: Stores) -> AsyncIterator[Handle]:
        await may_begin.wait()
        is_there.append(True)
        yield RecordingHandler()

    component = make_carrier(RecordingHandler())
    consumer = replace(component.consumers[0], open_handler=handling)
    component = replace(component, consumers=(consumer,))
    async with (
        open_worker_stores(component) as stores,
        WorkerGroup(stores, [component], wait_s=WAIT_S) as working,
    ):
        ready = asyncio.create_task(working.wait_until_ready())
        await asyncio.sleep(0)
        assert not ready.done()
        may_begin.set()
        assert [await ready, *is_there] == [True, True]


def test_handler_that_fails_to_open_raises_with_its_queue_and_is_never_ready() -> None:
    async def story() -> None:
        @asynccontextmanager
        async def handling(_: Stores) -> AsyncIterator[Handle]:
            variables: dict[str, Handle] = {}
            yield variables["SHOP_KEY"]

        component = make_carrier(RecordingHandler())
        component = replace(component, consumers=(replace(component.consumers[0], open_handler=handling),))
        async with (
            open_worker_stores(component) as stores,
            WorkerGroup(stores, [component], wait_s=WAIT_S) as working,
        ):
            assert not await working.wait_until_ready()

    with pytest.raises(
        DeclarationError, match="handler of the queue letters failed: KeyError: 'SHOP_KEY'"
    ) as refused:
        asyncio.run(story())
    assert "--debug" in refused.value.__notes__[0]
    assert isinstance(refused.value.__cause__, KeyError)


def test_failure_log_has_the_correlation_id_of_its_message() -> None:
    async def story() -> None:
        async def fail(_: ReceivedMessage[Letter]) -> None:
            raise ZeroDivisionError("a mistake")

        handle = RecordingHandler(1, fail)
        component = make_carrier(handle)
        async with open_worker_stores(component) as stores:
            with bind_correlation_id("webhook-9"):
                await post(stores, "A1")
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                await handle.enough.wait()

    stream = io.StringIO()
    ours = setup_logs(stream)
    try:
        asyncio.run(story())
    finally:
        logging.getLogger().removeHandler(ours)

    failure = json.loads(stream.getvalue().splitlines()[0])
    assert (failure["error"], failure["correlation"]) == ("ZeroDivisionError", "webhook-9")


def test_reports_an_unreadable_message_on_each_receive_until_it_is_dead(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> tuple[int, int | None]:
        handle = RecordingHandler(1)
        component = make_carrier(handle)
        async with open_worker_stores(component) as stores:
            foreign = OutgoingMessage(body='{"paper": "pink"}', group="A", deduplication="x")
            await stores.engines.get("queues").run(SendMessages("letters.fifo", (foreign,)))
            await post(stores, "A1")
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                # It waits behind the other in its group until that one is dead.
                await handle.enough.wait()
            return await read_backlog(stores)

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(story()) == (0, 1)

    said = [record.getMessage() for record in caplog.records if "The message" in record.getMessage()]
    assert ["is unreadable on receive" in each for each in said] == [True, True, False]
    assert "on receive 3 of 3 and moves to the dead-letter queue: MessageUnreadable" in said[-1]
    assert not any(record.exc_info for record in caplog.records)


async def test_handler_that_cancels_itself_has_failed() -> None:
    """Its message is retried, and becomes a dead letter."""

    async def give_up(received: ReceivedMessage[Letter]) -> None:
        if received.message.id == "A1":
            raise asyncio.CancelledError

    handle = RecordingHandler(4, give_up)
    component = make_carrier(handle)
    async with open_worker_stores(component) as stores:
        await post(stores, "A1", "A2")
        async with WorkerGroup(stores, [component], wait_s=WAIT_S):
            await handle.enough.wait()
        assert await read_backlog(stores) == (0, 1)


def test_guide_states_the_duration_of_all_receives() -> None:
    """The table in docs/guides/workers.md has the least, mean and longest time until the last receive."""
    page = Path(__file__).parents[3] / "docs" / "guides" / "workers.md"
    rows = re.findall(r"\| (\d+) \| ([\d,]+) s \| ([\d,]+) s \| ([\d,]+) s \|", page.read_text("utf-8"))
    table = [tuple(int(each.replace(",", "")) for each in row) for row in rows]
    defaults: dict[str, Any] = {each.name: each.default for each in fields(Consumer)}

    def lasts(receives: int, draw: Callable[[float, float], float]) -> int:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(RNG, "uniform", draw)
            pauses = [
                compute_backoff(tries, defaults["retry_delay_s"], defaults["max_retry_delay_s"])
                for tries in range(1, receives)
            ]
        return math.floor(sum(pauses) + 0.5)

    assert len(table) >= 5
    for receives, least, mean, most in table:
        assert lasts(receives, min) == least
        assert lasts(receives, lambda low, high: (low + high) / 2) == mean
        assert lasts(receives, max) == most


def test_backoff_grows_with_each_attempt_within_its_bounds() -> None:
    for tries, most in ((1, 2.0), (2, 4.0), (3, 8.0), (9, 300.0), (10_000, 300.0)):
        several = [compute_backoff(tries, 1.0, 300.0) for _ in range(200)]
        assert min(several) >= 1.0 and max(several) <= most
        # Jittered, so that duplicates do not arrive together.
        assert len(set(several)) > 100


# --- visibility timeout -------------------------------------------------------------------------------------


async def test_message_stays_hidden_while_its_handler_works() -> None:
    may_end, has_held = asyncio.Event(), asyncio.Event()
    held = 0

    def observe(_: float) -> None:
        nonlocal held
        held += 1
        if held == 2:
            has_held.set()

    async def wait(_: ReceivedMessage[Letter]) -> None:
        await may_end.wait()

    queue = replace(office.letters, visibility_s=1)
    component = make_carrier(wait, queue=queue, pattern_set=observe_holds(observe))
    async with open_worker_stores(component) as stores:
        await post(stores, "A1")
        async with WorkerGroup(stores, [component], wait_s=WAIT_S):
            # Two half visibility timeouts have passed, and so the first timeout has.
            await has_held.wait()
            seen = await stores.run(office.take(1, 0.0))
            may_end.set()
        assert (len(seen), await read_backlog(stores)) == (0, (0, 0))


async def test_cancels_a_handler_whose_message_went_to_another_worker() -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()
    clock = ManualClock()

    async def wait(_: ReceivedMessage[Letter]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    component = make_carrier(wait, queue=replace(office.letters, visibility_s=1))
    async with open_worker_stores(component, clock) as stores:
        await post(stores, "A1")
        async with WorkerGroup(stores, [component], wait_s=WAIT_S) as working:
            await began.wait()
            clock.moment += 1
            [other] = await stores.run(office.letters.receive(1, visibility_s=600))
            await cancelled.wait()
            working.stop()
        # It still belongs to the other worker.
        await stores.run(office.done(other))
        assert ([other.message.id], other.receive_count) == (["A1"], 2)


# --- faults and shutdown ------------------------------------------------------------------------------------


def test_waits_for_an_unreachable_store(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> list[str]:
        handle = RecordingHandler(1)
        component = make_carrier(handle)
        async with open_worker_stores(component) as stores:
            FaultyQueues(stores).failures_left = 2
            await post(stores, "A1")
            async with WorkerGroup(stores, [component], wait_s=WAIT_S):
                await handle.enough.wait()
        return handle.ids

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(story()) == ["A1"]
    assert [each.getMessage().endswith("The cable is cut.") for each in caplog.records] == [True, True]


def test_raises_a_permanent_error_and_stops_the_others() -> None:
    async def story() -> bool:
        component = make_carrier(RecordingHandler())
        stop = asyncio.Event()
        async with open_worker_stores(component) as stores:
            await stores.engines.get("queues").run(DeleteQueue("letters.fifo"))
            with pytest.raises(NotFound):
                await run_worker(stores, component, stop=stop, wait_s=WAIT_S)
        return stop.is_set()

    assert asyncio.run(story())


async def test_finishes_messages_in_progress_after_a_stop_and_starts_no_new_ones() -> None:
    may_end = asyncio.Event()

    async def wait(_: ReceivedMessage[Letter]) -> None:
        await may_end.wait()

    handle = RecordingHandler(1, wait)
    component = make_carrier(handle, concurrency=1)
    stop = asyncio.Event()
    async with open_worker_stores(component) as stores:
        await post(stores, "A1", "B1")
        working = asyncio.create_task(run_worker(stores, component, stop=stop, wait_s=WAIT_S))
        await handle.enough.wait()
        stop.set()
        may_end.set()
        await working
        assert (handle.ids, await read_backlog(stores)) == (["A1"], (1, 0))


async def test_cancels_and_releases_messages_when_the_grace_period_ends() -> None:
    cancelled = False

    async def wait(_: ReceivedMessage[Letter]) -> None:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True
            raise

    handle = RecordingHandler(1, wait)
    component = make_carrier(handle)
    stop = asyncio.Event()
    async with open_worker_stores(component) as stores:
        await post(stores, "A1")
        working = asyncio.create_task(run_worker(stores, component, stop=stop, grace_s=0, wait_s=WAIT_S))
        await handle.enough.wait()
        stop.set()
        await working
        [again] = await stores.run(office.take(1, 0.0))
        assert (cancelled, again.receive_count) == (True, 2)


async def test_second_stop_interrupts_messages_in_progress() -> None:
    async def wait(_: ReceivedMessage[Letter]) -> None:
        await asyncio.Event().wait()

    handle = RecordingHandler(1, wait)
    component = make_carrier(handle)
    async with open_worker_stores(component) as stores:
        await post(stores, "A1")
        async with WorkerGroup(stores, [component], wait_s=WAIT_S) as working:
            await handle.enough.wait()
            working.stop()
            working.stop()
        assert len(await stores.run(office.take(1, 0.0))) == 1


# --- declarations -------------------------------------------------------------------------------------------


def test_component_may_run_its_consumers_patterns() -> None:
    own = (office.take, office.done, office.hold)

    assert Component("carrier", consumers=office.CARRIER.consumers).patterns == own


def test_rejects_a_component_without_work() -> None:
    async def story() -> None:
        async with open_memory_stores(SYSTEM) as stores:
            await run_worker(stores, SYSTEM.get_component("idle"))

    with pytest.raises(InvalidRequest, match="The component idle has no consumers or schedules"):
        asyncio.run(story())
