"""Writes: put, create, update, delete and condition checks, as frozen values that a transaction can combine.

An update writes the attributes it names, and every index key and lifetime computed from them. It uses only
the values it is given and never reads first: if a value is missing, building the operation raises.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast, overload

import msgspec

from holdfast.core.errors import CrossStoreTransaction, InvalidRequest, RetryLater
from holdfast.core.limits import (
    MAX_BATCH_ATTEMPTS,
    MAX_BATCH_WRITES,
    MAX_TRANSACTION_ACTIONS,
    MAX_TRANSACTION_TOKEN_CHARS,
)
from holdfast.model.entities.conditions import Condition, combine_all
from holdfast.model.entities.encoders import is_absent
from holdfast.model.operations import Operation, PhysicalName, Requester, Write
from holdfast.model.sql import SqlTransact, SqlWrite
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.entities.attributes import OptionalRef, Ref
    from holdfast.model.entities.entity import Entity
    from holdfast.model.tables import Table

E = TypeVar("E", bound="Entity")
T = TypeVar("T")
V = TypeVar("V")
N = TypeVar("N", int, float, Decimal)

KeyValues = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class ConditionalWrite(Write[V], Generic[E, V]):
    """A write with an optional condition on the current item."""

    condition: nodes.Condition | None = field(default=None, kw_only=True)

    def when(self, *conditions: Condition[E]) -> Self:
        """Write only if the current item meets these conditions; otherwise ConditionFailed is raised."""
        return replace(self, condition=combine_all(self.condition, conditions))

    @abstractmethod
    def build_request(self, physical: PhysicalName) -> requests.TransactWrite:
        """Return the engine's request, for a single write or inside a transaction."""

    @abstractmethod
    def decode_result(self, result: requests.WriteResult) -> V:
        """Return the caller's result, decoded from the engine's."""

    async def execute(self, requester: Requester) -> V:
        request = cast("requests.Operation[Any]", self.build_request(requester.physical_name))
        return self.decode_result(await requester.request_tables(self, request))

    def _exists(self) -> Condition[E]:
        """Return the condition that the item exists."""
        return Condition(nodes.AttributeExists(nodes.Path(self.table.partition)))


