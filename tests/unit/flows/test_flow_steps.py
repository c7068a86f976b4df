"""Steps of a flow in memory: committed in one transaction, retried, delayed, failed, parked, resumed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Stores, Write
from holdfast.core.errors import ComponentRefused, ConditionFailed, InvalidRequest, LeaseLost
from holdfast.flows import Next, ParkedFor, Retry, State, Step, StepContext, StepMessage, Visit, parse_history
from holdfast.flows.history import MAX_VISITS, extend_history
from holdfast.flows.sweeper import LOOK_AHEAD_S
from holdfast.flows.worker import MAX_TAKES, StepWorker
from tests.unit.flows.errands import (
    ERRANDS,
    NOON,
    STATES,
    SYSTEM,
    Bench,
    Errand,
    HandClock,
    Shown,
    create_errand,
    get_step,
    happened,
    make_failure,
    make_flow,
    make_rate_limit,
    open_bench,
    steps,
)

DAY_S = 86_400.0


def run_story(story: Callable[[Bench], Awaitable[None]]) -> None:
    """Run the story on a bench with in-memory stores."""

    async def run() -> None:
        at = await open_bench()
        async with at.stores:
            await story(at)

    asyncio.run(run())


def test_steps_run_to_the_wait_and_after_the_answer_to_the_end() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        assert (errand.status, errand.plan, errand.version) == (Shown.asked, "a plan", 3)
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.key, place.state, place.due) == ("o-1#e-1", "offered", errand.flow_due)
        at.clock.advance(5)
        await at.choose(errand)
        await at.work()
        errand = await at.get_errand()
        assert (errand.flow_state, errand.status, errand.chosen) == ("done", Shown.done, "red")
        assert errand.flow_token is None and errand.flow_due is None
        assert errand.changed_at is not None and errand.changed_at.timestamp() == NOON + 5
        assert await at.list_effects() == ["Book", "Choice", "Confirm", "Offer", "Plan"]
        assert await at.flow.list_executions(at.stores) == []
        assert await at.flow.outbox.list_unsent(at.stores) == []

    run_story(story)


def test_duplicate_message_changes_nothing() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.stores.run(steps.send(StepMessage(flow="errand", key="o-1#e-1", state="asked", version=1)))
        await at.work()
        assert at.tools.ran == ["Plan", "Offer"]

    run_story(story)


def test_drops_the_result_of_a_step_cancelled_meanwhile() -> None:
    async def story(at: Bench) -> None:
        async def cancel_meanwhile(run: StepContext[Errand]) -> None:
            await at.flow.cancel(at.stores, run.item, "no more")

        at.tools.within["Plan"] = cancel_meanwhile
        await at.begin()
        await at.work()
        errand = await at.get_errand()
        assert (errand.flow_state, errand.reason, errand.plan) == ("cancelled", "no more", None)
        assert await at.list_effects() == ["Cancelled"]

    run_story(story)


def test_two_workers_with_the_same_step_write_it_once() -> None:
    async def story(at: Bench) -> None:
        at.tools.within["Plan"] = make_barrier_hook(asyncio.Barrier(2))
        await at.begin()
        (received,) = await at.stores.run(steps.receive(1))
        driver = StepWorker(at.flow, at.stores, at.tools)
        await asyncio.gather(driver.handle(received), driver.handle(received))
        assert at.tools.ran == ["Plan", "Plan"] and await at.list_effects() == ["Plan"]
        assert (await at.get_errand()).version == 2

    run_story(story)


def make_barrier_hook(barrier: asyncio.Barrier) -> Callable[[StepContext[Errand]], Awaitable[None]]:
    """Return a hook that makes two runs of a step wait for each other."""

    async def wait_for_the_other(run: StepContext[Errand]) -> None:
        await barrier.wait()

    return wait_for_the_other


def test_retries_a_named_error_after_its_pause() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [make_failure(), make_failure()]
        await at.begin()
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.attempts, place.error) == (1, "PartyFailed: The shop answered 502.")
        copy = StepMessage(flow="errand", key="o-1#e-1", state="asked", version=1)
        await at.stores.run(steps.send(copy))
        assert await at.pass_time(0.9) == 1 and at.tools.ran == ["Plan"]
        assert await at.pass_time(1.2) == 1
        assert await at.pass_time(60) == 2  # the third try, and the step after it
        assert at.tools.ran == ["Plan", "Plan", "Plan", "Offer"]
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.state, place.attempts, place.error) == ("offered", 0, None)

    run_story(story)


def test_failed_attempt_is_recorded_together_with_the_writes_of_on_retry() -> None:
    def note(run: StepContext[Errand], error: Exception) -> tuple[Write[Any], ...]:
        return (happened(run.item.errand_id, f"Retry {run.attempt}: {error}"),)

    async def story(at: Bench) -> None:
        plan = replace(STATES[0], action=replace(get_step(STATES[0]), on_retry=note))
        at = at.with_flow(make_flow((plan, *STATES[1:])))
        at.tools.errors["Plan"] = [make_failure(), make_failure(), make_failure()]
        await at.begin()
        await at.work()
        while (await at.get_errand()).flow_state == "asked":
            await at.pass_time(60)
        # The third failure is the last, which `on_failure` handles.
        retries = [each for each in await at.list_effects() if each.startswith("Retry")]
        assert retries == ["Retry 1: The shop answered 502.", "Retry 2: The shop answered 502."]

    run_story(story)


def test_retry_waits_as_long_as_the_service_asks() -> None:
    async def story(at: Bench) -> None:
        error = make_failure()
        error.retry_after_s = 300
        at.tools.errors["Plan"] = [error]
        await at.begin()
        await at.work()
        assert await at.pass_time(299) == 0
        assert await at.pass_time(1) == 2

    run_story(story)


def test_pause_that_a_process_a_day_ahead_recorded_ends_after_its_length() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [make_failure()]
        at.clock.advance(DAY_S)
        await at.begin()
        await at.work()
        at.clock.advance(-DAY_S)
        assert await at.pass_time(0) == 0
        assert await at.pass_time(LOOK_AHEAD_S) == 2

    run_story(story)


def test_process_a_day_behind_does_not_shorten_a_pause() -> None:
    async def story(at: Bench) -> None:
        error = make_failure()
        error.retry_after_s = 2 * LOOK_AHEAD_S
        at.tools.errors["Plan"] = [error]
        await at.begin()
        await at.work()
        late = HandClock(NOON - DAY_S)
        behind = Stores(at.stores.tables, clock=late, engines=at.stores.engines)
        for _ in range(2):
            assert (await at.flow.sweep(behind)).sent == 0
            late.advance(LOOK_AHEAD_S)
        assert (await at.flow.sweep(behind)).sent == 1

    run_story(story)


def test_last_failed_attempt_runs_on_failure() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [make_failure(), make_failure(), make_failure()]
        await at.begin()
        await at.work()
        await at.pass_time(60)
        await at.pass_time(60)
        errand = await at.get_errand()
        assert (errand.flow_state, errand.status, errand.reason) == ("failed", Shown.failed, "PartyFailed")
        assert await at.list_effects() == ["GaveUp"] and len(at.tools.ran) == 3
        assert await at.flow.list_executions(at.stores) == []

    run_story(story)


def test_error_without_a_retry_runs_on_failure_at_once() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [KeyError("the traveller's name")]
        await at.begin()
        await at.work()
        assert ((await at.get_errand()).flow_state, (await at.get_errand()).reason) == ("failed", "KeyError")

    run_story(story)


def test_parked_execution_shows_its_attempts() -> None:
    async def story(at: Bench) -> None:
        asked = replace(get_step(STATES[0]), on_failure=None)
        at = at.with_flow(make_flow((replace(STATES[0], action=asked), *STATES[1:])))
        at.tools.errors["Plan"] = [make_failure(), make_failure(), make_failure()]
        await at.begin()
        await at.work()
        for _ in range(2):
            await at.pass_time(120)
        (place,) = await at.flow.list_executions(at.stores)
        assert "(after 3 attempts, and the step declares no on_failure" in (place.parked or "")

    run_story(story)


def test_step_without_on_failure_is_parked_and_can_be_resumed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(at: Bench) -> None:
        counted: list[str] = []
        at.stores.measurements.subscribe(lambda each: counted.append(each.name))
        at.tools.errors["Offer"] = [KeyError("the traveller's name")]
        await at.begin()
        with caplog.at_level(logging.ERROR):
            await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.state, place.parked_for) == ("planned", ParkedFor.FAILED)
        assert place.parked == "KeyError (at the first attempt, and the step declares no on_failure)."
        assert "holdfast flows resume" in caplog.text and "flow_parked" in counted
        assert await at.pass_time(86400) == 0 and (await at.get_errand()).flow_state == "planned"
        await at.flow.retry_unknown_states(at.stores)
        assert await at.work() == 0
        assert await at.flow.resume(at.stores) == 1
        await at.work()
        assert (await at.get_errand()).flow_state == "offered"

    run_story(story)


def test_temporary_error_delays_the_step_without_counting_an_attempt() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Book"] = [make_rate_limit(40), LeaseLost("another is at it"), make_rate_limit(40)]
        await at.choose(await at.begin_and_reach_offer())
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.state, place.attempts, place.delays) == ("chosen", 0, 1)
        assert await at.pass_time(39) == 0
        assert await at.pass_time(1) == 1
        await at.pass_time(60)
        await at.pass_time(60)
        assert (await at.get_errand()).flow_state == "done"

    run_story(story)


def test_step_fails_after_its_maximum_delay() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Book"] = [make_rate_limit(1800) for _ in range(9)]
        await at.choose(await at.begin_and_reach_offer())
        await at.work()
        await at.pass_time(1800)
        assert (await at.get_errand()).flow_state == "chosen"
        await at.pass_time(1800)
        assert ((await at.get_errand()).flow_state, (await at.get_errand()).reason) == (
            "failed",
            "RateLimited",
        )

    run_story(story)


def test_refused_write_of_a_step_runs_its_on_failure() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.stores.run(happened("e-1", "Plan"))  # so that the step's own effect is refused
        flow = make_flow(
            (
                replace(
                    STATES[0],
                    action=replace(get_step(STATES[0]), retries=(Retry(Exception, max_attempts=1),)),
                ),
                *STATES[1:],
            )
        )
        at = at.with_flow(flow)
        await at.work()
        errand = await at.get_errand()
        assert (errand.flow_state, errand.reason, errand.plan) == ("failed", "TransactionCancelled", None)

    run_story(story)


@pytest.mark.parametrize(
    "gives",
    [
        Next("done"),
        Next("no such state"),
        Next("planned", {"flow_state": "done"}),
        Next("planned", {"owner": "somebody else"}),
        Next("planned", {"status": Shown.done}),
        Next("planned", {"colour": "red"}),
        Next("planned", {"version": 7}),
        Next("planned", {"plan": 12}),
        Next("planned", {"chosen": "o-1"}),
        "planned",
    ],
    ids=str,
)
def test_parks_a_step_with_an_invalid_result(gives: Any) -> None:
    async def story(at: Bench) -> None:
        at.tools.gives["Plan"] = gives
        before = await at.begin()
        await at.work()
        assert await at.get_errand() == before and await at.list_effects() == []
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.MISTAKE and place.parked
        del at.tools.gives["Plan"]
        assert await at.flow.resume(at.stores, ("o-1", "e-1")) == 1
        await at.work()
        assert (await at.get_errand()).flow_state == "offered"

    run_story(story)


def test_resends_a_lost_message() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        (lost,) = await at.stores.run(steps.receive(1))
        await at.stores.run(steps.delete(lost))
        assert await at.pass_time(119) == 0
        assert await at.pass_time(1) == 2
        assert (await at.get_errand()).flow_state == "offered"

    run_story(story)


def test_schedule_relays_an_unsent_message() -> None:
    async def story(at: Bench) -> None:
        errand = at.flow.initial(at.stores, Errand(owner="o-1", errand_id="e-1"))
        await at.stores.transact(create_errand(errand), *at.flow.start_writes(at.stores, errand))
        assert await at.work() == 0
        relay = next(each for each in at.flow.schedules if "relay" in each.name)
        await relay.run(at.stores)
        assert await at.work() == 2

    run_story(story)


def test_parks_a_step_that_keeps_killing_its_worker() -> None:
    async def story(at: Bench) -> None:
        at.tools.within["Plan"] = kill_worker
        await at.begin()
        driver, died = StepWorker(at.flow, at.stores, at.tools), 0
        while not (await at.flow.list_executions(at.stores))[0].is_parked:
            at.clock.advance(3600)
            await at.flow.sweep(at.stores)
            while received := await at.stores.run(steps.receive(1)):
                try:
                    await driver.handle(received[0])
                except asyncio.CancelledError:
                    died += 1
                    await at.stores.run(steps.change_visibility(*received, seconds=0))
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.LOST and MAX_TAKES <= died < 2 * MAX_TAKES
        assert place.parked is not None and "never ended" in place.parked

    run_story(story)


async def kill_worker(run: StepContext[Errand]) -> None:
    """End the worker in the middle of the step, as if its process died."""
    raise asyncio.CancelledError


def test_resends_less_often_while_no_worker_runs() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        sent = 0
        for _ in range(2 * 24 * 6):
            at.clock.advance(600)
            sent += (await at.flow.sweep(at.stores)).sent
        assert 48 <= sent <= 60
        await at.work()
        assert (await at.get_errand()).flow_state == "offered" and at.tools.ran == ["Plan", "Offer"]

    run_story(story)


def test_step_that_exceeds_its_timeout_is_parked() -> None:
    async def forever(run: StepContext[Errand]) -> Next:
        await asyncio.Event().wait()
        raise AssertionError("the event is never set")

    async def story(at: Bench) -> None:
        slow = Step("Plan", forever, to=("planned",), timeout_s=0.01)
        at = at.with_flow(make_flow((State("asked", slow, shown_as=Shown.new), *STATES[1:])))
        await at.begin()
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked is not None and place.parked.startswith("TimeoutError")

    run_story(story)


def test_attempt_failed_by_two_workers_counts_once() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [make_failure(), make_failure()]
        at.tools.within["Plan"] = make_barrier_hook(asyncio.Barrier(2))
        await at.begin()
        (received,) = await at.stores.run(steps.receive(1))
        driver = StepWorker(at.flow, at.stores, at.tools)
        await asyncio.gather(driver.handle(received), driver.handle(received))
        (place,) = await at.flow.list_executions(at.stores)
        assert place.attempts == 1

    run_story(story)


def test_parks_an_unknown_state_until_newer_code_resumes_it() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)  # it is in planned
        older = at.with_flow(make_older_flow())
        assert await older.work() == 1
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.UNKNOWN_STATE and "'planned'" in (place.parked or "")
        await older.flow.retry_unknown_states(at.stores)
        assert await older.work() == 0
        await at.flow.retry_unknown_states(at.stores)
        await at.work()
        assert (await at.get_errand()).flow_state == "offered"

    run_story(story)


def make_older_flow() -> Any:
    """Build the flow of older code, without the state `planned`."""
    first = Step("Plan", get_step(STATES[0]).run, to=("offered",))
    chosen = replace(STATES[3], action=replace(get_step(STATES[3]), to=("booked",)))
    return make_flow(
        (State("asked", first, shown_as=Shown.new), STATES[2], chosen, STATES[4], STATES[5], STATES[7]),
        cancel=None,
    )


def test_sweeper_parks_an_unknown_state_without_a_message() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)
        (lost,) = await at.stores.run(steps.receive(1))
        await at.stores.run(steps.delete(lost))
        at.clock.advance(3600)
        report = await make_older_flow().sweep(at.stores)
        assert (report.parked, report.sent) == (1, 0)

    run_story(story)


def test_parks_an_unreadable_item_until_it_is_readable() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        item = (await at.get_errand()).to_item()
        await overwrite(at.stores, item | {"status": "from another time"})
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.UNREADABLE and "status" in (place.parked or "")
        await at.flow.retry_unknown_states(at.stores)
        assert await at.work() == 0
        await overwrite(at.stores, item)
        await at.flow.retry_unknown_states(at.stores)
        await at.work()
        assert (await at.get_errand()).flow_state == "offered"

    run_story(story)


async def overwrite(stores: Stores, item: Any) -> None:
    """Store an errand's item as other code might have stored it."""
    from holdfast.operations.tables import PutItem

    await stores.tables.run(PutItem(stores.physical_name(SYSTEM.get_table("Errands")), item))


