"""Attribute values of every Python type, in memory: their stored form, and reading them back."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from holdfast import Attr, Document, Entity, EpochSeconds, Key, Table, attr
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.entities import TimestampSeconds, format_timestamp
from holdfast.model.ulids import Ulid
from tests.unit.model.blocking_stores import open_blocking_stores


class Colour(StrEnum):
    red = "red"


class Level(IntEnum):
    high = 3


class Size(Enum):
    small = Decimal("0.5")


class Inner(Document):
    at: TimestampSeconds
    tags: frozenset[str] | None = None


class Tagged(Document):
    tags: frozenset[str] = frozenset()
    note: str | None = None


class Node(Document):
    name: str
    children: list[Node] = Field(default_factory=list)


things = Table("Things", partition="id")


class Thing(Entity, table=things):
    id: Attr[str] = attr()
    text: Attr[str | None] = attr(default=None)
    whole: Attr[int | None] = attr(default=None)
    decimal: Attr[Decimal | None] = attr(default=None)
    floating: Attr[float | None] = attr(default=None)
    flag: Attr[bool | None] = attr(default=None)
    binary: Attr[bytes | None] = attr(default=None)
    colour: Attr[Colour | None] = attr(default=None)
    level: Attr[Level | None] = attr(default=None)
    size: Attr[Size | None] = attr(default=None)
    moment: Attr[datetime | None] = attr(default=None)
    second: Attr[TimestampSeconds | None] = attr(default=None)
    epoch: Attr[EpochSeconds | None] = attr(default=None)
    day: Attr[date | None] = attr(default=None)
    hour: Attr[time | None] = attr(default=None)
    length: Attr[timedelta | None] = attr(default=None)
    uuid: Attr[UUID | None] = attr(default=None)
    ulid: Attr[Ulid | None] = attr(default=None)
    texts: Attr[list[str] | None] = attr(default=None)
    pair: Attr[tuple[str, int] | None] = attr(default=None)
    map: Attr[dict[str, Decimal] | None] = attr(default=None)
    tags: Attr[frozenset[str]] = attr(default=frozenset())
    sets: Attr[list[frozenset[str]] | None] = attr(default=None)
    tagged: Attr[Tagged | None] = attr(default=None)
    levels: Attr[frozenset[Level]] = attr(default=frozenset())
    numbers: Attr[frozenset[Decimal]] = attr(default=frozenset())
    blobs: Attr[frozenset[bytes]] = attr(default=frozenset())
    needed: Attr[frozenset[str]] = attr(default_factory=frozenset)
    inner: Attr[Inner | None] = attr(default=None)
    tree: Attr[Node | None] = attr(default=None)
    small: Attr[Annotated[int, Field(le=5)] | None] = attr(default=None)

    of = Key(id)


NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)
KEPT: list[tuple[str, Any, Any]] = [
    ("text", "", ""),
    ("text", "Zürich #1", "Zürich #1"),
    ("whole", 10**37, 10**37),
    ("decimal", Decimal("1.50"), Decimal("1.5")),
    ("decimal", Decimal("3.00"), 3),
    ("floating", 0.1, Decimal("0.1")),
    ("floating", -2.0, -2),
    ("flag", False, False),
    ("binary", b"\x00\xff", b"\x00\xff"),
    ("colour", Colour.red, "red"),
    ("level", Level.high, 3),
    ("size", Size.small, Decimal("0.5")),
    ("moment", NOON, "2026-02-04T12:00:00.000000Z"),
    ("moment", datetime(2026, 2, 4, 14, tzinfo=timezone(timedelta(hours=2))), "2026-02-04T12:00:00.000000Z"),
    ("moment", NOON.replace(microsecond=7), "2026-02-04T12:00:00.000007Z"),
    ("second", NOON, "2026-02-04T12:00:00Z"),
    ("epoch", NOON, 1770206400),
    ("day", date(2026, 2, 4), "2026-02-04"),
    ("hour", time(9, 5), "09:05:00"),
    ("length", timedelta(minutes=1, microseconds=500_000), Decimal("60.5")),
    ("uuid", UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ("ulid", Ulid("01JCQZ8Y3M0000000000000000"), "01JCQZ8Y3M0000000000000000"),
    ("texts", ["a", "a", ""], ["a", "a", ""]),
    ("texts", [], []),
    ("pair", ("a", 1), ["a", 1]),
    ("map", {"a": Decimal(1)}, {"a": 1}),
    ("tags", frozenset({"a", "b"}), frozenset({"a", "b"})),
    ("levels", frozenset({Level.high}), frozenset({3})),
    ("numbers", frozenset({Decimal("1.0"), Decimal("2.5")}), frozenset({1, Decimal("2.5")})),
    ("blobs", frozenset({b"a"}), frozenset({b"a"})),
    ("inner", Inner(at=NOON), {"at": "2026-02-04T12:00:00Z", "tags": None}),
    (
        "inner",
        Inner(at=NOON, tags=frozenset({"a"})),
        {"at": "2026-02-04T12:00:00Z", "tags": frozenset({"a"})},
    ),
    (
        "tree",
        Node(name="a", children=[Node(name="b")]),
        {"name": "a", "children": [{"name": "b", "children": []}]},
    ),
]


@pytest.mark.parametrize(
    ("name", "value", "stored"), KEPT, ids=[f"{name}-{place}" for place, (name, *_) in enumerate(KEPT)]
)
def test_value_has_one_stored_form_and_reads_back(name: str, value: Any, stored: Any) -> None:
    with open_blocking_stores(things) as stores:
        thing = Thing.model_validate({"id": "1", name: value})
        stores.run(Thing.put(thing))

        assert stores.get_item(things, id="1") == {"id": "1", name: stored}
        assert stores.run(Thing.of("1").get()) == thing


@pytest.mark.parametrize(
    ("name", "value", "stored"), KEPT, ids=[f"{name}-{place}" for place, (name, *_) in enumerate(KEPT)]
)
def test_an_update_stores_a_value_in_the_same_form(name: str, value: Any, stored: Any) -> None:
    with open_blocking_stores(things) as stores:
        stores.run(Thing.put(Thing(id="1")))

        changed = stores.run(Thing.of("1").update().set(getattr(Thing, name), value))

        assert stores.get_item(things, id="1") == {"id": "1", name: stored}
        assert getattr(changed, name) == value


def test_none_and_empty_sets_are_not_written() -> None:
    assert Thing(id="1").to_item() == {"id": "1"}
    assert Thing.from_item({"id": "1"}) == Thing(id="1")


def test_setting_an_empty_set_removes_the_attribute() -> None:
    with open_blocking_stores(things) as stores:
        stores.run(Thing.put(Thing(id="1", tags=frozenset({"a"}))))

        changed = stores.run(Thing.of("1").update().set(Thing.tags, frozenset()))

        assert changed.tags == frozenset()
        assert stores.get_item(things, id="1") == {"id": "1"}


bare = Table("Bare", partition="id")


class Bare(Entity, table=bare):
    """Attributes that are absent when empty, without a default."""

    id: Attr[str] = attr()
    tags: Attr[frozenset[str]] = attr()
    note: Attr[str | None] = attr()

    of = Key(id)


def test_absent_values_read_back_without_a_default() -> None:
    nothing = Bare(id="1", tags=frozenset(), note=None)

    assert Bare.from_item(nothing.to_item()) == nothing


def test_an_empty_set_is_left_out_of_a_document_and_none_is_not() -> None:
    thing = Thing(id="1", tagged=Tagged())

    assert thing.to_item()["tagged"] == {"note": None}
    assert Thing.from_item(thing.to_item()) == thing


def test_setting_an_empty_set_in_a_document_removes_the_member() -> None:
    with open_blocking_stores(things) as stores:
        stores.run(Thing.put(Thing(id="1", tagged=Tagged(tags=frozenset({"a"})))))
        change = Thing.of("1").update().set(Thing.tagged.at(lambda each: each.tags), frozenset())

        assert stores.run(change) == Thing(id="1", tagged=Tagged())


REFUSED: list[tuple[str, Any, str]] = [
    ("moment", datetime(2026, 2, 4, 12), "has no time zone"),
    ("second", NOON.replace(microsecond=1), "fraction of a second"),
    ("epoch", datetime(2026, 2, 4, 12), "has no time zone"),
    ("sets", [frozenset({"a"}), frozenset()], "an empty set cannot be stored inside a list"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_invalid_value_is_refused_with_its_attribute(name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"Invalid {name} .*: .*{message}"):
        Thing.model_validate({"id": "1", name: value}).to_item()
    with pytest.raises(InvalidRequest, match=f"Invalid {name} .*{message}"):
        Thing.of("1").update().set(getattr(Thing, name), value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e200])
def test_a_number_that_no_table_can_hold_is_refused(value: float) -> None:
    with pytest.raises(InvalidRequest):
        Thing(id="1", floating=value).to_item()


def test_a_value_that_the_attribute_does_not_allow_is_refused_in_an_update() -> None:
    with pytest.raises(InvalidRequest, match="Invalid small 9: .*less than or equal to 5"):
        Thing.of("1").update().set(Thing.small, 9)


def test_elements_are_encoded_as_in_the_whole_value() -> None:
    class Log(Entity, table=Table("Log", partition="id")):
        id: Attr[str] = attr()
        times: Attr[list[TimestampSeconds]] = attr(default_factory=list)
        days: Attr[frozenset[TimestampSeconds]] = attr(default=frozenset())
        inner: Attr[Inner | None] = attr(default=None)

        of = Key(id)

    log = Log(id="1", times=[NOON], days=frozenset({NOON}), inner=Inner(at=NOON))
    with open_blocking_stores(*[Log.of("1").get().table]) as stores:
        stores.run(Log.put(Log(id="1", inner=Inner(at=NOON + timedelta(days=1)))))
        stores.run(
            Log.of("1")
            .update()
            .append(Log.times, NOON)
            .add_to_set(Log.days, NOON)
            .set(Log.inner.at(lambda inner: inner.at), NOON)
        )

        assert stores.run(Log.of("1").get()) == log
        assert stores.get_item(Log.of("1").get().table, id="1") == log.to_item()
        found = (
            Log.of("1")
            .query()
            .where(
                Log.times.contains(NOON),
                Log.days.contains(NOON),
                Log.inner.at(lambda inner: inner.at) == NOON,
            )
        )
        assert stores.run(found).items == (log,)


def test_rejects_a_time_without_a_zone_in_an_update_inside_a_document() -> None:
    with pytest.raises(InvalidRequest, match="has no time zone"):
        Thing.of("1").update().set(Thing.inner.at(lambda inner: inner.at), datetime(2026, 2, 4))


@given(st.datetimes(timezones=st.timezones()), st.datetimes(timezones=st.timezones()))
def test_stored_times_have_one_width_and_sort_in_time_order(one: datetime, two: datetime) -> None:
    try:
        first, second = one.astimezone(UTC), two.astimezone(UTC)
    except OverflowError:
        return  # at the ends of the calendar a time zone leads out of it
    assert len(format_timestamp(one)) == len("2026-02-04T01:00:00.000000Z")
    assert (format_timestamp(one) < format_timestamp(two)) == (first < second)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100))
def test_float_reads_back_exactly(value: float) -> None:
    if value != 0 and abs(value) < 1e-100:
        return  # below what DynamoDB can hold
    assert Thing.from_item(Thing(id="1", floating=value).to_item()).floating == value


@pytest.mark.parametrize(
    ("keyword", "suggestion"),
    [
        ("alias", "Did you mean stored="),
        ("defualt", "Did you mean default="),
        ("factory", "Did you mean default_factory="),
        ("ge", r"Attr\[Annotated\[…, Field\(ge=…\)\]\]"),
        ("zzz", "Everything else follows from the type"),
    ],
)
def test_an_unknown_keyword_of_attr_is_refused_with_a_suggestion(keyword: str, suggestion: str) -> None:
    with pytest.raises(DeclarationError, match=rf"Unknown keyword '{keyword}' of attr\(\).*{suggestion}"):
        attr(**{keyword: 1})  # type: ignore[call-overload]
