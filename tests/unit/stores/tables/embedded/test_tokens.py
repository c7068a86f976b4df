"""Client tokens of the embedded engine: a transaction repeated within ten minutes has no second effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import TransactionCancelled
from holdfast.operations.expressions.nodes import AddAction, AttributeExists, Literal, SetAction, Update
from holdfast.operations.expressions.nodes import Path as AttributePath
from holdfast.operations.tables import (
    ConditionCheck,
    CreateTable,
    DeleteItem,
    GetItem,
    PutItem,
    TransactWriteItems,
    UpdateItem,
)
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.plan.fingerprints import compute_fingerprint, compute_former_fingerprint

from .stepped_engine import SteppedEngine, definition

ONE_MORE = UpdateItem("tab", {"pk": "a"}, Update(adds=(AddAction(AttributePath("n"), 1),)))
TRANSACTION = TransactWriteItems((ONE_MORE,), token="token", fingerprint=b"one more")


def count(engine: SteppedEngine) -> object:
    """Return the counter that the transaction increments, or None before its first."""
    item = engine.run(GetItem("tab", {"pk": "a"})).item
    return None if item is None else item["n"]


@pytest.fixture
def table(engine: SteppedEngine) -> SteppedEngine:
    engine.run(CreateTable(definition()))
    return engine


def test_repeat_has_no_second_effect_and_is_charged_as_a_read(table: SteppedEngine) -> None:
    table.run(TRANSACTION)
    table.clock.moment += 599
    again = table.run(
        TransactWriteItems((ONE_MORE,), token="token", fingerprint=b"one more", capacity="TOTAL")
    )
    assert count(table) == 1
    [capacity] = again.capacity
    assert (capacity.total.read, capacity.total.write) == (2.0, 0.0)


def test_token_expires_after_ten_minutes_even_untrimmed(table: SteppedEngine) -> None:
    table.run(TRANSACTION)
    table.clock.moment += 600
    table.run(TRANSACTION)
    assert count(table) == 2
    table.clock.moment += 599
    table.run(TRANSACTION)
    assert count(table) == 2


def test_expired_tokens_are_trimmed(table: SteppedEngine) -> None:
    table.run(TRANSACTION)
    table.clock.moment += 601
    table.tables.sweep()
    with table.tables.database.read_connection() as connection:
        assert connection.execute("SELECT count(*) FROM tokens").get == 0


def test_cancelled_transaction_does_not_consume_its_token(table: SteppedEngine) -> None:
    condition = AttributeExists(AttributePath("pk"))
    conditional = UpdateItem("tab", {"pk": "a"}, ONE_MORE.update, condition)
    transaction = TransactWriteItems((conditional,), token="token", fingerprint=b"conditional")
    with pytest.raises(TransactionCancelled):
        table.run(transaction)
    table.run(PutItem("tab", {"pk": "a", "n": 10}))
    table.run(transaction)
    table.run(transaction)
    assert count(table) == 11


def test_a_token_outlives_the_process(tmp_path: Path) -> None:
    with open_tables(tmp_path / "t.db") as tables:
        tables.run_blocking(CreateTable(definition()))
        tables.run_blocking(TRANSACTION)
    with open_tables(tmp_path / "t.db") as tables:
        tables.run_blocking(TRANSACTION)
        assert tables.run_blocking(GetItem("tab", {"pk": "a"})).item == {"pk": "a", "n": 1}


def test_the_fingerprint_of_a_kept_token_does_not_change_with_the_code() -> None:
    actions = (
        PutItem("t", {"id": "1"}),
        UpdateItem("t", {"id": "2"}, Update(sets=(SetAction(AttributePath("a"), Literal(1)),))),
        DeleteItem("t", {"id": "3"}),
        ConditionCheck("t", {"id": "4"}, AttributeExists(AttributePath("id"))),
    )

    assert compute_fingerprint(TransactWriteItems(actions)).hex() == (
        "bb5f2e895fb955ef9f6c1b9bb31731b3a4f551a7bc95b12224edd0560d34ceac"
    )
    assert compute_former_fingerprint(TransactWriteItems(actions)).hex() == (
        "a557921895173ab9de7ddc3b2eeaead7596672d2cda3d529fc05fa4a0ad8309a"
    )