def test_flow_follows_an_item_that_was_fixed_by_hand() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)
        seen = await at.get_errand()
        await at.stores.run(
            Errand.put(seen.model_copy(update={"flow_state": "asked"})).at_version(
                Errand.version, seen.version
            )
        )
        await at.stores.run(delete_effect("Plan"))
        await at.work()
        assert at.tools.ran == ["Plan", "Plan", "Offer"]
        assert (await at.get_errand()).flow_state == "offered"

    run_story(story)


def delete_effect(what: str) -> Any:
    """Return the delete of one effect of errand `e-1`."""
    from tests.unit.flows.errands import Happened

    return Happened.of("e-1").delete(what)


def test_step_tolerates_other_writes_to_its_item() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin()
        noted = Errand.put(errand.model_copy(update={"reason": "a note"}))
        await at.stores.run(noted.at_version(Errand.version, 1))
        await at.work()
        errand = await at.get_errand()
        assert (errand.flow_state, errand.reason, errand.version) == ("offered", "a note", 4)
        await at.choose(errand)

    run_story(story)


def test_deleting_the_item_ends_its_flow() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.stores.run(Errand.of("o-1").delete("e-1"))
        await at.work()
        assert await at.flow.list_executions(at.stores) == []

    run_story(story)


def test_resumes_a_restored_item_by_its_key() -> None:
    async def story(at: Bench) -> None:
        item = at.flow.initial(at.stores, Errand(owner="o-1", errand_id="e-1"))
        await at.stores.run(create_errand(item))
        assert await at.flow.resume(at.stores, item) == 1
        await at.work()
        assert (await at.get_errand()).flow_state == "offered"
        await at.flow.cancel(at.stores, item, "enough")
        with pytest.raises(InvalidRequest, match="ended"):
            await at.flow.resume(at.stores, item)

    run_story(story)


