"""A flow on every engine of tables and queues: steps, retries, waits, deadlines, cancellation and parking."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.errors import DeadlinePassed, NotCancellable, NotWaiting
from holdfast.flows import Next, ParkedFor
from holdfast.flows.worker import StepWorker
from tests.unit.flows.errands import DEADLINE_S, Bench, Errand, Shown, make_failure, steps

from .conftest import RunStory


def test_runs_to_the_end_with_each_effect_once(run_story: RunStory) -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.state, place.due, place.version) == ("offered", errand.flow_due, errand.version)
        await at.choose(errand)
        await at.work()
        errand = await at.get_errand()
        assert (errand.flow_state, errand.status, errand.chosen) == ("done", Shown.done, "red")
        assert await at.list_effects() == ["Book", "Choice", "Confirm", "Offer", "Plan"]
        assert await at.flow.list_executions(at.stores) == []
        assert await at.flow.outbox.list_unsent(at.stores) == []

    run_story(story)


def test_duplicate_and_lost_messages_make_no_difference(run_story: RunStory) -> None:
    """A message handled twice has one effect, and a lost one is replaced after 30 s."""

    async def story(at: Bench) -> None:
        await at.begin()
        (received,) = await at.stores.run(steps.receive(1))
        driver = StepWorker(at.flow, at.stores, at.tools)
        await driver.handle(received)
        await driver.handle(received)
        await at.stores.run(steps.delete(received))
        (lost,) = await at.stores.run(steps.receive(1))
        await at.stores.run(steps.delete(lost))
        assert await at.pass_time(29) == 0
        assert await at.pass_time(1) == 1
        assert (await at.get_errand()).flow_state == "offered" and await at.list_effects() == [
            "Offer",
            "Plan",
        ]

    run_story(story)


def test_retries_after_a_pause_and_then_gives_up(run_story: RunStory) -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [make_failure(), make_failure(), make_failure()]
        await at.begin()
        await at.work()
        assert await at.pass_time(0.5) == 0
        assert await at.pass_time(60) == 1
        assert await at.pass_time(60) == 1
        assert ((await at.get_errand()).flow_state, await at.list_effects()) == ("failed", ["GaveUp"])
        assert await at.flow.list_executions(at.stores) == []

    run_story(story)


def test_late_answer_is_refused_and_the_sweeper_expires_the_wait(run_story: RunStory) -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        assert await at.pass_time(DEADLINE_S - 1) == 0
        at.clock.advance(1)
        with pytest.raises(DeadlinePassed):
            await at.choose(errand)
        other = await at.begin_and_reach_offer("e-2")
        assert await at.pass_time(DEADLINE_S) == 1
        assert {each.reason for each in (await at.get_errand(), await at.get_errand("e-2"))} == {"expired"}
        with pytest.raises(NotWaiting):
            await at.choose(other)

    run_story(story)


def test_cancellation_drops_the_result_of_a_concurrent_step(run_story: RunStory) -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        (received,) = await at.stores.run(steps.receive(1))

        async def cancel_meanwhile(run: object) -> None:
            await at.flow.cancel(at.stores, ("o-1", "e-1"), "no more")

        at.tools.within["Plan"] = cancel_meanwhile
        await StepWorker(at.flow, at.stores, at.tools).handle(received)
        assert ((await at.get_errand()).reason, await at.list_effects()) == ("no more", ["Cancelled"])
        with pytest.raises(NotCancellable):
            await at.flow.cancel(at.stores, ("o-1", "e-1"), "again")

    run_story(story)


def test_parks_an_invalid_result_and_resumes_it(run_story: RunStory) -> None:
    """A step that names an impossible next state parks the item, until `resume` runs it again."""

    async def story(at: Bench) -> None:
        at.tools.gives["Plan"] = Next("done")
        await at.begin()
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.MISTAKE
        assert await at.pass_time(86400) == 0
        del at.tools.gives["Plan"]
        assert await at.flow.resume(at.stores) == 1
        await at.work()
        assert (await at.get_errand()).flow_state == "offered"

    run_story(story)


def test_concurrent_answers_and_cancellations_have_one_winner(run_story: RunStory) -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        several = [at.choose(errand, offer) for offer in ("red", "green", "red")]
        ended = await asyncio.gather(
            *several, at.flow.cancel(at.stores, errand, "no more"), return_exceptions=True
        )
        won = [each for each in ended if isinstance(each, Errand)]
        assert len(won) == 1
        assert all(isinstance(each, Errand | NotWaiting | NotCancellable) for each in ended), ended
        assert (await at.get_errand()).flow_state == won[0].flow_state

    run_story(story)
