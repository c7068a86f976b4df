"""`FlowItem`, the base of items that a flow drives; and an item's key as one text.

The text names the item in executions, messages and the outbox.

A system derives its item from `FlowItem`, with a table, a key and attributes of its own:

    class Booking(FlowItem, table=bookings):
        booking_id: Attr[str] = attr()
        of = Key(booking_id)

Inherited attributes may be stored under other names: `flow_token: Attr[str | None] = attr("taskToken",
default=None)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from holdfast.core.errors import InvalidRequest
from holdfast.model.entities import Attr, Entity, attr, get_declaration
from holdfast.model.entities.declaration import Attribute, Declaration
from holdfast.model.entities.key_texts import format_key_text, parse_key_text
from holdfast.model.entities.writes import KeyValues
from holdfast.operations.values import Value


class FlowItem(Entity):
    """The attributes of every flow item, written by the flow. Other writers must increment its version."""

    flow_state: Attr[str] = attr(default="")
    flow_since: Attr[datetime | None] = attr(default=None)
    # The deadline of the current wait.
    flow_due: Attr[datetime | None] = attr(default=None)
    # The SHA-256 of the token that answers the current wait, in hex; the token itself is never stored.
    flow_token: Attr[str | None] = attr(default=None)
    # The states that the item has left, oldest first: `history.parse_history` reads them. Absent before the
    # first transition, and in items that older code moved.
    flow_history: Attr[list[str] | None] = attr(default=None)
    version: Attr[int] = attr(default=1)


FLOW_NAMES: Final = frozenset(FlowItem.model_fields)

# An item, the values of its key in order, or the key as one text.
ItemKey: TypeAlias = "FlowItem | Sequence[Any] | str"


def format_key(entity: type[FlowItem], key: ItemKey) -> str:
    """Return the key as one text, unique per key; a key of one value is that value."""
    if isinstance(key, str):
        return key
    declaration = get_declaration(entity)
    if isinstance(key, FlowItem):
        address: Any = declaration.extract_key(declaration.to_item(key))
    else:
        address = dict(_build_address(declaration, tuple(key)))
    return format_key_text(address)


def parse_key(entity: type[FlowItem], key: str) -> KeyValues:
    """Return the stored key attributes that a key text denotes; raise `InvalidRequest` if it is malformed."""
    return parse_key_text(get_declaration(entity), key)


def truncate_to_stored(attribute: Attribute, moment: datetime) -> datetime:
    """Cut a time to the precision that the attribute stores: microseconds, milliseconds or seconds."""
    thousandths = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    for each in (moment, thousandths):
        try:
            attribute.encode(each)
            return each
        except InvalidRequest:
            pass
    return moment.replace(microsecond=0)


def _build_address(declaration: Declaration, values: tuple[Any, ...]) -> KeyValues:
    """Return the stored key attributes from the values of the item's `Key`; raise if their number is
    wrong.
    """
    primary = declaration.primary
    partition = len(primary.partition.slots)
    total = partition + (len(primary.sort.slots) if primary.sort else 0)
    if len(values) != total:
        raise InvalidRequest(
            f"Invalid key of a {declaration.entity.__name__}: expected {total} values, got {len(values)}."
        )
    address: list[tuple[str, Value]] = [
        (primary.partition_name, primary.partition.build_from_arguments(values[:partition]))
    ]
    if primary.sort is not None and primary.sort_name is not None:
        address.append((primary.sort_name, primary.sort.build_from_arguments(values[partition:])))
    return tuple(address)