def test_flow_starts_once_and_in_its_first_state() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin()
        with pytest.raises(ConditionFailed):
            await at.stores.run(at.flow.start_writes(at.stores, errand)[0])
        with pytest.raises(
            InvalidRequest, match=r"Invalid Errand: expected the state 'asked', got ''\. Make it with"
        ):
            at.flow.start_writes(at.stores, Errand(owner="o-1", errand_id="e-2"))

    run_story(story)


def test_components_need_only_the_flows_patterns() -> None:
    async def story(at: Bench) -> None:
        api = Bench(at.stores.for_component("api"), at.clock)
        worker = Bench(at.stores.for_component("worker"), at.clock)
        errand = api.flow.initial(api.stores, Errand(owner="o-1", errand_id="e-1"))
        await api.stores.transact(create_errand(errand), *api.flow.start_writes(api.stores, errand))
        await api.flow.dispatch_now(api.stores, errand)
        driver = StepWorker(ERRANDS, worker.stores, worker.tools)
        for _ in range(2):
            (received,) = await worker.stores.run(ERRANDS.pattern_set.consumer.receive(1, 0.0))
            await driver.handle(received)
            await worker.stores.run(ERRANDS.pattern_set.consumer.delete(received))
        worker.clock.advance(1)
        await ERRANDS.sweep(worker.stores)
        await ERRANDS.retry_unknown_states(worker.stores)
        await api.choose(await at.get_errand())
        with pytest.raises(ComponentRefused):
            await worker.stores.run(create_errand(errand))

    run_story(story)


