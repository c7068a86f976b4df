"""Answers and cancellations of a flow by people: check them and commit them as transitions.

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
from holdfast.flows.worker import build_deadline_step, resolve
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
    """Answer the item's current wait with the answer `name` and return the item after it.

    `given` is the content of the answer. If other writers change the item in the meantime and it still waits,
    the answer is evaluated again. Raises as `Flow.answer` does, and `RetryLater` after `MAX_ATTEMPTS`.
    """
    for _ in range(MAX_ATTEMPTS):
        item = await get_item(flow, stores, key)
        state, wait = _get_wait(flow, item)
        _check_token(flow, item, state, token)
        answer = wait.answers.get(name)
        if answer is None:
            raise _build_answer_error(flow, state, wait, name)
        run = StepContext(item, stores, flow.key_text(item), stores.now(), tools=tools)
        if item.flow_due is not None and item.flow_due <= run.now:
            raise await _end_wait(flow, stores, state, wait, run)
        following = await resolve(answer.run(run, given))
        try:
            return await commit(flow, stores, item, following, answer.to)
        except Overtaken:
            continue
    raise RetryLater(
        f"This {flow.entity.__name__} is being changed concurrently. Retry the answer in a moment."
    )


async def cancel(flow: Flow[I], stores: Stores, key: ItemKey, reason: str, *, tools: Any = None) -> I:
    """Cancel the flow and return the item after it. The result of a step that is running is discarded.

    Raises `NotFound`, `NotCancellable` from a state that does not allow it, and `RetryLater` after
    `MAX_ATTEMPTS`.
    """
    for _ in range(MAX_ATTEMPTS):
        item = await get_item(flow, stores, key)
        cancel = flow.cancellation
        if cancel is None or item.flow_state not in cancel.from_states:
            raise NotCancellable(_format_not_cancellable(flow, item), state=item.flow_state)
        run = StepContext(item, stores, flow.key_text(item), stores.now(), tools=tools)
        following = await resolve(cancel.run(run, reason))
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
    """Return the item's state and its wait; raise `NotWaiting` if the item is in another kind of state."""
    state = flow.find_state(item.flow_state)
    if state is None or not isinstance(state.action, Wait):
        raise NotWaiting(
            f"This {flow.entity.__name__} does not wait for an answer: it is in {item.flow_state}.",
            state=item.flow_state,
        )
    return state, state.action


def _check_token(flow: Flow[I], item: I, state: State, token: str) -> None:
    """Raise `NotWaiting` for a token of an earlier wait, `WaitTokenRefused` for any other wrong token."""
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
    """Return True if this was the token of an earlier wait of the item: its bearer is then late, not
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
    """Return the error for an answer that the wait does not accept: `NotWaiting` if another wait of the flow
    does.
    """
    taken = ", ".join(wait.answers) or "no answer"
    message = f"Invalid answer {name!r:.40}: {state.name} of the flow {flow.name} accepts {taken}."
    return NotWaiting(message, state=state.name) if name in flow.answer_names else InvalidRequest(message)


async def _end_wait(
    flow: Flow[I], stores: Stores, state: State, wait: Wait, run: StepContext[I]
) -> DeadlinePassed:
    """Apply the passed deadline, as the sweeper would, and return the error to raise.

    If that fails now, leave it to the sweeper.
    """
    current_state = state.name
    step = build_deadline_step(state, wait)
    try:
        current_state = (await commit(flow, stores, run.item, await step.run(run), step.to)).flow_state
    except Exception as error:
        log.info("The deadline of %s is left to the sweeper: %s", run.key, error_label(error))
    return DeadlinePassed(
        f"The deadline of {state.name} has passed: this {flow.entity.__name__} is now in {current_state}.",
        state=current_state,
    )


def _format_not_cancellable(flow: Flow[I], item: I) -> str:
    """Return the error text, with the item's state and those that allow a cancellation."""
    from_where = ", ".join(flow.cancellation.from_states) if flow.cancellation else "nowhere"
    return (
        f"This {flow.entity.__name__} is in {item.flow_state} and can only be cancelled from {from_where}. "
        "Nothing was changed."
    )
