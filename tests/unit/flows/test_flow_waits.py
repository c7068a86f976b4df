"""Waits of a flow in memory: answers, tokens, deadlines and cancellations, of which exactly one wins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.errors import (
    DeadlinePassed,
    InvalidRequest,
    InvalidTransition,
    NotCancellable,
    NotFound,
    NotWaiting,
    SecretMissing,
    WaitTokenRefused,
)
from holdfast.flows import Answer, Next, ParkedFor, State, StepContext, Wait
from holdfast.flows.tokens import hash_token
from holdfast.security.secrets import EnvironmentSecrets, Secrets
from tests.unit.flows.errands import (
    DEADLINE_S,
    ERRANDS,
    STATES,
    Bench,
    Errand,
    Shown,
    expire,
    get_step,
    make_flow,
    open_bench,
)


def get_wait(state: State) -> Wait:
    """Return the state's wait; fail if it has none."""
    assert isinstance(state.action, Wait)
    return state.action


WAIT = get_wait(STATES[2])


def run_story(story: Callable[[Bench], Awaitable[None]]) -> None:
    """Run the story on a bench with in-memory stores."""

    async def run() -> None:
        at = await open_bench()
        async with at.stores:
            await story(at)

    asyncio.run(run())


def test_stores_only_the_tokens_hash_and_can_rebuild_the_token() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        token = at.flow.make_token(errand)
        assert errand.flow_token == hash_token(token) and errand.to_item()["taskToken"] == hash_token(token)
        assert token not in str(errand.to_item()) and len(token) == 43
        assert at.flow.make_token(await at.get_errand()) == token
        other = await at.begin_and_reach_offer("e-2")
        assert at.flow.make_token(other) != token

    run_story(story)


