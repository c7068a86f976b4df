"""ListTables: list table names in order, one page at a time."""

from __future__ import annotations

import msgspec

from holdfast.operations.tables.operation import Operation


class ListTablesResult(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    last_name: str | None = None


class ListTables(Operation[ListTablesResult], frozen=True):
    after: str | None = None
    limit: int = 100
