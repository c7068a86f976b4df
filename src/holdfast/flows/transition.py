"""Transitions of a flow: commit the result of a step, answer, deadline or cancellation in one transaction.

The item's conditional update, its execution row, the step's own writes and the outbox item of the next step
are written together or not at all. A worker that was overtaken writes nothing. After the commit the message
is sent at once; if that fails, or the process dies before it, the outbox's relay finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import (
    Conflict,
    HoldfastError,
    InvalidTransition,
    ItemUnreadable,
    OutcomeUnknown,
    RequestError,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
    error_label,
)
from holdfast.core.rng import RNG
from holdfast.flows.declaration import TIMEOUT_S, Next, State, Step, Wait
from holdfast.flows.executions import Execution, StepMessage
from holdfast.flows.history import extend_history
from holdfast.flows.item import FLOW_NAMES, FlowItem, truncate_to_stored
from holdfast.flows.tokens import hash_token, make_token
from holdfast.guarantees import OutboxItem
from holdfast.model.entities import Put, get_declaration
from holdfast.model.entities.writes import Transact, transact
from holdfast.model.operations import Write
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

MAX_ATTEMPTS: Final = 20
MAX_PAUSE_S: Final = 0.05
CONDITION_FAILED: Final = "ConditionalCheckFailed"
# Transient: another transaction on the same item, or throttling.
TRANSIENT_CODES: Final = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
)
# Messages of one version are numbered by the revision of the execution row, so they are sent in order.
MAX_REVISIONS: Final = 1_000_000

log = logging.getLogger(__name__)


class Overtaken(Conflict, label="Overtaken"):
    """Another worker changed the item first. Nothing was written."""


async def commit(
    flow: Flow[I],
    stores: Stores,
    seen: I,
    following: Next,
    allowed: Collection[str],
    *,
    failures: int = 0,
    error: str | None = None,
) -> I:
    """Commit the transition from `seen`, dispatch the next step, and return the item after it.

    `allowed` are the states that may follow; `failures` and `error` are those of the attempts in the state
    that the item leaves, for its history. Raises `Overtaken` if the item was changed since it was read,
    `InvalidTransition` if `following` is not allowed, `RetryLater` if the store is too busy.
    """
    left = {"flow_history": extend_history(seen, stores.now(), failures, error)}
    after, writes = _plan(flow, stores, seen, following, allowed, left)
    await _write(stores, writes)
    if isinstance(flow.get_state(after.flow_state).action, Step):
        await relay(flow, stores, flow.key_text(after))
    return after


async def relay(flow: Flow[Any], stores: Stores, key: str) -> None:
    """Send the item's next step now. If that fails, log it: the relay's schedule sends it."""
    try:
        await flow.outbox.send_unsent(stores, key)
    except (RetryLater, Conflict) as error:
        log.info("The next step of %s is sent later: %s", flow.name, error)


def _plan(
    flow: Flow[I],
    stores: Stores,
    seen: I,
    following: Next,
    allowed: Collection[str],
    left: Mapping[str, Any],
) -> tuple[I, Transact]:
    """Return the item after the transition, and the transaction, whose first write is the item's update.

    `left` are the changes that describe the state which the item leaves.
    Raise `InvalidTransition` if the result is not allowed or the item would be invalid.
    """
    _check_next(flow, seen, following, allowed)
    state, now = flow.get_state(following.state), stores.now()
    version = seen.version + 1
    entry = build_entry_changes(flow, seen, state, now, version, following.deadline_s)
    changes = dict(following.changes) | dict(left) | entry
    try:
        after = seen.model_copy(update=changes | {"version": version})
        # Validate it as a reader would: an item that breaks its entity's own rules must not be written.
        flow.entity.from_item(after.to_item())
        following_writes = build_execution_writes(flow, stores, after, now)
        return after, transact(flow.pattern_set.move(seen, changes), *following_writes, *following.writes)
    except (RequestError, ItemUnreadable) as error:
        raise InvalidTransition(
            f"Invalid transition from {seen.flow_state} to {state.name} in the flow {flow.name}: {error}"
        ) from error


def build_entry_changes(
    flow: Flow[I], item: I, state: State, now: datetime, version: int, deadline_s: float | None = None
) -> dict[str, Any]:
    """Return the flow's own attributes of an item that enters a state, by Python name.

    `deadline_s` overrides the wait's declared deadline; `version` is the item's after the transition.
    """
    attributes = get_declaration(flow.entity).attributes
    does, due, token = state.action, None, None
    if isinstance(does, Wait):
        wanted = does.deadline_s if deadline_s is None else deadline_s
        due = None if wanted is None else now + timedelta(seconds=wanted)
        if does.answers:
            token = hash_token(
                make_token(flow.secret.current, flow.name, flow.key_text(item), state.name, version)
            )
    changes: dict[str, Any] = {
        "flow_state": state.name,
        "flow_since": truncate_to_stored(attributes["flow_since"], now),
        "flow_due": None if due is None else truncate_to_stored(attributes["flow_due"], due),
        "flow_token": token,
    }
    if flow.shown_attribute is not None:
        changes[flow.shown_attribute.name] = state.shown_as
    if flow.changed_attribute is not None:
        changes[flow.changed_attribute.name] = truncate_to_stored(flow.changed_attribute.attribute, now)
    return changes


def build_execution_writes(
    flow: Flow[I], stores: Stores, item: I, now: datetime, *, is_start: bool = False
) -> tuple[Write[Any], ...]:
    """Return the write of the execution row, and for a step its message; at an end, the row's deletion.

    `is_start` creates the row instead of replacing it.
    """
    state, key = flow.get_state(item.flow_state), flow.key_text(item)
    if state.is_end:
        return () if is_start else (flow.pattern_set.leave(key),)
    execution = build_execution(flow, item, now)
    write = flow.pattern_set.begin(execution) if is_start else flow.pattern_set.enter(execution)
    return (write, build_message(flow, stores, execution)) if isinstance(state.action, Step) else (write,)


def build_execution(flow: Flow[I], item: I, now: datetime) -> Execution:
    """Build the execution row of an item that has just entered its state.

    A step becomes due after its timeout, a wait at its deadline.
    """
    state, key = flow.get_state(item.flow_state), flow.key_text(item)
    is_wait = isinstance(state.action, Wait)
    due = item.flow_due if is_wait else now + timedelta(seconds=get_timeout_s(state))
    return Execution(
        flow=flow.name,
        shard=flow.pattern_set.compute_shard(key),
        key=key,
        state=state.name,
        step=state.action_name,
        since=now,
        version=item.version,
        due=due,
        due_set_at=item.flow_since if is_wait else now,
        correlation=get_correlation_id(),
    )


def get_timeout_s(state: State | None) -> float:
    """Return the timeout of the state's step, or the default for other states."""
    return state.action.timeout_s if state is not None and isinstance(state.action, Step) else TIMEOUT_S


