"""The worker of a flow: handles a step message, runs the step or ends the wait, and commits the result.

stale? → unknown? → the item → its step, or the end of a wait → one transaction. A failed attempt is retried
after a pause, goes to the step's `on_failure`, or parks the flow.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
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
from holdfast.model.operations import Write
from holdfast.model.queues import ReceivedMessage
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
        """Run the step that the message asks for; drop the message if it is stale.

        Raises if the queue is another flow's.
        """
        message, flow = received.message, self._flow
        if message.flow != flow.name:
            raise DeclarationError(
                f"A message of the flow {message.flow} arrived on the queue of {flow.name}: "
                "each flow needs a queue of its own."
            )
        execution = await self._stores.run(flow.pattern_set.execution(message.key))
        if execution is None or self._is_stale(execution, message):
            self._count_dropped("stale", message.key)
        elif received.receive_count == 1:
            await self._load_and_run(execution)
        else:
            await self._handle_redelivery(execution)

    def _is_stale(self, execution: Execution, message: StepMessage) -> bool:
        """Return True if the flow has moved on since the message, is parked, or pauses before a retry."""
        is_of_this_visit = (execution.state, execution.version) == (message.state, message.version)
        return not is_of_this_visit or execution.is_parked or execution.is_pausing(self._stores.now())

    async def _handle_redelivery(self, execution: Execution) -> None:
        """Count a redelivery, which means that a worker died or the store failed, and run it; park it after
        too many.
        """
        if execution.takes >= MAX_TAKES:
            why = (
                f"{execution.step} was started {execution.takes} times and never ended: it may crash "
                "its worker."
            )
            await self._park(execution, ParkedFor.LOST, why)
        elif (
            noticed := await record(self._flow, self._stores, execution, takes=execution.takes + 1)
        ) is not None:
            await self._load_and_run(noticed)

    async def _load_and_run(self, execution: Execution) -> None:
        """Load the item and run its state's action; park it if the state is unknown or the item unreadable.

        If the item is deleted, end the flow; if the item is in another state, follow it.
        """
        state = self._flow.find_state(execution.state)
        if state is None:
            await self._park(
                execution, ParkedFor.UNKNOWN_STATE, format_unknown_state(self._flow, execution.state)
            )
            return
        try:
            item = await self._stores.run(self._flow.pattern_set.item(execution.key))
        except ItemUnreadable as error:
            await self._park(execution, ParkedFor.UNREADABLE, f"Its item is unreadable: {error.reason}.")
            return
        if item is None:
            log.warning(
                "The item %s of the flow %s was deleted; its flow ends.", execution.key, self._flow.name
            )
            await self._stores.run(self._flow.pattern_set.leave(execution.key))
        elif item.flow_state != execution.state:
            await self._follow_item(execution, item)
        else:
            await self._run_action(state, execution, item)

    async def _run_action(self, state: State, execution: Execution, item: I) -> None:
        """Run the step, check the wait, or end the execution at an end state."""
        if isinstance(state.action, Step):
            await self._run_step(state.action, execution, item)
        elif isinstance(state.action, Wait):
            await self._check_wait(state, state.action, execution, item)
        else:  # an end state in this version of the code
            await self._stores.run(self._flow.pattern_set.leave(execution.key))

    # --- a step ---------------------------------------------------------------------------------------------

    async def _run_step(self, step: Step, execution: Execution, item: I) -> None:
        """Run the step within its timeout and commit its result; handle its failure, or park an invalid
        result.
        """
        run = self._build_context(execution, item)
        try:
            async with asyncio.timeout(step.timeout_s):
                following = await step.run(run)
        except Exception as error:
            await self._handle_failure(step, execution, run, error)
            return
        try:
            await commit(
                self._flow,
                self._stores,
                item,
                following,
                step.to,
                failures=execution.attempts,
                error=execution.error,
            )
        except Overtaken:
            self._count_dropped("overtaken", execution.key)
        except InvalidTransition as error:
            await self._park(execution, ParkedFor.MISTAKE, error.message)
        except RetryLater:
            raise  # of the store: the message is redelivered
        except HoldfastError as error:  # one of the step's own writes was refused
            await self._handle_failure(step, execution, run, error)

    async def _handle_failure(
        self, step: Step, execution: Execution, run: StepContext[I], error: Exception
    ) -> None:
        """Retry the step later, delay it, run its `on_failure`, or park it, by the rules that it declares."""
        rule = find_retry(step, error)
        if rule is not None and execution.attempts + 1 < rule.max_attempts:
            await self._schedule_retry(step, rule, execution, run, error)
        elif rule is None and isinstance(error, TRANSIENT_ERRORS) and self._may_delay(step, execution):
            await self._delay(execution, error)
        elif step.on_failure is None:
            tries = (
                "at the first attempt"
                if execution.attempts == 0
                else f"after {execution.attempts + 1} attempts"
            )
            why = f"{format_error(error)} ({tries}, and the step declares no on_failure)."
            self._log_failure(execution, error)
            await self._park(execution, ParkedFor.FAILED, why)
        else:
            self._log_failure(execution, error)
            await self._run_on_failure(step, execution, run, error)

    async def _schedule_retry(
        self, step: Step, rule: Retry, execution: Execution, run: StepContext[I], error: Exception
    ) -> None:
        """Count the failed attempt, and pause by the rule's backoff or as long as the error asks for."""
        pause_s = max(
            compute_backoff(execution.attempts, rule.retry_delay_s, rule.max_retry_delay_s),
            getattr(error, "retry_after_s", None) or 0.0,
        )
        log.info(
            "%s of %s failed; retry in %.1f s: %s",
            execution.step,
            execution.key,
            pause_s,
            format_error(error),
        )
        self._stores.count(
            "flow_retried", flow=execution.flow, state=execution.state, error=error_label(error)
        )
        writes = step.on_retry(run, error) if step.on_retry is not None else ()
        await self._record_pause(
            execution, pause_s, error, writes, attempts=execution.attempts + 1, delays=0, delayed_since=None
        )

    async def _delay(self, execution: Execution, error: Exception) -> None:
        """Pause for a transient failure, which does not count as an attempt."""
        requested_pause_s = getattr(error, "retry_after_s", None)
        pause_s = (
            compute_backoff(execution.delays, DELAY_S, MAX_DELAY_S)
            if requested_pause_s is None
            else max(0.0, requested_pause_s)
        )
        log.info(
            "%s of %s is delayed by %.1f s: %s", execution.step, execution.key, pause_s, format_error(error)
        )
        self._stores.count(
            "flow_put_off", flow=execution.flow, state=execution.state, error=error_label(error)
        )
        now = self._stores.now()
        since = min(execution.delayed_since or now, now)
        await self._record_pause(execution, pause_s, error, delays=execution.delays + 1, delayed_since=since)

    async def _record_pause(
        self,
        execution: Execution,
        pause_s: float,
        error: Exception,
        writes: Sequence[Write[Any]] = (),
        **changes: Any,
    ) -> None:
        """Record when the step is due again, and its error; the sweeper sends it then."""
        due = self._stores.now() + timedelta(seconds=pause_s)
        changes |= {"due": due, "sends": 0, "takes": 0, "error": format_error(error)}
        if await record(self._flow, self._stores, execution, writes, **changes) is None:
            self._count_dropped("overtaken", execution.key)

    def _may_delay(self, step: Step, execution: Execution) -> bool:
        """Return True until the step has been delayed for `max_delay_s`."""
        waited = self._stores.now() - (execution.delayed_since or self._stores.now())
        return waited < timedelta(seconds=step.max_delay_s)

    async def _run_on_failure(
        self, step: Step, execution: Execution, run: StepContext[I], error: Exception
    ) -> None:
        """Commit the result of the step's `on_failure`; park the flow if that fails too."""
        assert step.on_failure is not None
        try:
            following = await resolve(step.on_failure(run, error))
            await commit(
                self._flow,
                self._stores,
                run.item,
                following,
                step.to,
                failures=execution.attempts + 1,
                error=error_label(error),
            )
        except Overtaken:
            self._count_dropped("overtaken", execution.key)
        except RetryLater:
            raise
        except InvalidTransition as mistake:
            await self._park(execution, ParkedFor.MISTAKE, mistake.message)
        except Exception as second:
            self._log_failure(execution, second)
            why = f"{format_error(error)}; its on_failure failed too: {format_error(second)}."
            await self._park(execution, ParkedFor.FAILED, why)

    # --- a wait ---------------------------------------------------------------------------------------------

    async def _check_wait(self, state: State, wait: Wait, execution: Execution, item: I) -> None:
        """End the wait if its deadline has passed; otherwise correct its execution row.

        A wait that was entered without a token or deadline, by other code, is entered again so that it has
        both.
        """
        lacks_token = bool(wait.answers) and item.flow_token is None
        lacks_deadline = wait.deadline_s is not None and item.flow_due is None
        if lacks_token or lacks_deadline:
            await self._run_step(Step(state.name, _reenter(state.name), to=(state.name,)), execution, item)
        elif item.flow_due is not None and self._compute_left_s(execution, item, item.flow_due) <= 0:
            await self._run_step(build_deadline_step(state, wait), execution, item)
        else:
            due = {"due": item.flow_due, "due_set_at": item.flow_since}
            await record(self._flow, self._stores, execution, **RESET | due)

    def _compute_left_s(self, execution: Execution, item: I, due: datetime) -> float:
        """Return the seconds until the item's wait ends.

        One that ends later than it lasts, by this clock, ends when it was seen for as long.
        """
        lasts = due - (item.flow_since or self._stores.now())
        key, version = (self._flow.name, execution.key), (item.version, due)
        return self._stores.deadlines.compute_left_s(key, version, due.timestamp(), lasts.total_seconds())

    # --- inconsistencies ------------------------------------------------------------------------------------

    async def _follow_item(self, execution: Execution, item: I) -> None:
        """Rewrite the execution row if the item is in another state than it: the item moved, or was fixed by
        hand.

        Do nothing if the row has changed meanwhile.
        """
        now = await self._stores.run(self._flow.pattern_set.execution(execution.key))
        if now is None or (now.version, now.revision) != (execution.version, execution.revision):
            self._count_dropped("stale", execution.key)
            return
        log.warning("The flow %s follows %s to %s.", self._flow.name, execution.key, item.flow_state)
        await follow_item(self._flow, self._stores, execution, item)

    async def _park(self, execution: Execution, kind: ParkedFor, reason: str) -> None:
        """Park the execution, unless another worker was quicker."""
        await park(self._flow, self._stores, execution, kind, reason)

    def _build_context(self, execution: Execution, item: I) -> StepContext[I]:
        """Return the step's argument, with the number of the attempt."""
        now = self._stores.now()
        return StepContext(item, self._stores, execution.key, now, execution.attempts + 1, self._tools)

    def _count_dropped(self, why: str, key: str) -> None:
        """Log and count a message or result that is ignored. `why` is `stale` or `overtaken`."""
        log.debug("Dropped a message or result of %s: %s.", key, why)
        self._stores.count("flow_dropped", flow=self._flow.name, reason=why)

    def _log_failure(self, execution: Execution, error: Exception) -> None:
        """Log the error, with its traceback if it is not one of Holdfast's."""
        is_ours = isinstance(error, HoldfastError)
        log.warning(
            "%s of %s failed: %s",
            execution.step,
            execution.key,
            format_error(error),
            exc_info=None if is_ours else error,
        )


