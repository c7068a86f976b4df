"""Updates in memory: writes and refusals, versions, lifetimes, items created by an update, deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import Field

from holdfast import Attr, Document, Entity, IndexKey, Key, Lifetime, Table, Update, attr
from holdfast.core.errors import ConditionFailed, InvalidRequest
from tests.background_work import stop_background_work
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores

# Far ahead, because expired items are soon removed.
NOW = datetime(2126, 2, 4, 12, tzinfo=UTC)


class Kind(StrEnum):
    train = "train"
    plane = "plane"


class Place(Document):
    city: str
    gates: list[str] = Field(default_factory=list)


trips = Table("Trips", partition="PK", sort="SK", ttl="endsAt")
by_kind = trips.global_index("by-kind", "GSI1PK", "GSI1SK")
by_place = trips.global_index("by-place", "GSI2PK", "GSI2SK")


def city(place: Place) -> str:
    return place.city


class Trip(Entity, table=trips):
    owner: Attr[str] = attr()
    number: Attr[int] = attr()
    kind: Attr[Kind] = attr(default=Kind.train)
    created: Attr[datetime | None] = attr(default=None)
    legs: Attr[int] = attr(default=0)
    price: Attr[Decimal] = attr(default=Decimal(0))
    place: Attr[Place | None] = attr(default=None)
    stops: Attr[list[str]] = attr(default_factory=list)
    tags: Attr[frozenset[str]] = attr(default=frozenset())
    note: Attr[str | None] = attr(default=None)
    version: Attr[int] = attr(default=1)

    of = Key("TRIP#" + owner, "N#" + number.zero_pad(4))
    of_kind = IndexKey(by_kind, "KIND#" + kind + "#" + legs, "N#" + number.zero_pad(4))
    at_place = IndexKey(by_place, "PLACE#" + place.transform(city), owner)
    lives = Lifetime(created, timedelta(days=1))


@pytest.fixture
def stores() -> Iterator[BlockingStores]:
    with open_blocking_stores(trips, plain, counted) as opened:
        yield opened


days = Table("Days", partition="PK", sort="SK")
by_hour = days.global_index("by-hour", "GSI1PK", "GSI1SK")


def day(moment: datetime) -> str:
    """Return the date of a time as text."""
    return moment.date().isoformat()


class Visit(Entity, table=days):
    """An entity whose index key needs `at`, while its primary key contains only the day."""

    who: Attr[str] = attr()
    at: Attr[datetime] = attr()
    room: Attr[str] = attr(default="1")

    of = Key("DAY#" + at.transform(day), "WHO#" + who)
    of_room = IndexKey(by_hour, "ROOM#" + room, at + "#" + who)


def test_current_value_completes_an_index_key() -> None:
    change = Visit.of("2126-02-04").update("ada").set(Visit.room, "2")
    with pytest.raises(
        InvalidRequest, match=r"pass the current value of at with with_current\(Visit.at, …\)\. An update"
    ):
        change.compute_key_changes()
    with pytest.raises(InvalidRequest, match="it gives PK as 'DAY#2126-02-05'"):
        change.with_current(Visit.at, NOW + timedelta(days=1)).compute_key_changes()

    with open_blocking_stores(days) as stores:
        stores.run(Visit.put(Visit(who="ada", at=NOW)))
        stores.run(change.with_current(Visit.at, NOW))
        assert [each.who for each in stores.run(Visit.of_room("2").at(NOW))] == ["ada"]


def test_creating_update_writes_the_current_values_of_its_key() -> None:
    with open_blocking_stores(days) as stores:
        change = Visit.of("2126-02-04").update("ada").set(Visit.room, "2").with_current(Visit.at, NOW)
        assert stores.run(change.or_create()) == Visit(who="ada", at=NOW, room="2")


def _change() -> Update[Trip]:
    """Return an empty update of trip 7."""
    return Trip.of("o").update(7)


def _item(stores: BlockingStores) -> dict[str, Any]:
    """Return the stored item of trip 7; fail if there is none."""
    item = stores.get_item(trips, PK="TRIP#o", SK="N#0007")
    assert item is not None
    return item


def test_update_returns_the_updated_entity(stores: BlockingStores) -> None:
    stores.run(Trip.put(Trip(owner="o", number=7, note="x", price=Decimal("1.5"))))
    changed = stores.run(
        _change()
        .add(Trip.price, Decimal("0.25"))
        .append(Trip.stops, "a", "b")
        .add_to_set(Trip.tags, "x", "y")
        .set_if_absent(Trip.note, "unseen")
    )

    assert changed == stores.run(Trip.of("o").get(7))
    assert (changed.price, changed.stops, changed.tags) == (
        Decimal("1.75"),
        ["a", "b"],
        frozenset({"x", "y"}),
    )
    assert changed.note == "x"


def test_a_document_is_changed_at_one_place(stores: BlockingStores) -> None:
    """Unless an index key is computed from the document: that is refused."""
    stores.run(Trip.put(Trip(owner="o", number=7)))
    refused = _change().set(Trip.place.at(lambda place: place.city), "Oslo")
    with pytest.raises(InvalidRequest, match="set place to a known value"):
        stores.run(refused)

    stores.run(Plain.put(Plain(id="1", place=Place(city="Oslo", gates=["1"]))))
    change = Plain.of("1").update()
    changed = stores.run(
        change.set(Plain.place.at(lambda place: place.city), "Bern").append(
            Plain.place.at(lambda place: place.gates), "2"
        )
    )
    assert changed.place == Place(city="Bern", gates=["1", "2"])


def test_keys_are_written_with_their_attributes(stores: BlockingStores) -> None:
    stores.run(Trip.put(Trip(owner="o", number=7)))
    stores.run(_change().set(Trip.kind, Kind.plane).set(Trip.legs, 2).set(Trip.place, Place(city="Oslo")))

    item = _item(stores)
    assert (item["GSI1PK"], item["GSI1SK"]) == ("KIND#plane#2", "N#0007")
    assert (item["GSI2PK"], item["GSI2SK"]) == ("PLACE#Oslo", "o")
    assert [trip.number for trip in stores.run(Trip.at_place("Oslo").at("o"))] == [7]


REFUSED: list[tuple[Update[Trip], str]] = [
    (
        _change().set(Trip.kind, Kind.plane),
        "the index by-kind is computed from kind, legs and number: also set legs",
    ),
    (_change().add(Trip.legs, 1).set(Trip.kind, Kind.plane), "set legs to a known value"),
    (_change().add(Trip.legs, 1), "set legs to a known value; also set kind"),
    (
        _change().set(Trip.owner, "p"),
        "Invalid change of owner: it is part of the primary key of Trip",
    ),
    (_change().set(Trip.number, 8), "Invalid change of number: it is part of the primary key"),
    (_change().set(Trip.place.at(lambda place: place.city), "Oslo"), "set place to a known value"),
    (_change().append(Trip.place.at(lambda place: place.gates), "2"), "set place to a known value"),
    (_change().set_if_absent(Trip.created, NOW), "Missing created: the lifetime of Trip"),
]


@pytest.mark.parametrize(("update", "message"), REFUSED, ids=[message[-40:] for _, message in REFUSED])
def test_an_update_that_cannot_write_its_keys_is_refused(
    stores: BlockingStores, update: Update[Trip], message: str
) -> None:
    stores.run(Trip.put(Trip(owner="o", number=7)))
    before = _item(stores)

    with pytest.raises(InvalidRequest, match=message):
        stores.run(update)
    with pytest.raises(InvalidRequest, match=message):
        update.with_pattern("P1")
    assert _item(stores) == before


def test_rejects_removing_a_required_attribute() -> None:
    attribute: Any = Trip.kind
    with pytest.raises(InvalidRequest, match=r"Invalid remove\(Trip\.kind\): the attribute is required"):
        _change().remove(attribute)


def test_a_set_without_elements_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"Missing elements for Trip\.tags"):
        _change().add_to_set(Trip.tags)


TWICE: list[Callable[[], object]] = [
    lambda: _change().set(Trip.note, "a").set(Trip.note, "b"),
    lambda: _change().set(Trip.price, Decimal(1)).add(Trip.price, Decimal(1)),
    lambda: _change().add_to_set(Trip.tags, "a").remove_from_set(Trip.tags, "b"),
    lambda: _change().set(Trip.version, 5).at_version(Trip.version, 1),
    lambda: _change().remove(Trip.place).set(Trip.place.at(lambda place: place.city), "Oslo"),
]


@pytest.mark.parametrize("build", TWICE)
def test_rejects_changing_an_attribute_twice(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidRequest, match=r"Trip\.\S+ is changed twice in one update"):
        build()


def test_two_places_of_one_document_can_be_changed_together(stores: BlockingStores) -> None:
    stores.run(Plain.put(Plain(id="1", place=Place(city="Oslo", gates=["1", "2"]))))
    gates = Plain.place.at(lambda place: place.gates)

    changed = stores.run(
        Plain.of("1")
        .update()
        .set(gates.at(lambda gates: gates[0]), "x")
        .set(gates.at(lambda gates: gates[1]), "y")
    )

    assert changed.place == Place(city="Oslo", gates=["x", "y"])


def test_rejects_none_as_a_value() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match=r"None is not stored. Use \.exists\(\)"):
        _change().set(Trip.note, nothing)
    with pytest.raises(TypeError, match="None is not stored"):
        assert Trip.note == nothing


def test_a_condition_that_fails_carries_the_item(stores: BlockingStores) -> None:
    stores.run(Trip.put(Trip(owner="o", number=7, note="x")))
    with pytest.raises(ConditionFailed) as refused:
        stores.run(_change().set(Trip.note, "y").when(Trip.note == "z"))

    assert refused.value.item is not None
    assert Trip.from_item(dict(refused.value.item)).note == "x"


plain = Table("Plain", partition="id")


class Plain(Entity, table=plain):
    id: Attr[str] = attr()
    place: Attr[Place | None] = attr(default=None)
    hits: Attr[int] = attr(default=0)

    of = Key(id)


counted = Table("Counted", partition="PK", sort="SK", ttl="gone")
by_unit = counted.global_index("by-unit", "GSI1PK", "GSI1SK")
by_state = counted.global_index("by-state", "GSI2PK", "GSI2SK")


class Counted(Entity, table=counted):
    what: Attr[str] = attr()
    unit: Attr[str] = attr()
    hits: Attr[int] = attr(default=0)
    title: Attr[str] = attr()
    state: Attr[Kind] = attr(default=Kind.train)
    seen: Attr[datetime | None] = attr(default=None)

    of = Key("C#" + what, "U#" + unit)
    of_unit = IndexKey(by_unit, "U#" + unit, what)
    of_state = IndexKey(by_state, "S#" + state, what)
    lives = Lifetime(seen, timedelta(days=1))


def test_update_can_create_the_item_with_all_its_keys(stores: BlockingStores) -> None:
    made = stores.run(
        Counted.of("a")
        .update("u")
        .set(Counted.title, "x")
        .set(Counted.state, Kind.plane)
        .add(Counted.hits, 2)
        .or_create()
    )

    assert made == Counted(what="a", unit="u", title="x", state=Kind.plane, hits=2)
    assert stores.get_item(counted, PK="C#a", SK="U#u") == made.to_item()
    assert [each.what for each in stores.run(Counted.of_unit("u").query())] == ["a"]


def test_creating_update_changes_an_existing_item(stores: BlockingStores) -> None:
    there = Counted(what="a", unit="u", title="x", seen=NOW, hits=1)
    stores.run(Counted.put(there))
    change = Counted.of("a").update("u").set(Counted.title, "y").set(Counted.state, Kind.plane)

    changed = stores.run(change.add(Counted.hits, 1).or_create())

    assert changed == there.model_copy(update={"title": "y", "state": Kind.plane, "hits": 2})
    assert stores.get_item(counted, PK="C#a", SK="U#u") == changed.to_item()


def test_rejects_an_update_that_would_create_an_unreadable_item(stores: BlockingStores) -> None:
    with pytest.raises(InvalidRequest, match="Missing title: .* Set every attribute without a default"):
        stores.run(Counted.of("a").update("u").set(Counted.state, Kind.plane).or_create())
    assert stores.get_item(counted, PK="C#a", SK="U#u") is None


def test_rejects_an_update_that_would_create_an_unindexed_item(stores: BlockingStores) -> None:
    with pytest.raises(
        InvalidRequest, match="may create a Counted, and the key of the index by-state .* set state"
    ):
        stores.run(Counted.of("a").update("u").set(Counted.title, "x").or_create())
    assert stores.get_item(counted, PK="C#a", SK="U#u") is None


# --- lifetimes ----------------------------------------------------------------------------------------------


def test_expiry_follows_its_attribute_through_updates(stores: BlockingStores) -> None:
    stores.run(Trip.put(Trip(owner="o", number=7)))
    assert "endsAt" not in _item(stores)

    stores.run(_change().set(Trip.created, NOW))
    assert _item(stores)["endsAt"] == int((NOW + timedelta(days=1)).timestamp())

    stores.run(_change().remove(Trip.created))
    assert "endsAt" not in _item(stores)


class FakeClock:
    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment.timestamp()


def test_expired_item_is_not_read_before_its_removal() -> None:
    clock = FakeClock(NOW)
    with open_blocking_stores(trips, clock=clock) as stores:
        stores.run(Trip.put(Trip(owner="o", number=7, created=NOW)))
        assert stores.run(Trip.of("o").get(7)) is not None

        stop_background_work(stores.stores.tables)
        clock.moment = NOW + timedelta(days=1, seconds=1)
        assert stores.run(Trip.of("o").get(7)) is None
        assert list(stores.run(Trip.of("o").query())) == []
        assert list(stores.run(Trip.scan(reason="a test"))) == []
