"""Cursors: where a page ended, as an opaque text that only the same question takes back.

A cursor holds the last key and a fingerprint of the question (table, index, key condition, order, filter), so that one
that was made elsewhere, or was altered on its way through a browser, is refused instead of silently skipping.

Clients keep cursors across releases, so a fingerprint is made of fixed labels and values, and never of a class name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.errors import Defect, InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.values import Item, Value

FINGERPRINT_BYTES: Final = 6

# The parts of conditions, as fingerprints spell them. A changed label refuses every cursor that clients hold.
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


def write_cursor(last_key: Item, question: tuple[object, ...]) -> str:
    body = msgspec.msgpack.encode({name: _tagged(value) for name, value in last_key.items()})
    return base64.urlsafe_b64encode(_fingerprint(body, question) + body).decode().rstrip("=")


def read_cursor(cursor: str, question: tuple[object, ...]) -> Item:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        print_, body = raw[:FINGERPRINT_BYTES], raw[FINGERPRINT_BYTES:]
        if print_ != _fingerprint(body, question):
            raise ValueError("of another question")
        return {name: _untagged(*pair) for name, pair in msgspec.msgpack.decode(body).items()}
    except (binascii.Error, ValueError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise InvalidRequest(
            "The cursor does not belong to this question: give back the one that came with its last page, "
            "or none to begin anew."
        ) from error


def _fingerprint(body: bytes, question: tuple[object, ...]) -> bytes:
    return hashlib.blake2b(body + _spelled(question).encode(), digest_size=FINGERPRINT_BYTES).digest()


def _spelled(part: object) -> str:
    """Return the same text in every process and release. A set has no order of its own, so its elements are sorted."""
    if isinstance(part, str):
        return str.__repr__(part)  # the text alone, also of a member of an enum
    if type(part) in _PLAIN:
        return repr(part)
    if isinstance(part, msgspec.Struct) and (label := LABELS.get(type(part))) is not None:
        return label + _spelled(msgspec.structs.astuple(part))
    if isinstance(part, (frozenset, set)):
        return f"{{{','.join(sorted(map(_spelled, part)))}}}"
    if isinstance(part, (tuple, list)):
        return f"({','.join(map(_spelled, part))})"
    if isinstance(part, dict):
        return _spelled([(name, part[name]) for name in sorted(part)])
    raise Defect(f"A cursor cannot be bound to {part!r:.80}: give its class a label in cursors.py.")


def _tagged(value: Value) -> tuple[str, Any]:
    if isinstance(value, (int, Decimal)):
        return ("N", numbers.text(value))
    return ("S", value) if isinstance(value, str) else ("B", value)


def _untagged(tag: str, value: Any) -> Value:
    return numbers.parse(value) if tag == "N" else value
