"""How Python values become attribute values and key texts. There is one encoder, for both.

Pydantic dumps a field to Python objects; `encode` turns those into the plain values of `operations.values`.
Times are UTC texts of one width, so that they sort as they follow each other: `2026-02-04T01:00:00.000000Z`.
`Milliseconds`, `Seconds` and `EpochSeconds` are the other forms that documents ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, PlainSerializer

from holdfast.model.annotations import key_tag, serialisers
from holdfast.operations import numbers
from holdfast.operations.values import Value


def timestamp(moment: datetime) -> str:
    """`2026-02-04T01:00:00.000000Z`: the form in which a `datetime` is kept."""
    return _utc(moment).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def timestamp_in_milliseconds(moment: datetime) -> str:
    """`2026-02-04T01:00:00.000Z`. What is below a thousandth is refused: it would be lost without a word."""
    if moment.microsecond % 1000:
        raise ValueError(
            f"{moment.isoformat()} has a fraction of a millisecond, and is kept in whole ones: round it"
        )
    return _utc(moment).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def timestamp_in_seconds(moment: datetime) -> str:
    """`2026-02-04T01:00:00Z`. What is below a second is refused: it would be lost without a word."""
    if moment.microsecond:
        raise ValueError(
            f"{moment.isoformat()} has a fraction of a second, and is kept in whole seconds: round it"
        )
    return _utc(moment).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def epoch_seconds(moment: datetime) -> int:
    """Whole seconds since 1970, the form of a time-to-live."""
    return int(_utc(moment).timestamp())


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(
            f"{moment.isoformat()} has no time zone: say which, as datetime(…, tzinfo=UTC), or ask the clock"
        )
    return moment.astimezone(UTC)


def _from_epoch(value: Any) -> Any:
    is_number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    return datetime.fromtimestamp(float(value), UTC) if is_number else value


Milliseconds = Annotated[datetime, PlainSerializer(timestamp_in_milliseconds)]
Seconds = Annotated[datetime, PlainSerializer(timestamp_in_seconds)]
EpochSeconds = Annotated[datetime, BeforeValidator(_from_epoch), PlainSerializer(epoch_seconds)]


def keeps_seconds(annotation: Any) -> bool:
    """Whether an attribute of this type can be the end of a life: a number, or a form of its own that may be one."""
    functions = set(serialisers(annotation))
    return key_tag(annotation) == "N" or bool(functions - {timestamp_in_seconds, timestamp_in_milliseconds})


def encode(value: Any) -> Value:
    """A dumped value as an attribute holds it."""
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        return encoder(value)
    for kind, encoder in _ENCODERS_BY_BASE:
        if isinstance(value, kind):
            return encoder(value)
    raise ValueError(
        f"a value of Python type {type(value).__name__} cannot be kept in an attribute; use text, numbers, bytes, "
        "bool, None, dates and times, enums, lists, sets, maps with text keys, or a Document"
    )


def is_absent(value: Any) -> bool:
    """Neither None nor an empty set is written: DynamoDB has no empty set, and absence is what sparse keys see."""
    return value is None or (isinstance(value, (frozenset, set)) and not value)


def key_text(value: Value) -> str:
    """A value inside a key template."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return numbers.text(value)
    raise ValueError(
        f"a {type(value).__name__} cannot be part of a key: use text, a number, a time or an enum"
    )


def _mapping(value: Mapping[Any, Any]) -> Value:
    """An empty set is left out of a map, as it is out of an item. None is kept: a map can hold it."""
    kept = ((name, inner) for name, inner in value.items() if inner is None or not is_absent(inner))
    return {_name(name): encode(inner) for name, inner in kept}


def _name(name: Any) -> str:
    encoded = encode(name)
    if not isinstance(encoded, str):
        raise ValueError(f"{name!r} names a member of a map: names are text")
    return encoded


def _sequence(value: Any) -> Value:
    return [encode(inner) for inner in value]


def _set(value: Any) -> Value:
    if not value:
        raise ValueError("an empty set cannot be kept inside a list: leave it out")
    return frozenset(encode(inner) for inner in value)  # type: ignore[return-value]


def _same(value: Any) -> Value:
    return value  # type: ignore[no-any-return]


_ENCODERS: Final[dict[type, Callable[[Any], Value]]] = {
    str: _same,
    int: _same,
    bool: _same,
    bytes: _same,
    type(None): _same,
    Decimal: numbers.canonical,
    float: lambda value: numbers.canonical(Decimal(repr(value))),
    datetime: timestamp,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: numbers.canonical(Decimal(repr(value.total_seconds()))),
    UUID: str,
    list: _sequence,
    tuple: _sequence,
    dict: _mapping,
    set: _set,
    frozenset: _set,
}
# For subclasses; an enum comes first, because a StrEnum is also a str.
_ENCODERS_BY_BASE: Final[tuple[tuple[type, Callable[[Any], Value]], ...]] = (
    (Enum, lambda value: encode(value.value)),
    (BaseModel, lambda value: encode(value.model_dump(by_alias=True))),
    (str, str),
    (int, int),
    (datetime, timestamp),
    (Mapping, _mapping),
)
