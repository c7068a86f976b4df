"""Encoding of Python values as stored attribute values and as text inside keys; the time formats.

Pydantic dumps a field to Python objects; `encode_value` turns those into the plain values of
`operations.values`. Times are UTC text of fixed width, so that text order is time order:
`2026-02-04T01:00:00.000000Z`. `TimestampMillis`, `TimestampSeconds` and `EpochSeconds` are the other stored
forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, PlainSerializer

from holdfast.model.entities.annotations import find_serialisers, get_key_tag
from holdfast.operations import numbers
from holdfast.operations.values import Value


def format_timestamp(moment: datetime) -> str:
    """Return a datetime in its stored form: `2026-02-04T01:00:00.000000Z`."""
    return _to_utc(moment).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def format_timestamp_millis(moment: datetime) -> str:
    """Return `2026-02-04T01:00:00.000Z`. Raise ValueError for microseconds, which would be lost silently."""
    if moment.microsecond % 1000:
        raise ValueError(
            f"{moment.isoformat()} has a fraction of a millisecond, but whole milliseconds are stored: round "
            "it"
        )
    return _to_utc(moment).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def format_timestamp_seconds(moment: datetime) -> str:
    """Return `2026-02-04T01:00:00Z`.

    Raise `ValueError` for a fraction of a second, which would be lost silently.
    """
    if moment.microsecond:
        raise ValueError(
            f"{moment.isoformat()} has a fraction of a second, but whole seconds are stored: round it"
        )
    return _to_utc(moment).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def to_epoch_seconds(moment: datetime) -> int:
    """Return whole seconds since 1970, cut off: the form of DynamoDB's time to live."""
    return int(_to_utc(moment).timestamp())


def _to_utc(moment: datetime) -> datetime:
    """Return the time in UTC; raise `ValueError` if it has no time zone."""
    if moment.tzinfo is None:
        raise ValueError(
            f"{moment.isoformat()} has no time zone: use datetime(…, tzinfo=UTC), or the time of the stores' "
            "clock"
        )
    return moment.astimezone(UTC)


def _parse_epoch(value: Any) -> Any:
    """Return a number of epoch seconds as a UTC datetime, and any other value unchanged."""
    is_number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    return datetime.fromtimestamp(float(value), UTC) if is_number else value


TimestampMillis = Annotated[datetime, PlainSerializer(format_timestamp_millis)]
"""A `datetime` that is stored as ISO 8601 text in UTC with milliseconds."""
TimestampSeconds = Annotated[datetime, PlainSerializer(format_timestamp_seconds)]
"""A `datetime` that is stored as ISO 8601 text in UTC with seconds."""
EpochSeconds = Annotated[datetime, BeforeValidator(_parse_epoch), PlainSerializer(to_epoch_seconds)]
"""A `datetime` that is stored as a number, in seconds since 1970: the form of a time-to-live attribute."""


def can_hold_expiry(annotation: Any) -> bool:
    """Return True if the type can hold an expiry: a number, or one with a serializer that may return a
    number.
    """
    functions = set(find_serialisers(annotation))
    return get_key_tag(annotation) == "N" or bool(
        functions - {format_timestamp_seconds, format_timestamp_millis}
    )


def encode_value(value: Any) -> Value:
    """Return a dumped value in the form that an attribute holds; raise `ValueError` for an unsupported
    type.
    """
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        return encoder(value)
    for kind, encoder in _ENCODERS_BY_BASE:
        if isinstance(value, kind):
            return encoder(value)
    raise ValueError(
        f"values of type {type(value).__name__} cannot be stored in an attribute; use text, numbers, bytes, "
        "bool, None, dates and times, enums, lists, sets, maps with text keys, or a Document"
    )


def is_absent(value: Any) -> bool:
    """Return True for None and an empty set, which are not written: DynamoDB has no empty set."""
    return value is None or (isinstance(value, (frozenset, set)) and not value)


def encode_key_text(value: Value) -> str:
    """Return a value as text inside a key template; raise `ValueError` for other than text, numbers and
    bool.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return numbers.to_text(value)
    raise ValueError(
        f"invalid key value of type {type(value).__name__}: use text, a number, a time or an enum"
    )


def _encode_mapping(value: Mapping[Any, Any]) -> Value:
    """Encode a map. An empty set is left out, as in an item; None is kept, because a map can hold it."""
    kept = ((name, inner) for name, inner in value.items() if inner is None or not is_absent(inner))
    return {_encode_name(name): encode_value(inner) for name, inner in kept}


def _encode_name(name: Any) -> str:
    """Return the name of a map member as text; raise `ValueError` if it is not text."""
    encoded = encode_value(name)
    if not isinstance(encoded, str):
        raise ValueError(f"invalid name {name!r} of a map member: expected text")
    return encoded


def _encode_sequence(value: Any) -> Value:
    return [encode_value(inner) for inner in value]


def _encode_set(value: Any) -> Value:
    """Encode the elements of a set; raise `ValueError` for an empty one."""
    if not value:
        raise ValueError("an empty set cannot be stored inside a list: leave it out")
    return frozenset(encode_value(inner) for inner in value)  # type: ignore[return-value]


def _keep(value: Any) -> Value:
    return value  # type: ignore[no-any-return]


_ENCODERS: Final[dict[type, Callable[[Any], Value]]] = {
    str: _keep,
    int: _keep,
    bool: _keep,
    bytes: _keep,
    type(None): _keep,
    Decimal: numbers.canonicalize,
    float: lambda value: numbers.canonicalize(Decimal(repr(value))),
    datetime: format_timestamp,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: numbers.canonicalize(Decimal(repr(value.total_seconds()))),
    UUID: str,
    list: _encode_sequence,
    tuple: _encode_sequence,
    dict: _encode_mapping,
    set: _encode_set,
    frozenset: _encode_set,
}
# For subclasses. Enum comes first, because a StrEnum is also a str.
_ENCODERS_BY_BASE: Final[tuple[tuple[type, Callable[[Any], Value]], ...]] = (
    (Enum, lambda value: encode_value(value.value)),
    (BaseModel, lambda value: encode_value(value.model_dump(by_alias=True))),
    (str, str),
    (int, int),
    (datetime, format_timestamp),
    (Mapping, _encode_mapping),
)
