"""What a SQL store tells of itself: how far a schema is, and what a statement would give."""

from __future__ import annotations

import msgspec


class SchemaState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a schema is. `pending` are the revisions that it lacks, oldest first, each with what it is
    for.
    """

    schema: str
    current: str | None
    target: str
    pending: tuple[str, ...] = ()


class ResultColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column that a statement gives, as the server tells it without running the statement.

    `type` is PostgreSQL's short name, as `timestamptz`; `is_nullable` is None where it is no plain column of
    a table.
    """

    name: str
    type: str
    is_nullable: bool | None = None
