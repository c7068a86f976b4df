"""A flow with a human approval: an expense waits until a person approves it, however long that takes.

Shows that a wait holds nothing open: the process may end, or be killed, and another one continues the item.

    pip install holdfast-state
    python approval_flow.py request e-1 250    # prints the token that answers
    python approval_flow.py approve e-1 TOKEN  # in another process, hours later
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from holdfast import (
    Attr,
    Component,
    Key,
    Rate,
    Stores,
    System,
    Table,
    WorkerGroup,
    attr,
    open_stores,
    provision,
)
from holdfast.core.errors import Conflict, RequestError, TransactionCancelled
from holdfast.flows import FLOWS, Answer, Flow, FlowItem, Next, State, Step, StepContext, Wait
from holdfast.guarantees import OUTBOX

WEEK_S = 7 * 24 * 3600
expenses = Table("Expenses", partition="expenseId")
steps = Flow.queue("expense-steps")


class Expense(FlowItem, table=expenses):
    expense_id: Attr[str] = attr()
    euros: Attr[int] = attr()
    approver: Attr[str | None] = attr(default=None)

    of = Key(expense_id)


async def check(run: StepContext[Expense]) -> Next:
    return Next("approved" if run.item.euros <= 100 else "waiting")  # a small one needs no approval


def approve(run: StepContext[Expense], given: Mapping[str, Any]) -> Next:
    return Next("approved", {"approver": given["by"]})


async def pay(run: StepContext[Expense]) -> Next:
    return Next("paid")  # call the bank here, with `Once`: a step may run again after a crash


APPROVAL = Wait({"approve": Answer(approve, to=("approved",))}, deadline_s=WEEK_S, deadline_to="rejected")
FLOW = Flow(
    "expense",
    Expense,
    queue=steps,
    prefix="EX",
    rate=Rate(per="expense"),
    example=Expense(expense_id="e-1", euros=250),
    token_secret="expense-token",
    initial_state="requested",
    states=(
        State("requested", Step("Check", check, to=("waiting", "approved"))),
        State("waiting", APPROVAL),
        State("approved", Step("Pay", pay, to=("paid",))),
        State("paid"),
        State("rejected", is_failure=True),
    ),
)


WORKER = Component("worker", uses=(FLOW,), consumers=(FLOW.consumer(),), schedules=FLOW.schedules)
TABLES = (expenses, FLOWS, OUTBOX)
SYSTEM = System("expenses", "Pays expenses", tables=TABLES, components=(WORKER,))


async def main(command: str, expense_id: str, more: str) -> None:
    async with open_stores(SYSTEM) as stores:
        await provision(stores, SYSTEM)
        try:
            if command == "request":
                expense = FLOW.initial(stores, Expense(expense_id=expense_id, euros=int(more)))
                await stores.transact(Expense.create(expense), *FLOW.start_writes(stores, expense))
            else:
                await FLOW.answer(stores, expense_id, "approve", token=more, given={"by": "Bob"})
        except TransactionCancelled:
            sys.exit(f"{expense_id} exists already")
        except (Conflict, RequestError) as refused:
            sys.exit(f"{type(refused).__name__}: {refused}")
        print(await work(stores, expense_id), flush=True)


async def work(stores: Stores, expense_id: str) -> str:
    """Run the steps until the expense waits or is paid, and return what to do next."""
    async with WorkerGroup(stores, [WORKER], wait_s=0.2):
        while True:
            expense = await stores.run(Expense.of(expense_id).get().consistent())
            assert expense is not None
            if expense.flow_state == "waiting":
                return f"{expense_id} waits for: approve {expense_id} {FLOW.make_token(expense)}"
            if expense.flow_state == "paid":
                return f"{expense_id} is paid, approved by {expense.approver or 'the rule'}"
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("request", "approve"):
        sys.exit(__doc__)
    os.environ.setdefault("HOLDFAST_SECRET_EXPENSE_TOKEN", "a long random text")  # signs the tokens
    asyncio.run(main(*sys.argv[1:]))
