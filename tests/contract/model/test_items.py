"""Entities on every tables engine: put, get, update, delete, conditions, expiry and transactions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest

from holdfast.core.errors import ConditionFailed, IdempotencyMismatch, InvalidRequest, TransactionCancelled
from tests.contract.model.conftest import OpenStores
from tests.contract.model.entities import FAR_AHEAD, Address, Board, Counter, State, Ticket, counters, desk

TICKET = Ticket(
    board="b#1",
    number=7,
    state=State.waiting,
    agent="Zoë",
    rank=Decimal("1.50"),
    address=Address(city="Oslo", lines=["a", ""]),
    notes=["x"],
    tags=frozenset({"red", "blue"}),
    seal=b"\x00\xff",
)


def test_reads_back_a_put_item(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Ticket.put(TICKET))

    assert stores.run(Ticket.of("b#1").get(7).consistent()) == TICKET
    assert stores.get_item(desk, PK="BOARD#b%231", SK="TICKET#000007") == TICKET.to_item()
    assert stores.run(Ticket.of("b#1").get(8)) is None


def test_create_refuses_an_existing_item_and_put_replaces_it(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Ticket.create(TICKET))
    with pytest.raises(ConditionFailed) as refused:
        stores.run(Ticket.create(TICKET.model_copy(update={"notes": []})))
    assert refused.value.item is not None and Ticket.from_item(dict(refused.value.item)) == TICKET

    stores.run(Ticket.put(TICKET.model_copy(update={"notes": []})))
    found = stores.run(Ticket.of("b#1").get(7))
    assert found is not None and found.notes == []


def test_update_changes_named_attributes_and_returns_the_item(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Ticket.put(TICKET))

    changed = stores.run(
        Ticket.of("b#1")
        .update(7)
        .set(Ticket.state, State.done)
        .append(Ticket.notes, "y", "z")
        .remove_from_set(Ticket.tags, "red")
        .set(Ticket.address.at(lambda address: address.city), "Bern")
        .remove(Ticket.agent)
        .set_if_absent(Ticket.rank, Decimal(9))
        .when(Ticket.state != State.done, Ticket.tags.contains("red"))
        .at_version(Ticket.version, 1)
    )

    assert changed == TICKET.model_copy(
        update={
            "state": State.done,
            "notes": ["x", "y", "z"],
            "tags": frozenset({"blue"}),
            "address": Address(city="Bern", lines=["a", ""]),
            "agent": None,
            "version": 2,
        }
    )
    assert stores.get_item(desk, PK="BOARD#b%231", SK="TICKET#000007") == changed.to_item()


def test_removing_all_elements_of_a_set_leaves_an_empty_set(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Ticket.put(TICKET))

    assert (
        stores.run(Ticket.of("b#1").update(7).remove_from_set(Ticket.tags, "red", "blue")).tags == frozenset()
    )
    assert stores.run(Ticket.of("b#1").update(7).set(Ticket.tags, frozenset())).tags == frozenset()


def test_a_lost_update_is_refused(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Ticket.put(TICKET))
    stores.run(Ticket.of("b#1").update(7).set(Ticket.notes, ["first"]).at_version(Ticket.version, 1))
    with pytest.raises(ConditionFailed):
        stores.run(Ticket.of("b#1").update(7).set(Ticket.notes, ["second"]).at_version(Ticket.version, 1))
    with pytest.raises(ConditionFailed):
        stores.run(Ticket.put(TICKET).at_version(Ticket.version, 1))
    stores.run(Ticket.put(TICKET).at_version(Ticket.version, 2))

    found = stores.run(Ticket.of("b#1").get(7))
    assert found is not None and (found.notes, found.version) == (["x"], 3)


def test_update_of_a_missing_item_is_refused_unless_it_may_create_it(open_stores: OpenStores) -> None:
    stores = open_stores(counters, desk)
    count = Counter.of("c").update(5).add(Counter.value, 2)
    with pytest.raises(ConditionFailed):
        stores.run(count)

    assert [stores.run(count.or_create()).value for _ in range(2)] == [2, 4]
    made = stores.run(Board.of("b").update().set(Board.title, "x").or_create())
    assert made == Board(board="b", title="x")
    assert stores.get_item(desk, PK="BOARD#b", SK="ABOUT") == {
        "PK": "BOARD#b",
        "SK": "ABOUT",
        "board": "b",
        "title": "x",
    }


def test_empty_update_returns_the_item(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Ticket.put(TICKET))

    assert stores.run(Ticket.of("b#1").update(7)) == TICKET


def test_rejects_an_update_whose_index_key_cannot_be_computed(open_stores: OpenStores) -> None:
    """`set_if_absent` may not set an attribute from which an index key is computed."""
    stores = open_stores(desk)
    stores.run(Ticket.put(TICKET))
    with pytest.raises(
        InvalidRequest, match="the index by-day is computed from created: set created to a known value"
    ):
        stores.run(Ticket.of("b#1").update(7).set_if_absent(Ticket.created, FAR_AHEAD))


def test_delete_returns_the_old_item(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Ticket.put(TICKET))
    with pytest.raises(ConditionFailed):
        stores.run(Ticket.of("b#1").delete(7).when(Ticket.state == State.done))

    assert stores.run(Ticket.of("b#1").delete(7)) == TICKET
    assert stores.run(Ticket.of("b#1").delete(7)) is None


def test_keeps_attributes_written_by_other_code(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    newer = TICKET.to_item() | {"colour": "red", "deep": {"er": [1, b"2", None, frozenset({"x"})]}}
    stores.put_item(desk, newer)
    found = stores.run(Ticket.of("b#1").get(7))
    assert found is not None

    stores.run(Ticket.put(found.model_copy(update={"notes": ["changed"]})))

    assert stores.get_item(desk, PK="BOARD#b%231", SK="TICKET#000007") == newer | {"notes": ["changed"]}


def test_writes_the_expiry_and_hides_expired_items(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    ended = datetime.now(UTC) - timedelta(days=31)
    stores.run(Ticket.put(TICKET))
    stores.run(Ticket.put(TICKET.model_copy(update={"number": 8, "created": ended})))

    item = stores.get_item(desk, PK="BOARD#b%231", SK="TICKET#000007")
    assert item is not None and item["endsAt"] == int((FAR_AHEAD + timedelta(days=30)).timestamp())
    assert stores.run(Ticket.of("b#1").get(8)) is None
    assert [ticket.number for ticket in stores.run(Ticket.of("b#1").query())] == [7]


def test_a_transaction_is_all_or_nothing(open_stores: OpenStores) -> None:
    stores = open_stores(desk, counters)
    stores.run(Board.put(Board(board="b", title="x")))
    ticket = Ticket(board="b", number=1)
    count = Board.of("b").update().add(Board.tickets, 1)

    stores.transact(Ticket.create(ticket), count, Counter.of("zz").delete(1))
    with pytest.raises(TransactionCancelled) as refused:
        stores.transact(count, Ticket.create(ticket))
    with pytest.raises(TransactionCancelled):
        stores.transact(count, Ticket.of("b").check(2))
    stores.transact(count, Ticket.of("b").check(1).when(Ticket.state == State.open))

    assert [reason.code for reason in refused.value.reasons] == ["None", "ConditionalCheckFailed"]
    board = stores.run(Board.of("b").get())
    assert board is not None and board.tickets == 2


def test_a_transaction_repeated_with_its_token_has_one_effect(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(Board.put(Board(board="b", title="x")))
    count, token = Board.of("b").update().add(Board.tickets, 1), str(uuid4())
    for _ in range(3):
        stores.transact(count, token=token)

    board = stores.run(Board.of("b").get())
    assert board is not None and board.tickets == 1


def test_rejects_a_token_used_for_another_transaction(open_stores: OpenStores) -> None:
    stores, token = open_stores(desk), str(uuid4())
    stores.transact(Ticket.put(TICKET), token=token)
    with pytest.raises(IdempotencyMismatch):
        stores.transact(Ticket.of("b#1").delete(7), token=token)
