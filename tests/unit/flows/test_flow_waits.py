"""Waits hold nothing open: an answer, a deadline and a cancellation are transitions like any other, and one of them wins."""

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
    bench,
    expired,
    flow_of,
    step_in,
)


def wait_in(state: State) -> Wait:
    assert isinstance(state.action, Wait)
    return state.action


WAIT = wait_in(STATES[2])


def told(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def on_a_bench() -> None:
        at = await bench()
        async with at.stores:
            await story(at)

    asyncio.run(on_a_bench())


def test_only_the_hash_of_the_token_is_kept_and_the_token_can_be_made_again() -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        token = at.flow.make_token(errand)
        assert errand.flow_token == hash_token(token) and errand.to_item()["taskToken"] == hash_token(token)
        assert token not in str(errand.to_item()) and len(token) == 43
        assert at.flow.make_token(await at.errand()) == token
        other = await at.at_offer("e-2")
        assert at.flow.make_token(other) != token

    told(story)


def test_of_two_answers_at_once_one_wins_and_the_other_is_told_where_it_stands() -> None:
    barrier = asyncio.Barrier(2)

    async def choose_together(run: StepContext[Errand], given: Mapping[str, Any]) -> Next:
        if run.item.chosen is None:
            await barrier.wait()
        return Next("chosen", {"chosen": given["offer"]})

    async def story(at: Bench) -> None:
        wait = replace(WAIT, answers=dict(WAIT.answers) | {"choose": Answer(choose_together, to=("chosen",))})
        at = at.with_flow(flow_of((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        errand = await at.at_offer()
        answers = [at.choose(errand, offer) for offer in ("red", "green")]
        ended = await asyncio.gather(*answers, return_exceptions=True)
        (won,) = [each for each in ended if isinstance(each, Errand)]
        (lost,) = [each for each in ended if isinstance(each, NotWaiting)]
        assert lost.state == "chosen" and "is in chosen" in lost.message
        assert (await at.errand()).chosen == won.chosen

    told(story)


def test_a_second_answer_is_told_that_it_went_on_also_when_it_waits_again() -> None:
    async def story(at: Bench) -> None:
        second = replace(WAIT, name="Approval")
        book = replace(STATES[3], action=replace(step_in(STATES[3]), to=("booked", "failed", "approving")))
        approving = State("approving", second, shown_as=Shown.asked)
        at = at.with_flow(flow_of((*STATES[:3], book, *STATES[4:], approving)))
        errand = await at.at_offer()
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

    told(story)


def test_a_wrong_token_an_unknown_answer_and_a_bad_one_leave_the_wait_as_it_is() -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
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
        assert await at.errand() == errand

    told(story)


def test_an_answer_that_leads_where_it_may_not_is_a_mistake_and_changes_nothing() -> None:
    def astray(run: StepContext[Errand], given: Mapping[str, Any]) -> Next:
        return Next("done")

    async def story(at: Bench) -> None:
        wait = replace(WAIT, answers=dict(WAIT.answers) | {"refuse": Answer(astray, to=("cancelled",))})
        at = at.with_flow(flow_of((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        errand = await at.at_offer()
        with pytest.raises(InvalidTransition, match="led to 'done'"):
            await at.flow.answer(at.stores, errand, "refuse", token=at.flow.make_token(errand))
        assert await at.errand() == errand

    told(story)


def test_a_deadline_ends_the_wait_when_it_has_passed_and_not_before() -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        assert errand.flow_due is not None
        assert await at.pass_time(DEADLINE_S - 1) == 0
        assert await at.pass_time(1) == 1
        errand = await at.errand()
        assert (errand.flow_state, errand.status, errand.reason) == ("cancelled", Shown.ended, "expired")
        assert "Expired" in await at.effects() and errand.flow_due is None
        assert await at.flow.list_executions(at.stores) == []

    told(story)


def test_an_answer_after_the_deadline_makes_the_deadline_true_and_is_refused() -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        at.clock.advance(DEADLINE_S)
        with pytest.raises(DeadlinePassed) as late:
            await at.choose(errand)
        assert late.value.state == "cancelled"
        assert ((await at.errand()).reason, (await at.errand()).chosen) == ("expired", None)
        assert await at.pass_time(1) == 0

    told(story)


def test_an_answer_after_the_deadline_is_refused_also_where_the_deadline_needs_the_workers_tools() -> None:
    async def tells(run: StepContext[Errand]) -> Next:
        await run.tools.does("Late", run)
        return expired(run)

    async def story(at: Bench) -> None:
        wait = replace(WAIT, on_deadline=tells)
        at = at.with_flow(flow_of((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        errand = await at.at_offer()
        at.clock.advance(DEADLINE_S)
        with pytest.raises(DeadlinePassed) as late:
            await at.choose(errand)
        assert late.value.state == "offered"
        await at.pass_time(1)
        assert (await at.errand()).flow_state == "cancelled" and at.tools.ran[-1] == "Late"

    told(story)


def test_a_deadline_that_fails_is_parked_and_kept() -> None:
    def fails(run: StepContext[Errand]) -> Next:
        raise ValueError("of ours")

    async def story(at: Bench) -> None:
        wait = replace(WAIT, on_deadline=fails)
        at = at.with_flow(flow_of((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        await at.at_offer()
        await at.pass_time(DEADLINE_S)
        (place,) = await at.flow.list_executions(at.stores)
        assert place.parked_for == ParkedFor.FAILED
        at = at.with_flow(ERRANDS)
        await at.flow.resume(at.stores)
        await at.work()
        assert (await at.errand()).flow_state == "cancelled"

    told(story)


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_where_a_deadline_may_lead_to_several_states_late_decides(end: str) -> None:
    wait = replace(WAIT, on_deadline=lambda run: Next(end), deadline_to=("cancelled", "failed"))

    async def story(at: Bench) -> None:
        at = at.with_flow(flow_of((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        await at.at_offer("e-1")
        late = await at.at_offer("e-2")
        at.clock.advance(DEADLINE_S)
        with pytest.raises(DeadlinePassed) as refused:
            await at.choose(late)
        assert refused.value.state == end
        await at.pass_time(0)
        assert {(await at.errand(each)).flow_state for each in ("e-1", "e-2")} == {end}

    told(story)


def test_a_deadline_leads_to_none_but_the_states_it_names() -> None:
    wait = replace(WAIT, on_deadline=lambda run: Next("done"), deadline_to=("cancelled", "failed"))

    async def story(at: Bench) -> None:
        at = at.with_flow(flow_of((*STATES[:2], replace(STATES[2], action=wait), *STATES[3:])))
        await at.at_offer()
        await at.pass_time(DEADLINE_S)
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.parked_for, place.state) == (ParkedFor.MISTAKE, "offered")
        assert "expected cancelled, failed" in (place.parked or "")

    told(story)


def test_a_step_may_say_another_deadline_for_the_wait_it_leads_to() -> None:
    async def story(at: Bench) -> None:
        at.tools.gives["Offer"] = Next("offered", deadline_s=60)
        await at.at_offer()
        assert await at.pass_time(59) == 0
        assert await at.pass_time(1) == 1
        assert (await at.errand()).flow_state == "cancelled"

    told(story)


def test_a_wait_without_answers_is_a_timer() -> None:
    async def story(at: Bench) -> None:
        timer = State("booked", Wait(deadline_s=60, deadline_to="done"), shown_as=Shown.open)
        at = at.with_flow(flow_of((*STATES[:4], timer, *STATES[5:])))
        await at.choose(await at.at_offer())
        await at.work()
        errand = await at.errand()
        assert (errand.flow_state, errand.flow_token) == ("booked", None)
        with pytest.raises(
            InvalidRequest, match=r"This Errand is in booked, which is not a wait that can be answered\."
        ):
            at.flow.make_token(errand)
        await at.pass_time(60)
        assert (await at.errand()).flow_state == "done"

    told(story)


def test_a_deadline_whose_message_is_lost_is_sent_again() -> None:
    async def story(at: Bench) -> None:
        await at.at_offer()
        at.clock.advance(DEADLINE_S)
        await at.flow.sweep(at.stores)
        (lost,) = await at.stores.run(at.flow.step_queue.receive(1))
        await at.stores.run(at.flow.step_queue.delete(lost))
        assert await at.pass_time(119) == 0
        assert await at.pass_time(1) == 1
        assert (await at.errand()).flow_state == "cancelled"

    told(story)


def test_a_wait_that_is_resumed_waits_on() -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        await at.flow.resume(at.stores, errand)
        await at.work()
        (place,) = await at.flow.list_executions(at.stores)
        assert (place.due, place.sends) == (errand.flow_due, 0)
        await at.choose(errand)

    told(story)


def test_a_state_that_new_code_makes_a_wait_gets_its_token_and_deadline() -> None:
    async def story(at: Bench) -> None:
        await at.begin()
        await at.work(messages_max=1)
        newer = at.with_flow(
            flow_of((STATES[0], State("planned", WAIT, shown_as=Shown.asked), *STATES[3:]), cancel=None)
        )
        await newer.work()
        errand = await newer.errand()
        assert errand.flow_state == "planned" and errand.flow_due is not None
        await newer.choose(errand)

    told(story)


def test_a_cancellation_is_legal_from_the_states_that_are_listed_and_no_others() -> None:
    async def story(at: Bench) -> None:
        errand = await at.at_offer()
        ended = await at.flow.cancel(at.stores, ("o-1", "e-1"), "no more")
        assert (ended.flow_state, ended.status, ended.reason) == ("cancelled", Shown.ended, "no more")
        assert await at.flow.list_executions(at.stores) == []
        with pytest.raises(NotWaiting):
            await at.choose(errand)
        await at.choose(await at.at_offer("e-2"))
        with pytest.raises(NotCancellable) as too_far:
            await at.flow.cancel(at.stores, ("o-1", "e-2"), "no more")
        assert too_far.value.state == "chosen" and "asked, planned, offered" in too_far.value.message
        await at.work()
        assert (await at.errand("e-2")).flow_state == "done"

    told(story)


def test_a_cancellation_and_an_answer_at_once_end_in_one_of_them() -> None:
    async def story(at: Bench) -> None:
        for number in range(10):
            errand = await at.at_offer(f"e-{number}")
            ended = await asyncio.gather(
                at.choose(errand), at.flow.cancel(at.stores, errand, "no more"), return_exceptions=True
            )
            (won,) = [each for each in ended if isinstance(each, Errand)]
            (lost,) = [each for each in ended if not isinstance(each, Errand)]
            assert isinstance(lost, NotWaiting | NotCancellable) and lost.state == won.flow_state
            await at.work()

    told(story)


def test_a_secret_that_is_rotated_leaves_the_tokens_of_before_valid() -> None:
    def with_secret(**values: str) -> Any:
        environ = {f"HOLDFAST_SECRET_ERRANDS_TOKEN{name}": value for name, value in values.items()}
        return flow_of(secrets=Secrets(EnvironmentSecrets(environ)))

    async def story(at: Bench) -> None:
        at = at.with_flow(with_secret(**{"": "old"}))
        errand = await at.at_offer()
        token = at.flow.make_token(errand)
        rotated = at.with_flow(with_secret(**{"": "new", "_PREVIOUS": "old"}))
        assert rotated.flow.make_token(errand) == token
        await rotated.choose(errand)

    told(story)


def test_a_worker_without_the_secret_does_not_begin() -> None:
    async def story(at: Bench) -> None:
        flow = flow_of(secrets=Secrets(EnvironmentSecrets({})))
        with pytest.raises(SecretMissing, match="ERRANDS_TOKEN"):
            async with flow.consumer().open_handler(at.stores):
                raise AssertionError("it has no secret")

    told(story)
