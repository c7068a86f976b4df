"""The operations of a SQL store, as frozen values: one statement each, with its parameters separate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = [
    "Statement",
    "StatementResult",
]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One PostgreSQL statement. `parameters` fill its `%(name)s`; the text never contains caller input.

    The engine's reaction to a lost connection follows from the other fields: it retries a read; it retries a
    write only if the statement declares that repeating it has no further effect (`repeatable`).
    """

    text: str
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    schema: str = ""
    writes: bool = False
    repeatable: bool = False
    # The reader endpoint, which lags behind the writer, may run the statement.
    on_reader: bool = False
    # The exact number of affected rows; any other number rolls back and raises `ConditionFailed`.
    expected: int | None = None
    pattern: str | None = None
    # No write of the same transaction touches the rows of another: an engine may send all of them as one
    # statement.
    is_independent: bool = False
    # This statement was made of several (`stores/sql/postgres/merging.py`).
    is_merged: bool = False


class StatementResult(msgspec.Struct, frozen=True, kw_only=True):
    """The returned rows, by column. `count` is the number of rows returned or changed."""

    rows: tuple[dict[str, Any], ...] = ()
    count: int = 0
