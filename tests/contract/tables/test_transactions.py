"""TransactWriteItems and TransactGetItems on every tables engine: all or nothing, reasons and tokens."""

from __future__ import annotations

import uuid

import pytest

from holdfast.core.errors import IdempotencyMismatch, InvalidRequest, NotFound, TransactionCancelled
from holdfast.operations.tables import (
    ConditionCheck,
    DeleteItem,
    GetItem,
    PutItem,
    Scan,
    TransactGet,
    TransactGetItems,
    TransactWriteItems,
    UpdateItem,
)
from holdfast.operations.values import Item

from .store import Store, condition, projection, update


@pytest.fixture
def name(store: Store) -> str:
    """Create a table with the items `a`, `b` and `c`."""
    made = store.create("pk:S")
    store.put(made, {"pk": "a", "n": 1}, {"pk": "b", "n": 2}, {"pk": "c", "n": 3})
    return made


def item_of(store: Store, name: str, key: str) -> Item | None:
    return store.run(GetItem(table=name, key={"pk": key}, consistent=True)).item


def test_all_actions_of_a_transaction_happen(store: Store, name: str) -> None:
    store.run(
        TransactWriteItems(
            actions=(
                PutItem(table=name, item={"pk": "new"}, condition=condition("attribute_not_exists(pk)")),
                UpdateItem(table=name, key={"pk": "a"}, update=update("ADD n :ten", ten=10)),
                DeleteItem(table=name, key={"pk": "b"}, condition=condition("n = :two", two=2)),
                ConditionCheck(name, {"pk": "c"}, condition("n = :three", three=3)),
            )
        )
    )
    found = {item["pk"]: item for item in store.run(Scan(table=name)).items or ()}
    assert found == {"new": {"pk": "new"}, "a": {"pk": "a", "n": 11}, "c": {"pk": "c", "n": 3}}


def test_failed_condition_cancels_the_transaction_and_names_its_action(store: Store, name: str) -> None:
    with pytest.raises(TransactionCancelled) as cancelled:
        store.run(
            TransactWriteItems(
                actions=(
                    PutItem(table=name, item={"pk": "new"}),
                    UpdateItem(
                        table=name,
                        key={"pk": "a"},
                        update=update("SET n = :x", x=0),
                        condition=condition("n = :two", two=2),
                        returns_on_failure="ALL_OLD",
                    ),
                    ConditionCheck(name, {"pk": "b"}, condition("n = :three", three=3)),
                )
            )
        )
    reasons = cancelled.value.reasons
    assert [reason.code for reason in reasons] == ["None", "ConditionalCheckFailed", "ConditionalCheckFailed"]
    assert [reason.message for reason in reasons] == [None, *["The conditional request failed"] * 2]
    assert [reason.item for reason in reasons] == [None, {"pk": "a", "n": 1}, None]
    assert item_of(store, name, "new") is None
    assert item_of(store, name, "a") == {"pk": "a", "n": 1}


def test_a_repeat_with_the_same_token_has_no_second_effect(store: Store, name: str) -> None:
    operation = TransactWriteItems(
        actions=(UpdateItem(table=name, key={"pk": "a"}, update=update("ADD n :one", one=1)),),
        token=str(uuid.uuid4()),
    )

    store.run(operation)
    store.run(operation)
    assert item_of(store, name, "a") == {"pk": "a", "n": 2}


def test_one_token_with_another_transaction_is_refused(store: Store, name: str) -> None:
    token = str(uuid.uuid4())
    store.run(TransactWriteItems(actions=(PutItem(table=name, item={"pk": "x"}),), token=token))

    with pytest.raises(IdempotencyMismatch):
        store.run(TransactWriteItems(actions=(PutItem(table=name, item={"pk": "y"}),), token=token))
    assert item_of(store, name, "y") is None


def test_without_a_token_a_repeat_is_another_transaction(store: Store, name: str) -> None:
    add = UpdateItem(table=name, key={"pk": "a"}, update=update("ADD n :one", one=1))

    store.run(TransactWriteItems(actions=(add,)))
    store.run(TransactWriteItems(actions=(add,)))
    assert item_of(store, name, "a") == {"pk": "a", "n": 3}


def test_reads_items_at_one_moment_in_request_order(store: Store, name: str) -> None:
    result = store.run(
        TransactGetItems(
            gets=(
                TransactGet(name, {"pk": "b"}, projection("n")),
                TransactGet(name, {"pk": "absent"}),
                TransactGet(name, {"pk": "a"}),
            )
        )
    )
    assert result.items == ({"n": 2}, None, {"pk": "a", "n": 1})
    assert result.capacity == ()


def test_one_item_twice_in_a_transaction_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(
            TransactWriteItems(
                actions=(PutItem(table=name, item={"pk": "x"}), DeleteItem(table=name, key={"pk": "x"}))
            )
        )


def test_invalid_update_is_a_cancellation_reason(store: Store, name: str) -> None:
    store.put(name, {"pk": "text", "n": "text"})

    with pytest.raises(TransactionCancelled) as cancelled:
        store.run(
            TransactWriteItems(
                actions=(
                    PutItem(table=name, item={"pk": "new"}),
                    UpdateItem(table=name, key={"pk": "text"}, update=update("ADD n :one", one=1)),
                )
            )
        )
    assert [reason.code for reason in cancelled.value.reasons] == ["None", "ValidationError"]
    assert item_of(store, name, "new") is None


@pytest.mark.parametrize("count", [0, 101])
def test_none_and_more_than_a_hundred_actions_are_refused(store: Store, name: str, count: int) -> None:
    actions = tuple(PutItem(table=name, item={"pk": f"{n}"}) for n in range(count))

    with pytest.raises(InvalidRequest):
        store.run(TransactWriteItems(actions=actions))


def test_transaction_on_a_missing_table_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.run(TransactWriteItems(actions=(PutItem(table="Nowhere", item={"pk": "a"}),)))
    with pytest.raises(NotFound):
        store.run(TransactGetItems(gets=(TransactGet("Nowhere", {"pk": "a"}),)))
