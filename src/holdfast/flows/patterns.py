"""The access patterns of a flow: of the item, of its place, and of the queue that its steps come by.

Every change of the item by its flow is one update, `move`, conditional on the version and the state it was decided on:
a component that has it can change an item in no other way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from holdfast.flows.item import FlowItem, address_of, key_text
from holdfast.flows.places import Lane, Place, StepMessage, shard_of
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import (
    ChangeVisibility,
    Delete,
    DeleteReceived,
    Get,
    Operation,
    Pattern,
    Put,
    Query,
    Queue,
    Rate,
    Receive,
    Received,
    Update,
    declaration_of,
)
from holdfast.model.patterns import Example
from holdfast.operations.queues import Incoming

I = TypeVar("I", bound=FlowItem)  # noqa: E741 - an item
P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

# How often of a hundred steps something is noted about one: a guess, for the cost.
NOTED_SHARE: Final = 0.05
PAGE_PLACES: Final = 100
_TIME: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)


class FlowPatterns(Generic[I]):
    """`one`, `move` are of the item; `place` to `places` of where it stands; `receive`, `delete`, `hold` of the queue."""

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
        self._rare = Rate(rate.per, rate.times * NOTED_SHARE)
        self._example, self._to, self._shards, self._move_id = example, to, shards, move_id
        self._received = Received(
            queue.name, StepMessage, Incoming(id="m", receipt="r", body="{}", sent_at=0, receives=1)
        )
        self.one, self.move = self._one(), self._move()
        self.place, self.begin, self.enter, self.leave = (
            self._place(),
            self._begin(),
            self._enter(),
            self._leave(),
        )
        self.note, self.due, self.parked, self.places = (
            self._note(),
            self._due(),
            self._parked(),
            self._places(),
        )
        self.receive, self.delete, self.hold = self._receive(queue), self._delete(queue), self._hold(queue)

    @property
    def all(self) -> tuple[Pattern[..., Any], ...]:
        of_places = (self.place, self.begin, self.enter, self.leave, self.note)
        listed = (self.due, self.parked, self.places)
        return (self.one, self.move, *of_places, *listed, self.receive, self.delete, self.hold)

    # --- the item -------------------------------------------------------------------------------------------

    def _one(self) -> Pattern[[str], Get[I]]:
        def item(key: str) -> Get[I]:
            return Get(declaration_of(self._entity), address_of(self._entity, key)).consistent()

        return self._made(
            1, "item", "The item of a flow, by its key", item, example=lambda: (self.key_of(self._example()),)
        )

    def _move(self) -> Pattern[[I, Mapping[str, Any]], Update[I]]:
        def move(seen: I, changes: Mapping[str, Any]) -> Update[I]:
            return moved(self._entity, seen, changes)

        return self._made(
            2,
            "move",
            "An item goes to its next state, if it still is as it was seen",
            move,
            example=lambda: (self._example(), {"flow_state": self._to, "flow_since": _TIME}),
            takes={"seen": self._entity},
            id=self._move_id,
        )

    # --- its place ------------------------------------------------------------------------------------------

    def _place(self) -> Pattern[[str], Get[Place]]:
        def place(key: str) -> Get[Place]:
            return Place.of(self._name, self.shard_of(key)).get(key).consistent()

        return self._made(
            3, "place", "Where an item's flow stands", place, example=lambda: (self.key_of(self._example()),)
        )

    def _begin(self) -> Pattern[[Place], Put[Place]]:
        def begin(place: Place) -> Put[Place]:
            return Place.create(place)

        return self._made(4, "begin", "A flow begins", begin, example=lambda: (self._example_place(),))

    def _enter(self) -> Pattern[[Place], Put[Place]]:
        def enter(place: Place) -> Put[Place]:
            return Place.put(place)

        return self._made(
            5,
            "enter",
            "A flow stands in its next state, with the item's own change",
            enter,
            example=lambda: (self._example_place(),),
        )

    def _leave(self) -> Pattern[[str], Delete[Place]]:
        def leave(key: str) -> Delete[Place]:
            return Place.of(self._name, self.shard_of(key)).delete(key)

        return self._made(
            6,
            "leave",
            "A flow ends, with the item's own change",
            leave,
            example=lambda: (self.key_of(self._example()),),
        )

    def _note(self) -> Pattern[[Place, Place], Put[Place]]:
        def note(place: Place, seen: Place) -> Put[Place]:
            return Place.put(place).when(Place.version == seen.version, Place.revision == seen.revision)

        def seen_and_noted() -> tuple[Place, Place]:
            seen = self._example_place()
            return seen.model_copy(update={"revision": seen.revision + 1, "attempts": 1}), seen

        purpose = (
            "What is noted of a flow while it stands: a failed try, a message sent again, that it is parked"
        )
        return self._made(7, "note", purpose, note, rate=self._rare, example=seen_and_noted)

    def _due(self) -> Pattern[[int, datetime], Query[Place]]:
        def due(shard: int, now: datetime) -> Query[Place]:
            return Place.by_due(self._name, Lane.DUE, shard).until(now).page(PAGE_PLACES)

        return self._made(
            8, "due", "Flows of a shard that something is to be done about now", due, example=(0, _TIME)
        )

    def _parked(self) -> Pattern[[int], Query[Place]]:
        def parked(shard: int) -> Query[Place]:
            return Place.by_due(self._name, Lane.PARKED, shard).query()

        return self._made(
            9, "parked", "Flows of a shard that were set aside", parked, rate=self._rare, example=(0,)
        )

    def _places(self) -> Pattern[[int], Query[Place]]:
        def places(shard: int) -> Query[Place]:
            return Place.of(self._name, shard).query()

        return self._made(
            10, "places", "Flows of a shard that have not ended", places, rate=self._rare, example=(0,)
        )

    # --- the queue ------------------------------------------------------------------------------------------

    def _receive(self, queue: Queue[StepMessage]) -> Pattern[[int, float], Receive[StepMessage]]:
        def receive(count: int, wait_s: float) -> Receive[StepMessage]:
            return queue.receive(count, wait_s=wait_s)

        return self._made(11, "receive", "Receive steps", receive, example=(1, 0.0))

    def _delete(
        self, queue: Queue[StepMessage]
    ) -> Pattern[[Received[StepMessage]], DeleteReceived[StepMessage]]:
        def delete(received: Received[StepMessage]) -> DeleteReceived[StepMessage]:
            return queue.delete(received)

        return self._made(12, "delete", "A step's message is done with", delete, example=(self._received,))

    def _hold(
        self, queue: Queue[StepMessage]
    ) -> Pattern[[Received[StepMessage], float], ChangeVisibility[StepMessage]]:
        def hold(received: Received[StepMessage], seconds: float) -> ChangeVisibility[StepMessage]:
            return queue.hold(received, seconds=seconds)

        return self._made(
            13,
            "hold",
            "Hold a step's message, or give it back",
            hold,
            rate=self._rare,
            example=(self._received, 60.0),
        )

    # --- what they are made of ------------------------------------------------------------------------------

    def key_of(self, item: FlowItem) -> str:
        return key_text(self._entity, item)

    def shard_of(self, key: str) -> int:
        return shard_of(key, self._shards)

    def _example_place(self) -> Place:
        item = self._example()
        key = self.key_of(item)
        return Place(
            flow=self._name,
            shard=self.shard_of(key),
            key=key,
            state=item.flow_state,
            since=_TIME,
            version=item.version,
            due=_TIME,
        )

    def _made(
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
        spoken = f"{self._name.replace('-', '_')}_flow_{name}"
        id = id or f"{self._prefix}{number}"
        told = f"{purpose} ({self._name})"
        return made_pattern(function, id, spoken, told, rate=rate or self._rate, example=example, takes=takes)


def moved(entity: type[I], seen: I, changes: Mapping[str, Any]) -> Update[I]:
    """The update of an item: these attributes set or removed, over the version and in the state that were seen."""
    declaration, refs = declaration_of(entity), cast(Any, entity)
    item = declaration.to_item(seen)
    known = tuple((name, getattr(seen, name)) for name in declaration.primary.known_names)
    update: Any = Update(declaration, tuple(declaration.key_of(item).items()), known=known)
    for name, value in changes.items():
        ref = getattr(refs, name)
        update = update.remove(ref) if value is None else update.set(ref, value)
    of_indexes = frozenset[str]().union(*(key.uses for key in declaration.indexes))
    told = changes.keys() | set(declaration.primary.known_names) | {"version"}
    for name in sorted(of_indexes - told):
        update = update.knowing(getattr(refs, name), getattr(seen, name))
    update = update.when(refs.flow_state == seen.flow_state).at_version(refs.version, seen.version)
    return cast("Update[I]", update)
