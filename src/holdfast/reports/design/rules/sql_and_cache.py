"""Rules about SQL statements, SQL schemas and cache lifetimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.model.cache import PutCached
from holdfast.model.sql import SqlOperation, SqlRows
from holdfast.reports.design.rules.base import Design, Finding, format_pattern
from holdfast.reports.sql_statements import get_table_privileges, split_words

# A longer lifetime suggests that the entry is not a copy of data that can be fetched again.
LONG_CACHE_S: Final = 86_400


def find_unfiltered_changes(design: Design) -> Iterator[Finding]:
    """Find UPDATE and DELETE statements without WHERE."""
    for pattern, statement in design.find_parts(SqlOperation):  # type: ignore[type-abstract]
        if statement.kind in ("UPDATE", "DELETE") and "where" not in split_words(statement.text):
            yield design.error(
                format_pattern(pattern),
                f"It is a {statement.kind} of {statement.resource} without WHERE: it changes every row.",
                "Add a WHERE clause.",
            )


def find_star_columns(design: Design) -> Iterator[Finding]:
    """Find `SELECT *` and `RETURNING *`: a column that a migration adds is unknown to the row class."""
    for pattern, statement in design.find_parts(SqlOperation):  # type: ignore[type-abstract]
        words = split_words(statement.text)
        before = [words[place - 1] for place, word in enumerate(words) if word == "*"]
        if any(
            each in ("select", "distinct", "all", "returning", ",") or each.endswith(".") for each in before
        ):
            yield design.error(
                format_pattern(pattern),
                f"It selects * from {statement.resource}: the next migration that adds a column breaks it.",
                "Write {columns}, which expands to the columns of its row class.",
            )


def find_unlimited_reads(design: Design) -> Iterator[Finding]:
    """Find reads without WHERE, LIMIT or GROUP BY: they return more rows the longer the system runs."""
    for pattern, statement in design.find_parts(SqlRows):
        words = split_words(statement.text)
        if not {"where", "limit", "group"} & set(words) and get_table_privileges(statement):
            yield design.warning(
                format_pattern(pattern),
                f"It returns every row of {statement.resource}, without a limit.",
                "Add a WHERE clause or a LIMIT.",
            )


def find_undeclared_schemas(design: Design) -> Iterator[Finding]:
    """Find statements on a schema that the system does not declare, so that nothing creates its tables."""
    for pattern, statement in design.find_parts(SqlOperation):  # type: ignore[type-abstract]
        if statement.schema not in design.system.schemas:
            yield design.error(
                format_pattern(pattern),
                f"It uses the schema {statement.schema.name}, which the system does not declare, so nothing "
                "creates it.",
                "Add it to System(schemas=…).",
            )


def find_long_cache_lifetimes(design: Design) -> Iterator[Finding]:
    """Find cache entries with a lifetime of more than a day: a cache can lose an entry at any time."""
    for pattern, put in design.find_parts(PutCached):
        if put.lifetime_s > LONG_CACHE_S:
            yield design.info(
                format_pattern(pattern),
                f"It caches {put.resource} for {put.lifetime_s / LONG_CACHE_S:.0f} days, but a cache can "
                "lose an entry at any time.",
                "Store data that must not be lost in a table or in SQL.",
            )
