"""The worker of a flow: from a message to the end of a step.

stale? → unknown? → the item → its step, or the end of a wait → one transaction. A failed attempt is retried
after a pause, goes to the step's `on_failure`, or parks the flow.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from holdfast.core.errors import (
    Conflict,
    DeclarationError,
    HoldfastError,
    InvalidTransition,
    ItemUnreadable,
    RetryLater,
    SecretMissing,
    error_label,
)
from holdfast.flows.bookkeeping import RESET, park, record, resend
from holdfast.flows.declaration import Next, Retry, State, Step, StepContext, Wait
from holdfast.flows.executions import Execution, ParkedFor, StepMessage
from holdfast.flows.item import FlowItem
from holdfast.flows.transition import Overtaken, commit, format_error
from holdfast.guarantees.pattern_sets import utc_now
from holdfast.model import ReceivedMessage
from holdfast.runtime import Stores
from holdfast.runtime.workers.backoff import compute_backoff

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

# Transient failures of a store, an external service or another worker. They delay a step, and do not count as
# attempts.
TRANSIENT_ERRORS: Final = (RetryLater, Conflict, SecretMissing)
DELAY_S: Final = 1.0
MAX_DELAY_S: Final = 60.0
MAX_TAKES: Final = 20

log = logging.getLogger(__name__)


class StepWorker(Generic[I]):
    """Handles the messages of one flow in one process, with the tools that its steps get."""

    def __init__(self, flow: Flow[I], stores: Stores, tools: Any = None) -> None:
        self._flow, self._stores, self._tools = flow, stores, tools

    async def handle(self, received: ReceivedMessage[StepMessage]) -> None:
        message, flow = received.message, self._flow
        if message.flow != flow.name:
            raise DeclarationError(
                f"A message of the flow {message.flow} arrived on the queue of {flow.name}: "
                "each flow needs a queue of its own."
            )
        place = await self._stores.run(flow.pattern_set.execution(message.key))
        if place is None or self._is_stale(place, message):
            self._count_dropped("stale", message.key)
        elif received.receive_count == 1:
            await self._load_and_run(place)
        else:
            await self._handle_redelivery(place)

    def _is_stale(self, place: Execution, message: StepMessage) -> bool:
        is_of_this_visit = (place.state, place.version) == (message.state, message.version)
        return not is_of_this_visit or place.is_parked or place.is_pausing(utc_now(self._stores.clock))

    async def _handle_redelivery(self, place: Execution) -> None:
        """Handle a redelivered message: its worker died, or the store failed. Park it after too many."""
        if place.takes >= MAX_TAKES:
            why = f"{place.step} was started {place.takes} times and never ended: it may crash its worker."
            await self._park(place, ParkedFor.LOST, why)
        elif (noticed := await record(self._flow, self._stores, place, takes=place.takes + 1)) is not None:
            await self._load_and_run(noticed)

    async def _load_and_run(self, place: Execution) -> None:
        state = self._flow.find_state(place.state)
        if state is None:
            await self._park(place, ParkedFor.UNKNOWN_STATE, format_unknown_state(self._flow, place.state))
            return
        try:
            item = await self._stores.run(self._flow.pattern_set.item(place.key))
        except ItemUnreadable as error:
            await self._park(place, ParkedFor.UNREADABLE, f"Its item is unreadable: {error.reason}.")
            return
        if item is None:
            log.warning("The item %s of the flow %s was deleted; its flow ends.", place.key, self._flow.name)
            await self._stores.run(self._flow.pattern_set.leave(place.key))
        elif item.flow_state != place.state:
            await self._follow_item(place, item)
        else:
            await self._run_action(state, place, item)

    async def _run_action(self, state: State, place: Execution, item: I) -> None:
        if isinstance(state.action, Step):
            await self._run_step(state.action, place, item)
        elif isinstance(state.action, Wait):
            await self._check_wait(state, state.action, place, item)
        else:  # an end state in this version of the code
            await self._stores.run(self._flow.pattern_set.leave(place.key))

    # --- a step ---------------------------------------------------------------------------------------------

    async def _run_step(self, step: Step, place: Execution, item: I) -> None:
        run = self._build_context(place, item)
        try:
            async with asyncio.timeout(step.timeout_s):
                following = await step.run(run)
        except Exception as error:
            await self._handle_failure(step, place, run, error)
            return
        try:
            await commit(self._flow, self._stores, item, following, step.to)
        except Overtaken:
            self._count_dropped("overtaken", place.key)
        except InvalidTransition as error:
            await self._park(place, ParkedFor.MISTAKE, error.message)
        except RetryLater:
            raise  # of the store: the message is redelivered
        except HoldfastError as error:  # one of the step's own writes was refused
            await self._handle_failure(step, place, run, error)

    async def _handle_failure(
        self, step: Step, place: Execution, run: StepContext[I], error: Exception
    ) -> None:
        rule = find_retry(step, error)
        if rule is not None and place.attempts + 1 < rule.max_attempts:
            await self._schedule_retry(place, rule, error)
        elif rule is None and isinstance(error, TRANSIENT_ERRORS) and self._may_delay(step, place):
            await self._delay(place, error)
        elif step.on_failure is None:
            tries = "at the first attempt" if place.attempts == 0 else f"after {place.attempts + 1} attempts"
            why = f"{format_error(error)} ({tries}, and the step declares no on_failure)."
            self._log_failure(place, error)
            await self._park(place, ParkedFor.FAILED, why)
        else:
            self._log_failure(place, error)
            await self._run_on_failure(step, place, run, error)

    async def _schedule_retry(self, place: Execution, rule: Retry, error: Exception) -> None:
        pause_s = max(
            compute_backoff(place.attempts, rule.pause_s, rule.max_pause_s),
            getattr(error, "retry_after_s", None) or 0.0,
        )
        log.info("%s of %s failed; retry in %.1f s: %s", place.step, place.key, pause_s, format_error(error))
        self._stores.count("flow_retried", flow=place.flow, state=place.state, error=error_label(error))
        await self._record_pause(
            place, pause_s, error, attempts=place.attempts + 1, delays=0, delayed_since=None
        )

    async def _delay(self, place: Execution, error: Exception) -> None:
        told_s = getattr(error, "retry_after_s", None)
        pause_s = compute_backoff(place.delays, DELAY_S, MAX_DELAY_S) if told_s is None else max(0.0, told_s)
        log.info("%s of %s is delayed by %.1f s: %s", place.step, place.key, pause_s, format_error(error))
        self._stores.count("flow_put_off", flow=place.flow, state=place.state, error=error_label(error))
        since = place.delayed_since or utc_now(self._stores.clock)
        await self._record_pause(place, pause_s, error, delays=place.delays + 1, delayed_since=since)

    async def _record_pause(self, place: Execution, pause_s: float, error: Exception, **changes: Any) -> None:
        due = utc_now(self._stores.clock) + timedelta(seconds=pause_s)
        changes |= {"due": due, "sends": 0, "takes": 0, "error": format_error(error)}
        if await record(self._flow, self._stores, place, **changes) is None:
            self._count_dropped("overtaken", place.key)

    def _may_delay(self, step: Step, place: Execution) -> bool:
        waited = utc_now(self._stores.clock) - (place.delayed_since or utc_now(self._stores.clock))
        return waited < timedelta(seconds=step.max_delay_s)

    async def _run_on_failure(
        self, step: Step, place: Execution, run: StepContext[I], error: Exception
    ) -> None:
        assert step.on_failure is not None
        try:
            following = await resolve(step.on_failure(run, error))
            await commit(self._flow, self._stores, run.item, following, step.to)
        except Overtaken:
            self._count_dropped("overtaken", place.key)
        except RetryLater:
            raise
        except InvalidTransition as mistake:
            await self._park(place, ParkedFor.MISTAKE, mistake.message)
        except Exception as second:
            self._log_failure(place, second)
            why = f"{format_error(error)}; its on_failure failed too: {format_error(second)}."
            await self._park(place, ParkedFor.FAILED, why)

    # --- a wait ---------------------------------------------------------------------------------------------

    async def _check_wait(self, state: State, wait: Wait, place: Execution, item: I) -> None:
        """End the wait at its deadline; before that, correct its execution row.

        A wait that was entered without a token or deadline, by other code, is entered again so that it has
        both.
        """
        lacks_token = bool(wait.answers) and item.flow_token is None
        lacks_deadline = wait.deadline_s is not None and item.flow_due is None
        if lacks_token or lacks_deadline:
            await self._run_step(Step(state.name, _reenter(state.name), to=(state.name,)), place, item)
        elif item.flow_due is not None and item.flow_due <= utc_now(self._stores.clock):
            await self._run_step(build_deadline_step(state, wait), place, item)
        else:
            await record(self._flow, self._stores, place, **RESET | {"due": item.flow_due})

    # --- what is not as it should be ------------------------------------------------------------------------

    async def _follow_item(self, place: Execution, item: I) -> None:
        """Follow an item whose state differs from its execution row: it moved, or was fixed by hand. The item
        is right.
        """
        now = await self._stores.run(self._flow.pattern_set.execution(place.key))
        if now is None or (now.version, now.revision) != (place.version, place.revision):
            self._count_dropped("stale", place.key)
            return
        log.warning("The flow %s follows %s to %s.", self._flow.name, place.key, item.flow_state)
        await follow_item(self._flow, self._stores, place, item)

    async def _park(self, place: Execution, kind: ParkedFor, reason: str) -> None:
        await park(self._flow, self._stores, place, kind, reason)

    def _build_context(self, place: Execution, item: I) -> StepContext[I]:
        now = utc_now(self._stores.clock)
        return StepContext(item, self._stores, place.key, now, place.attempts + 1, self._tools)

    def _count_dropped(self, why: str, key: str) -> None:
        log.debug("Dropped a message or result of %s: %s.", key, why)
        self._stores.count("flow_dropped", flow=self._flow.name, reason=why)

    def _log_failure(self, place: Execution, error: Exception) -> None:
        is_ours = isinstance(error, HoldfastError)
        log.warning(
            "%s of %s failed: %s",
            place.step,
            place.key,
            format_error(error),
            exc_info=None if is_ours else error,
        )


async def follow_item(flow: Flow[I], stores: Stores, place: Execution, item: I) -> None:
    """Rewrite the execution row from the item, and dispatch it."""
    state = flow.find_state(item.flow_state)
    if state is not None and state.is_end:
        await stores.run(flow.pattern_set.leave(place.key))
        return
    doing = None if state is None else state.action_name
    changes = RESET | {"state": item.flow_state, "version": item.version, "step": doing}
    await resend(flow, stores, place, **changes, since=utc_now(stores.clock))


def build_deadline_step(state: State, wait: Wait) -> Step:
    """Return the step that leaves a wait at its deadline."""

    async def late(run: StepContext[Any]) -> Next:
        if wait.on_deadline is not None:
            return await resolve(wait.on_deadline(run))
        return Next(wait.deadline_states[0])

    return Step(f"{state.action_name} ends", late, to=wait.deadline_states)


def find_retry(step: Step, error: Exception) -> Retry | None:
    """Return the first retry rule that names the error's class or a base of it."""
    return next((rule for rule in step.retries if isinstance(error, rule.classes)), None)


def format_unknown_state(flow: Flow[Any], name: str) -> str:
    return (
        f"Unknown state {name!r} of the flow {flow.name}: this code has {', '.join(flow.states)}. "
        "Run code that knows it, or fix the item."
    )


async def resolve(following: Next | Awaitable[Next]) -> Next:
    """Return the result of a function that may be async or not."""
    return await following if inspect.isawaitable(following) else following


def _reenter(state: str) -> Any:
    async def come_again(run: StepContext[Any]) -> Next:
        return Next(state)

    return come_again