def build_message(flow: Flow[Any], stores: Stores, execution: Execution) -> Put[OutboxItem]:
    """Return the outbox item that dispatches an execution to a worker."""
    message = StepMessage(flow=flow.name, key=execution.key, state=execution.state, version=execution.version)
    sequence = execution.version * MAX_REVISIONS + execution.revision
    return flow.outbox.enqueue(stores, execution.key, message, sequence=sequence)


def _check_next(flow: Flow[I], seen: I, following: object, allowed: Collection[str]) -> None:
    """Raise `InvalidTransition` unless the result is a `Next` to an allowed state that changes only the
    step's attributes.
    """
    if not isinstance(following, Next):
        raise InvalidTransition(
            f"{seen.flow_state} of the flow {flow.name} returned {type(following).__name__}: return a Next."
        )
    if following.state not in allowed:
        raise InvalidTransition(
            f"{seen.flow_state} of the flow {flow.name} led to {following.state!r}: expected "
            f"{', '.join(allowed)}. Declare it in `to`, or return another state."
        )
    _check_changes(flow, following.changes)


def _check_changes(flow: Flow[Any], changes: Mapping[str, Any]) -> None:
    """Raise `InvalidTransition` for unknown attributes, and for those of the key or of the flow."""
    if ours := sorted(changes.keys() & flow.reserved_names):
        raise InvalidTransition(
            f"{', '.join(ours)} of {flow.entity.__name__} is part of its key or written by the flow "
            f"{flow.name}: "
            "leave it out."
        )
    if strangers := sorted(changes.keys() - flow.entity.model_fields.keys()):
        raise InvalidTransition(
            f"{flow.entity.__name__} has no {', '.join(strangers)}: use its Python names."
        )


def get_reserved_names(entity: type[FlowItem], *more: str) -> frozenset[str]:
    """Return the attributes that no step may change: the key, and those that the flow writes."""
    return FLOW_NAMES | get_declaration(entity).primary.attribute_names | frozenset(more)


async def _write(stores: Stores, transaction: Transact) -> None:
    """Run the transaction and retry conflicts and lost answers; its token makes that safe.

    Raise `Overtaken` if the condition of its first write fails, `RetryLater` after `MAX_ATTEMPTS`.
    """
    token = UlidGenerator(stores.clock).new()
    for _ in range(MAX_ATTEMPTS):
        try:
            await stores.run(transact(*transaction.actions, token=token))
            return
        except TransactionCancelled as cancelled:
            if cancelled.reasons[0].code == CONDITION_FAILED:
                raise Overtaken("Another worker changed the item in the meantime.") from cancelled
            codes = {reason.code for reason in cancelled.reasons}
            if CONDITION_FAILED in codes or not TRANSIENT_CODES & codes:
                raise
        except (TransactionConflict, OutcomeUnknown):
            pass
        await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S))
    raise RetryLater("The store is too busy for this transition, or does not answer. Retry in a moment.")


def format_error(error: BaseException) -> str:
    """Format an error for storage: ours with its message, others by class name only, as they may quote
    data.
    """
    kind = error_label(error)
    return f"{kind}: {error.message}"[:500] if isinstance(error, HoldfastError) else kind
