"""Transactions in memory: all or nothing, harmless when repeated with a token, limited to one store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from holdfast import Attr, Entity, Key, Put, Table, Write, attr, transact
from holdfast.core.errors import (
    CrossStoreTransaction,
    InvalidRequest,
    TransactionCancelled,
)
from holdfast.model.entities import get_declaration
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores

accounts = Table("Accounts", partition="id")


class Account(Entity, table=accounts):
    id: Attr[str] = attr()
    balance: Attr[int] = attr(default=0)
    note: Attr[str | None] = attr(default=None)

    of = Key(id)


@pytest.fixture
def stores() -> Iterator[BlockingStores]:
    """Open stores with account a (10) and account b (0)."""
    with open_blocking_stores(accounts) as opened:
        opened.run(Account.put(Account(id="a", balance=10)))
        opened.run(Account.put(Account(id="b")))
        yield opened


def _balances(stores: BlockingStores) -> dict[str, int]:
    """Return the balance of every account."""
    return {account.id: account.balance for account in stores.all(Account.scan(reason="a test"))}


def _transfer(amount: int) -> tuple[Write[Any], ...]:
    """Return the two writes that move an amount from account a to b, if a has enough."""
    return (
        Account.of("a").update().add(Account.balance, -amount).when(Account.balance >= amount),
        Account.of("b").update().add(Account.balance, amount),
    )


def test_failed_condition_applies_no_write(stores: BlockingStores) -> None:
    with pytest.raises(TransactionCancelled) as refused:
        stores.transact(*_transfer(40))

    assert [reason.code for reason in refused.value.reasons] == ["ConditionalCheckFailed", "None"]
    assert refused.value.reasons[0].item is not None
    assert _balances(stores) == {"a": 10, "b": 0}


def test_an_update_of_an_absent_item_cancels_the_transaction(stores: BlockingStores) -> None:
    with pytest.raises(TransactionCancelled):
        stores.transact(Account.put(Account(id="c")), Account.of("d").update().set(Account.note, "x"))
    assert _balances(stores) == {"a": 10, "b": 0}


def test_condition_check_decides_the_transaction(stores: BlockingStores) -> None:
    write = Account.put(Account(id="c"))
    stores.transact(write, Account.of("a").check())
    stores.transact(write, Account.of("a").check().when(Account.balance == 10))
    for check in (Account.of("nobody").check(), Account.of("a").check().when(Account.balance == 11)):
        with pytest.raises(TransactionCancelled):
            stores.transact(Account.put(Account(id="d")), check)

    assert _balances(stores) == {"a": 10, "b": 0, "c": 0}


def test_a_check_alone_is_refused(stores: BlockingStores) -> None:
    with pytest.raises(InvalidRequest, match="A check runs only inside a transaction"):
        stores.run(Account.of("a").check())


class Send(Put[Account]):
    """A write of another store."""

    store: ClassVar[str] = "queues"


def test_a_transaction_on_two_stores_is_refused_and_names_the_outbox() -> None:
    with pytest.raises(
        CrossStoreTransaction, match=r"one store, got tables and queues\. .* outbox"
    ) as refused:
        transact(Account.put(Account(id="c")), Send(get_declaration(Account), Account(id="d")))

    assert refused.value.stores == ("tables", "queues")


def test_a_transaction_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="pass at least one write"):
        transact()


def test_rejects_an_oversized_transaction() -> None:
    with pytest.raises(InvalidRequest, match="101, and at most 100 are allowed"):
        transact(*(Account.put(Account(id=str(number))) for number in range(101)))


@pytest.mark.parametrize("token", ["", "x" * 37])
def test_rejects_an_invalid_token(token: str) -> None:
    with pytest.raises(InvalidRequest, match="expected 1 to 36"):
        transact(Account.put(Account(id="a")), token=token)


@pytest.mark.parametrize("wrong", [Account.of("a").get(), Account.of("a").query(), Account(id="a")])
def test_rejects_a_read_in_a_transaction(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="expected writes and checks only"):
        transact(wrong)
