"""Writing: put, create, update, delete and checks, as frozen values that may stand in one transaction.

An update writes the attributes it names and, with them, every index key and lifetime made of them. It works from
what it is told and never reads first: what it cannot know it refuses, when it is made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast, overload

from holdfast.errors import InvalidRequest, StoresMixed
from holdfast.limits import TRANSACTION_ACTIONS_MAX, TRANSACTION_TOKEN_CHARS_MAX
from holdfast.model.conditions import Condition, all_of
from holdfast.model.encoding import is_absent
from holdfast.model.operations import Operation, PhysicalName, Write
from holdfast.model.sql import SqlTransact, SqlWrite
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.attributes import OptionalRef, Ref
    from holdfast.model.entity import Entity
    from holdfast.model.tables import Table

E = TypeVar("E", bound="Entity")
T = TypeVar("T")
V = TypeVar("V")
N = TypeVar("N", int, float, Decimal)

Address = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class ConditionalWrite(Write[V], Generic[E, V]):
    """A write that may say what must hold of the item before it."""

    condition: nodes.Condition | None = field(default=None, kw_only=True)

    def when(self, *conditions: Condition[E]) -> Self:
        """Only if these hold of the item as it is; otherwise nothing is written and ConditionFailed is raised."""
        return replace(self, condition=all_of(self.condition, conditions))

    @abstractmethod
    def request(self, physical: PhysicalName) -> requests.TransactWrite:
        """What an engine is asked, alone or in a transaction."""

    @abstractmethod
    def answer(self, result: requests.WriteResult) -> V:
        """What the caller is given of the engine's answer."""

    def _there(self) -> Condition[E]:
        return Condition(nodes.AttributeExists(nodes.Path(self.table.partition)))


