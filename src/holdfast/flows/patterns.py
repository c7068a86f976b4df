"""The access patterns of a flow: of its item, its execution, and its queue of steps.

Every change of the item by its flow is one update, `move`, conditional on the version and the state it was
decided on: a component with this pattern cannot change an item in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from holdfast.flows.executions import Execution, Lane, StepMessage, compute_shard
from holdfast.flows.item import FlowItem, format_key, parse_key
from holdfast.guarantees.pattern_sets import build_pattern
from holdfast.model.entities import Delete, Get, Put, Query, Update, get_declaration
from holdfast.model.operations import Operation
from holdfast.model.patterns import Example, Pattern, Rate
from holdfast.model.queues import ConsumerPatterns, Queue

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item
P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

# The share of steps with bookkeeping: an estimate, for the cost.
RECORD_SHARE: Final = 0.05
PAGE_SIZE: Final = 100
_TIME: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)


class FlowPatterns(Generic[I]):
    """The patterns of the item (`item`, `move`), of its execution (`execution` … `executions`) and queue.

    `to` is the state that the example of `move` leads to.
    """

    def __init__(
        self,
        name: str,
        entity: type[I],
        queue: Queue[StepMessage],
        prefix: str,
        *,
        rate: Rate,
        example: Callable[[], I],
        to: str,
        shards: int,
        move_id: str = "",
    ) -> None:
        self._name, self._entity, self._prefix, self._rate = name, entity, prefix, rate
        self._name_prefix = f"{name.replace('-', '_')}_flow_"
        self._rare = Rate(rate.per, rate.times * RECORD_SHARE)
        self._example, self._to, self._shards, self._move_id = example, to, shards, move_id
        self.item, self.move = self._build_item(), self._build_move()
        self.execution, self.begin, self.enter, self.leave = (
            self._build_execution(),
            self._build_begin(),
            self._build_enter(),
            self._build_leave(),
        )
        self.record, self.due, self.parked, self.executions = (
            self._build_record(),
            self._build_due(),
            self._build_parked(),
            self._build_executions(),
        )
        self.consumer = ConsumerPatterns(
            queue,
            (f"{prefix}11", f"{prefix}12", f"{prefix}13"),
            rate,
            hold_rate=self._rare,
            name_prefix=self._name_prefix,
        )

    def __iter__(self) -> Iterator[Pattern[..., Any]]:
        """Iterate over all patterns of the flow except those of its outbox."""
        of_places = (self.execution, self.begin, self.enter, self.leave, self.record)
        listed = (self.due, self.parked, self.executions)
        return iter((self.item, self.move, *of_places, *listed, *self.consumer.patterns))

    # --- the item -------------------------------------------------------------------------------------------

    def _build_item(self) -> Pattern[[str], Get[I]]:
        """Build the consistent read of an item by its key as text."""

        def item(key: str) -> Get[I]:
            return Get(get_declaration(self._entity), parse_key(self._entity, key)).consistent()

        return self._build_pattern(
            1, "item", "Get the item of a flow", item, example=lambda: (self.format_key(self._example()),)
        )

    def _build_move(self) -> Pattern[[I, Mapping[str, Any]], Update[I]]:
        """Build the update of an item, on condition that its version and state are as seen."""

        def move(seen: I, changes: Mapping[str, Any]) -> Update[I]:
            return build_move(self._entity, seen, changes)

        return self._build_pattern(
            2,
            "move",
            "Move an item to its next state, if it is unchanged",
            move,
            example=lambda: (self._example(), {"flow_state": self._to, "flow_since": _TIME}),
            takes={"seen": self._entity},
            id=self._move_id,
        )

    # --- the execution --------------------------------------------------------------------------------------

    def _build_execution(self) -> Pattern[[str], Get[Execution]]:
        """Build the consistent read of an item's execution by its key as text."""

        def execution(key: str) -> Get[Execution]:
            return Execution.of(self._name, self.compute_shard(key)).get(key).consistent()

        return self._build_pattern(
            3,
            "place",
            "Get an item's execution",
            execution,
            example=lambda: (self.format_key(self._example()),),
        )

    def _build_begin(self) -> Pattern[[Execution], Put[Execution]]:
        """Build the creation of an execution, which must not exist."""

        def begin(place: Execution) -> Put[Execution]:
            return Execution.create(place)

        return self._build_pattern(
            4, "begin", "Start an execution", begin, example=lambda: (self._build_example_execution(),)
        )

    def _build_enter(self) -> Pattern[[Execution], Put[Execution]]:
        """Build the unconditional put of an execution; the item's own change in the transaction is
        conditional.
        """

        def enter(place: Execution) -> Put[Execution]:
            return Execution.put(place)

        return self._build_pattern(
            5,
            "enter",
            "Move an execution to its next state, with the item's own change",
            enter,
            example=lambda: (self._build_example_execution(),),
        )

    def _build_leave(self) -> Pattern[[str], Delete[Execution]]:
        """Build the deletion of an execution."""

        def leave(key: str) -> Delete[Execution]:
            return Execution.of(self._name, self.compute_shard(key)).delete(key)

        return self._build_pattern(
            6,
            "leave",
            "End an execution, with the item's own change",
            leave,
            example=lambda: (self.format_key(self._example()),),
        )

    def _build_record(self) -> Pattern[[Execution, Execution], Put[Execution]]:
        """Build the put of an execution, on condition that its version and revision are as seen."""

        def record(place: Execution, seen: Execution) -> Put[Execution]:
            return Execution.put(place).when(
                Execution.version == seen.version, Execution.revision == seen.revision
            )

        def build_example() -> tuple[Execution, Execution]:
            seen = self._build_example_execution()
            return seen.model_copy(update={"revision": seen.revision + 1, "attempts": 1}), seen

        purpose = "Record a failed attempt, a resent message or the parking of an execution"
        return self._build_pattern(7, "note", purpose, record, rate=self._rare, example=build_example)

    def _build_due(self) -> Pattern[..., Query[Execution]]:
        """Build the query of a shard's executions that are due at a time, oldest first.

        With `is_ahead`, of those that a clock ahead of that time made due.
        """

        def due(shard: int, now: datetime, *, is_ahead: bool = False) -> Query[Execution]:
            lane = Execution.by_due(self._name, Lane.DUE, shard)
            if is_ahead:
                return lane.query().where(Execution.due_set_at > now).page(PAGE_SIZE)
            return lane.until(now).page(PAGE_SIZE)

        return self._build_pattern(
            8, "due", "Query the executions of a shard that are due", due, example=(0, _TIME)
        )

    def _build_parked(self) -> Pattern[[int], Query[Execution]]:
        """Build the query of a shard's parked executions."""

        def query_parked(shard: int) -> Query[Execution]:
            return Execution.by_due(self._name, Lane.PARKED, shard).query()

        return self._build_pattern(
            9, "parked", "Query the parked executions of a shard", query_parked, rate=self._rare, example=(0,)
        )

    def _build_executions(self) -> Pattern[[int], Query[Execution]]:
        """Build the query of all executions of a shard."""

        def executions(shard: int) -> Query[Execution]:
            return Execution.of(self._name, shard).query()

        return self._build_pattern(
            10, "places", "Query the executions of a shard", executions, rate=self._rare, example=(0,)
        )

    # --- helpers ------------------------------------------------------------------------------

    def format_key(self, item: FlowItem) -> str:
        return format_key(self._entity, item)

    def compute_shard(self, key: str) -> int:
        """Return the shard of a key text."""
        return compute_shard(key, self._shards)

    def _build_example_execution(self) -> Execution:
        """Return the execution of the example item."""
        item = self._example()
        key = self.format_key(item)
        return Execution(
            flow=self._name,
            shard=self.compute_shard(key),
            key=key,
            state=item.flow_state,
            since=_TIME,
            version=item.version,
            due=_TIME,
        )

    def _build_pattern(
        self,
        number: int,
        name: str,
        purpose: str,
        function: Callable[P, O],
        *,
        example: Example,
        rate: Rate | None = None,
        takes: dict[str, Any] | None = None,
        id: str = "",
    ) -> Pattern[P, O]:
        """Build a pattern; its id is `id`, or the prefix and `number`; its name begins with the flow.

        `takes` are types of arguments that are known only at runtime.
        """
        id = id or f"{self._prefix}{number}"
        full_purpose = f"{purpose} ({self._name})"
        return build_pattern(
            function,
            id,
            f"{self._name_prefix}{name}",
            full_purpose,
            rate=rate or self._rate,
            example=example,
            argument_types=takes,
        )


def build_move(entity: type[I], seen: I, changes: Mapping[str, Any]) -> Update[I]:
    """Build the update of an item: set or remove attributes, on condition that version and state are as seen.

    `changes` are by Python name; None removes an attribute. The version is incremented.
    """
    declaration, refs = get_declaration(entity), cast(Any, entity)
    item = declaration.to_item(seen)
    known = tuple((name, getattr(seen, name)) for name in declaration.primary.argument_names)
    update: Any = Update(declaration, tuple(declaration.extract_key(item).items()), known=known)
    for name, value in changes.items():
        ref = getattr(refs, name)
        update = update.remove(ref) if value is None else update.set(ref, value)
    of_indexes = frozenset[str]().union(*(key.computed_from for key in declaration.indexes))
    given = changes.keys() | set(declaration.primary.argument_names) | {"version"}
    for name in sorted(of_indexes - given):
        update = update.with_current(getattr(refs, name), getattr(seen, name))
    update = update.when(refs.flow_state == seen.flow_state).at_version(refs.version, seen.version)
    return cast("Update[I]", update)
