"""Which entity an item is, how its keys are explained, and where it is in the indexes."""

from __future__ import annotations

from holdfast.console.browser.entities import (
    explain_keys,
    find_declaration,
    find_index_places,
    list_key_hints,
)
from holdfast.console.browser.item_masker import ItemMasker
from holdfast.console.masking import Masker
from holdfast.model.entities.declaration import Declaration
from holdfast.operations.values import Item

from .warehouse import Order, build_customer, build_order, by_status, stock


def find(item: Item) -> Declaration:
    found = find_declaration(stock, item)
    assert found is not None
    return found


def test_tells_entities_of_one_table_apart_by_their_keys() -> None:
    assert find(build_order(1)).entity is Order
    assert find(build_customer(1)).entity.__name__ == "Customer"
    assert find({"PK": "EVENTS#o-1", "SK": "2026-11-18T09:00:00Z#1"}).entity.__name__ == "OrderEvent"


def test_an_item_that_cannot_be_read_is_still_of_its_entity() -> None:
    assert find({"PK": "ORDER#o-1", "SK": "ORDER", "count": "many"}).entity is Order


def test_explains_each_key_by_its_template() -> None:
    item = build_order(1)
    declaration = find(item)
    explained = explain_keys(declaration, item, ItemMasker(Masker(), stock, declaration))

    found = {(each.index, each.name): (each.template, each.value) for each in explained}

    assert found["", "PK"] == ("ORDER#{order_id}", "ORDER#o-1")
    assert found["", "SK"] == ("ORDER", "ORDER")
    assert found["by-status", "state"] == ("{state}", "placed")
    assert found["by-status", "placedAt"][0] == "{placed_at}"


def test_finds_the_places_in_the_indexes() -> None:
    order = find_index_places(stock, build_order(1))[-1]
    customer = find_index_places(stock, build_customer(1))[-1]

    assert order.index is customer.index is by_status
    assert order.key == {"state": "placed", "placedAt": build_order(1)["placedAt"]}
    assert customer.key is None


def test_hints_name_what_each_entity_stores_as_key() -> None:
    assert ("Order", "ORDER#{order_id}", "ORDER") in list_key_hints(stock, None)
    assert list_key_hints(stock, by_status) == [("Order", "{state}", "{placed_at}")]
