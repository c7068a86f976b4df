"""`Flow`: the declaration of a flow, and the calls to start, answer, cancel, run, resume and draw it.

    BOOKING = Flow("booking", Booking, queue=steps, prefix="FL", rate=Rate("step"), example=…,
                   initial_state="initiated", states=(…))

    booking = BOOKING.initial(stores, Booking(…))
    await stores.transact(create_booking(booking), *BOOKING.start_writes(stores, booking))
    await BOOKING.answer(stores, booking, "choose", token=…, given={"option": 2})

The item is the truth; the flow only drives it. `transition` is the only way in which an item changes,
`worker` runs steps, `sweeper` finds what is due, `answers` handles what people do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from holdfast.core.errors import DeclarationError, InvalidRequest, NotFound
from holdfast.flows.answers import answer, cancel
from holdfast.flows.checks import check_flow, check_states
from holdfast.flows.declaration import Cancel, State, Step, Wait
from holdfast.flows.diagram import draw
from holdfast.flows.executions import Execution, StepMessage, describe_executions
from holdfast.flows.item import FlowItem, ItemKey, format_key
from holdfast.flows.patterns import FlowPatterns
from holdfast.flows.states_language import Resource, build_placeholder_arn, export
from holdfast.flows.sweeper import SweepReport, resume, retry_unknown_states, sweep
from holdfast.flows.tokens import make_recent_tokens, matches_hash
from holdfast.flows.transition import build_entry_changes, build_execution_writes, get_reserved_names, relay
from holdfast.flows.worker import StepWorker
from holdfast.guarantees import Outbox
from holdfast.guarantees.pattern_sets import Guarantee, Patterns
from holdfast.model.components import Consumer, Handler, Schedule
from holdfast.model.entities.attributes import Ref
from holdfast.model.operations import Write
from holdfast.model.patterns import Rate
from holdfast.model.queues import Queue
from holdfast.runtime import Secret, Secrets, Stores, open_secrets
from holdfast.runtime.telemetry.figures import Figure

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

SHARDS: Final = 4
SWEEP_S: Final = 1.0
# How often to check whether this code knows the states that other code had to park.
RETRY_UNKNOWN_S: Final = 60.0
# A message that was received this often is left to the sweeper, which sends it again later.
MAX_RECEIVES: Final = 10
VISIBILITY_S: Final = 60

OpenTools = Callable[[Stores], AbstractAsyncContextManager[Any]]


class Flow(Guarantee, Generic[I]):
    """States and steps over an item.

    `shown_attribute` is where others see the state, as each `State(shown_as=…)` says; `changed_attribute` is
    set to the current time at every transition. `token_secret` names the secret that signs the tokens of
    waits. `shards` spreads what is due over partitions of the index. `move_id` is the id of the pattern that
    changes the item, where a design fixes it.
    """

    def __init__(  # noqa: PLR0913 - a flow has this many parts
        self,
        name: str,
        entity: type[I],
        *,
        queue: Queue[StepMessage],
        prefix: str,
        rate: Rate,
        example: I | Callable[[], I],
        initial_state: str,
        states: Sequence[State],
        cancel: Cancel | None = None,
        shown_attribute: Ref[I, Any] | None = None,
        changed_attribute: Ref[I, Any] | None = None,
        token_secret: str | None = None,
        secrets: Secrets | None = None,
        shards: int = SHARDS,
        move_id: str = "",
    ) -> None:
        check_states(name, tuple(states), initial_state, cancel)
        self.name, self.entity, self.step_queue, self.initial_state = name, entity, queue, initial_state
        self.states = {state.name: state for state in states}
        self.cancellation, self.shown_attribute, self.changed_attribute, self.shards = (
            cancel,
            shown_attribute,
            changed_attribute,
            shards,
        )
        self._token_secret, self._secrets = token_secret, secrets
        check_flow(self, token_secret)
        self.reserved_names = get_reserved_names(
            entity, *(each.name for each in (shown_attribute, changed_attribute) if each is not None)
        )
        made: Any = example if callable(example) else lambda: example
        self.pattern_set: FlowPatterns[I] = FlowPatterns(
            name,
            entity,
            queue,
            prefix,
            rate=rate,
            example=self._build_example(made),
            to=self._second_state,
            shards=shards,
            move_id=move_id,
        )
        self.outbox: Outbox[StepMessage] = Outbox(
            queue, prefix=f"{prefix}O", rate=rate, name=f"{name}-flow", shards=shards, poll_s=SWEEP_S
        )

    @staticmethod
    def queue(name: str, **more: Any) -> Queue[StepMessage]:
        """Return a queue for the steps of one flow.

        The sweeper resends what dies in it, so its dead-letter queue may be purged.
        """
        purpose = f"The steps of the flow that works off {name}"
        defaults: dict[str, Any] = {
            "visibility_s": VISIBILITY_S,
            "max_receives": MAX_RECEIVES,
            "purpose": purpose,
        }
        return Queue(name, StepMessage, **defaults | more)

    # --- patterns, for components ---------------------------------------------------------------------------

    @property
    def patterns(self) -> Patterns:
        """All patterns of the flow: those of a worker, in addition to those of its steps."""
        return (*self.pattern_set, *self._dispatch_patterns)

    @property
    def starter(self) -> Patterns:
        """The role that starts the flow, with `start_writes` and `dispatch_now`."""
        return (self.pattern_set.item, self.pattern_set.begin, *self._dispatch_patterns)

    @property
    def answerer(self) -> Patterns:
        """The role that answers and cancels, in addition to the patterns of its answers."""
        use = self.pattern_set
        return (use.item, use.move, use.enter, use.leave, *self._dispatch_patterns)

    @property
    def _dispatch_patterns(self) -> Patterns:
        """The patterns that enqueue and send step messages."""
        # Without the outbox's sequence: messages of a flow are numbered by their item's version.
        outbox = self.outbox
        return tuple(dict.fromkeys((*outbox.reads, *outbox.publisher.patterns, *outbox.relay.patterns)))

    @property
    def flows(self) -> tuple[Flow[I], ...]:
        """This flow, for the system whose component uses it."""
        return (self,)

    # --- beginning ------------------------------------------------------------------------------------------

    def initial(self, stores: Stores, item: I) -> I:
        """Return the item with its initial state and the other attributes that the flow writes."""
        changes = build_entry_changes(
            self, item, self.get_state(self.initial_state), stores.now(), item.version
        )
        return item.model_copy(update=changes)

    def start_writes(self, stores: Stores, item: I) -> tuple[Write[Any], ...]:
        """Return the writes that start the flow, for the transaction that creates the item from `initial`.

        Raises `InvalidRequest` if the item is not in the initial state.
        """
        if item.flow_state != self.initial_state:
            raise InvalidRequest(
                f"Invalid {self.entity.__name__}: expected the state {self.initial_state!r}, got "
                f"{item.flow_state!r}. "
                f"Make it with initial(stores, item) of the flow {self.name}."
            )
        return build_execution_writes(self, stores, item, stores.now(), is_start=True)

    async def dispatch_now(self, stores: Stores, key: ItemKey) -> None:
        """Send the item's unsent step messages now, after the commit, instead of waiting for the relay's
        schedule.
        """
        await relay(self, stores, self.key_text(key))

    # --- what people do -------------------------------------------------------------------------------------

    async def answer(
        self,
        stores: Stores,
        key: ItemKey,
        name: str,
        *,
        token: str,
        given: Mapping[str, Any] | None = None,
        tools: Any = None,
    ) -> I:
        """Answer the item's current wait with the answer `name` and return the item after it.

        `given` is the content of the answer, `tools` are for its function. Raises `NotFound`, `NotWaiting`
        (the item is in another state, or another answer was quicker), `WaitTokenRefused`, `DeadlinePassed`,
        or `InvalidRequest` if the answer is unknown or its function refuses `given`. The answer then changes
        nothing; a passed deadline is applied.
        """
        return await answer(self, stores, key, name, token=token, given=given or {}, tools=tools)

    async def cancel(self, stores: Stores, key: ItemKey, reason: str, *, tools: Any = None) -> I:
        """Cancel the flow and return the item after it.

        Raise `NotFound`, or `NotCancellable` if it is too late.
        """
        return await cancel(self, stores, key, reason, tools=tools)

    def make_token(self, item: I) -> str:
        """Return the token that answers the item's current wait; raise `InvalidRequest` if it is not in such
        a wait.
        """
        if item.flow_token is not None:
            made = make_recent_tokens(
                self.secret, self.name, self.key_text(item), item.flow_state, item.version
            )
            for token in made:
                if matches_hash(token, item.flow_token):
                    return token
        raise InvalidRequest(
            f"This {self.entity.__name__} is in {item.flow_state}, which is not a wait that can be answered."
        )

    @property
    def secret(self) -> Secret:
        """The secret that signs tokens. Raises `SecretMissing` if it is not set."""
        if self._token_secret is None:
            raise DeclarationError(f"The flow {self.name} has no token_secret, so it has no tokens.")
        return self._open_secrets.get(self._token_secret)

    @cached_property
    def _open_secrets(self) -> Secrets:
        """The given secrets, or those of the settings."""
        return self._secrets or open_secrets()

    # --- working --------------------------------------------------------------------------------------------

    def consumer(self, open_tools: OpenTools | None = None, *, concurrency: int = 8) -> Consumer:
        """Return the consumer that runs the flow's steps.

        `open_tools(stores)` is entered once per process; steps get its result as `context.tools`.
        """

        @asynccontextmanager
        async def open_handler(stores: Stores) -> AsyncIterator[Handler]:
            if self.has_answers:
                _ = self.secret  # fail before the first message: no wait can be entered without it
            async with (open_tools or _no_tools)(stores) as tools:
                yield StepWorker(self, stores, tools).handle

        return Consumer(
            self.step_queue, open_handler, concurrency=concurrency, pattern_set=self.pattern_set.consumer
        )

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """Three schedules: the relay of the outbox, the sweeper, and the retry of executions with unknown
        states.
        """
        return (
            self.outbox.schedule(f"{self.name} relay"),
            Schedule(f"{self.name} sweep", SWEEP_S, self.sweep),
            Schedule(f"{self.name} understand", RETRY_UNKNOWN_S, self.retry_unknown_states),
        )

    async def sweep(self, stores: Stores) -> SweepReport:
        """Send everything that is due to the workers."""
        return await sweep(self, stores)

    async def retry_unknown_states(self, stores: Stores) -> SweepReport:
        """Resume what other code parked because it did not know the state or could not read the item."""
        return await retry_unknown_states(self, stores)

    async def resume(self, stores: Stores, key: ItemKey | None = None) -> int:
        """Resend what is parked as if it had just entered its state, and return how many.

        With a key, resend this one, parked or not.
        """
        return await resume(self, stores, key)

    async def list_executions(self, stores: Stores) -> list[Execution]:
        """Return the executions that have not ended, the longest in its state first."""
        found = [
            each
            for shard in range(self.shards)
            for each in await stores.all(self.pattern_set.executions(shard))
        ]
        return sorted(found, key=lambda execution: (execution.since, execution.key))

    @property
    def figures_name(self) -> str:
        return f"flow {self.name}"

    @property
    def figure_patterns(self) -> Patterns:
        """The patterns that list the executions, for the metrics of a process that may run them."""
        return (self.pattern_set.executions,)

    async def read_figures(self, stores: Stores) -> list[Figure]:
        """Return the executions in each state, and those whose time is over, for the metrics."""
        return describe_executions(self.name, self.states, await self.list_executions(stores), stores.now())

    # --- the declaration ------------------------------------------------------------------------------------

    def key_text(self, key: ItemKey) -> str:
        """Return an item's key as one text, given the item, the values of its `Key`, or that text."""
        return format_key(self.entity, key)

    def find_state(self, name: str) -> State | None:
        """Return the state with this name, or None."""
        return self.states.get(name)

    def get_state(self, name: str) -> State:
        """Return the state with this name, or raise `NotFound`."""
        if (state := self.find_state(name)) is None:
            raise NotFound(f"The flow {self.name} has no state {name!r}: it has {', '.join(self.states)}.")
        return state

    @cached_property
    def has_answers(self) -> bool:
        """True if any wait of the flow accepts an answer."""
        return bool(self.answer_names)

    @cached_property
    def answer_names(self) -> frozenset[str]:
        """The names of all answers that any wait of the flow accepts."""
        waits = (state.action for state in self.states.values() if isinstance(state.action, Wait))
        return frozenset(name for wait in waits for name in wait.answers)

    def draw_diagram(self) -> str:
        """Return a Mermaid state diagram."""
        return draw(self)

    def to_states_language(self, resource: Resource = build_placeholder_arn) -> dict[str, Any]:
        """Return the flow in Amazon States Language.

        `resource` maps a step's name to the ARN that runs it.
        """
        return export(self, resource)

    @property
    def _second_state(self) -> str:
        """The first target of the initial state, for the example of the pattern `move`."""
        return next(iter(self.get_state(self.initial_state).to), self.initial_state)

    def _build_example(self, made: Callable[[], I]) -> Callable[[], I]:
        """Return a function that makes the example item in the initial state."""
        return lambda: made().model_copy(update={"flow_state": self.initial_state})

    @property
    def step_names(self) -> tuple[str, ...]:
        """The names of all steps, in the order of the states."""
        return tuple(state.action.name for state in self.states.values() if isinstance(state.action, Step))


@asynccontextmanager
async def _no_tools(stores: Stores) -> AsyncIterator[None]:
    """Yield None: the steps need no tools."""
    yield None
