"""A flow on every engine: the same steps, waits, deadlines and refusals, from queue and item alone."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.errors import DeadlinePassed, NotCancellable, NotWaiting
from holdfast.flows import Next, ParkedFor
from holdfast.flows.worker import StepWorker
from tests.unit.flows.errands import DEADLINE_S, Bench, Errand, Shown, failed, steps

from .conftest import Played


def test_goes_from_the_first_step_over_a_choice_to_the_end_with_each_effect_once(played: Played) -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.state, place.due, place.version) == ("offered", errand.flow_due, errand.version)
        await at.choose(errand)
        await at.work()
        errand = await at.errand()
        assert (errand.flow_state, errand.status, errand.chosen) == ("done", Shown.done, "red")
        assert await at.effects() == ["Book", "Choice", "Confirm", "Offer", "Plan"]
        assert await at.flow.list_executions(at.stores) == []
        assert await at.flow.outbox.list_unsent(at.stores) == []

    played(story)


def test_a_message_handled_twice_and_one_that_is_lost_make_no_difference(played: Played) -> None:
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
        assert (await at.errand()).flow_state == "offered" and await at.effects() == ["Offer", "Plan"]

    played(story)


def test_tries_again_after_a_pause_and_then_gives_up(played: Played) -> None:
    async def story(at: Bench) -> None:
        at.tools.errors["Plan"] = [failed(), failed(), failed()]
        await at.begin()
        await at.work()
        assert await at.pass_time(0.5) == 0
        assert await at.pass_time(60) == 1
        assert await at.pass_time(60) == 1
        assert ((await at.errand()).flow_state, await at.effects()) == ("failed", ["GaveUp"])
        assert await at.flow.list_executions(at.stores) == []

    played(story)


def test_a_deadline_is_a_row_that_the_sweeper_finds(played: Played) -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        assert await at.pass_time(DEADLINE_S - 1) == 0
        at.clock.advance(1)
        with pytest.raises(DeadlinePassed):
            await at.choose(errand)
        other = await at.at_offer("e-2")
        assert await at.pass_time(DEADLINE_S) == 1
        assert {each.reason for each in (await at.errand(), await at.errand("e-2"))} == {"expired"}
        with pytest.raises(NotWaiting):
            await at.choose(other)

    played(story)


def test_cancels_from_where_it_may_and_drops_what_a_step_gave_meanwhile(played: Played) -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        (received,) = await at.stores.run(steps.receive(1))

        async def somebody_cancels(run: object) -> None:
            await at.flow.cancel(at.stores, ("o-1", "e-1"), "no more")

        at.tools.within["Plan"] = somebody_cancels
        await StepWorker(at.flow, at.stores, at.tools).handle(received)
        assert ((await at.errand()).reason, await at.effects()) == ("no more", ["Cancelled"])
        with pytest.raises(NotCancellable):
            await at.flow.cancel(at.stores, ("o-1", "e-1"), "again")

    played(story)


def test_parks_what_it_may_not_write_and_resumes_it(played: Played) -> None:
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
        assert (await at.errand()).flow_state == "offered"

    played(story)


def test_of_answers_and_cancellations_at_once_one_is_written(played: Played) -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        several = [at.choose(errand, offer) for offer in ("red", "green", "red")]
        ended = await asyncio.gather(
            *several, at.flow.cancel(at.stores, errand, "no more"), return_exceptions=True
        )
        won = [each for each in ended if isinstance(each, Errand)]
        assert len(won) == 1
        assert all(isinstance(each, Errand | NotWaiting | NotCancellable) for each in ended), ended
        assert (await at.errand()).flow_state == won[0].flow_state

    played(story)