def test_one_of_two_concurrent_answers_wins() -> None:
    barrier = asyncio.Barrier(2)

    async def choose_together(run: StepContext[Errand], given: Mapping[str, Any]) -> Next:
        if run.item.chosen is None:
            await barrier.wait()
        return Next("chosen", {"chosen": given["offer"]})

    async def story(at: Bench) -> None:
        wait = replace(WAIT, answers=dict(WAIT.answers) | {"choose": Answer(choose_together, to=("chosen",))})
        at = at.with_flow(make_flow((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        errand = await at.begin_and_reach_offer()
        answers = [at.choose(errand, offer) for offer in ("red", "green")]
        ended = await asyncio.gather(*answers, return_exceptions=True)
        (won,) = [each for each in ended if isinstance(each, Errand)]
        (lost,) = [each for each in ended if isinstance(each, NotWaiting)]
        assert lost.state == "chosen" and "is in chosen" in lost.message
        assert (await at.get_errand()).chosen == won.chosen

    run_story(story)


def test_second_answer_is_refused_even_at_a_later_wait() -> None:
    async def story(at: Bench) -> None:
        second = replace(WAIT, name="Approval")
        book = replace(STATES[3], action=replace(get_step(STATES[3]), to=("booked", "failed", "approving")))
        approving = State("approving", second, shown_as=Shown.asked)
        at = at.with_flow(make_flow((*STATES[:3], book, *STATES[4:], approving)))
        errand = await at.begin_and_reach_offer()
        token = at.flow.make_token(errand)
        at.tools.gives["Book"] = Next("approving")
        await at.choose(errand)
        with pytest.raises(NotWaiting) as elsewhere:
            await at.flow.answer(at.stores, errand, "choose", token=token, given={"offer": "red"})
        assert elsewhere.value.state == "chosen"
        await at.work()
        with pytest.raises(
            NotWaiting, match=r"This Errand was already answered: it is now in approving\."
        ) as again:
            await at.flow.answer(at.stores, errand, "choose", token=token, given={"offer": "red"})
        assert again.value.state == "approving"

    run_story(story)


def test_invalid_token_or_answer_leaves_the_wait_unchanged() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        token = at.flow.make_token(errand)
        with pytest.raises(WaitTokenRefused) as refused:
            await at.flow.answer(at.stores, errand, "choose", token=token[:-1] + "_", given={"offer": "red"})
        assert token[:10] not in str(refused.value) and refused.value.http_status == 403
        with pytest.raises(InvalidRequest, match="choose, refuse"):
            await at.flow.answer(at.stores, errand, "dance", token=token)
        with pytest.raises(InvalidRequest, match="no such offer"):
            await at.flow.answer(at.stores, errand, "choose", token=token, given={"offer": "blue"})
        with pytest.raises(NotFound):
            await at.flow.answer(at.stores, ("o-1", "e-9"), "choose", token=token)
        assert await at.get_errand() == errand

    run_story(story)


def test_answer_with_an_undeclared_target_is_rejected() -> None:
    def astray(run: StepContext[Errand], given: Mapping[str, Any]) -> Next:
        return Next("done")

    async def story(at: Bench) -> None:
        wait = replace(WAIT, answers=dict(WAIT.answers) | {"refuse": Answer(astray, to=("cancelled",))})
        at = at.with_flow(make_flow((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        errand = await at.begin_and_reach_offer()
        with pytest.raises(InvalidTransition, match="led to 'done'"):
            await at.flow.answer(at.stores, errand, "refuse", token=at.flow.make_token(errand))
        assert await at.get_errand() == errand

    run_story(story)


def test_deadline_ends_the_wait_on_time() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        assert errand.flow_due is not None
        assert await at.pass_time(DEADLINE_S - 1) == 0
        assert await at.pass_time(1) == 1
        errand = await at.get_errand()
        assert (errand.flow_state, errand.status, errand.reason) == ("cancelled", Shown.ended, "expired")
        assert "Expired" in await at.list_effects() and errand.flow_due is None
        assert await at.flow.list_executions(at.stores) == []

    run_story(story)


def test_wait_entered_by_a_process_a_day_ahead_ends_after_its_length() -> None:
    async def story(at: Bench) -> None:
        at.clock.advance(86_400)
        await at.begin_and_reach_offer()
        at.clock.advance(-86_400)
        assert await at.pass_time(DEADLINE_S - 1) == 0
        assert await at.pass_time(DEADLINE_S) == 1
        assert (await at.get_errand()).reason == "expired"

    run_story(story)


def test_late_answer_applies_the_deadline_and_is_refused() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        at.clock.advance(DEADLINE_S)
        with pytest.raises(DeadlinePassed) as late:
            await at.choose(errand)
        assert late.value.state == "cancelled"
        assert ((await at.get_errand()).reason, (await at.get_errand()).chosen) == ("expired", None)
        assert await at.pass_time(1) == 0

    run_story(story)


def test_refuses_a_late_answer_when_the_deadline_needs_a_worker() -> None:
    async def expire_with_tools(run: StepContext[Errand]) -> Next:
        await run.tools.does("Late", run)
        return expire(run)

    async def story(at: Bench) -> None:
        wait = replace(WAIT, on_deadline=expire_with_tools)
        at = at.with_flow(make_flow((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        errand = await at.begin_and_reach_offer()
        at.clock.advance(DEADLINE_S)
        with pytest.raises(DeadlinePassed) as late:
            await at.choose(errand)
        assert late.value.state == "offered"
        await at.pass_time(1)
        assert (await at.get_errand()).flow_state == "cancelled" and at.tools.ran[-1] == "Late"

    run_story(story)


def test_parks_a_failing_deadline() -> None:
    def fails(run: StepContext[Errand]) -> Next:
        raise ValueError("of ours")

    async def story(at: Bench) -> None:
        wait = replace(WAIT, on_deadline=fails)
        at = at.with_flow(make_flow((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        await at.begin_and_reach_offer()
        await at.pass_time(DEADLINE_S)
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.FAILED
        at = at.with_flow(ERRANDS)
        await at.flow.resume(at.stores)
        await at.work()
        assert (await at.get_errand()).flow_state == "cancelled"

    run_story(story)


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_on_deadline_chooses_between_several_states(end: str) -> None:
    wait = replace(WAIT, on_deadline=lambda run: Next(end), deadline_to=("cancelled", "failed"))

    async def story(at: Bench) -> None:
        at = at.with_flow(make_flow((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        await at.begin_and_reach_offer("e-1")
        late = await at.begin_and_reach_offer("e-2")
        at.clock.advance(DEADLINE_S)
        with pytest.raises(DeadlinePassed) as refused:
            await at.choose(late)
        assert refused.value.state == end
        await at.pass_time(0)
        assert {(await at.get_errand(each)).flow_state for each in ("e-1", "e-2")} == {end}

    run_story(story)


def test_deadline_leads_to_declared_states_only() -> None:
    wait = replace(WAIT, on_deadline=lambda run: Next("done"), deadline_to=("cancelled", "failed"))

    async def story(at: Bench) -> None:
        at = at.with_flow(make_flow((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        await at.begin_and_reach_offer()
        await at.pass_time(DEADLINE_S)
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.parked_for, place.state) == (ParkedFor.MISTAKE, "offered")
        assert "expected cancelled, failed" in (place.parked or "")

    run_story(story)


def test_step_may_override_the_deadline_of_the_next_wait() -> None:
    async def story(at: Bench) -> None:
        at.tools.gives["Offer"] = Next("offered", deadline_s=60)
        await at.begin_and_reach_offer()
        assert await at.pass_time(59) == 0
        assert await at.pass_time(1) == 1
        assert (await at.get_errand()).flow_state == "cancelled"

    run_story(story)


def test_a_wait_without_answers_is_a_timer() -> None:
    async def story(at: Bench) -> None:
        timer = State("booked", Wait(deadline_s=60, deadline_to="done"), shown_as=Shown.open)
        at = at.with_flow(make_flow((*STATES[:4], timer, *STATES[5:])))
        await at.choose(await at.begin_and_reach_offer())
        await at.work()
        errand = await at.get_errand()
        assert (errand.flow_state, errand.flow_token) == ("booked", None)
        with pytest.raises(
            InvalidRequest, match=r"This Errand is in booked, which is not a wait that can be answered\."
        ):
            at.flow.make_token(errand)
        await at.pass_time(60)
        assert (await at.get_errand()).flow_state == "done"

    run_story(story)


def test_resends_a_lost_deadline_message() -> None:
    async def story(at: Bench) -> None:
        await at.begin_and_reach_offer()
        at.clock.advance(DEADLINE_S)
        await at.flow.sweep(at.stores)
        (lost,) = await at.stores.run(at.flow.step_queue.receive(1))
        await at.stores.run(at.flow.step_queue.delete(lost))
        assert await at.pass_time(119) == 0
        assert await at.pass_time(1) == 1
        assert (await at.get_errand()).flow_state == "cancelled"

    run_story(story)


def test_resumed_wait_keeps_waiting() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        await at.flow.resume(at.stores, errand)
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.due, place.sends) == (errand.flow_due, 0)
        await at.choose(errand)

    run_story(story)


def test_state_turned_into_a_wait_gets_a_token_and_a_deadline() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)
        newer = at.with_flow(
            make_flow((STATES[0], State("planned", WAIT, shown_as=Shown.asked), *STATES[3:]), cancel=None)
        )
        await newer.work()
        errand = await newer.get_errand()
        assert errand.flow_state == "planned" and errand.flow_due is not None
        await newer.choose(errand)

    run_story(story)


def test_can_be_cancelled_only_from_the_listed_states() -> None:
    async def story(at: Bench) -> None:
        errand = await at.begin_and_reach_offer()
        ended = await at.flow.cancel(at.stores, ("o-1", "e-1"), "no more")
        assert (ended.flow_state, ended.status, ended.reason) == ("cancelled", Shown.ended, "no more")
        assert await at.flow.list_executions(at.stores) == []
        with pytest.raises(NotWaiting):
            await at.choose(errand)
        await at.choose(await at.begin_and_reach_offer("e-2"))
        with pytest.raises(NotCancellable) as too_far:
            await at.flow.cancel(at.stores, ("o-1", "e-2"), "no more")
        assert too_far.value.state == "chosen" and "asked, planned, offered" in too_far.value.message
        await at.work()
        assert (await at.get_errand("e-2")).flow_state == "done"

    run_story(story)


def test_concurrent_cancellation_and_answer_have_one_winner() -> None:
    async def story(at: Bench) -> None:
        for number in range(10):
            errand = await at.begin_and_reach_offer(f"e-{number}")
            ended = await asyncio.gather(
                at.choose(errand), at.flow.cancel(at.stores, errand, "no more"), return_exceptions=True
            )
            (won,) = [each for each in ended if isinstance(each, Errand)]
            (lost,) = [each for each in ended if not isinstance(each, Errand)]
            assert isinstance(lost, NotWaiting | NotCancellable) and lost.state == won.flow_state
            await at.work()

    run_story(story)


def test_rotated_secret_keeps_earlier_tokens_valid() -> None:
    def with_secret(**values: str) -> Any:
        environ = {f"HOLDFAST_SECRET_ERRANDS_TOKEN{name}": value for name, value in values.items()}
        return make_flow(secrets=Secrets(EnvironmentSecrets(environ)))

    async def story(at: Bench) -> None:
        at = at.with_flow(with_secret(**{"": "old"}))
        errand = await at.begin_and_reach_offer()
        token = at.flow.make_token(errand)
        rotated = at.with_flow(with_secret(**{"": "new", "_PREVIOUS": "old"}))
        assert rotated.flow.make_token(errand) == token
        await rotated.choose(errand)

    run_story(story)


def test_worker_without_the_secret_does_not_start() -> None:
    async def story(at: Bench) -> None:
        flow = make_flow(secrets=Secrets(EnvironmentSecrets({})))
        with pytest.raises(SecretMissing, match="ERRANDS_TOKEN"):
            async with flow.consumer().open_handler(at.stores):
                raise AssertionError("the worker has no secret")

    run_story(story)
