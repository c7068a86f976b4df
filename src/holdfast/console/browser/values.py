"""Values as text: typed, with the names and types of the declared entity, and as DynamoDB's JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.console.browser.entities import get_key_names
from holdfast.console.browser.item_masker import ItemMasker
from holdfast.console.masking import Hidden, Masker
from holdfast.core.errors import HoldfastError
from holdfast.model.entities.annotations import is_datetime
from holdfast.model.entities.declaration import Attribute, Declaration
from holdfast.model.tables import Table
from holdfast.operations import numbers
from holdfast.operations.values import Item, Value, get_type_tag, value_size
from holdfast.wire.values import encode_value

__all__ = ["ShownAttribute", "encode_shown", "show_attributes", "to_text"]

MAX_CELL_CHARS: Final = 60
# The encoder takes larger whole numbers as decimals only.
MAX_JSON_INT: Final = 2**63
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class ShownAttribute:
    """One attribute as a page shows it.

    `name` is its Python name if it is declared. `moment` is set for a time. `shown` is the value, masked.
    """

    name: str
    stored_name: str
    tag: str
    size: int
    shown: Any
    moment: datetime | None = None
    is_masked: bool = False
    is_key: bool = False
    is_declared: bool = False

    @property
    def text(self) -> str:
        """The whole value as text."""
        return to_text(self.shown)

    @property
    def is_structured(self) -> bool:
        """Whether the value is a list or a map, shown as JSON."""
        return isinstance(self.shown, dict | list)

    @property
    def is_hidden(self) -> bool:
        """Whether all of the value is replaced by a mask."""
        return isinstance(self.shown, Hidden)

    @property
    def cell(self) -> str:
        """The start of the value, for a cell of a table."""
        text = self.text.replace("\n", " ")
        return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def show_attributes(
    item: Item, declaration: Declaration | None, masker: Masker, table: Table
) -> list[ShownAttribute]:
    """Return the attributes of an item: keys first, then declared ones in their order, then all others."""
    own, keys = ItemMasker(masker, table, declaration), get_key_names(table)
    declared = {} if declaration is None else declaration.by_stored_name
    order = {name: place for place, name in enumerate(declared)}

    def rank(name: str) -> tuple[bool, int, str]:
        return (name not in keys, order.get(name, len(order)), name)

    return [
        _show(name, item[name], declared.get(name), own, is_key=name in keys)
        for name in sorted(item, key=rank)
    ]


def _show(
    name: str, value: Value, attribute: Attribute | None, masker: ItemMasker, *, is_key: bool
) -> ShownAttribute:
    shown = masker.mask(name, value)
    return ShownAttribute(
        name if attribute is None else attribute.name,
        name,
        get_type_tag(value),
        len(name.encode()) + value_size(value),
        shown,
        _read_moment(attribute, value) if shown == value else None,
        shown != value,
        is_key,
        attribute is not None,
    )


def _read_moment(attribute: Attribute | None, value: Value) -> datetime | None:
    """Return the time in an attribute that is declared as one."""
    if attribute is None or not is_datetime(attribute.annotation):
        return None
    try:
        moment = attribute.decode(value)
    except HoldfastError:
        return None
    return moment if isinstance(moment, datetime) else None


def to_text(value: Any) -> str:
    """Return a value as text: plain for a text or a number, JSON for a list or a map."""
    if isinstance(value, str | Hidden):
        return str(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | Decimal):
        return numbers.to_text(value)
    if isinstance(value, bytes | memoryview):
        return b64encode(value).decode()
    return msgspec.json.format(_ENCODER.encode(_to_plain(value)), indent=2).decode()


def _to_plain(value: Any) -> Any:
    """Return a value as what JSON has: bytes as base64, sets as lists, numbers as numbers."""
    if isinstance(value, Mapping):
        return {name: _to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(each) for each in value]
    if isinstance(value, frozenset | set):
        return sorted((_to_plain(each) for each in value), key=str)
    if isinstance(value, bytes | memoryview):
        return b64encode(value).decode()
    if isinstance(value, int) and not -MAX_JSON_INT < value < MAX_JSON_INT:
        return Decimal(value)
    return str(value) if isinstance(value, Hidden) else value


def encode_shown(value: Any) -> Any:
    """Return a masked value in DynamoDB's JSON. What is hidden keeps its type."""
    if isinstance(value, Hidden):
        return {value.tag: value.text}
    if isinstance(value, dict):
        return {"M": {name: encode_shown(each) for name, each in value.items()}}
    if isinstance(value, list):
        return {"L": [encode_shown(each) for each in value]}
    return encode_value(value)
