"""Answers and cancellations: what people do to a flow. Each is a transition like any other.

An answer is checked in this order: the item exists, it waits, the token is the wait's, the wait accepts this
answer, its deadline has not passed. Of two answers at once one is written; the other gets an error that names
the flow's state.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.core.errors import (
    DeadlinePassed,
    HoldfastError,
    InvalidRequest,
    NotCancellable,
    NotFound,
    NotWaiting,
    RetryLater,
    WaitTokenRefused,
    error_label,
)
from holdfast.flows.declaration import State, StepContext, Wait
from holdfast.flows.item import FlowItem, ItemKey
from holdfast.flows.tokens import hash_token, make_recent_tokens, matches_hash
from holdfast.flows.transition import Overtaken, commit
from holdfast.flows.worker import build_deadline_step
from holdfast.flows.worker import resolve as awaited
from holdfast.guarantees.pattern_sets import utc_now
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

MAX_ATTEMPTS: Final = 20

log = logging.getLogger(__name__)


async def answer(
    flow: Flow[I],
    stores: Stores,
    key: ItemKey,
    name: str,
    *,
    token: str,
    given: Mapping[str, Any],
    tools: Any = None,
) -> I:
    """Answer the item's current wait and return the item after it.

    If other writers change the item in the meantime and it still waits, the answer is evaluated again.
    """
    for _ in range(MAX_ATTEMPTS):
        item = await get_item(flow, stores, key)
        state, wait = _get_wait(flow, item)
        _check_token(flow, item, state, token)
        answer = wait.answers.get(name)
        if answer is None:
            raise _build_answer_error(flow, state, wait, name)
        run = StepContext(item, stores, flow.key_text(item), utc_now(stores.clock), tools=tools)
        if item.flow_due is not None and item.flow_due <= run.now:
            raise await _end_wait(flow, stores, state, wait, run)
        following = await awaited(answer.run(run, given))
        try:
            return await commit(flow, stores, item, following, answer.to)
        except Overtaken:
            continue
    raise RetryLater(
        f"This {flow.entity.__name__} is being changed concurrently. Retry the answer in a moment."
    )


async def cancel(flow: Flow[I], stores: Stores, key: ItemKey, reason: str, *, tools: Any = None) -> I:
    """Cancel the flow and return the item after it. The result of a step that is running is discarded."""
    for _ in range(MAX_ATTEMPTS):
        item = await get_item(flow, stores, key)
        cancel = flow.cancellation
        if cancel is None or item.flow_state not in cancel.from_states:
            raise NotCancellable(_format_not_cancellable(flow, item), state=item.flow_state)
        run = StepContext(item, stores, flow.key_text(item), utc_now(stores.clock), tools=tools)
        following = await awaited(cancel.run(run, reason))
        try:
            return await commit(flow, stores, item, following, (cancel.to,))
        except Overtaken:
            continue
    raise RetryLater(
        f"This {flow.entity.__name__} is being changed concurrently. Retry the cancellation in a moment."
    )


async def get_item(flow: Flow[I], stores: Stores, key: ItemKey) -> I:
    """Return the item of a key, or raise `NotFound`."""
    item = await stores.run(flow.pattern_set.item(flow.key_text(key)))
    if item is None:
        raise NotFound(f"{flow.entity.__name__} not found: no item of the flow {flow.name} has this key.")
    return item


def _get_wait(flow: Flow[I], item: I) -> tuple[State, Wait]:
    state = flow.find_state(item.flow_state)
    if state is None or not isinstance(state.action, Wait):
        raise NotWaiting(
            f"This {flow.entity.__name__} does not wait for an answer: it is in {item.flow_state}.",
            state=item.flow_state,
        )
    return state, state.action


def _check_token(flow: Flow[I], item: I, state: State, token: str) -> None:
    if matches_hash(token, item.flow_token):
        return
    if _is_token_of_earlier_wait(flow, item, token):
        raise NotWaiting(
            f"This {flow.entity.__name__} was already answered: it is now in {state.name}.",
            state=state.name,
        )
    raise WaitTokenRefused(
        WaitTokenRefused.code,
        f"Invalid token for the current wait of this {flow.entity.__name__}: "
        "use the token that came with the question.",
    )


def _is_token_of_earlier_wait(flow: Flow[I], item: I, token: str) -> bool:
    """Tell whether this was the token of an earlier wait of the item: then its bearer is late, not
    unknown.
    """
    wanted, key = hash_token(token), flow.key_text(item)
    waits = (each for each in flow.states.values() if isinstance(each.action, Wait) and each.action.answers)
    return any(
        matches_hash(each, wanted)
        for state in waits
        for each in make_recent_tokens(flow.secret, flow.name, key, state.name, item.version)
    )


def _build_answer_error(flow: Flow[I], state: State, wait: Wait, name: str) -> HoldfastError:
    taken = ", ".join(wait.answers) or "no answer"
    message = f"Invalid answer {name!r:.40}: {state.name} of the flow {flow.name} accepts {taken}."
    return NotWaiting(message, state=state.name) if name in flow.answer_names else InvalidRequest(message)


async def _end_wait(
    flow: Flow[I], stores: Stores, state: State, wait: Wait, run: StepContext[I]
) -> DeadlinePassed:
    """Apply the deadline, as the sweeper would, and return the error. If that fails now, leave it to the
    sweeper.
    """
    stands = state.name
    step = build_deadline_step(state, wait)
    try:
        stands = (await commit(flow, stores, run.item, await step.run(run), step.to)).flow_state
    except Exception as error:
        log.info("The deadline of %s is left to the sweeper: %s", run.key, error_label(error))
    return DeadlinePassed(
        f"The deadline of {state.name} has passed: this {flow.entity.__name__} is now in {stands}.",
        state=stands,
    )


def _format_not_cancellable(flow: Flow[I], item: I) -> str:
    from_where = ", ".join(flow.cancellation.from_states) if flow.cancellation else "nowhere"
    return (
        f"This {flow.entity.__name__} is in {item.flow_state} and can only be cancelled from {from_where}. "
        "Nothing was changed."
    )
