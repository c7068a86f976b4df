"""The item that a flow drives, and its key as one text, by which places, messages and aggregates name it.

A system derives its item from `FlowItem`, with a table, a key and attributes of its own:

    class Booking(FlowItem, table=bookings):
        booking_id: Attr[str] = attr()
        of = Key(booking_id)

What is brought along may be stored under another name: `flow_token: Attr[str | None] = attr("taskToken", default=None)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from holdfast.errors import InvalidRequest
from holdfast.model import Attr, Entity, attr, declaration_of
from holdfast.model.declaration import Attribute, Declaration
from holdfast.model.writes import Address
from holdfast.operations.values import Value


class FlowItem(Entity):
    """The attributes of every item of a flow; the flow writes them. Whoever else writes the item raises its version."""

    flow_state: Attr[str] = attr(default="")
    flow_since: Attr[datetime | None] = attr(default=None)
    # When the wait that it stands in ends by itself.
    flow_due: Attr[datetime | None] = attr(default=None)
    # The SHA-256 of the token by which the wait is answered, in hex; the token itself is kept nowhere.
    flow_token: Attr[str | None] = attr(default=None)
    version: Attr[int] = attr(default=1)


FLOW_NAMES: Final = frozenset(FlowItem.model_fields)

# An item, the values that its key takes in their order, or the key as one text.
ItemKey: TypeAlias = "FlowItem | Sequence[Any] | str"


def key_text(entity: type[FlowItem], key: ItemKey) -> str:
    """The key as one text. No two keys have the same; a key of one value is that value."""
    if isinstance(key, str):
        return key
    declaration = declaration_of(entity)
    if isinstance(key, FlowItem):
        address: Any = declaration.key_of(declaration.to_item(key))
    else:
        address = dict(_address_of_values(declaration, tuple(key)))
    values = [str(value) for value in address.values()]
    return values[0] if len(values) == 1 else "#".join(map(_escaped, values))


def address_of(entity: type[FlowItem], key: str) -> Address:
    """The stored key that a text says."""
    table = declaration_of(entity).table
    names = [(table.partition, table.partition_type)]
    names += [(table.sort, table.sort_type)] if table.sort is not None else []
    texts = [key] if len(names) == 1 else [_plain(each) for each in key.split("#")]
    if len(texts) != len(names) or not all(texts):
        raise InvalidRequest(
            f"{key!r:.80} is no key of a {entity.__name__}: it has {' and '.join(name for name, _ in names)}, joined by '#'."
        )
    return tuple((name, _typed(text, tag)) for (name, tag), text in zip(names, texts, strict=True))


def kept_moment(attribute: Attribute, moment: datetime) -> datetime:
    """The moment as finely as the attribute can keep it: some are kept in thousandths, some in whole seconds."""
    thousandths = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    for each in (moment, thousandths):
        try:
            attribute.encode(each)
            return each
        except InvalidRequest:
            pass
    return moment.replace(microsecond=0)


def _address_of_values(declaration: Declaration, values: tuple[Any, ...]) -> Address:
    primary = declaration.primary
    partition = len(primary.partition.slots)
    total = partition + (len(primary.sort.slots) if primary.sort else 0)
    if len(values) != total:
        raise InvalidRequest(
            f"The key of a {declaration.entity.__name__} takes {total} values, and {len(values)} were given."
        )
    address: list[tuple[str, Value]] = [
        (primary.partition_name, primary.partition.of_arguments(values[:partition]))
    ]
    if primary.sort is not None and primary.sort_name is not None:
        address.append((primary.sort_name, primary.sort.of_arguments(values[partition:])))
    return tuple(address)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("#", "%23")


def _plain(text: str) -> str:
    return text.replace("%23", "#").replace("%25", "%")


def _typed(text: str, tag: str) -> Value:
    if tag == "S":
        return text
    try:
        number = Decimal(text)
    except ArithmeticError as error:
        raise InvalidRequest(f"{text!r:.40} is no number, and stands where the key has one.") from error
    return int(number) if number == number.to_integral_value() else number
