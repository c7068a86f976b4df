"""Rules about SQL and the cache: statements that touch every row or give whatever columns there are, schemas that nobody
makes, and what is kept for longer than a cache can promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.model.cache import PutCached
from holdfast.model.sql import SqlOperation, SqlRows
from holdfast.reports.checks.design import Design, Finding, named
from holdfast.reports.statements import tables_of, words_of

# From so long on, what is kept is no copy of something that can be asked for again.
CACHED_S_LONG: Final = 86_400


def changes_of_every_row(design: Design) -> Iterator[Finding]:
    """An UPDATE or DELETE without a WHERE."""
    for pattern, statement in design.parts(SqlOperation):  # type: ignore[type-abstract]
        if statement.kind in ("UPDATE", "DELETE") and "where" not in words_of(statement.text):
            yield design.error(
                named(pattern),
                f"It is a {statement.kind} of {statement.resource} without WHERE: it changes every row.",
                "Say which rows are meant.",
            )


def whatever_columns_there_are(design: Design) -> Iterator[Finding]:
    """A `SELECT *` or `RETURNING *`: a column that a migration adds is one that the row does not know."""
    for pattern, statement in design.parts(SqlOperation):  # type: ignore[type-abstract]
        words = words_of(statement.text)
        before = [words[place - 1] for place, word in enumerate(words) if word == "*"]
        if any(
            each in ("select", "distinct", "all", "returning", ",") or each.endswith(".") for each in before
        ):
            yield design.error(
                named(pattern),
                f"It asks {statement.resource} for whatever columns there are: the next migration breaks it.",
                "Write {columns}, which stands for the columns of its row.",
            )


def rows_without_a_limit(design: Design) -> Iterator[Finding]:
    """A read of rows that names neither a row nor how many at most: it gives more the longer the system runs."""
    for pattern, statement in design.parts(SqlRows):
        words = words_of(statement.text)
        if not {"where", "limit", "group"} & set(words) and tables_of(statement):
            yield design.warning(
                named(pattern),
                f"It gives every row of {statement.resource}, however many there are.",
                "Say which rows are meant, or LIMIT them.",
            )


def undeclared_schemas(design: Design) -> Iterator[Finding]:
    """A statement of a schema that the system does not list: nothing makes its tables."""
    for pattern, statement in design.parts(SqlOperation):  # type: ignore[type-abstract]
        if statement.schema not in design.system.schemas:
            yield design.error(
                named(pattern),
                f"It is about the schema {statement.schema.name}, which the system does not declare, so that nothing "
                "makes it.",
                "Add it to System(schemas=…).",
            )


def kept_for_too_long(design: Design) -> Iterator[Finding]:
    """Something that is put into the cache for longer than a day, and may be lost at any time."""
    for pattern, put in design.parts(PutCached):
        if put.lifetime_s > CACHED_S_LONG:
            yield design.info(
                named(pattern),
                f"It keeps {put.resource} in the cache for {put.lifetime_s / CACHED_S_LONG:.0f} days, and a cache may "
                "lose it at any time.",
                "Keep in a table or in SQL what must not be lost.",
            )
