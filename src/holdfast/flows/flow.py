"""A flow as a system declares it, and all that is done with it.

    BOOKING = Flow("booking", Booking, queue=steps, prefix="FL", rate=Rate("step"), example=…, begins="initiated", states=(…))

    booking = BOOKING.begun(Booking(…), stores)
    await stores.transact(create_booking(booking), *BOOKING.started(stores, booking))
    await BOOKING.answer(stores, booking, "choose", token=…, given={"option": 2})

The item is the truth; the flow only drives it. `transition` is the one way in which an item changes, `driving` what a
worker does, `sweeping` what is due, `answering` what people do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from holdfast.errors import DeclarationError, InvalidRequest, NotFound
from holdfast.flows.answering import answered, cancelled
from holdfast.flows.checks import check_fits, check_states
from holdfast.flows.declaration import Cancel, State, Step, Wait
from holdfast.flows.diagram import drawn
from holdfast.flows.driving import Driver
from holdfast.flows.item import FlowItem, ItemKey, key_text
from holdfast.flows.patterns import FlowPatterns
from holdfast.flows.places import Place, StepMessage
from holdfast.flows.states_language import Resource, exported, placeholder
from holdfast.flows.sweeping import SweepReport, resumed, swept, understood
from holdfast.flows.tokens import is_token, tokens_of
from holdfast.flows.transition import entering, own_names_of, relayed, standing_writes
from holdfast.guarantees import Outbox
from holdfast.guarantees.pattern_sets import moment
from holdfast.model import Consumer, Handler, Pattern, Queue, Rate, Schedule, Write
from holdfast.model.attributes import Ref
from holdfast.runtime import Secret, Secrets, Stores, open_secrets

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item

SHARDS: Final = 4
SWEEP_S: Final = 1.0
# How often it is looked whether this code understands what another had to set aside.
UNDERSTAND_S: Final = 60.0
# A message that was given back so often is sent again by the sweeper, later.
RECEIVES_MAX: Final = 10
VISIBILITY_S: Final = 60

Handling = Callable[[Stores], AbstractAsyncContextManager[Any]]


class Flow(Generic[I]):
    """States and steps over an item.

    `shows` is the attribute in which others see the state, as each `State(shown=…)` says; `changed` one that is set to now
    at every transition. `token_secret` names the secret that tokens of waits are made with. `shards` spreads what is due
    over so many partitions of the index. `move_id` is the id of the pattern that changes the item, where a design names it.
    """

    def __init__(  # noqa: PLR0913 - a flow has as many parts
        self,
        name: str,
        entity: type[I],
        *,
        queue: Queue[StepMessage],
        prefix: str,
        rate: Rate,
        example: I | Callable[[], I],
        begins: str,
        states: Sequence[State],
        cancel: Cancel | None = None,
        shows: Ref[I, Any] | None = None,
        changed: Ref[I, Any] | None = None,
        token_secret: str | None = None,
        secrets: Secrets | None = None,
        shards: int = SHARDS,
        move_id: str = "",
    ) -> None:
        check_states(name, tuple(states), begins, cancel)
        self.name, self.entity, self.steps, self.begins = name, entity, queue, begins
        self.states = {state.name: state for state in states}
        self.cancelling, self.shows, self.changed, self.shards = cancel, shows, changed, shards
        self._token_secret, self._secrets = token_secret, secrets
        check_fits(self, token_secret)
        self.own_names = own_names_of(entity, *(each.name for each in (shows, changed) if each is not None))
        made: Any = example if callable(example) else lambda: example
        self.use: FlowPatterns[I] = FlowPatterns(
            name,
            entity,
            queue,
            prefix,
            rate=rate,
            example=self._begun_example(made),
            to=self._second,
            shards=shards,
            move_id=move_id,
        )
        self.outbox: Outbox[StepMessage] = Outbox(
            queue, f"{prefix}O", rate=rate, name=f"{name}-flow", shards=shards
        )

    @staticmethod
    def queue(name: str, **more: Any) -> Queue[StepMessage]:
        """A queue for the steps of one flow. What dies in it the sweeper sends again; the dead letters may be emptied."""
        purpose = f"The steps of the flow that works off {name}"
        defaults: dict[str, Any] = {
            "visibility_s": VISIBILITY_S,
            "receives_max": RECEIVES_MAX,
            "purpose": purpose,
        }
        return Queue(name, StepMessage, **defaults | more)

    # --- patterns, for components ---------------------------------------------------------------------------

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        """What a worker reads."""
        listed = (self.use.due, self.use.parked, self.use.places)
        return (self.use.one, self.use.place, *listed, *self.outbox.reads)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        """What a worker writes, beside what its steps do."""
        queued = (self.use.receive, self.use.delete, self.use.hold)
        return (self.use.begin, self.use.note, *queued, *self.answering)

    @property
    def starting(self) -> tuple[Pattern[..., Any], ...]:
        """What `started` writes, and `hurry` sends."""
        return (self.use.begin, self.outbox.append, *self.outbox.relaying)

    @property
    def looking(self) -> tuple[Pattern[..., Any], ...]:
        """What `hurry`, `answer` and `cancel` read."""
        return (self.use.one, *self.outbox.reads)

    @property
    def answering(self) -> tuple[Pattern[..., Any], ...]:
        """What `answer` and `cancel` write, and send at once."""
        return (
            self.use.move,
            self.use.enter,
            self.use.leave,
            self.outbox.append,
            *self.outbox.relaying,
        )

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        """For the system: all of them."""
        # But the numbers of an outbox: messages here have those of their item's version.
        return (*self.use.all, *self.outbox.reads, self.outbox.append, *self.outbox.relaying)

    # --- beginning ------------------------------------------------------------------------------------------

    def begun(self, item: I, stores: Stores) -> I:
        """The item as it is when it begins: with its first state, and what the flow writes of it."""
        changes = entering(self, item, self.state(self.begins), moment(stores.clock), item.version)
        return item.model_copy(update=changes)

    def started(self, stores: Stores, item: I) -> tuple[Write[Any], ...]:
        """The writes that start it, for the transaction that creates the item as `begun` gave it."""
        if item.flow_state != self.begins:
            raise InvalidRequest(
                f"A {self.entity.__name__} begins in {self.begins!r}, and this one stands in {item.flow_state!r}: make it "
                f"with begun(item, stores) of the flow {self.name}."
            )
        return standing_writes(self, stores, item, moment(stores.clock), begins=True)

    async def hurry(self, stores: Stores, key: ItemKey) -> None:
        """After the commit: the step goes out at once, and does not wait for the relay's turn."""
        await relayed(self, stores, self.key(key))

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
        """A person's answer to the wait that the item stands in; the item after it.

        Raises `NotFound`, `NotAwaited` (it stands elsewhere; another was quicker), `AnswerRefused` (the token),
        `AnswerTooLate`, and `InvalidRequest` where the answer is not known or its function refuses what was given. Then
        nothing is changed.
        """
        return await answered(self, stores, key, name, token=token, given=given or {}, tools=tools)

    async def cancel(self, stores: Stores, key: ItemKey, reason: str, *, tools: Any = None) -> I:
        """It goes no further; the item after it. Raises `NotFound`, and `NotCancellable` where it is too far."""
        return await cancelled(self, stores, key, reason, tools=tools)

    def token(self, item: I) -> str:
        """The token of the wait that the item stands in, for who is to answer."""
        if item.flow_token is not None:
            made = tokens_of(self.secret, self.name, self.key(item), item.flow_state, item.version)
            for token in made:
                if is_token(token, item.flow_token):
                    return token
        raise InvalidRequest(
            f"This {self.entity.__name__} stands in {item.flow_state}, and there is no token that it could be answered with."
        )

    @property
    def secret(self) -> Secret:
        """What tokens are made with. Raises `SecretMissing` where nobody has set it."""
        if self._token_secret is None:
            raise DeclarationError(f"The flow {self.name} has no token_secret, and so no tokens.")
        return self._open_secrets.get(self._token_secret)

    @cached_property
    def _open_secrets(self) -> Secrets:
        return self._secrets or open_secrets()

    # --- working --------------------------------------------------------------------------------------------

    def consumer(self, handling: Handling | None = None, *, at_once: int = 8) -> Consumer:
        """Works off its steps. `handling(stores)` is entered once in a process and gives what steps find in `run.tools`."""

        @asynccontextmanager
        async def driving(stores: Stores) -> AsyncIterator[Handler]:
            if self.has_answers:
                _ = self.secret  # before anything is received: without it no wait could be come to
            async with (handling or _no_tools)(stores) as tools:
                yield Driver(self, stores, tools).handle

        use = self.use
        return Consumer(
            self.steps, driving, receive=use.receive, delete=use.delete, hold=use.hold, at_once=at_once
        )

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The relay of its outbox, and the sweeper of pauses, deadlines, timers and lost messages."""
        return (
            Schedule(f"{self.name} relay", SWEEP_S, self.outbox.relay),
            Schedule(f"{self.name} sweep", SWEEP_S, self.sweep),
            Schedule(f"{self.name} understand", UNDERSTAND_S, self.understand),
        )

    async def sweep(self, stores: Stores) -> SweepReport:
        """What is due is sent to the workers."""
        return await swept(self, stores)

    async def understand(self, stores: Stores) -> SweepReport:
        """What was parked by code that did not understand it is taken up again where this code does."""
        return await understood(self, stores)

    async def resume(self, stores: Stores, key: ItemKey | None = None) -> int:
        """What is parked is sent again, as if it had just come to its state; how many. With a key, this one in any case."""
        return await resumed(self, stores, key)

    async def standing(self, stores: Stores) -> list[Place]:
        """Where each flow stands that has not ended, the longest in its state first."""
        found = [each for shard in range(self.shards) for each in await stores.all(self.use.places(shard))]
        return sorted(found, key=lambda place: (place.since, place.key))

    # --- the declaration ------------------------------------------------------------------------------------

    def key(self, key: ItemKey) -> str:
        """The key of an item as one text: of the item, of the values that its `Key` takes, or of that text itself."""
        return key_text(self.entity, key)

    def find(self, name: str) -> State | None:
        return self.states.get(name)

    def state(self, name: str) -> State:
        if (state := self.find(name)) is None:
            raise NotFound(f"The flow {self.name} has no state {name!r}: it has {', '.join(self.states)}.")
        return state

    @cached_property
    def has_answers(self) -> bool:
        return bool(self.answer_names)

    @cached_property
    def answer_names(self) -> frozenset[str]:
        waits = (state.does for state in self.states.values() if isinstance(state.does, Wait))
        return frozenset(name for wait in waits for name in wait.answers)

    def diagram(self) -> str:
        """A state diagram in Mermaid's language."""
        return drawn(self)

    def states_language(self, resource: Resource = placeholder) -> dict[str, Any]:
        """The same as Amazon States Language. `resource` gives the ARN that does a step, by its name."""
        return exported(self, resource)

    @property
    def _second(self) -> str:
        return next(iter(self.state(self.begins).to), self.begins)

    def _begun_example(self, made: Callable[[], I]) -> Callable[[], I]:
        return lambda: made().model_copy(update={"flow_state": self.begins})

    @property
    def step_names(self) -> tuple[str, ...]:
        return tuple(state.does.name for state in self.states.values() if isinstance(state.does, Step))


@asynccontextmanager
async def _no_tools(stores: Stores) -> AsyncIterator[None]:
    yield None
