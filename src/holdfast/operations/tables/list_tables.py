"""ListTables: list table names in order, one page at a time."""

from __future__ import annotations

import msgspec

from holdfast.operations.tables.operation import Operation


class ListTablesResult(msgspec.Struct, frozen=True):
    """One page of names. `last_name` is the page's last name if more follow, else None."""

    names: tuple[str, ...]
    last_name: str | None = None


class ListTables(Operation[ListTablesResult], frozen=True):
    """List up to `limit` table names that sort after `after` (None: from the first)."""

    after: str | None = None
    limit: int = 100
