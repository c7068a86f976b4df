"""What becomes of a step: done in one transaction, tried again, put off, otherwise, parked; never twice, never lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.errors import ComponentRefused, ConditionFailed, InvalidRequest, LeaseLost
from holdfast.flows import Next, ParkedFor, Retry, State, Step, StepContext, StepMessage
from holdfast.flows.worker import MAX_TAKES, StepWorker
from tests.unit.flows.errands import (
    ERRANDS,
    NOON,
    STATES,
    SYSTEM,
    Bench,
    Errand,
    Shown,
    bench,
    create_errand,
    failed,
    flow_of,
    happened,
    limited,
    step_in,
    steps,
)


def told(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def on_a_bench() -> None:
        at = await bench()
        async with at.stores:
            await story(at)

    asyncio.run(on_a_bench())


def test_each_step_leads_to_the_next_until_the_wait_and_after_the_answer_to_the_end() -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        assert (errand.status, errand.plan, errand.version) == (Shown.asked, "a plan", 3)
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.key, place.state, place.due) == ("o-1#e-1", "offered", errand.flow_due)
        at.clock.advance(5)
        await at.choose(errand)
        await at.work()
        errand = await at.errand()
        assert (errand.flow_state, errand.status, errand.chosen) == ("done", Shown.done, "red")
        assert errand.flow_token is None and errand.flow_due is None
        assert errand.changed_at is not None and errand.changed_at.timestamp() == NOON + 5
        assert await at.effects() == ["Book", "Choice", "Confirm", "Offer", "Plan"]
        assert await at.flow.list_executions(at.stores) == []
        assert await at.flow.outbox.list_unsent(at.stores) == []

    told(story)


def test_a_message_that_comes_again_changes_nothing() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.stores.run(steps.send(StepMessage(flow="errand", key="o-1#e-1", state="asked", version=1)))
        await at.work()
        assert at.tools.ran == ["Plan", "Offer"]

    told(story)


def test_the_result_of_a_step_whose_item_was_cancelled_meanwhile_is_dropped() -> None:
    async def story(at: Bench) -> None:
        async def somebody_cancels(run: StepContext[Errand]) -> None:
            await at.flow.cancel(at.stores, run.item, "no more")

        at.tools.within["Plan"] = somebody_cancels
        await at.begin()
        await at.work()
        errand = await at.errand()
        assert (errand.flow_state, errand.reason, errand.plan) == ("cancelled", "no more", None)
        assert await at.effects() == ["Cancelled"]

    told(story)


def test_two_workers_with_the_same_step_write_it_once() -> None:
    async def story(at: Bench) -> None:
        at.tools.within["Plan"] = _both(asyncio.Barrier(2))
        await at.begin()
        (received,) = await at.stores.run(steps.receive(1))
        driver = StepWorker(at.flow, at.stores, at.tools)
        await asyncio.gather(driver.handle(received), driver.handle(received))
        assert at.tools.ran == ["Plan", "Plan"] and await at.effects() == ["Plan"]
        assert (await at.errand()).version == 2

    told(story)


def _both(barrier: asyncio.Barrier) -> Callable[[StepContext[Errand]], Awaitable[None]]:
    async def wait_for_the_other(run: StepContext[Errand]) -> None:
        await barrier.wait()

    return wait_for_the_other


def test_an_error_that_a_retry_names_is_tried_again_after_its_pause_and_not_before() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [failed(), failed()]
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

    told(story)


def test_a_party_that_says_when_to_come_again_is_given_so_long() -> None:
    async def story(at: Bench) -> None:
        error = failed()
        error.retry_after_s = 300
        at.tools.errors["Plan"] = [error]
        await at.begin()
        await at.work()
        assert await at.pass_time(299) == 0
        assert await at.pass_time(1) == 2

    told(story)


def test_after_its_last_try_the_step_says_what_happens_otherwise() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [failed(), failed(), failed()]
        await at.begin()
        await at.work()
        await at.pass_time(60)
        await at.pass_time(60)
        errand = await at.errand()
        assert (errand.flow_state, errand.status, errand.reason) == ("failed", Shown.failed, "PartyFailed")
        assert await at.effects() == ["GaveUp"] and len(at.tools.ran) == 3
        assert await at.flow.list_executions(at.stores) == []

    told(story)


def test_an_error_that_no_retry_names_goes_to_otherwise_at_once() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [KeyError("the traveller's name")]
        await at.begin()
        await at.work()
        assert ((await at.errand()).flow_state, (await at.errand()).reason) == ("failed", "KeyError")

    told(story)


def test_what_is_parked_tells_how_often_it_was_tried() -> None:
    async def story(at: Bench) -> None:
        asked = replace(step_in(STATES[0]), on_failure=None)
        at = at.with_flow(flow_of((replace(STATES[0], action=asked), *STATES[1:])))
        at.tools.errors["Plan"] = [failed(), failed(), failed()]
        await at.begin()
        await at.work()
        for _ in range(2):
            await at.pass_time(120)
        (place,) = await at.flow.list_executions(at.stores)
        assert "(after 3 attempts, and the step declares no on_failure" in (place.parked or "")

    told(story)


def test_a_step_without_an_otherwise_is_parked_and_goes_on_when_it_is_resumed(
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
        assert await at.pass_time(86400) == 0 and (await at.errand()).flow_state == "planned"
        await at.flow.retry_unknown_states(at.stores)
        assert await at.work() == 0
        assert await at.flow.resume(at.stores) == 1
        await at.work()
        assert (await at.errand()).flow_state == "offered"

    told(story)


def test_what_passes_by_itself_puts_a_step_off_and_is_no_failed_try() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Book"] = [limited(40), LeaseLost("another is at it"), limited(40)]
        await at.choose(await at.at_offer())
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.state, place.attempts, place.delays) == ("chosen", 0, 1)
        assert await at.pass_time(39) == 0
        assert await at.pass_time(1) == 1
        await at.pass_time(60)
        await at.pass_time(60)
        assert (await at.errand()).flow_state == "done"

    told(story)


def test_what_should_have_passed_and_does_not_fails_the_step_when_its_patience_ends() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Book"] = [limited(1800) for _ in range(9)]
        await at.choose(await at.at_offer())
        await at.work()
        await at.pass_time(1800)
        assert (await at.errand()).flow_state == "chosen"
        await at.pass_time(1800)
        assert ((await at.errand()).flow_state, (await at.errand()).reason) == ("failed", "RateLimited")

    told(story)


def test_a_write_of_the_step_that_is_refused_is_an_error_of_the_step() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.stores.run(happened("e-1", "Plan"))  # so that the step's own cannot be created
        flow = flow_of(
            (
                replace(
                    STATES[0], action=replace(step_in(STATES[0]), retries=(Retry(Exception, max_attempts=1),))
                ),
                *STATES[1:],
            )
        )
        at = at.with_flow(flow)
        await at.work()
        errand = await at.errand()
        assert (errand.flow_state, errand.reason, errand.plan) == ("failed", "TransactionCancelled", None)

    told(story)


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
def test_what_a_step_may_not_do_is_parked_and_never_written(gives: Any) -> None:
    async def story(at: Bench) -> None:
        at.tools.gives["Plan"] = gives
        before = await at.begin()
        await at.work()
        assert await at.errand() == before and await at.effects() == []
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.MISTAKE and place.parked
        del at.tools.gives["Plan"]
        assert await at.flow.resume(at.stores, ("o-1", "e-1")) == 1
        await at.work()
        assert (await at.errand()).flow_state == "offered"

    told(story)


def test_a_message_that_was_lost_is_sent_again_when_nothing_was_heard_of_its_step() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        (lost,) = await at.stores.run(steps.receive(1))
        await at.stores.run(steps.delete(lost))
        assert await at.pass_time(119) == 0
        assert await at.pass_time(1) == 2
        assert (await at.errand()).flow_state == "offered"

    told(story)


def test_an_announcement_that_was_never_sent_is_relayed_by_the_schedule() -> None:
    async def story(at: Bench) -> None:
        errand = at.flow.initial(Errand(owner="o-1", errand_id="e-1"), at.stores)
        await at.stores.transact(create_errand(errand), *at.flow.start_writes(at.stores, errand))
        assert await at.work() == 0
        relay = next(each for each in at.flow.schedules if "relay" in each.name)
        await relay.run(at.stores)
        assert await at.work() == 2

    told(story)


def test_a_step_that_ends_its_worker_again_and_again_is_parked() -> None:
    async def story(at: Bench) -> None:
        at.tools.within["Plan"] = _killed
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

    told(story)


async def _killed(run: StepContext[Errand]) -> None:
    raise asyncio.CancelledError


def test_while_nobody_works_messages_are_sent_again_ever_more_seldom() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        sent = 0
        for _ in range(2 * 24 * 6):
            at.clock.advance(600)
            sent += (await at.flow.sweep(at.stores)).sent
        assert 48 <= sent <= 60
        await at.work()
        assert (await at.errand()).flow_state == "offered" and at.tools.ran == ["Plan", "Offer"]

    told(story)


def test_a_step_that_takes_longer_than_its_limit_is_broken_off() -> None:
    async def forever(run: StepContext[Errand]) -> Next:
        await asyncio.Event().wait()
        raise AssertionError("it is never set")

    async def story(at: Bench) -> None:
        slow = Step("Plan", forever, to=("planned",), timeout_s=0.01)
        at = at.with_flow(flow_of((State("asked", slow, shown_as=Shown.new), *STATES[1:])))
        await at.begin()
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked is not None and place.parked.startswith("TimeoutError")

    told(story)


def test_a_failed_try_is_counted_once_though_two_workers_made_it() -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [failed(), failed()]
        at.tools.within["Plan"] = _both(asyncio.Barrier(2))
        await at.begin()
        (received,) = await at.stores.run(steps.receive(1))
        driver = StepWorker(at.flow, at.stores, at.tools)
        await asyncio.gather(driver.handle(received), driver.handle(received))
        (place,) = await at.flow.list_executions(at.stores)
        assert place.attempts == 1

    told(story)


def test_an_unknown_state_is_parked_and_taken_up_by_code_that_knows_it() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)  # it stands in planned
        older = at.with_flow(_without_planned())
        assert await older.work() == 1
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.UNKNOWN_STATE and "'planned'" in (place.parked or "")
        await older.flow.retry_unknown_states(at.stores)
        assert await older.work() == 0
        await at.flow.retry_unknown_states(at.stores)
        await at.work()
        assert (await at.errand()).flow_state == "offered"

    told(story)


def _without_planned() -> Any:
    """Code from before there was a plan."""
    first = Step("Plan", step_in(STATES[0]).run, to=("offered",))
    chosen = replace(STATES[3], action=replace(step_in(STATES[3]), to=("booked",)))
    return flow_of(
        (State("asked", first, shown_as=Shown.new), STATES[2], chosen, STATES[4], STATES[5], STATES[7]),
        cancel=None,
    )


def test_an_unknown_state_whose_message_is_lost_is_parked_by_the_sweeper() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)
        (lost,) = await at.stores.run(steps.receive(1))
        await at.stores.run(steps.delete(lost))
        at.clock.advance(3600)
        report = await _without_planned().sweep(at.stores)
        assert (report.parked, report.sent) == (1, 0)

    told(story)


def test_an_item_that_cannot_be_read_is_parked_and_taken_up_when_it_can() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        item = (await at.errand()).to_item()
        await _overwritten(at.stores, item | {"status": "from another time"})
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.UNREADABLE and "status" in (place.parked or "")
        await at.flow.retry_unknown_states(at.stores)
        assert await at.work() == 0
        await _overwritten(at.stores, item)
        await at.flow.retry_unknown_states(at.stores)
        await at.work()
        assert (await at.errand()).flow_state == "offered"

    told(story)


async def _overwritten(stores: Stores, item: Any) -> None:
    from holdfast.operations.tables import PutItem

    await stores.tables.run(PutItem(stores.physical_name(SYSTEM.get_table("Errands")), item))


def test_the_flow_follows_an_item_that_was_mended_by_hand() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)
        seen = await at.errand()
        await at.stores.run(
            Errand.put(seen.model_copy(update={"flow_state": "asked"})).at_version(
                Errand.version, seen.version
            )
        )
        await at.stores.run(_forgotten("Plan"))
        await at.work()
        assert at.tools.ran == ["Plan", "Plan", "Offer"]
        assert (await at.errand()).flow_state == "offered"

    told(story)


def _forgotten(what: str) -> Any:
    from tests.unit.flows.errands import Happened

    return Happened.of("e-1").delete(what)


def test_others_may_write_the_item_while_a_step_is_on_its_way() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin()
        noted = Errand.put(errand.model_copy(update={"reason": "a note"}))
        await at.stores.run(noted.at_version(Errand.version, 1))
        await at.work()
        errand = await at.errand()
        assert (errand.flow_state, errand.reason, errand.version) == ("offered", "a note", 4)
        await at.choose(errand)

    told(story)


def test_the_flow_of_an_item_that_was_deleted_ends() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.stores.run(Errand.of("o-1").delete("e-1"))
        await at.work()
        assert await at.flow.list_executions(at.stores) == []

    told(story)


def test_an_item_that_was_brought_back_without_its_place_is_resumed_by_its_key() -> None:
    async def story(at: Bench) -> None:
        item = at.flow.initial(Errand(owner="o-1", errand_id="e-1"), at.stores)
        await at.stores.run(create_errand(item))
        assert await at.flow.resume(at.stores, item) == 1
        await at.work()
        assert (await at.errand()).flow_state == "offered"
        await at.flow.cancel(at.stores, item, "enough")
        with pytest.raises(InvalidRequest, match="ended"):
            await at.flow.resume(at.stores, item)

    told(story)


def test_a_flow_begins_once_and_only_in_its_first_state() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin()
        with pytest.raises(ConditionFailed):
            await at.stores.run(at.flow.start_writes(at.stores, errand)[0])
        with pytest.raises(
            InvalidRequest, match=r"Invalid Errand: expected the state 'asked', got ''\. Make it with"
        ):
            at.flow.start_writes(at.stores, Errand(owner="o-1", errand_id="e-2"))

    told(story)


def test_a_component_drives_and_answers_with_the_flows_patterns_and_no_others() -> None:
    async def story(at: Bench) -> None:
        api = Bench(at.stores.for_component("api"), at.clock)
        worker = Bench(at.stores.for_component("worker"), at.clock)
        errand = api.flow.initial(Errand(owner="o-1", errand_id="e-1"), api.stores)
        await api.stores.transact(create_errand(errand), *api.flow.start_writes(api.stores, errand))
        await api.flow.dispatch_now(api.stores, errand)
        driver = StepWorker(ERRANDS, worker.stores, worker.tools)
        for _ in range(2):
            (received,) = await worker.stores.run(ERRANDS.pattern_set.receive(1, 0.0))
            await driver.handle(received)
            await worker.stores.run(ERRANDS.pattern_set.delete(received))
        worker.clock.advance(1)
        await ERRANDS.sweep(worker.stores)
        await ERRANDS.retry_unknown_states(worker.stores)
        await api.choose(await at.errand())
        with pytest.raises(ComponentRefused):
            await worker.stores.run(create_errand(errand))

    told(story)


def test_a_correlation_travels_with_every_step_also_with_one_that_is_sent_again() -> None:
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

    told(story)


def test_a_due_time_is_the_moment_of_the_stores_clock() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        (place,) = await at.flow.list_executions(at.stores)
        assert place.due == place.since + timedelta(seconds=120)
        assert place.since.timestamp() == NOON

    told(story)
