"""Transactions: all or nothing, harmless when repeated, and of one store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from holdfast import Attr, Entity, Key, Table, Write, attr, get_declaration, transact
from holdfast.core.errors import (
    CrossStoreTransaction,
    IdempotencyMismatch,
    InvalidRequest,
    TransactionCancelled,
)
from tests.unit.model.blocking import Blocking, in_memory

accounts = Table("Accounts", partition="id")


class Account(Entity, table=accounts):
    id: Attr[str] = attr()
    balance: Attr[int] = attr(default=0)
    note: Attr[str | None] = attr(default=None)

    of = Key(id)


@pytest.fixture
def stores() -> Iterator[Blocking]:
    with in_memory(accounts) as opened:
        opened.run(Account.put(Account(id="a", balance=10)))
        opened.run(Account.put(Account(id="b")))
        yield opened


def _balances(stores: Blocking) -> dict[str, int]:
    return {account.id: account.balance for account in stores.all(Account.scan(reason="a test"))}


def _moved(amount: int) -> tuple[Write[Any], ...]:
    return (
        Account.of("a").update().add(Account.balance, -amount).when(Account.balance >= amount),
        Account.of("b").update().add(Account.balance, amount),
    )


def test_all_of_it_happens(stores: Blocking) -> None:
    stores.transact(*_moved(4), Account.create(Account(id="c", balance=1)), Account.of("zz").delete())

    assert _balances(stores) == {"a": 6, "b": 4, "c": 1}


def test_or_nothing_of_it(stores: Blocking) -> None:
    with pytest.raises(TransactionCancelled) as refused:
        stores.transact(*_moved(40))

    assert [reason.code for reason in refused.value.reasons] == ["ConditionalCheckFailed", "None"]
    assert refused.value.reasons[0].item is not None
    assert _balances(stores) == {"a": 10, "b": 0}


def test_an_update_of_an_absent_item_cancels_the_transaction(stores: Blocking) -> None:
    with pytest.raises(TransactionCancelled):
        stores.transact(Account.put(Account(id="c")), Account.of("d").update().set(Account.note, "x"))
    assert _balances(stores) == {"a": 10, "b": 0}


def test_a_check_lets_the_others_happen_or_not(stores: Blocking) -> None:
    write = Account.put(Account(id="c"))
    stores.transact(write, Account.of("a").check())
    stores.transact(write, Account.of("a").check().when(Account.balance == 10))
    for check in (Account.of("nobody").check(), Account.of("a").check().when(Account.balance == 11)):
        with pytest.raises(TransactionCancelled):
            stores.transact(Account.put(Account(id="d")), check)

    assert _balances(stores) == {"a": 10, "b": 0, "c": 0}


def test_a_check_alone_is_refused(stores: Blocking) -> None:
    with pytest.raises(InvalidRequest, match="A check runs only inside a transaction"):
        stores.run(Account.of("a").check())


def test_a_repeat_with_the_same_token_has_no_second_effect(stores: Blocking) -> None:
    for _ in range(3):
        stores.transact(*_moved(4), token="move-1")

    assert _balances(stores) == {"a": 6, "b": 4}


def test_a_token_reused_for_something_else_is_refused(stores: Blocking) -> None:
    stores.transact(*_moved(4), token="move-1")
    with pytest.raises(IdempotencyMismatch):
        stores.transact(*_moved(5), token="move-1")


@dataclass(frozen=True)
class Send(Write[None]):
    """A write of another store."""

    store: ClassVar[str] = "queues"
    kind = "SendMessage"


def test_a_transaction_on_two_stores_is_refused_and_names_the_outbox() -> None:
    with pytest.raises(
        CrossStoreTransaction, match=r"one store, got tables and queues\. .* outbox"
    ) as refused:
        transact(Account.put(Account(id="c")), Send(get_declaration(Account)))

    assert refused.value.stores == ("tables", "queues")


def test_a_transaction_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="pass at least one write"):
        transact()


def test_a_transaction_of_more_than_fits_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="101, and at most 100 are allowed"):
        transact(*(Account.put(Account(id=str(number))) for number in range(101)))


@pytest.mark.parametrize("token", ["", "x" * 37])
def test_a_token_that_the_service_does_not_take_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequest, match="expected 1 to 36"):
        transact(Account.put(Account(id="a")), token=token)


@pytest.mark.parametrize("wrong", [Account.of("a").get(), Account.of("a").query(), Account(id="a")])
def test_what_is_no_write_is_refused_in_a_transaction(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="expected writes and checks only"):
        transact(wrong)
