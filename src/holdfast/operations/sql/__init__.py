"""The operations of a SQL store, as frozen values: one statement each, with its parameters apart from its
text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One statement of PostgreSQL. `parameters` fill its `%(name)s`; nothing of a caller's is ever in the
    text.

    What the engine may do with it when a connection is lost follows from the rest: a read is asked again; a
    write is only where it says that a repeat changes nothing more (`repeatable`).
    """

    text: str
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    schema: str = ""
    writes: bool = False
    repeatable: bool = False
    # May be answered by the reader endpoint, which lags behind the writer.
    on_reader: bool = False
    # How many rows it must touch; another number undoes the transaction and raises `ConditionFailed`.
    expected: int | None = None
    pattern: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The rows as they came, by column; `count` is how many were given or changed."""

    rows: tuple[dict[str, Any], ...] = ()
    count: int = 0