@dataclass(frozen=True)
class Put(ConditionalWrite[E, None], Generic[E]):
    """Write a whole entity under its key."""

    entity: E
    expected_version: tuple[str, int] | None = None

    kind = "PutItem"

    def if_absent(self) -> Put[E]:
        """Write only if the key does not exist."""
        return self.when(~self._exists())

    def at_version(self, attribute: Ref[E, int], seen: int) -> Put[E]:
        """Write only over the version `seen`, with the next version number. `attribute` holds the version."""
        return replace(self.when(attribute == seen), expected_version=(attribute.attribute.stored_name, seen))

    def build_request(self, physical: PhysicalName) -> requests.PutItem:
        """Return the put; if it is conditional, a failure returns the stored item."""
        return requests.PutItem(
            physical(self.table),
            self.build_item(),
            self.condition,
            returns_on_failure="ALL_OLD" if self.condition is not None else "NONE",
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def build_item(self) -> Item:
        """Return the item to write, with the next version number if one is expected."""
        entity: Entity = self.entity
        if self.expected_version is None:
            return self.declaration.to_item(entity)
        stored, seen = self.expected_version
        name = self.declaration.by_stored_name[stored].name
        return self.declaration.to_item(entity.model_copy(update={name: seen + 1}))

    def decode_result(self, result: requests.WriteResult) -> None:
        return None


@dataclass(frozen=True)
class Update(ConditionalWrite[E, E], Generic[E]):
    """Change attributes of one item in place. The item must exist, unless `or_create` is used."""

    key: KeyValues
    known: tuple[tuple[str, Any], ...] = ()
    current: tuple[tuple[str, Any], ...] = ()
    actions: tuple[nodes.UpdateAction, ...] = ()
    unknown: frozenset[str] = frozenset()
    may_create: bool = False

    kind = "UpdateItem"

    def set(self, attribute: Ref[E, T], value: T) -> Update[E]:
        """Set an attribute, or a path inside it. An empty set removes it, because DynamoDB stores none."""
        action: nodes.UpdateAction
        is_member = not isinstance(attribute.path.elements[-1], int)
        if value is not None and is_absent(value) and is_member:  # an empty set is stored as absence
            action = nodes.RemoveAction(attribute.path)
        else:
            action = nodes.SetAction(attribute.path, nodes.Literal(attribute.encode(value)))
        return self._with_action(attribute, action, **({} if attribute.steps else {"value": value}))

    def set_if_absent(self, attribute: Ref[E, T], value: T) -> Update[E]:
        """Set the attribute only if the item lacks it."""
        literal = nodes.Literal(attribute.encode(value))
        return self._with_action(
            attribute, nodes.SetAction(attribute.path, nodes.IfNotExists(attribute.path, literal))
        )

    @overload
    def add(self, attribute: Ref[E, N], amount: N) -> Update[E]: ...
    @overload
    def add(self, attribute: OptionalRef[E, N], amount: N) -> Update[E]: ...
    def add(self, attribute: Ref[E, Any], amount: Any) -> Update[E]:
        """Add to a number; an absent one counts as 0."""
        return self._with_action(attribute, nodes.AddAction(attribute.path, attribute.encode(amount)))

    def append(self, attribute: Ref[E, list[V]], *elements: V) -> Update[E]:
        """Append elements to a list; an absent one counts as empty."""
        old = nodes.IfNotExists(attribute.path, nodes.Literal([]))
        new = nodes.Literal([attribute.target.element.encode(element) for element in elements])
        return self._with_action(attribute, nodes.SetAction(attribute.path, nodes.ListAppend(old, new)))

    def add_to_set(self, attribute: Ref[E, frozenset[V]], *elements: V) -> Update[E]:
        """Add elements to a set; an absent one counts as empty."""
        return self._with_action(attribute, nodes.AddAction(attribute.path, _encode_set(attribute, elements)))

    def remove_from_set(self, attribute: Ref[E, frozenset[V]], *elements: V) -> Update[E]:
        """Remove elements from a set."""
        return self._with_action(
            attribute, nodes.DeleteAction(attribute.path, _encode_set(attribute, elements))
        )

    def remove(self, attribute: OptionalRef[E, Any]) -> Update[E]:
        """Remove the attribute; the item leaves the indexes whose key contains it.

        Raise if the attribute is required.
        """
        action = nodes.RemoveAction(attribute.path)
        if attribute.steps:
            return self._with_action(attribute, action)
        if not attribute.attribute.is_optional:
            raise InvalidRequest(
                f"Invalid remove({attribute!r}): the attribute is required. Set it to another value."
            )
        return self._with_action(attribute, action, value=None)

    @overload
    def with_current(self, attribute: OptionalRef[E, T], value: T | None) -> Update[E]: ...
    @overload
    def with_current(self, attribute: Ref[E, T], value: T) -> Update[E]: ...
    def with_current(self, attribute: Ref[E, Any], value: Any) -> Update[E]:
        """Pass an attribute's current value without changing it, for the index keys computed from it.

        The value is not verified. If others may change the attribute, add `when(attribute == value)`.
        """
        if attribute.steps:
            raise InvalidRequest(
                f"Invalid with_current({attribute!r}, …): expected a whole attribute, not a path inside it."
            )
        if value is not None:
            attribute.encode(value)
        return replace(self, current=(*self.current, (attribute.name, value)))

    def at_version(self, attribute: Ref[E, int], seen: int) -> Update[E]:
        """Update only the version `seen`, and write the next version number.

        `attribute` holds the version.
        """
        return self.when(attribute == seen).set(attribute, seen + 1)

    def or_create(self) -> Update[E]:
        """Create the item if it does not exist. Attributes without a default must then be set here."""
        return replace(self, may_create=True)

    def with_pattern(self, pattern: str) -> Self:
        """Return the update with a pattern id; raise `InvalidRequest` here if an index key lacks a value."""
        self.compute_key_changes()
        return super().with_pattern(pattern)

    def compute_key_changes(self) -> dict[str, Value]:
        """Return the index keys and the expiry that this update writes; None for one that it removes.

        Raise `InvalidRequest` if a needed value is missing, or the update changes the primary key.
        """
        length = self._key_argument_count
        known = dict(self.known[:length]) | dict(self.current) | dict(self.known[length:])
        changed = frozenset(name for name, _ in self.known[length:]) | self.unknown
        for name in self.unknown:
            known.pop(name, None)
        self._refuse_contradictions(known, changed)
        if touched := changed & self.declaration.primary.attribute_names:
            raise InvalidRequest(
                f"Invalid change of {', '.join(sorted(touched))}: it is part of the primary key of "
                f"{self.declaration.entity.__name__}. Delete the item and create it under its new key, in "
                "one transaction."
            )
        return self.declaration.compute_key_changes(known, changed, may_create=self.may_create)

    def _refuse_contradictions(self, known: dict[str, Any], changed: frozenset[str]) -> None:
        """Raise `InvalidRequest` if a current value is also changed, contradicts the key, or would be missing
        in a new item.
        """
        strangers = sorted(dict(self.current).keys() - self.declaration.primary.attribute_names)
        if self.may_create and strangers:
            raise InvalidRequest(
                f"This update may create the item, which would then lack {', '.join(strangers)}: use set(…) "
                "instead of with_current(…)."
            )
        if twice := sorted(dict(self.current).keys() & changed):
            raise InvalidRequest(
                f"{', '.join(twice)} is both changed by this update and passed to with_current(…): use only "
                "one."
            )
        for name, template in self.declaration.primary.templates if self.current else ():
            if template.attribute_names <= known.keys():
                computed = template.build_from_attributes(known.__getitem__)
                if computed != dict(self.key)[name]:
                    raise InvalidRequest(
                        f"Invalid with_current(…): it gives {name} as {computed!r}, but the updated item has "
                        f"{dict(self.key)[name]!r}. Pass the item's own values."
                    )

    def build_request(self, physical: PhysicalName) -> requests.UpdateItem:
        """Return the update with its index keys, on condition that the item exists unless it may create
        it.
        """
        condition = self.condition if self.may_create else combine_all(self.condition, (self._exists(),))
        return requests.UpdateItem(
            physical(self.table),
            dict(self.key),
            self._build_update(),
            condition,
            returns="ALL_NEW",
            returns_on_failure="ALL_OLD",
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def decode_result(self, result: requests.WriteResult) -> E:
        """Return the entity after the update."""
        return cast(E, self.declaration.from_item(result.attributes or {}))

    def _build_update(self) -> nodes.Update:
        """Return all changes in DynamoDB's form, with those of index keys and expiry."""
        actions = [*self.actions, *(self._build_key_actions() if self.may_create else ())]
        for name, value in self.compute_key_changes().items():
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

    def _build_key_actions(self) -> Iterable[nodes.SetAction]:
        """Yield the attributes that the key contains, which a new item also stores under their own names."""
        of_key = {
            name: value for name, value in self.current if name in self.declaration.primary.attribute_names
        }
        for name, value in (of_key | dict(self.known[: self._key_argument_count])).items():
            attribute = self.declaration.attributes[name]
            if attribute.stored_name not in dict(self.key):
                yield nodes.SetAction(
                    nodes.Path(attribute.stored_name), nodes.Literal(attribute.encode(value))
                )

    @property
    def _key_argument_count(self) -> int:
        """The number of values in `known` that come from the key."""
        return len(self.declaration.primary.argument_names)

    def _with_action(self, attribute: Ref[E, Any], action: nodes.UpdateAction, **value: Any) -> Update[E]:
        """Return the update with one more action; with `value`, the attribute's new value is known.

        Raise `InvalidRequest` if the attribute is changed twice.
        """
        if any(_is_overlapping(action.path, other.path) for other in self.actions):
            raise InvalidRequest(f"{attribute!r} is changed twice in one update: change it once.")
        actions = (*self.actions, action)
        if value:
            return replace(self, actions=actions, known=(*self.known, (attribute.name, value["value"])))
        return replace(self, actions=actions, unknown=self.unknown | {attribute.name})


@dataclass(frozen=True)
class Delete(ConditionalWrite[E, "E | None"], Generic[E]):
    """Delete one item. The result is the item that was there."""

    key: KeyValues

    kind = "DeleteItem"

    def build_request(self, physical: PhysicalName) -> requests.DeleteItem:
        return requests.DeleteItem(
            physical(self.table),
            dict(self.key),
            self.condition,
            returns="ALL_OLD",
            returns_on_failure="ALL_OLD" if self.condition is not None else "NONE",
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def decode_result(self, result: requests.WriteResult) -> E | None:
        """Return the deleted entity, or None if there was none."""
        return None if not result.attributes else cast(E, self.declaration.from_item(result.attributes))


@dataclass(frozen=True)
class ConditionCheck(ConditionalWrite[E, None], Generic[E]):
    """Require a condition on an item, as part of a transaction; without a condition, that the item exists."""

    writes: ClassVar[bool] = False

    key: KeyValues

    kind = "ConditionCheckItem"

    def build_request(self, physical: PhysicalName) -> requests.ConditionCheck:
        """Return the check; without a condition, that the item exists."""
        condition = self.condition if self.condition is not None else self._exists().node
        return requests.ConditionCheck(physical(self.table), dict(self.key), condition, "ALL_OLD")

    def decode_result(self, result: requests.WriteResult) -> None:
        return None

    async def execute(self, requester: Requester) -> None:
        """Raise `InvalidRequest`: only a transaction can check."""
        raise InvalidRequest(
            "A check runs only inside a transaction: pass it to transact(…) together with writes."
        )


@dataclass(frozen=True)
class BatchPut(Operation[int], Generic[E]):
    """Write many whole entities in as few requests as possible, each independently of the others."""

    writes: ClassVar[bool] = True

    puts: tuple[Put[E], ...] = ()

    kind = "BatchWriteItem"

    @property
    def table(self) -> Table | None:
        return self.puts[0].table if self.puts else None

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return self.puts

    async def execute(self, requester: Requester) -> int:
        """Write the items 25 per request and return their number; raise `InvalidRequest` for duplicate
        keys.
        """
        puts = [requests.Put(requester.physical_name(put.table), put.build_item()) for put in self.puts]
        self._refuse_duplicate_keys(puts)
        for start in range(0, len(puts), MAX_BATCH_WRITES):
            await self._write(requester, tuple(puts[start : start + MAX_BATCH_WRITES]))
        return len(puts)

    async def _write(self, requester: Requester, writes: tuple[requests.BatchWrite, ...]) -> None:
        """Write up to 25 items, sending unprocessed ones again; raise `RetryLater` after ten attempts."""
        for _ in range(MAX_BATCH_ATTEMPTS):
            request = requests.BatchWriteItem(writes, capacity="INDEXES", pattern=self.metered_pattern)
            writes = (await requester.request_tables(self, request)).unprocessed
            if not writes:
                return
        raise RetryLater(
            f"{len(writes)} writes stayed unprocessed after {MAX_BATCH_ATTEMPTS} attempts. Retry later, with "
            "fewer."
        )

    def _refuse_duplicate_keys(self, puts: Sequence[requests.Put]) -> None:
        """Raise `InvalidRequest` for duplicate keys: DynamoDB only detects them within one request of a
        split batch.
        """
        seen: set[Any] = set()
        for put, written in zip(self.puts, puts, strict=True):
            key = put.declaration.extract_key(written.item)
            if tuple(key.items()) in seen:
                raise InvalidRequest(f"Duplicate key {key} in one batch: put it once, or use two batches.")
            seen.add(tuple(key.items()))


def batch_put(puts: Iterable[Put[E]]) -> BatchPut[E]:
    """Combine puts of one table into a batch; raise `InvalidRequest` for several tables, or puts with
    conditions.
    """
    several = tuple(puts)
    if len({put.table for put in several}) > 1:
        raise InvalidRequest("A batch writes one table: use one batch per table.")
    if any(put.condition is not None for put in several):
        raise InvalidRequest(
            "A batch does not support conditions: run the writes one by one, or in a transaction."
        )
    return BatchPut(several)


@dataclass(frozen=True)
class Transact(Operation[None]):
    """Several writes of one store, all or nothing. With a token, repeating it has no further effect."""

    writes: ClassVar[bool] = True

    actions: tuple[Write[Any], ...] = ()
    token: str | None = None

    kind = "TransactWriteItems"

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return self.actions

    async def execute(self, requester: Requester) -> None:
        """Send the writes in one TransactWriteItems request."""
        built = (
            cast(ConditionalWrite[Any, Any], action).build_request(requester.physical_name)
            for action in self.actions
        )
        # Transactions return no items, and DynamoDB refuses requests that ask for them.
        actions = tuple(
            action if isinstance(action, requests.ConditionCheck) else _drop_returns(action)
            for action in built
        )
        request = requests.TransactWriteItems(
            actions, self.token, capacity="INDEXES", pattern=self.metered_pattern
        )
        await requester.request_tables(self, request)


@overload
def transact(*actions: Write[Any], token: str | None = None) -> Transact: ...
@overload
def transact(*actions: SqlWrite[Any]) -> SqlTransact: ...
def transact(*actions: Write[Any] | SqlWrite[Any], token: str | None = None) -> Transact | SqlTransact:
    """Combine writes of one store into an operation, all or nothing.

    Raise `CrossStoreTransaction` for two stores. `token` makes a repeat harmless; SQL writes do not support
    one.
    """
    if not actions:
        raise InvalidRequest("Empty transaction: pass at least one write.")
    for action in actions:
        if not isinstance(action, Write | SqlWrite):
            raise InvalidRequest(
                f"Invalid {type(action).__name__} in a transaction: expected writes and checks only."
            )
    stores = dict.fromkeys(action.store for action in actions)
    if len(stores) > 1:
        raise CrossStoreTransaction(list(stores))
    changes = tuple(action for action in actions if isinstance(action, SqlWrite))
    if not changes:
        return _build_table_transaction(cast("tuple[Write[Any], ...]", actions), token)
    if token is not None:
        raise InvalidRequest(
            "Invalid token: SQL transactions do not support one, so a repeat would run twice. Store the "
            "token in a row with a unique key, such as an `Inbox`."
        )
    return SqlTransact(changes)


def _build_table_transaction(actions: tuple[Write[Any], ...], token: str | None) -> Transact:
    """Return the transaction; raise `InvalidRequest` for too many actions or an invalid token."""
    if len(actions) > MAX_TRANSACTION_ACTIONS:
        raise InvalidRequest(
            f"Too many actions in a transaction: {len(actions)}, and at most {MAX_TRANSACTION_ACTIONS} are "
            "allowed. Use several transactions that may succeed independently."
        )
    if token is not None and not 1 <= len(token) <= MAX_TRANSACTION_TOKEN_CHARS:
        raise InvalidRequest(
            f"Invalid transaction token {token!r} of {len(token)} characters: expected 1 to "
            f"{MAX_TRANSACTION_TOKEN_CHARS}, such as a ULID or a UUID."
        )
    return Transact(actions, token)


def _drop_returns(action: Any) -> Any:
    """Return the write without the request for its old or new item and its capacity."""
    return msgspec.structs.replace(action, returns="NONE", capacity="NONE")


def _is_overlapping(one: nodes.Path, other: nodes.Path) -> bool:
    """Return True if the paths are equal or one is inside the other."""
    return all(left == right for left, right in zip(one.elements, other.elements, strict=False))


def _encode_set(attribute: Ref[Any, Any], elements: Iterable[Any]) -> Value:
    """Return the elements in stored form; raise `InvalidRequest` if there are none."""
    if not (values := frozenset(attribute.target.element.encode(element) for element in elements)):
        raise InvalidRequest(f"Missing elements for {attribute!r}: pass at least one.")
    return values  # type: ignore[return-value]
