"""Statements of SQL really run, in a transaction that is undone: every pattern meets the data as it was."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.model.sql import SqlOperation, SqlTransact
from holdfast.reports.statements import tables_of
from holdfast.runtime import Meter, Stores


@dataclass(frozen=True)
class Run:
    """What running an operation once used, and how long it took."""

    meter: Meter
    ms: float


class _Undone(Exception):
    """Ends the transaction without a commit."""


async def run_undone(
    stores: Stores,
    operation: SqlOperation[Any] | SqlTransact,
    *,
    after: Iterable[SqlOperation[Any] | SqlTransact] = (),
) -> Run:
    """Runs it once, after others whose outcome it needs."""
    rows, ms = 0, 0.0
    with stores.metered() as meter:
        try:
            async with stores.transaction() as sql:
                for each in after:
                    for statement in statements_of(each):
                        await sql.run(statement)
                meter.usages.clear()
                began = time.perf_counter()
                for statement in statements_of(operation):
                    rows += _rows(await sql.run(statement))
                ms = (time.perf_counter() - began) * 1000
                raise _Undone
        except _Undone:
            pass
    # What the database looked at to find them, it does not tell.
    meter.usages[:1] = [replace(each, items_read=rows, items_returned=rows) for each in meter.usages[:1]]
    return Run(meter, ms)


def statements_of(operation: SqlOperation[Any] | SqlTransact) -> Sequence[SqlOperation[Any]]:
    return operation.actions if isinstance(operation, SqlTransact) else (operation,)


def sql_tables(operation: SqlOperation[Any] | SqlTransact) -> list[str]:
    return [table for statement in statements_of(operation) for table in tables_of(statement)]


def _rows(result: Any) -> int:
    """Those that were given, or touched."""
    if isinstance(result, tuple):
        return len(result)
    return result if isinstance(result, int) else int(result is not None)
