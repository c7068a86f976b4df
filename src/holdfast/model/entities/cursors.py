"""Page cursors: the position where a page ended, as opaque text that only the same query accepts.

A cursor holds the last key and a fingerprint of the query (table, index, key condition, order, filter). A
cursor of another query, or one altered on the way through a browser, is refused instead of silently skipping
items.

Clients keep cursors across releases, so a fingerprint is computed from fixed labels and values, never from a
class name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.core.errors import InternalError, InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.values import Item, Value

FINGERPRINT_BYTES: Final = 6

# The labels of condition nodes in fingerprints. Changing a label invalidates every cursor that clients hold.
LABELS: Final[Mapping[type[msgspec.Struct], str]] = {
    KeyTest: "KeyTest",
    nodes.Path: "Path",
    nodes.Literal: "Literal",
    nodes.Size: "Size",
    nodes.Compare: "Compare",
    nodes.Between: "Between",
    nodes.In: "In",
    nodes.AttributeExists: "AttributeExists",
    nodes.AttributeNotExists: "AttributeNotExists",
    nodes.AttributeType: "AttributeType",
    nodes.BeginsWith: "BeginsWith",
    nodes.Contains: "Contains",
    nodes.Not: "Not",
    nodes.And: "And",
    nodes.Or: "Or",
}
_PLAIN: Final = frozenset({int, bool, bytes, Decimal, type(None)})


def encode_cursor(last_key: Item, scope: tuple[object, ...]) -> str:
    """Return a cursor for the last key of a page. `scope` is all that identifies the query."""
    body = msgspec.msgpack.encode({name: _encode_value(value) for name, value in last_key.items()})
    return base64.urlsafe_b64encode(_compute_fingerprint(body, scope) + body).decode().rstrip("=")


def decode_cursor(cursor: str, scope: tuple[object, ...]) -> Item:
    """Return the last key that a cursor holds.

    Raise `InvalidRequest` if it belongs to another query or was altered.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        print_, body = raw[:FINGERPRINT_BYTES], raw[FINGERPRINT_BYTES:]
        if print_ != _compute_fingerprint(body, scope):
            raise ValueError("fingerprint of another query")
        return {name: _decode_value(*pair) for name, pair in msgspec.msgpack.decode(body).items()}
    except (binascii.Error, ValueError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise InvalidRequest(
            "Invalid cursor: it does not belong to this query. Pass the cursor of the query's last page, "
            "or none to start from the first."
        ) from error


def _compute_fingerprint(body: bytes, scope: tuple[object, ...]) -> bytes:
    """Return a short hash of the key and the query."""
    return hashlib.blake2b(body + _serialize(scope).encode(), digest_size=FINGERPRINT_BYTES).digest()


def _serialize(part: object) -> str:
    """Return the part as text that is the same in every process and release.

    Sets are unordered, so their elements are sorted. Raise `InternalError` for a class without a label.
    """
    if isinstance(part, str):
        return str.__repr__(part)  # an enum member counts as its text
    if type(part) in _PLAIN:
        return repr(part)
    if isinstance(part, msgspec.Struct) and (label := LABELS.get(type(part))) is not None:
        return label + _serialize(msgspec.structs.astuple(part))
    if isinstance(part, (frozenset, set)):
        return f"{{{','.join(sorted(map(_serialize, part)))}}}"
    if isinstance(part, (tuple, list)):
        return f"({','.join(map(_serialize, part))})"
    if isinstance(part, dict):
        return _serialize([(name, part[name]) for name in sorted(part)])
    raise InternalError(
        f"Cursor fingerprint of {part!r:.80} is not defined: add a label for its class to cursors.py."
    )


def _encode_value(value: Value) -> tuple[str, Any]:
    """Return a key value as its type and a form that MessagePack can hold."""
    if isinstance(value, (int, Decimal)):
        return ("N", numbers.to_text(value))
    return ("S", value) if isinstance(value, str) else ("B", value)


def _decode_value(tag: str, value: Any) -> Value:
    """Return the key value of a type and its MessagePack form."""
    return numbers.parse(value) if tag == "N" else value
