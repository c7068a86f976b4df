"""Descriptions that a SQL store returns: the migration state of a schema, and the columns of a statement."""

from __future__ import annotations

import msgspec


class SchemaState(msgspec.Struct, frozen=True, kw_only=True):
    """The migration state of a schema. `pending` lists the missing revisions, oldest first, each with its
    purpose.
    """

    schema: str
    current: str | None
    target: str
    pending: tuple[str, ...] = ()


class ResultColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A result column of a statement, as the server describes it without running the statement.

    `type` is PostgreSQL's short name, such as `timestamptz`; `is_nullable` is None if it is not a plain
    column of a table.
    """

    name: str
    type: str
    is_nullable: bool | None = None