async def follow_item(flow: Flow[I], stores: Stores, execution: Execution, item: I) -> None:
    """Rewrite the execution row from the item's state and resend its message; delete the row at an end
    state.
    """
    state = flow.find_state(item.flow_state)
    if state is not None and state.is_end:
        await stores.run(flow.pattern_set.leave(execution.key))
        return
    doing = None if state is None else state.action_name
    changes = RESET | {"state": item.flow_state, "version": item.version, "step": doing}
    await resend(flow, stores, execution, **changes, since=stores.now())


def build_deadline_step(state: State, wait: Wait) -> Step:
    """Return the step that leaves a wait at its deadline: by `on_deadline`, or to the only declared state."""

    async def late(run: StepContext[Any]) -> Next:
        if wait.on_deadline is not None:
            return await resolve(wait.on_deadline(run))
        return Next(wait.deadline_states[0])

    return Step(f"{state.action_name} ends", late, to=wait.deadline_states)


def find_retry(step: Step, error: Exception) -> Retry | None:
    """Return the first retry rule that names the error's class or a base of it, or None."""
    return next((rule for rule in step.retries if isinstance(error, rule.classes)), None)


def format_unknown_state(flow: Flow[Any], name: str) -> str:
    """Return the reason for parking a flow in a state that this code does not know."""
    return (
        f"Unknown state {name!r} of the flow {flow.name}: this code has {', '.join(flow.states)}. "
        "Run code that knows it, or fix the item."
    )


async def resolve(following: Next | Awaitable[Next]) -> Next:
    """Return the result of a function that may be async or not."""
    return await following if inspect.isawaitable(following) else following


def _reenter(state: str) -> Any:
    """Return a step function that leads to this state."""

    async def retry_step(run: StepContext[Any]) -> Next:
        return Next(state)

    return retry_step