def test_resent_message_keeps_the_correlation_id() -> None:
    from holdfast.core.correlation import bind_correlation_id

    async def story(at: Bench) -> None:
        with bind_correlation_id("request-7"):
            await at.begin()
        (lost,) = await at.stores.run(steps.receive(1))
        await at.stores.run(steps.delete(lost))
        at.clock.advance(121)
        await at.flow.sweep(at.stores)
        (again,) = await at.stores.run(steps.receive(1))
        assert (lost.correlation_id, again.correlation_id) == ("request-7", "request-7")

    run_story(story)


def test_due_time_uses_the_stores_clock() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        (place,) = await at.flow.list_executions(at.stores)
        assert place.due == place.since + timedelta(seconds=120)
        assert place.since.timestamp() == NOON

    run_story(story)


def test_item_keeps_the_states_that_it_left() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [make_failure()]
        await at.begin()
        await at.work()
        await at.pass_time(1.2)
        errand = await at.get_errand()

        asked, planned = parse_history(errand.flow_history)

        assert (asked.state, asked.failures, asked.error) == ("asked", 1, "PartyFailed")
        assert asked.since == datetime.fromtimestamp(NOON, UTC) and asked.duration_s == 1.2
        assert (planned.failures, planned.error) == (0, None)
        assert planned.since == asked.until and planned.until == errand.flow_since

    run_story(story)


def test_history_counts_the_attempt_that_ran_on_failure() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [KeyError("the traveller's name")]
        await at.begin()
        await at.work()
        (visit,) = parse_history((await at.get_errand()).flow_history)
        assert (visit.state, visit.failures, visit.error) == ("asked", 1, "KeyError")

    run_story(story)


def test_history_is_bounded_and_drops_the_oldest() -> None:
    errand = Errand(owner="o", errand_id="e", flow_state="asked")
    for number in range(MAX_VISITS + 3):
        until = datetime.fromtimestamp(NOON + number, UTC)
        errand = errand.model_copy(update={"flow_history": extend_history(errand, until, 0, None)})

    visits = parse_history(errand.flow_history)

    assert len(visits) == MAX_VISITS
    assert visits[0].until == datetime.fromtimestamp(NOON + 3, UTC)


@pytest.mark.parametrize("state", ["asked", "a|b"])
def test_visit_reads_back_as_it_was_written(state: str) -> None:
    now = datetime.fromtimestamp(NOON, UTC)
    visit = Visit(state, now, now + timedelta(milliseconds=1500), 2, "PartyFailed")
    assert parse_history([visit.encode(), "written by newer code"]) == [visit]
