"""Run SQL statements in a transaction that is rolled back, so that every pattern meets the same data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.model.sql import SqlOperation, SqlTransact
from holdfast.reports.sql_statements import get_table_privileges
from holdfast.runtime import Meter, Stores


@dataclass(frozen=True)
class Run:
    """The usage and the time of one run of an operation."""

    meter: Meter
    ms: float


class _Rollback(Exception):
    """Raised to end the transaction without a commit."""


async def run_and_roll_back(
    stores: Stores,
    operation: SqlOperation[Any] | SqlTransact,
    *,
    after: Iterable[SqlOperation[Any] | SqlTransact] = (),
) -> Run:
    """Run the operation once, after the operations in `after`, and roll everything back.

    Only the operation itself is timed and metered; its rows count as items read and returned.
    """
    rows, ms = 0, 0.0
    with stores.meter_usage() as meter:
        try:
            async with stores.sql_transaction() as sql:
                for each in after:
                    for statement in get_statements(each):
                        await sql.run(statement)
                meter.usages.clear()
                began = time.perf_counter()
                for statement in get_statements(operation):
                    rows += _count_rows(await sql.run(statement))
                ms = (time.perf_counter() - began) * 1000
                raise _Rollback
        except _Rollback:
            pass
    # The database does not report how many rows it examined.
    meter.usages[:1] = [replace(each, items_read=rows, items_returned=rows) for each in meter.usages[:1]]
    return Run(meter, ms)


def get_statements(operation: SqlOperation[Any] | SqlTransact) -> Sequence[SqlOperation[Any]]:
    """Return the statements of an operation."""
    return operation.actions if isinstance(operation, SqlTransact) else (operation,)


def list_sql_tables(operation: SqlOperation[Any] | SqlTransact) -> list[str]:
    """Return the SQL tables that an operation uses."""
    return [table for statement in get_statements(operation) for table in get_table_privileges(statement)]


def _count_rows(result: Any) -> int:
    """Return the number of rows that a statement returned or changed."""
    if isinstance(result, tuple):
        return len(result)
    return result if isinstance(result, int) else int(result is not None)
