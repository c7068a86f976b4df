"""The end of a step, and of an answer, a deadline, a cancellation: one transaction.

The item's conditional update, its place, the step's own writes and the outbox item of the next step are written together
or not at all. Who was overtaken writes nothing. After the commit the message is sent at once; where that fails, or the
process dies before it, the relay of the outbox finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.chance import CHANCE
from holdfast.correlation import correlation_id
from holdfast.errors import (
    Conflict,
    HoldfastError,
    ItemUnreadable,
    OutcomeUnknown,
    RequestError,
    RetryLater,
    StepMistaken,
    TransactionCancelled,
    TransactionConflict,
    error_label,
)
from holdfast.flows.declaration import LIMIT_S, Next, State, Step, Wait
from holdfast.flows.item import FLOW_NAMES, FlowItem, kept_moment
from holdfast.flows.places import Place, StepMessage
from holdfast.flows.tokens import hash_of, token_of
from holdfast.guarantees import OutboxItem
from holdfast.guarantees.pattern_sets import moment
from holdfast.model import Put, Ulids, Write, declaration_of
from holdfast.model.writes import Transact, transact
from holdfast.runtime import Stores

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

TRIES_MAX: Final = 20
PAUSE_S_MAX: Final = 0.05
NOT_SO: Final = "ConditionalCheckFailed"
# What passes by itself: another transaction on the same item, or too much at once.
PASSING: Final = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
# Messages of one version are numbered by what was noted of its place: they go out in order.
REVISIONS_MAX: Final = 1_000_000

log = logging.getLogger(__name__)


class Overtaken(Conflict, label="Overtaken"):
    """Somebody else moved the item first. Nothing was written."""


async def committed(flow: Flow[I], stores: Stores, seen: I, following: Next, allowed: Collection[str]) -> I:
    """The item as it is after its transition, which is committed; and its next step is on its way."""
    after, writes = _planned(flow, stores, seen, following, allowed)
    await _written(stores, writes)
    if isinstance(flow.state(after.flow_state).does, Step):
        await relayed(flow, stores, flow.key(after))
    return after


async def relayed(flow: Flow[Any], stores: Stores, key: str) -> None:
    """Sends the next step at once. What cannot be sent now, the relay's schedule sends."""
    try:
        await flow.outbox.relay(stores, key)
    except (RetryLater, Conflict) as error:
        log.info("The next step of %s is sent later: %s", flow.name, error)


def _planned(
    flow: Flow[I], stores: Stores, seen: I, following: Next, allowed: Collection[str]
) -> tuple[I, Transact]:
    """What would be the item, and the transaction that makes it so; the item's update comes first."""
    _refuse_strange(flow, seen, following, allowed)
    state, now = flow.state(following.state), moment(stores.clock)
    version = seen.version + 1
    changes = dict(following.changes) | entering(flow, seen, state, now, version, following.deadline_s)
    try:
        after = seen.model_copy(update=changes | {"version": version})
        # As it would be read: what the item's own rules refuse must not be written.
        flow.entity.from_item(after.to_item())
        following_writes = standing_writes(flow, stores, after, now)
        return after, transact(flow.use.move(seen, changes), *following_writes, *following.writes)
    except (RequestError, ItemUnreadable) as error:
        raise StepMistaken(
            f"What {seen.flow_state} of the flow {flow.name} gave for {state.name} cannot be written: {error}"
        ) from error


def entering(
    flow: Flow[I], item: I, state: State, now: datetime, version: int, deadline_s: float | None = None
) -> dict[str, Any]:
    """What the item's own attributes are when it comes to a state, by their Python names."""
    attributes = declaration_of(flow.entity).attributes
    does, due, token = state.does, None, None
    if isinstance(does, Wait):
        wanted = does.deadline_s if deadline_s is None else deadline_s
        due = None if wanted is None else now + timedelta(seconds=wanted)
        if does.answers:
            token = hash_of(token_of(flow.secret.current, flow.name, flow.key(item), state.name, version))
    changes: dict[str, Any] = {
        "flow_state": state.name,
        "flow_since": kept_moment(attributes["flow_since"], now),
        "flow_due": None if due is None else kept_moment(attributes["flow_due"], due),
        "flow_token": token,
    }
    if flow.shows is not None:
        changes[flow.shows.name] = state.shown
    if flow.changed is not None:
        changes[flow.changed.name] = kept_moment(flow.changed.attribute, now)
    return changes


