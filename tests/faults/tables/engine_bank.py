"""A bank of accounts and counters that several clients change at the same time, and its checks.

Money only moves: the sum of the accounts never changes, and every read of all of them at once must see it. A
shared counter is incremented by reading it and writing one more on the condition that it did not change; each
client also has its own counter. In the end the counters must show exactly the increments that succeeded. A
client is a thread, a task or a process:

    python -m tests.faults.tables.engine_bank FILE CLIENT SECONDS

The process prints "ready", waits for a line on its standard input, works for so long and prints its `Tally`
as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, TypeAlias

from holdfast.core.errors import ConditionFailed, TransactionCancelled
from holdfast.operations.expressions.nodes import (
    AddAction,
    AttributeNotExists,
    Compare,
    Literal,
    Or,
    Path,
    Update,
)
from holdfast.operations.expressions.nodes import SetAction as Set
from holdfast.operations.tables import (
    CreateTable,
    GetItem,
    KeyAttribute,
    KeySchema,
    Operation,
    PutItem,
    TableDefinition,
    TransactGet,
    TransactGetItems,
    TransactWriteItems,
    UpdateItem,
)
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

BANK = "bank"
ACCOUNTS = [f"account-{at}" for at in range(6)]
OPENING = 100
SHARED = "shared"

Steps: TypeAlias = Generator[Operation[Any], Any, None]


@dataclass
class Tally:
    """Counts of one client's operations."""

    own: int = 0
    shared: int = 0
    moved: int = 0
    refused: int = 0
    looks: int = 0

    @property
    def work(self) -> int:
        """The number of attempted writes, refused ones included."""
        return self.own + self.shared + self.moved + self.refused


def prepare(tables: EmbeddedTables) -> None:
    """Create the table and the accounts."""
    definition = TableDefinition(
        BANK, (KeyAttribute("pk", "S"),), KeySchema("pk"), billing_mode="PAY_PER_REQUEST"
    )
    tables.run_blocking(CreateTable(definition))
    for account in ACCOUNTS:
        tables.run_blocking(PutItem(BANK, {"pk": account, "n": OPENING}))


def make_steps(client: str, tally: Tally, *, should_continue: Callable[[], bool]) -> Steps:
    """Yield the operations of one client: results are sent back, and errors raised here."""
    random = Random(client)
    while should_continue():
        yield from _increment_own(client, tally)
        yield from _increment_shared(tally)
        yield from _move(random, tally)
        yield from _check_balances(tally)


def _increment_own(client: str, tally: Tally) -> Steps:
    """Add 1 to the client's own counter."""
    yield UpdateItem(BANK, {"pk": client}, Update(adds=(AddAction(Path("n"), 1),)))
    tally.own += 1


def _increment_shared(tally: Tally) -> Steps:
    """Add 1 to the shared counter if it did not change since it was read."""
    found = yield GetItem(BANK, {"pk": SHARED}, consistent=True)
    seen = 0 if found.item is None else found.item["n"]
    unchanged = Or((AttributeNotExists(Path("n")), Compare("=", Path("n"), Literal(seen))))
    update = Update(sets=(Set(Path("n"), Literal(seen + 1)),))
    condition = unchanged if seen == 0 else unchanged.conditions[1]
    try:
        yield UpdateItem(BANK, {"pk": SHARED}, update, condition)
        tally.shared += 1
    except ConditionFailed:
        tally.refused += 1


def _move(random: Random, tally: Tally) -> Steps:
    """Move a random amount between two accounts; an account without enough money refuses."""
    source, target = random.sample(ACCOUNTS, 2)
    amount = random.randint(1, 30)
    enough = Compare(">=", Path("n"), Literal(amount))
    try:
        yield TransactWriteItems(
            (
                UpdateItem(BANK, {"pk": source}, Update(adds=(AddAction(Path("n"), -amount),)), enough),
                UpdateItem(BANK, {"pk": target}, Update(adds=(AddAction(Path("n"), amount),))),
            )
        )
        tally.moved += 1
    except TransactionCancelled as cancelled:
        if [reason.code for reason in cancelled.reasons] != ["ConditionalCheckFailed", "None"]:
            raise
        tally.refused += 1


def _check_balances(tally: Tally) -> Steps:
    """Read all accounts in one transaction and check their sum."""
    found = yield TransactGetItems(tuple(TransactGet(BANK, {"pk": account}) for account in ACCOUNTS))
    balances = [item["n"] for item in found.items]
    assert sum(balances) == OPENING * len(ACCOUNTS), balances
    assert min(balances) >= 0, balances
    tally.looks += 1


def run(steps: Steps, perform: Callable[[Operation[Any]], Any]) -> None:
    """Perform every operation of the steps and send each result, or refusal, back to them."""
    operation = next(steps, None)
    while operation is not None:
        try:
            result = perform(operation)
        except (ConditionFailed, TransactionCancelled) as refusal:
            operation = _get_next_operation(lambda refusal=refusal: steps.throw(refusal))  # type: ignore[misc]
        else:
            operation = _get_next_operation(lambda result=result: steps.send(result))  # type: ignore[misc]


async def run_async(steps: Steps, perform: Callable[[Operation[Any]], Awaitable[Any]]) -> None:
    """Do the same as `run`, with operations that are awaited."""
    operation = next(steps, None)
    while operation is not None:
        try:
            result = await perform(operation)
        except (ConditionFailed, TransactionCancelled) as refusal:
            operation = _get_next_operation(lambda refusal=refusal: steps.throw(refusal))  # type: ignore[misc]
        else:
            operation = _get_next_operation(lambda result=result: steps.send(result))  # type: ignore[misc]


def _get_next_operation(advance: Callable[[], Operation[Any]]) -> Operation[Any] | None:
    """Advance the steps and return the next operation, or None at their end."""
    try:
        return advance()
    except StopIteration:
        return None


def assert_books_balance(tables: EmbeddedTables, tallies: dict[str, Tally]) -> None:
    """Check that nothing was lost and nothing was done twice."""

    def value(key: str) -> Any:
        item = tables.run_blocking(GetItem(BANK, {"pk": key}, consistent=True)).item
        assert item is not None
        return item["n"]

    assert {client: value(client) for client in tallies} == {client: t.own for client, t in tallies.items()}
    assert value(SHARED) == sum(tally.shared for tally in tallies.values())
    assert sum(value(account) for account in ACCOUNTS) == OPENING * len(ACCOUNTS)


def main(path: str, client: str, seconds: str) -> None:
    with open_tables(path) as tables:
        tally = Tally()
        os.write(1, b"ready\n")
        sys.stdin.readline()
        end = time.monotonic() + float(seconds)
        run(make_steps(client, tally, should_continue=lambda: time.monotonic() < end), tables.run_blocking)
    os.write(1, json.dumps(asdict(tally)).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
