"""What people do to a flow: they answer a wait, or cancel. Each is a transition like any other.

An answer is checked in this order: the item is there, it waits, the token is the wait's, the wait takes this answer, its
deadline has not passed. Of two answers at once one is written; the other is told where the flow stands.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.errors import (
    AnswerRefused,
    AnswerTooLate,
    HoldfastError,
    InvalidRequest,
    NotAwaited,
    NotCancellable,
    NotFound,
    RetryLater,
    error_label,
)
from holdfast.flows.declaration import Run, State, Wait
from holdfast.flows.driving import given as awaited
from holdfast.flows.driving import late_step
from holdfast.flows.item import FlowItem, ItemKey
from holdfast.flows.tokens import hash_of, is_token, tokens_of
from holdfast.flows.transition import Overtaken, committed
from holdfast.guarantees.pattern_sets import moment
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

TRIES_MAX: Final = 20

log = logging.getLogger(__name__)


async def answered(
    flow: Flow[I],
    stores: Stores,
    key: ItemKey,
    name: str,
    *,
    token: str,
    given: Mapping[str, Any],
    tools: Any = None,
) -> I:
    """The item after the answer. Where others write the item meanwhile and it still waits, it is decided anew."""
    for _ in range(TRIES_MAX):
        item = await found(flow, stores, key)
        state, wait = _waiting(flow, item)
        _check_token(flow, item, state, token)
        answer = wait.answers.get(name)
        if answer is None:
            raise _not_taken(flow, state, wait, name)
        run = Run(item, stores, flow.key(item), moment(stores.clock), tools=tools)
        if item.flow_due is not None and item.flow_due <= run.now:
            raise await _too_late(flow, stores, state, wait, run)
        following = await awaited(answer.run(run, given))
        try:
            return await committed(flow, stores, item, following, answer.to)
        except Overtaken:
            continue
    raise RetryLater(f"Others keep writing this {flow.entity.__name__}: answer again in a moment.")


async def cancelled(flow: Flow[I], stores: Stores, key: ItemKey, reason: str, *, tools: Any = None) -> I:
    """The item after it was cancelled. A step that runs meanwhile ends in a result that nobody takes."""
    for _ in range(TRIES_MAX):
        item = await found(flow, stores, key)
        cancel = flow.cancelling
        if cancel is None or item.flow_state not in cancel.frm:
            raise NotCancellable(_cannot_cancel(flow, item), state=item.flow_state)
        run = Run(item, stores, flow.key(item), moment(stores.clock), tools=tools)
        following = await awaited(cancel.run(run, reason))
        try:
            return await committed(flow, stores, item, following, (cancel.to,))
        except Overtaken:
            continue
    raise RetryLater(f"Others keep writing this {flow.entity.__name__}: cancel it again in a moment.")


async def found(flow: Flow[I], stores: Stores, key: ItemKey) -> I:
    item = await stores.run(flow.use.one(flow.key(key)))
    if item is None:
        raise NotFound(
            f"There is no such {flow.entity.__name__}: nothing of the flow {flow.name} has this key."
        )
    return item


def _waiting(flow: Flow[I], item: I) -> tuple[State, Wait]:
    state = flow.find(item.flow_state)
    if state is None or not isinstance(state.does, Wait):
        raise NotAwaited(
            f"This {flow.entity.__name__} waits for no answer: it stands in {item.flow_state}.",
            state=item.flow_state,
        )
    return state, state.does


def _check_token(flow: Flow[I], item: I, state: State, token: str) -> None:
    if is_token(token, item.flow_token):
        return
    if _is_former(flow, item, token):
        raise NotAwaited(
            f"This {flow.entity.__name__} was answered already, and has gone on: it stands in {state.name}.",
            state=state.name,
        )
    raise AnswerRefused(
        AnswerRefused.code,
        f"The token is not that of this wait of {flow.entity.__name__}: answer with the one that came with the question.",
    )


def _is_former(flow: Flow[I], item: I, token: str) -> bool:
    """Whether it was the token of a wait that the item has left: then its bearer is late, and no stranger."""
    wanted, key = hash_of(token), flow.key(item)
    waits = (each for each in flow.states.values() if isinstance(each.does, Wait) and each.does.answers)
    return any(
        is_token(each, wanted)
        for state in waits
        for each in tokens_of(flow.secret, flow.name, key, state.name, item.version)
    )


def _not_taken(flow: Flow[I], state: State, wait: Wait, name: str) -> HoldfastError:
    taken = ", ".join(wait.answers) or "no answer"
    told = f"{state.name} of the flow {flow.name} takes {taken}, and not {name!r:.40}."
    return NotAwaited(told, state=state.name) if name in flow.answer_names else InvalidRequest(told)


async def _too_late(flow: Flow[I], stores: Stores, state: State, wait: Wait, run: Run[I]) -> AnswerTooLate:
    """The deadline is made true first, as the sweeper would; where that cannot be done now, it is left to it."""
    stands = state.name
    step = late_step(state, wait)
    try:
        stands = (await committed(flow, stores, run.item, await step.run(run), step.to)).flow_state
    except Exception as error:
        log.info("The deadline of %s is left to the sweeper: %s", run.key, error_label(error))
    return AnswerTooLate(
        f"The answer came after the deadline of {state.name}: this {flow.entity.__name__} stands in {stands}.",
        state=stands,
    )


def _cannot_cancel(flow: Flow[I], item: I) -> str:
    from_where = ", ".join(flow.cancelling.frm) if flow.cancelling else "nowhere"
    return (
        f"This {flow.entity.__name__} stands in {item.flow_state}, and can be cancelled from {from_where} only. Nothing was "
        "changed."
    )
