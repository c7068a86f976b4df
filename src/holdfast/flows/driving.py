"""A worker of a flow: from a message to the end of a step.

stale? → unknown? → the item → its step, or the end of a wait → one transaction; or a try that failed: again after a
pause, otherwise where the step says, or parked.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from holdfast.errors import (
    Conflict,
    DeclarationError,
    HoldfastError,
    ItemUnreadable,
    RetryLater,
    SecretMissing,
    StepMistaken,
    error_label,
)
from holdfast.flows.declaration import Next, Retry, Run, State, Step, Wait
from holdfast.flows.item import FlowItem
from holdfast.flows.noting import FRESH, noted, parked, sent_again
from holdfast.flows.places import ParkedFor, Place, StepMessage
from holdfast.flows.transition import Overtaken, committed, spoken
from holdfast.guarantees.pattern_sets import moment
from holdfast.model import Received
from holdfast.runtime import Stores
from holdfast.runtime.workers.pauses import jittered

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

# What passes by itself: a store, a party, another worker. A step is put off for it, and that is no failed try.
PASSING: Final = (RetryLater, Conflict, SecretMissing)
DELAY_S: Final = 1.0
DELAY_S_MAX: Final = 60.0
TAKES_MAX: Final = 20

log = logging.getLogger(__name__)


class Driver(Generic[I]):
    """Handles the messages of one flow in one process, with the tools that its steps are given."""

    def __init__(self, flow: Flow[I], stores: Stores, tools: Any = None) -> None:
        self._flow, self._stores, self._tools = flow, stores, tools

    async def handle(self, received: Received[StepMessage]) -> None:
        message, flow = received.message, self._flow
        if message.flow != flow.name:
            raise DeclarationError(
                f"A message of the flow {message.flow} came by the queue of {flow.name}: give each a queue of its own."
            )
        place = await self._stores.run(flow.use.place(message.key))
        if place is None or self._is_stale(place, message):
            self._dropped("stale", message.key)
        elif received.receives == 1:
            await self._at(place)
        else:
            await self._taken_again(place)

    def _is_stale(self, place: Place, message: StepMessage) -> bool:
        is_of_this_visit = (place.state, place.version) == (message.state, message.version)
        return not is_of_this_visit or place.is_parked or place.is_pausing(moment(self._stores.clock))

    async def _taken_again(self, place: Place) -> None:
        """Of a message that comes again nothing was heard: its worker ended, or the store failed. Not for ever."""
        if place.takes >= TAKES_MAX:
            why = f"{place.step} was taken up {place.takes} times and nothing was heard of it: it may end its worker."
            await self._park(place, ParkedFor.LOST, why)
        elif (noticed := await noted(self._flow, self._stores, place, takes=place.takes + 1)) is not None:
            await self._at(noticed)

    async def _at(self, place: Place) -> None:
        state = self._flow.find(place.state)
        if state is None:
            await self._park(place, ParkedFor.UNKNOWN_STATE, unknown_state(self._flow, place.state))
            return
        try:
            item = await self._stores.run(self._flow.use.one(place.key))
        except ItemUnreadable as error:
            await self._park(place, ParkedFor.UNREADABLE, f"Its item cannot be read: {error.reason}.")
            return
        if item is None:
            log.warning("The item %s of the flow %s is gone, and so is its flow.", place.key, self._flow.name)
            await self._stores.run(self._flow.use.leave(place.key))
        elif item.flow_state != place.state:
            await self._follow(place, item)
        else:
            await self._do(state, place, item)

    async def _do(self, state: State, place: Place, item: I) -> None:
        if isinstance(state.does, Step):
            await self._step(state.does, place, item)
        elif isinstance(state.does, Wait):
            await self._wait(state, state.does, place, item)
        else:  # an end, for this code
            await self._stores.run(self._flow.use.leave(place.key))

    # --- a step ---------------------------------------------------------------------------------------------

    async def _step(self, step: Step, place: Place, item: I) -> None:
        run = self._run(place, item)
        try:
            async with asyncio.timeout(step.limit_s):
                following = await step.run(run)
        except Exception as error:
            await self._failed(step, place, run, error)
            return
        try:
            await committed(self._flow, self._stores, item, following, step.to)
        except Overtaken:
            self._dropped("overtaken", place.key)
        except StepMistaken as error:
            await self._park(place, ParkedFor.MISTAKE, error.message)
        except RetryLater:
            raise  # the store's own: the message comes again
        except HoldfastError as error:  # one of the step's own writes was refused
            await self._failed(step, place, run, error)

    async def _failed(self, step: Step, place: Place, run: Run[I], error: Exception) -> None:
        rule = rule_of(step, error)
        if rule is not None and place.attempts + 1 < rule.tries:
            await self._again(place, rule, error)
        elif rule is None and isinstance(error, PASSING) and self._has_patience(step, place):
            await self._put_off(place, error)
        elif step.otherwise is None:
            tries = "at the first try" if place.attempts == 0 else f"after {place.attempts + 1} tries"
            why = f"{spoken(error)} ({tries}, and nothing is declared to follow that)."
            self._tell(place, error)
            await self._park(place, ParkedFor.FAILED, why)
        else:
            self._tell(place, error)
            await self._otherwise(step, place, run, error)

    async def _again(self, place: Place, rule: Retry, error: Exception) -> None:
        pause_s = max(
            jittered(place.attempts, rule.pause_s, rule.pause_s_max),
            getattr(error, "retry_after_s", None) or 0.0,
        )
        log.info(
            "%s of %s failed, and is tried again in %.1f s: %s", place.step, place.key, pause_s, spoken(error)
        )
        self._stores.count("flow_retried", flow=place.flow, state=place.state, error=error_label(error))
        await self._pause(place, pause_s, error, attempts=place.attempts + 1, delays=0, delayed_since=None)

    async def _put_off(self, place: Place, error: Exception) -> None:
        told_s = getattr(error, "retry_after_s", None)
        pause_s = jittered(place.delays, DELAY_S, DELAY_S_MAX) if told_s is None else max(0.0, told_s)
        log.info("%s of %s is put off for %.1f s: %s", place.step, place.key, pause_s, spoken(error))
        self._stores.count("flow_put_off", flow=place.flow, state=place.state, error=error_label(error))
        since = place.delayed_since or moment(self._stores.clock)
        await self._pause(place, pause_s, error, delays=place.delays + 1, delayed_since=since)

    async def _pause(self, place: Place, pause_s: float, error: Exception, **changes: Any) -> None:
        due = moment(self._stores.clock) + timedelta(seconds=pause_s)
        changes |= {"due": due, "sends": 0, "takes": 0, "error": spoken(error)}
        if await noted(self._flow, self._stores, place, **changes) is None:
            self._dropped("overtaken", place.key)

    def _has_patience(self, step: Step, place: Place) -> bool:
        waited = moment(self._stores.clock) - (place.delayed_since or moment(self._stores.clock))
        return waited < timedelta(seconds=step.patience_s)

    async def _otherwise(self, step: Step, place: Place, run: Run[I], error: Exception) -> None:
        assert step.otherwise is not None
        try:
            following = await given(step.otherwise(run, error))
            await committed(self._flow, self._stores, run.item, following, step.to)
        except Overtaken:
            self._dropped("overtaken", place.key)
        except RetryLater:
            raise
        except StepMistaken as mistake:
            await self._park(place, ParkedFor.MISTAKE, mistake.message)
        except Exception as second:
            self._tell(place, second)
            why = f"{spoken(error)}; and what was to follow it failed too: {spoken(second)}."
            await self._park(place, ParkedFor.FAILED, why)

    # --- a wait ---------------------------------------------------------------------------------------------

    async def _wait(self, state: State, wait: Wait, place: Place, item: I) -> None:
        """At its deadline it is left. Before that, its place is put right; one that was come to as something else is
        come to again, so that it has a token and a deadline."""
        lacks_token = bool(wait.answers) and item.flow_token is None
        lacks_deadline = wait.deadline_s is not None and item.flow_due is None
        if lacks_token or lacks_deadline:
            await self._step(Step(state.name, _again_in(state.name), to=(state.name,)), place, item)
        elif item.flow_due is not None and item.flow_due <= moment(self._stores.clock):
            await self._step(late_step(state, wait), place, item)
        else:
            await noted(self._flow, self._stores, place, **FRESH | {"due": item.flow_due})

    # --- what is not as it should be ------------------------------------------------------------------------

    async def _follow(self, place: Place, item: I) -> None:
        """The item says another state than its place: it has just moved on, or was mended by hand. It is the truth."""
        now = await self._stores.run(self._flow.use.place(place.key))
        if now is None or (now.version, now.revision) != (place.version, place.revision):
            self._dropped("stale", place.key)
            return
        log.warning("The flow %s follows %s to %s.", self._flow.name, place.key, item.flow_state)
        await follow_item(self._flow, self._stores, place, item)

    async def _park(self, place: Place, kind: ParkedFor, reason: str) -> None:
        await parked(self._flow, self._stores, place, kind, reason)

    def _run(self, place: Place, item: I) -> Run[I]:
        now = moment(self._stores.clock)
        return Run(item, self._stores, place.key, now, place.attempts + 1, self._tools)

    def _dropped(self, why: str, key: str) -> None:
        log.debug("A message or a result of %s is dropped: %s.", key, why)
        self._stores.count("flow_dropped", flow=self._flow.name, reason=why)

    def _tell(self, place: Place, error: Exception) -> None:
        is_ours = isinstance(error, HoldfastError)
        log.warning(
            "%s of %s has failed: %s",
            place.step,
            place.key,
            spoken(error),
            exc_info=None if is_ours else error,
        )


async def follow_item(flow: Flow[I], stores: Stores, place: Place, item: I) -> None:
    """The place made anew from the item, and a worker told."""
    state = flow.find(item.flow_state)
    if state is not None and state.is_end:
        await stores.run(flow.use.leave(place.key))
        return
    doing = None if state is None else state.doing
    changes = FRESH | {"state": item.flow_state, "version": item.version, "step": doing}
    await sent_again(flow, stores, place, **changes, since=moment(stores.clock))


def late_step(state: State, wait: Wait) -> Step:
    """What leaves a wait at its deadline, as a step."""

    async def late(run: Run[Any]) -> Next:
        if wait.late is not None:
            return await given(wait.late(run))
        return Next(wait.late_states[0])

    return Step(f"{state.doing} ends", late, to=wait.late_states)


def rule_of(step: Step, error: Exception) -> Retry | None:
    """The first that names the error, or a kind of it."""
    return next((rule for rule in step.retries if isinstance(error, rule.classes)), None)


def unknown_state(flow: Flow[Any], name: str) -> str:
    return (
        f"This code does not know the state {name!r} of the flow {flow.name}: it has {', '.join(flow.states)}. Run code "
        "that knows it, or mend the item."
    )


async def given(following: Next | Awaitable[Next]) -> Next:
    """What a function gave that may be async or not."""
    return await following if inspect.isawaitable(following) else following


def _again_in(state: str) -> Any:
    async def come_again(run: Run[Any]) -> Next:
        return Next(state)

    return come_again