def standing_writes(
    flow: Flow[I], stores: Stores, item: I, now: datetime, *, begins: bool = False
) -> tuple[Write[Any], ...]:
    """Its place, and the message of its step where it comes to one; at an end, that there is no place any more."""
    state, key = flow.state(item.flow_state), flow.key(item)
    if state.is_end:
        return () if begins else (flow.use.leave(key),)
    place = place_of(flow, item, now)
    write = flow.use.begin(place) if begins else flow.use.enter(place)
    return (write, message_of(flow, stores, place)) if isinstance(state.does, Step) else (write,)


def place_of(flow: Flow[I], item: I, now: datetime) -> Place:
    """Where it stands, newly come: a step is looked at again when nothing was heard of it, a wait at its deadline."""
    state, key = flow.state(item.flow_state), flow.key(item)
    due = item.flow_due if isinstance(state.does, Wait) else now + timedelta(seconds=limit_s(state))
    return Place(
        flow=flow.name,
        shard=flow.use.shard_of(key),
        key=key,
        state=state.name,
        step=state.doing,
        since=now,
        version=item.version,
        due=due,
        correlation=correlation_id(),
    )


def limit_s(state: State | None) -> float:
    return state.does.limit_s if state is not None and isinstance(state.does, Step) else LIMIT_S


def message_of(flow: Flow[Any], stores: Stores, place: Place) -> Put[OutboxItem]:
    """The outbox item by which a worker is told of a place as it is now."""
    message = StepMessage(flow=flow.name, key=place.key, state=place.state, version=place.version)
    sequence = place.version * REVISIONS_MAX + place.revision
    return flow.outbox.item(stores, place.key, message, sequence=sequence)


def _refuse_strange(flow: Flow[I], seen: I, following: object, allowed: Collection[str]) -> None:
    """Only what is declared is written: a legal state, and attributes that are the step's to change."""
    if not isinstance(following, Next):
        raise StepMistaken(
            f"{seen.flow_state} of the flow {flow.name} gave {type(following).__name__}: give a Next."
        )
    if following.state not in allowed:
        raise StepMistaken(
            f"{seen.flow_state} of the flow {flow.name} led to {following.state!r}, and may lead to "
            f"{', '.join(allowed)}: declare it in `to`, or lead elsewhere."
        )
    _refuse_changes(flow, following.changes)


def _refuse_changes(flow: Flow[Any], changes: Mapping[str, Any]) -> None:
    if ours := sorted(changes.keys() & flow.own_names):
        raise StepMistaken(
            f"{', '.join(ours)} of {flow.entity.__name__} is its key or written by the flow {flow.name}: leave it out."
        )
    if strangers := sorted(changes.keys() - flow.entity.model_fields.keys()):
        raise StepMistaken(f"{flow.entity.__name__} has no {', '.join(strangers)}: give names of Python.")


def own_names_of(entity: type[FlowItem], *more: str) -> frozenset[str]:
    """What no step may change: the key, and what the flow writes."""
    return FLOW_NAMES | declaration_of(entity).primary.uses_of_key | frozenset(more)


async def _written(stores: Stores, transaction: Transact) -> None:
    """By its token a transaction whose answer was lost can be sent again, and is done once."""
    token = Ulids(stores.clock).new()
    for _ in range(TRIES_MAX):
        try:
            await stores.run(transact(*transaction.actions, token=token))
            return
        except TransactionCancelled as cancelled:
            if cancelled.reasons[0].code == NOT_SO:
                raise Overtaken("The item was moved by another meanwhile.") from cancelled
            codes = {reason.code for reason in cancelled.reasons}
            if NOT_SO in codes or not PASSING & codes:
                raise
        except (TransactionConflict, OutcomeUnknown):
            pass
        await asyncio.sleep(CHANCE.uniform(0, PAUSE_S_MAX))
    raise RetryLater("The store is too busy for this transition, or does not answer: come again in a moment.")


def spoken(error: BaseException) -> str:
    """An error as it may be kept: ours with its message; of others only the kind, since they may quote what they were given."""
    kind = error_label(error)
    return f"{kind}: {error.message}"[:500] if isinstance(error, HoldfastError) else kind
