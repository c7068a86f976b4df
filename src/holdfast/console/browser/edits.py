"""The write of an edit or a deletion: only if the item is exactly what was shown, and with its audit entry.

A page carries a fingerprint of each attribute that it showed, and no value. The write reads the item again,
compares it with the fingerprints, and then carries the condition that every attribute is as read. Whatever
changed in between, the write does nothing, and the user sees both versions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.console.audit_trail import follow_effect
from holdfast.console.browser.addresses import encode_key
from holdfast.console.model import ConsoleAudit
from holdfast.core.errors import ConditionFailed, InvalidRequest, NotFound, TransactionCancelled
from holdfast.core.rng import draw_bytes
from holdfast.model.entities import Put
from holdfast.model.entities.declaration import Declaration
from holdfast.model.tables import Table
from holdfast.operations.expressions import nodes
from holdfast.operations.tables import DeleteItem, GetItem, TransactWriteItems, UpdateItem
from holdfast.operations.values import Item, Value
from holdfast.runtime.stores import Stores
from holdfast.wire.values import encode_value

__all__ = [
    "AuditWrite",
    "ItemPlace",
    "Outcome",
    "SeenItem",
    "compute_target",
    "delete",
    "describe_seen",
    "hash_text",
    "read_item",
    "require_item",
    "save",
]

_DIGEST_BYTES: Final = 12
# Fingerprints of this process: nobody outside can try values against them.
_KEY: Final = draw_bytes(32)
_LABEL: Final = hashlib.sha256(_KEY).hexdigest()[:12]
# What a condition may compare besides the attributes of the item.
MAX_ABSENT: Final = 40
CONDITION_FAILED: Final = "ConditionalCheckFailed"


@dataclass(frozen=True)
class Outcome:
    """What became of a write: done, or not, with the item as it is now."""

    is_done: bool
    current: Item | None = None


@dataclass(frozen=True)
class ItemPlace:
    """Where an item is, and which entity it is."""

    stores: Stores
    table: Table
    key: Item
    declaration: Declaration | None = None

    @property
    def physical(self) -> str:
        return self.stores.physical_name(self.table)


async def read_item(place: ItemPlace) -> Item | None:
    """Return the item as it is now; None if there is none."""
    return (await place.stores.tables.run(GetItem(place.physical, place.key, consistent=True))).item


@dataclass(frozen=True)
class AuditWrite:
    """The audit entry of a write, and the console's own stores that keep it."""

    own: Stores
    entry: Put[ConsoleAudit]


async def save(
    place: ItemPlace, current: Item, changed: Item, version: str | None, audit: AuditWrite
) -> Outcome:
    """Write the changed attributes over exactly the current item, and the audit entry with it."""
    update = UpdateItem(
        place.physical,
        place.key,
        _build_update(current, count_up(changed, version)),
        _build_condition(place, current, changed),
    )
    return await _commit(place, update, audit)


async def delete(place: ItemPlace, current: Item, audit: AuditWrite) -> Outcome:
    """Delete exactly the current item, and write the audit entry with it."""
    request = DeleteItem(place.physical, place.key, _build_condition(place, current, {}))
    return await _commit(place, request, audit)


def count_up(item: Item, version: str | None) -> Item:
    """Return the item with its version counted up, as every writer that checks it expects."""
    value = None if version is None else item.get(version)
    if version is None or not isinstance(value, int) or isinstance(value, bool):
        return item
    return {**item, version: value + 1}


def compute_target(table: Table, key: Item) -> str:
    """Return the name of an item in the audit: the table and a hash of the key, which may be personal."""
    return f"{table.name} {hash_text(encode_key(table.name, key))}"


