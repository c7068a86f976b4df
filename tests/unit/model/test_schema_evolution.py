"""Items that other versions of the code wrote, in memory: what is kept, defaulted or refused when read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

import pytest
from pydantic import Field

from holdfast import Attr, Document, Entity, IndexKey, Key, Table, attr
from holdfast.core.errors import InvalidRequest, ItemUnreadable
from holdfast.operations.values import Item
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores


class Line(Document):
    sku: str
    count: int = 1


class Address(Document):
    city: str = ""
    lines: list[Line] = Field(default_factory=list)
    by_name: dict[str, Line] = Field(default_factory=dict)


class Inner(Document):
    at: datetime | None = None
    more: list[Inner] = Field(default_factory=list)


orders = Table("Orders", partition="PK", ttl="expires")
by_state = orders.global_index("by-state", "GSI1PK", "GSI1SK")


class Order(Entity, table=orders):
    id: Attr[str] = attr()
    state: Attr[str] = attr()
    note: Attr[str | None] = attr(default=None)
    address: Attr[Address | None] = attr(default=None)
    version: Attr[int] = attr(default=1)

    of = Key("ORDER#" + id)
    of_state = IndexKey(by_state, "STATE#" + state, id)


NEWER: Item = {
    "PK": "ORDER#1",
    "GSI1PK": "STATE#new",
    "GSI1SK": "1",
    "GSI9PK": "FUTURE#1",
    "id": "1",
    "state": "new",
    "expires": 4_900_000_000,
    "version": 3,
    "colour": "red",
    "weights": frozenset({1, Decimal("2.5")}),
    "nothing": None,
    "blob": b"\x00",
    "address": {
        "city": "Oslo",
        "zip": "0150",
        "floor": None,
        "codes": frozenset({"a"}),
        "lines": [{"sku": "A", "count": 2, "gift": True, "price": Decimal("9.5")}],
        "by_name": {"x": {"sku": "B", "count": 1, "deep": {"er": [1, b"2"]}}},
    },
}


@pytest.fixture
def stores() -> Iterator[BlockingStores]:
    with open_blocking_stores(orders) as opened:
        yield opened


def _read(stores: BlockingStores, item: Item) -> Order:
    """Store the item as it is and read it as an order."""
    stores.put_item(orders, item)
    found = stores.run(Order.of("1").get())
    assert found is not None
    return found


def test_unknown_attributes_are_written_back_unchanged(stores: BlockingStores) -> None:
    order = _read(stores, NEWER)

    stores.run(Order.put(order))

    assert stores.get_item(orders, PK="ORDER#1") == NEWER


def test_changed_copy_keeps_unknown_attributes_at_every_depth(stores: BlockingStores) -> None:
    order = _read(stores, NEWER)
    assert order.address is not None
    moved = order.address.model_copy(update={"city": "Bern"})

    stores.run(Order.put(order.model_copy(update={"state": "paid", "address": moved})))

    address = NEWER["address"]
    assert isinstance(address, dict)
    assert stores.get_item(orders, PK="ORDER#1") == {
        **NEWER,
        "state": "paid",
        "GSI1PK": "STATE#paid",
        "address": {**address, "city": "Bern"},
    }


def test_update_leaves_unnamed_attributes(stores: BlockingStores) -> None:
    stores.put_item(orders, NEWER)

    changed = stores.run(Order.of("1").update().set(Order.note, "x").at_version(Order.version, 3))

    assert stores.get_item(orders, PK="ORDER#1") == {**NEWER, "note": "x", "version": 4}
    assert changed.unknown_attributes["colour"] == "red"


def test_unknown_attributes_can_be_read(stores: BlockingStores) -> None:
    order = _read(stores, NEWER)

    assert set(order.unknown_attributes) == {"colour", "weights", "nothing", "blob", "expires", "GSI9PK"}


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda order: pickle.loads(pickle.dumps(order))])
def test_every_kind_of_copy_is_equal_and_keeps_unknown_attributes(
    stores: BlockingStores, way: object
) -> None:
    order = _read(stores, NEWER)
    assert callable(way)
    other = way(order)

    assert other == order
    assert other.to_item() == NEWER


def test_copy_is_independent_of_its_original(stores: BlockingStores) -> None:
    order = _read(stores, NEWER)
    other = order.model_copy(update={"note": "x"})
    other.keep_unknown({"late": 1})

    assert "late" not in order.unknown_attributes


def test_older_item_gets_defaults(stores: BlockingStores) -> None:
    order = _read(stores, {"PK": "ORDER#1", "id": "1", "state": "new"})

    assert (order.version, order.note, order.address) == (1, None, None)


def test_older_item_names_its_missing_attribute(stores: BlockingStores) -> None:
    stores.put_item(orders, {"PK": "ORDER#1", "id": "1"})
    with pytest.raises(ItemUnreadable, match="state: field required") as refused:
        stores.run(Order.of("1").get())

    assert refused.value.key == {"PK": "ORDER#1"}
    assert refused.value.table == "Orders"


def test_item_with_a_missing_nested_member_names_its_path(stores: BlockingStores) -> None:
    stores.put_item(
        orders, {"PK": "ORDER#1", "id": "1", "state": "new", "address": {"lines": [{"count": 1}]}}
    )
    with pytest.raises(ItemUnreadable, match=r"address\.lines\.0\.sku: field required"):
        stores.run(Order.of("1").get())


def test_a_copy_with_a_misspelt_attribute_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Invalid Order: statee: extra inputs are not permitted"):
        Order(id="1", state="new").model_copy(update={"statee": "paid"})


def test_a_copy_with_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Invalid Order: version: "):
        Order(id="1", state="new").model_copy(update={"version": "many"})


def test_equality_includes_unknown_attributes() -> None:
    item = Order(id="1", state="new").to_item()

    assert Order.from_item(item) == Order(id="1", state="new")
    assert Order.from_item({**item, "colour": "red"}) != Order(id="1", state="new")


events = Table("Events", partition="id", sort="at")


class Event(Entity, table=events):
    id: Attr[str] = attr()
    at: Attr[datetime] = attr()

    of = Key(id, at)


notes = Table("Notes", partition="PK", sort="SK")


class Note(Entity, table=notes):
    id: Attr[str] = attr()
    number: Attr[int] = attr()
    inner: Attr[Inner | None] = attr(default=None)

    of = Key("NOTE#" + id, "N#" + number.zero_pad(4))


def test_rejects_an_item_whose_key_has_another_form() -> None:
    with open_blocking_stores(events) as stores:
        stores.put_item(events, {"id": "1", "at": "2026-02-04T01:00:00Z"})
        with pytest.raises(ItemUnreadable) as refused:
            stores.run(Event.of("1").query())

    assert "at is '2026-02-04T01:00:00Z'" in refused.value.reason
    assert "under '2026-02-04T01:00:00.000000Z', as a second item" in refused.value.reason
    assert "Seconds" in refused.value.reason


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"PK": "NOTE#1", "SK": "N#7"}, "SK is 'N#7'.*under 'N#0007'"),
        ({"PK": "NOTE#2", "SK": "N#0007"}, "PK is 'NOTE#2'.*under 'NOTE#1'"),
    ],
)
def test_rejects_an_item_stored_under_another_key(key: dict[str, str], message: str) -> None:
    with pytest.raises(ItemUnreadable, match=message):
        Note.from_item({**key, "id": "1", "number": 7})


def test_rejects_an_item_whose_key_cannot_be_built() -> None:
    with pytest.raises(ItemUnreadable, match="nothing, because Invalid key value 12345: .* at most 4 digits"):
        Note.from_item({"PK": "NOTE#1", "SK": "N#12345", "id": "1", "number": 12345})


@pytest.mark.parametrize(
    "item",
    [
        {"id": "1", "number": 1, "inner": {"at": "2026-02-04T01:00:00"}},
        {"id": "1", "number": 1, "inner": {"more": [{"at": "2026-02-04T01:00:00"}]}},
    ],
)
def test_a_time_without_a_zone_is_refused_when_it_is_read(item: Item) -> None:
    with pytest.raises(ItemUnreadable, match="inner: 2026-02-04T01:00:00 has no time zone.*BeforeValidator"):
        Note.from_item(item)


def test_a_time_without_a_zone_is_refused_in_a_selection_too() -> None:
    with open_blocking_stores(notes) as stores:
        item = Note(id="1", number=1).to_item()
        stores.put_item(notes, {**item, "inner": {"at": "2026-02-04T01:00:00"}})
        (row,) = stores.run(Note.of("1").query().select(Note.inner))
        with pytest.raises(ItemUnreadable, match="has no time zone"):
            row[Note.inner]


def test_rejects_a_document_copy_with_an_unknown_attribute() -> None:
    read = Address.model_validate({"city": "Oslo", "zip": "0150"})

    assert read.model_copy(update={"city": "Bergen", "zip": "5003"}).model_extra == {"zip": "5003"}
    with pytest.raises(
        InvalidRequest, match="Address has no member flor: expected city, lines, by_name and zip"
    ):
        read.model_copy(update={"flor": 3})
    with pytest.raises(InvalidRequest, match="Invalid Address: city: "):
        read.model_copy(update={"city": 3})
    assert read.model_copy() == read