@dataclass(frozen=True)
class Put(ConditionalWrite[E, None], Generic[E]):
    """An entity put whole in the place of its key."""

    entity: E
    version_from: tuple[str, int] | None = None

    kind = "PutItem"

    def if_absent(self) -> Put[E]:
        """Refuses a key that exists."""
        return self.when(~self._there())

    def at_version(self, attribute: Ref[E, int], seen: int) -> Put[E]:
        """Only over the version that was seen; the next number is written with it."""
        return replace(self.when(attribute == seen), version_from=(attribute.attribute.stored, seen))

    def request(self, physical: PhysicalName) -> requests.PutItem:
        return requests.PutItem(
            physical(self.table),
            self.item(),
            self.condition,
            returns_on_failure="ALL_OLD" if self.condition is not None else "NONE",
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def item(self) -> Item:
        entity: Entity = self.entity
        if self.version_from is None:
            return self.declaration.to_item(entity)
        stored, seen = self.version_from
        name = self.declaration.by_stored_name[stored].name
        return self.declaration.to_item(entity.model_copy(update={name: seen + 1}))

    def answer(self, result: requests.WriteResult) -> None:
        return None


@dataclass(frozen=True)
class Update(ConditionalWrite[E, E], Generic[E]):
    """Attributes of one item changed in place. The item must be there, unless `or_create` says otherwise."""

    address: Address
    known: tuple[tuple[str, Any], ...] = ()
    told: tuple[tuple[str, Any], ...] = ()
    actions: tuple[nodes.Action, ...] = ()
    unknown: frozenset[str] = frozenset()
    may_create: bool = False

    kind = "UpdateItem"

    def set(self, attribute: Ref[E, T], value: T) -> Update[E]:
        action: nodes.Action
        is_member = not isinstance(attribute.path.elements[-1], int)
        if value is not None and is_absent(value) and is_member:  # an empty set is kept as absence
            action = nodes.RemoveAction(attribute.path)
        else:
            action = nodes.SetAction(attribute.path, nodes.Literal(attribute.value(value)))
        return self._changed(attribute, action, **({} if attribute.steps else {"value": value}))

    def set_if_absent(self, attribute: Ref[E, T], value: T) -> Update[E]:
        """Sets the attribute only where the item has none."""
        literal = nodes.Literal(attribute.value(value))
        return self._changed(
            attribute, nodes.SetAction(attribute.path, nodes.IfNotExists(attribute.path, literal))
        )

    @overload
    def add(self, attribute: Ref[E, N], amount: N) -> Update[E]: ...
    @overload
    def add(self, attribute: OptionalRef[E, N], amount: N) -> Update[E]: ...
    def add(self, attribute: Ref[E, Any], amount: Any) -> Update[E]:
        """Adds to a number; one that is absent counts as 0."""
        return self._changed(attribute, nodes.AddAction(attribute.path, attribute.value(amount)))

    def append(self, attribute: Ref[E, list[V]], *elements: V) -> Update[E]:
        """Adds elements at the end of a list; one that is absent counts as empty."""
        old = nodes.IfNotExists(attribute.path, nodes.Literal([]))
        new = nodes.Literal([attribute.place.element.encode(element) for element in elements])
        return self._changed(attribute, nodes.SetAction(attribute.path, nodes.ListAppend(old, new)))

    def include(self, attribute: Ref[E, frozenset[V]], *elements: V) -> Update[E]:
        """Adds elements to a set."""
        return self._changed(attribute, nodes.AddAction(attribute.path, _set(attribute, elements)))

    def exclude(self, attribute: Ref[E, frozenset[V]], *elements: V) -> Update[E]:
        """Takes elements out of a set."""
        return self._changed(attribute, nodes.DeleteAction(attribute.path, _set(attribute, elements)))

    def remove(self, attribute: OptionalRef[E, Any]) -> Update[E]:
        """Makes the attribute absent; the item leaves the indexes whose key is made of it."""
        action = nodes.RemoveAction(attribute.path)
        if attribute.steps:
            return self._changed(attribute, action)
        if not attribute.attribute.is_optional:
            raise InvalidRequest(
                f"{attribute!r} is always there and cannot be removed: set it to another value."
            )
        return self._changed(attribute, action, value=None)

    @overload
    def knowing(self, attribute: OptionalRef[E, T], value: T | None) -> Update[E]: ...
    @overload
    def knowing(self, attribute: Ref[E, T], value: T) -> Update[E]: ...
    def knowing(self, attribute: Ref[E, Any], value: Any) -> Update[E]:
        """Tells what an attribute is, without changing it: for the index keys that are made of it.

        It is taken at its word. Where others may change the attribute, add `when(attribute == value)`.
        """
        if attribute.steps:
            raise InvalidRequest(
                f"{attribute!r} is a place inside an attribute: tell the attribute as a whole."
            )
        if value is not None:
            attribute.value(value)
        return replace(self, told=(*self.told, (attribute.name, value)))

    def at_version(self, attribute: Ref[E, int], seen: int) -> Update[E]:
        """Only if the version is the one that was seen; the next number is written."""
        return self.when(attribute == seen).set(attribute, seen + 1)

    def or_create(self) -> Update[E]:
        """Makes the item if there is none. Attributes without a default must then be set here."""
        return replace(self, may_create=True)

    def by_pattern(self, pattern: str) -> Self:
        self.key_changes()
        return super().by_pattern(pattern)

    def key_changes(self) -> dict[str, Value]:
        """The index keys and the lifetime that are written with this change; None where one is removed."""
        length = self._key_length
        known = dict(self.known[:length]) | dict(self.told) | dict(self.known[length:])
        changed = frozenset(name for name, _ in self.known[length:]) | self.unknown
        for name in self.unknown:
            known.pop(name, None)
        self._refuse_contradictions(known, changed)
        if touched := changed & self.declaration.primary.uses_of_key:
            raise InvalidRequest(
                f"{', '.join(sorted(touched))} is part of the primary key of {self.declaration.entity.__name__} and "
                "cannot be changed in place: delete the item and create it under its new key, in one transaction."
            )
        return self.declaration.key_changes(known, changed, may_create=self.may_create)

    def _refuse_contradictions(self, known: dict[str, Any], changed: frozenset[str]) -> None:
        """What is told must not be what is changed, must be what the key says, and must stand in an item made here."""
        strangers = sorted(dict(self.told).keys() - self.declaration.primary.uses_of_key)
        if self.may_create and strangers:
            raise InvalidRequest(
                f"This update may make the item, which would then be without {', '.join(strangers)}: set it, instead of "
                "telling it with knowing(…)."
            )
        if twice := sorted(dict(self.told).keys() & changed):
            raise InvalidRequest(
                f"{', '.join(twice)} is changed by this update and told with knowing(…) too: say one of them."
            )
        for name, template in self.declaration.primary.templates if self.told else ():
            if template.names <= known.keys():
                made = template.of_attributes(known.__getitem__)
                if made != dict(self.address)[name]:
                    raise InvalidRequest(
                        f"By what knowing(…) tells, {name} would be {made!r}, and the item that is updated has "
                        f"{dict(self.address)[name]!r}: tell what its attributes are."
                    )

    def request(self, physical: PhysicalName) -> requests.UpdateItem:
        condition = self.condition if self.may_create else all_of(self.condition, (self._there(),))
        return requests.UpdateItem(
            physical(self.table),
            dict(self.address),
            self._update(),
            condition,
            returns="ALL_NEW",
            returns_on_failure="ALL_OLD",
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def answer(self, result: requests.WriteResult) -> E:
        return cast(E, self.declaration.from_item(result.attributes or {}))

    def _update(self) -> nodes.Update:
        actions = [*self.actions, *(self._key_attributes() if self.may_create else ())]
        for name, value in self.key_changes().items():
            path = nodes.Path(name)
            actions.append(
                nodes.RemoveAction(path) if value is None else nodes.SetAction(path, nodes.Literal(value))
            )
        return nodes.Update(
            sets=tuple(action for action in actions if isinstance(action, nodes.SetAction)),
            removes=tuple(action for action in actions if isinstance(action, nodes.RemoveAction)),
            adds=tuple(action for action in actions if isinstance(action, nodes.AddAction)),
            deletes=tuple(action for action in actions if isinstance(action, nodes.DeleteAction)),
        )

    def _key_attributes(self) -> Iterable[nodes.SetAction]:
        """A new item also has the attributes that its key is made of, under their own names."""
        of_key = {name: value for name, value in self.told if name in self.declaration.primary.uses_of_key}
        for name, value in (of_key | dict(self.known[: self._key_length])).items():
            attribute = self.declaration.attributes[name]
            if attribute.stored not in dict(self.address):
                yield nodes.SetAction(nodes.Path(attribute.stored), nodes.Literal(attribute.encode(value)))

    @property
    def _key_length(self) -> int:
        return len(self.declaration.primary.known_names)

    def _changed(self, attribute: Ref[E, Any], action: nodes.Action, **value: Any) -> Update[E]:
        """With one more change; with `value`, what the attribute is afterwards is known."""
        if any(_overlap(action.path, other.path) for other in self.actions):
            raise InvalidRequest(
                f"{attribute!r} is changed twice in one update: say once what becomes of it."
            )
        actions = (*self.actions, action)
        if value:
            return replace(self, actions=actions, known=(*self.known, (attribute.name, value["value"])))
        return replace(self, actions=actions, unknown=self.unknown | {attribute.name})


@dataclass(frozen=True)
class Delete(ConditionalWrite[E, "E | None"], Generic[E]):
    """One item taken away. It gives what was there."""

    address: Address

    kind = "DeleteItem"

    def request(self, physical: PhysicalName) -> requests.DeleteItem:
        return requests.DeleteItem(
            physical(self.table),
            dict(self.address),
            self.condition,
            returns="ALL_OLD",
            returns_on_failure="ALL_OLD" if self.condition is not None else "NONE",
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def answer(self, result: requests.WriteResult) -> E | None:
        return None if not result.attributes else cast(E, self.declaration.from_item(result.attributes))


@dataclass(frozen=True)
class Check(ConditionalWrite[E, None], Generic[E]):
    """In a transaction: an item that must be as it is said for the others to happen."""

    writes: ClassVar[bool] = False

    address: Address

    kind = "ConditionCheckItem"

    def request(self, physical: PhysicalName) -> requests.ConditionCheck:
        condition = self.condition if self.condition is not None else self._there().node
        return requests.ConditionCheck(physical(self.table), dict(self.address), condition, "ALL_OLD")

    def answer(self, result: requests.WriteResult) -> None:
        return None


@dataclass(frozen=True)
class BatchPut(Operation[int], Generic[E]):
    """Many entities put whole, in as few requests as there can be. Each is written or not on its own."""

    writes: ClassVar[bool] = True

    puts: tuple[Put[E], ...] = ()

    kind = "BatchWriteItem"

    @property
    def table(self) -> Table | None:
        return self.puts[0].table if self.puts else None

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return self.puts


def batch_put(puts: Iterable[Put[E]]) -> BatchPut[E]:
    """Many entities of one table. A batch knows no conditions: one that has them is refused."""
    several = tuple(puts)
    if len({put.table for put in several}) > 1:
        raise InvalidRequest("A batch writes one table: make one batch per table.")
    if any(put.condition is not None for put in several):
        raise InvalidRequest(
            "A batch cannot have conditions: run the writes one by one, or in a transaction."
        )
    return BatchPut(several)


@dataclass(frozen=True)
class Transact(Operation[None]):
    """Several writes of one store, all or nothing. A token makes a repeat harmless."""

    writes: ClassVar[bool] = True

    actions: tuple[Write[Any], ...] = ()
    token: str | None = None

    kind = "TransactWriteItems"

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return self.actions


@overload
def transact(*actions: Write[Any], token: str | None = None) -> Transact: ...
@overload
def transact(*actions: SqlWrite[Any]) -> SqlTransact: ...
def transact(*actions: Write[Any] | SqlWrite[Any], token: str | None = None) -> Transact | SqlTransact:
    """Several writes, all or nothing: of one store, because no transaction spans two."""
    if not actions:
        raise InvalidRequest("A transaction of nothing: give it one write at least.")
    for action in actions:
        if not isinstance(action, Write | SqlWrite):
            raise InvalidRequest(
                f"{type(action).__name__} cannot stand in a transaction: only writes and checks can."
            )
    stores = dict.fromkeys(action.store for action in actions)
    if len(stores) > 1:
        raise StoresMixed(list(stores))
    changes = tuple(action for action in actions if isinstance(action, SqlWrite))
    if not changes:
        return _of_tables(cast("tuple[Write[Any], ...]", actions), token)
    if token is not None:
        raise InvalidRequest(
            "A transaction of SQL knows no token, and a repeat would be done twice: keep the token in a row that is there "
            "once (a unique key, an `Inbox`)."
        )
    return SqlTransact(changes)


def _of_tables(actions: tuple[Write[Any], ...], token: str | None) -> Transact:
    if len(actions) > TRANSACTION_ACTIONS_MAX:
        raise InvalidRequest(
            f"A transaction has room for {TRANSACTION_ACTIONS_MAX} actions, and this one has {len(actions)}: make "
            "several, each of which may happen without the others."
        )
    if token is not None and not 1 <= len(token) <= TRANSACTION_TOKEN_CHARS_MAX:
        raise InvalidRequest(
            f"The token of a transaction has 1 to {TRANSACTION_TOKEN_CHARS_MAX} characters, and {token!r} has "
            f"{len(token)}: a ULID or a UUID fits."
        )
    return Transact(actions, token)


def _overlap(one: nodes.Path, other: nodes.Path) -> bool:
    """Whether one is the other or lies inside it."""
    return all(left == right for left, right in zip(one.elements, other.elements, strict=False))


def _set(attribute: Ref[Any, Any], elements: Iterable[Any]) -> Value:
    if not (values := frozenset(attribute.place.element.encode(element) for element in elements)):
        raise InvalidRequest(f"No element was given for {attribute!r}: name one at least.")
    return values  # type: ignore[return-value]