def hash_text(text: str) -> str:
    """Return a short hash of a text; empty for an empty one."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


# --- what was shown -----------------------------------------------------------------------------------------


def describe_seen(item: Item) -> str:
    """Return the fingerprints of an item that is shown, as a token for its form."""
    marks = {name: _compute_mark(name, value) for name, value in item.items()}
    return base64.urlsafe_b64encode(msgspec.msgpack.encode((_LABEL, marks))).decode()


@dataclass(frozen=True)
class SeenItem:
    """What a page showed of an item: a fingerprint of each attribute."""

    marks: Mapping[str, bytes]

    @classmethod
    def parse(cls, token: str) -> SeenItem:
        """Return what a form says it showed. Raise `InvalidRequest` for the token of another process."""
        try:
            label, marks = msgspec.msgpack.decode(
                base64.urlsafe_b64decode(token), type=tuple[str, dict[str, bytes]]
            )
        except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
            raise InvalidRequest("Invalid form: what it showed is missing. Load the item again.") from error
        if label != _LABEL:
            raise InvalidRequest(
                "The console was restarted since this page was loaded. Load the item again, and repeat your "
                "edit."
            )
        return cls(marks)

    def has_shown(self, name: str, value: Value) -> bool:
        """Return whether this was the value of the attribute."""
        return self.marks.get(name) == _compute_mark(name, value)

    def list_differences(self, item: Item | None) -> list[str]:
        """Return the attributes that are not as they were shown; none if the item is exactly that."""
        now = {name: _compute_mark(name, value) for name, value in (item or {}).items()}
        return sorted(
            name for name in self.marks.keys() | now.keys() if self.marks.get(name) != now.get(name)
        )


def _compute_mark(name: str, value: Value) -> bytes:
    content = msgspec.json.encode((name, encode_value(value)), order="deterministic")
    return hmac.digest(_KEY, content, "sha256")[:_DIGEST_BYTES]


# --- requests -----------------------------------------------------------------------------------------------


def _build_update(current: Item, wanted: Item) -> nodes.Update:
    """Return the update of the attributes that differ. Attributes that another writer adds stay."""
    sets = tuple(
        nodes.SetAction(nodes.Path(name), nodes.Literal(value))
        for name, value in wanted.items()
        if name not in current or encode_value(current[name]) != encode_value(value)
    )
    removes = tuple(nodes.RemoveAction(nodes.Path(name)) for name in current if name not in wanted)
    return nodes.Update(sets=sets, removes=removes)


def _build_condition(place: ItemPlace, current: Item, wanted: Mapping[str, Any]) -> nodes.Condition:
    """Return the condition that the item is as read, and has no other attribute that is known."""
    tests: list[nodes.Condition] = [nodes.AttributeExists(nodes.Path(place.table.partition))]
    tests += [
        nodes.Compare("=", nodes.Path(name), nodes.Literal(value))
        for name, value in current.items()
        if name not in place.key
    ]
    declared = () if place.declaration is None else (*place.declaration.by_stored_name,)
    absent = [name for name in dict.fromkeys((*wanted, *declared)) if name not in current]
    tests += [nodes.AttributeNotExists(nodes.Path(name)) for name in absent[:MAX_ABSENT]]
    return nodes.And(tuple(tests)) if len(tests) > 1 else tests[0]


async def _commit(place: ItemPlace, write: UpdateItem | DeleteItem, audit: AuditWrite) -> Outcome:
    """Run a write and its audit entry in one transaction. Raise what the store refuses for another reason.

    If the console keeps its data in another store, the entry is written first, and the outcome afterwards.
    """
    try:
        if audit.own.tables is place.stores.tables:
            entry = audit.entry.build_request(audit.own.physical_name)
            await place.stores.tables.run(TransactWriteItems((write, entry)))
        else:
            async with follow_effect(audit.own, audit.entry.entity):
                await place.stores.tables.run(write)
    except ConditionFailed:
        return Outcome(False, await read_item(place))
    except TransactionCancelled as error:
        if error.reasons[0].code != CONDITION_FAILED:
            raise _explain(error) from error
        return Outcome(False, await read_item(place))
    return Outcome(True)


def _explain(error: TransactionCancelled) -> Exception:
    """Return the error of the action that failed."""
    for each in error.reasons:
        if each.code != "None":
            return InvalidRequest(
                f"The store refused the write ({each.code}): {each.message or 'no reason given'}"
            )
    return error


def require_item(item: Item | None, table: Table) -> Item:
    """Return the item. Raise `NotFound` if there is none."""
    if item is None:
        raise NotFound(
            f"This item of {table.name} does not exist: it was deleted, or has expired. Its history may "
            "say when."
        )
    return item
