"""Declarations of SQL schemas, row types and statements with typed results.

    pagw = Schema("pagw", migrations="pagw.migrations")

    class RequestRow(SqlRow):
        pagw_id: str
        status: Status

    @pattern("S1", "Get a request by its id", rate=Rate(per="question"), example=("acme", "PAGW-1"))
    def request(tenant: str, pagw_id: str) -> SqlOne[RequestRow]:
        return pagw.one(
            RequestRow,
            "SELECT {columns} FROM pagw.request_tracker WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s",
            tenant=tenant, pagw_id=pagw_id,
        )

    row = await stores.run(request("acme", "PAGW-1"))          # RequestRow | None, known to the type checker

Values are always parameters, never part of the text. `{columns}` expands to the columns of the row. Times are
parameters too, from the stores' clock: no statement reads the database's clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Final, Generic, LiteralString, Self, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.core.errors import DeclarationError, InvalidRequest, ItemUnreadable
from holdfast.model.operations import EngineOperation
from holdfast.operations.sql import Statement, StatementResult

__all__ = [
    "Schema",
    "SqlChange",
    "SqlOne",
    "SqlReturning",
    "SqlRow",
    "SqlRows",
    "SqlWrite",
]

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T", bound="SqlRow")

COLUMNS: Final = "{columns}"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")
_STRAY_PERCENT: Final = re.compile(r"(?<!%)%(?:%%)*(?!%|\(\w+\)s)")
_DATABASE_CLOCK: Final = re.compile(
    r"\b(now\"?\s*\(|(?:current_timestamp|current_date|current_time|localtimestamp|localtime)\b"
    r"|(?:clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\"?\s*\("
    # With one argument age() is relative to now.
    r"|(?<!\.)age\s*\((?:[^(),]|\([^()]*\))+\)"
    r"|(?:timestamptz|timestamp|date|time)\s*'(?:now|today|tomorrow|yesterday)')"
    r"|'(?:now|today|tomorrow|yesterday)'\s*(?:::|\bas\b)\s*(?:timestamp|date|time)",
    re.I,
)
_FIRST_TABLE: Final = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+([a-z_][a-z0-9_.]*)", re.I)
# String literals, quoted names and comments are ignored.
_QUOTED_OR_COMMENT: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.S)
_LOCKING_CLAUSE: Final = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+)?UPDATE\b", re.I)
# A statement that writes, alone or within a WITH. Other non-reads begin with another keyword.
_WRITE_STATEMENT: Final = re.compile(
    r"\b(INSERT|MERGE)\s+INTO\b|\b(DELETE)\s+FROM\b|(?:^|[()])\s*(UPDATE)\s+[\w\".]", re.I
)
_READ_STATEMENT: Final = re.compile(r"[\s(]*(?:SELECT|WITH|VALUES|TABLE)\b", re.I)
# Errors whose message a custom validator wrote, so it may contain values.
_VALIDATOR_ERRORS: Final = frozenset({"value_error", "assertion_error"})
# Words that PostgreSQL does not read as a column name unless quoted (`pg_get_keywords()`).
RESERVED_WORDS: Final = frozenset(
    "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit "
    "boolean both case cast char character check coalesce collate collation column concurrently "
    "constraint create cross current_catalog current_date current_role current_schema current_time "
    "current_timestamp current_user dec decimal default deferrable desc distinct do else end except "
    "exists extract false fetch float for foreign freeze from full grant greatest group grouping "
    "having ilike in initially inner inout int integer intersect interval into is isnull join json "
    "json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar "
    "json_serialize json_table json_value lateral leading least left like limit localtime "
    "localtimestamp merge_action national natural nchar none normalize not notnull null nullif "
    "numeric offset on only or order out outer overlaps overlay placing position precision primary "
    "real references returning right row select session_user setof similar smallint some substring "
    "symmetric system_user table tablesample then time timestamp to trailing treat trim true union "
    "unique user using values varchar variadic verbose when where window with xmlattributes "
    "xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize "
    "xmltable".split()
)


class SqlRow(BaseModel):
    """One row of a statement's result. A column that the row does not declare is an error."""

    # Errors must not show row values.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def columns(cls, alias: str = "") -> str:
        """Return the columns as a statement names them, quoted where needed and with the table's alias."""
        return ", ".join(
            f"{alias}.{_quote_name(name)}" if alias else _quote_name(name) for name in cls.model_fields
        )


@dataclass(frozen=True, eq=False)
class Schema:
    """Tables under one schema name, created and changed by the Alembic migrations of a package."""

    name: str
    migrations: str = field(kw_only=True)
    purpose: str = field(default="", kw_only=True)
    # Maximum Aurora capacity units in generated templates, unless overridden there.
    capacity_max: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DeclarationError(
                f"Invalid schema name {self.name!r}: expected at most 63 lower-case letters, digits and "
                "underscores."
            )

    def rows(self, row: type[T], text: LiteralString, /, **parameters: Any) -> SqlRows[T]:
        """Build a statement that reads any number of rows.

        `{columns}` in the text becomes the row's columns.
        """
        return SqlRows(self, _expand_columns(row, text), parameters, row)

    def one(self, row: type[T], text: LiteralString, /, **parameters: Any) -> SqlOne[T]:
        """Build a statement that reads one row or None; several rows raise `DeclarationError` when it
        runs.
        """
        return SqlOne(self, _expand_columns(row, text), parameters, row)

    def change(self, text: LiteralString, /, **parameters: Any) -> SqlChange:
        """Build a statement that writes; its result is the number of rows changed."""
        return SqlChange(self, text, parameters)

    def returning(self, row: type[T], text: LiteralString, /, **parameters: Any) -> SqlReturning[T]:
        """Build a statement that writes and returns the rows that were created or changed."""
        return SqlReturning(self, _expand_columns(row, text), parameters, row)


@dataclass(frozen=True)
class SqlOperation(EngineOperation[R_co]):
    """One statement of one schema."""

    store: ClassVar[str] = "sql"

    schema: Schema
    text: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_parameters(self.text, self.parameters)

    @property
    def kind(self) -> str:
        """The statement's verb; for a `WITH`, the verb that writes."""
        return _find_verb(self.text)

    @property
    def resource(self) -> str:
        """The first table that the statement names."""
        return _find_table(self.text) or self.schema.name

    def build_request(self, environment: str) -> Statement:
        return Statement(
            text=self.text,
            parameters=self.parameters,
            schema=self.schema.name,
            writes=self.writes,
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class SqlRead(SqlOperation[R_co], Generic[T, R_co]):
    """A statement that only reads, and may be retried."""

    row: type[T]
    is_on_reader: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_read_only(self.text)

    def on_reader(self) -> Self:
        """Allow a read replica, which lags by some milliseconds. Do not use it before a decision."""
        return replace(self, is_on_reader=True)

    def build_request(self, environment: str) -> Statement:
        """Return the statement, for a read replica if that is allowed."""
        return Statement(
            text=self.text,
            parameters=self.parameters,
            schema=self.schema.name,
            on_reader=self.is_on_reader,
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class SqlRows(SqlRead[T, "tuple[T, ...]"], Generic[T]):
    """A read of any number of rows."""

    def decode_result(self, result: StatementResult) -> tuple[T, ...]:
        return _decode_rows(self, self.row, result)


@dataclass(frozen=True)
class SqlOne(SqlRead[T, "T | None"], Generic[T]):
    """A read of one row or None."""

    def decode_result(self, result: StatementResult) -> T | None:
        """Return the row or None; raise `DeclarationError` for several rows."""
        rows = _decode_rows(self, self.row, result)
        if len(rows) > 1:
            raise DeclarationError(
                f"{self.pattern or 'A statement'} expected one row and found {len(rows)}: narrow the "
                "condition, or use rows(…)."
            )
        return rows[0] if rows else None


@dataclass(frozen=True)
class SqlWrite(SqlOperation[R_co]):
    """A statement that writes, alone or in a transaction."""

    writes: ClassVar[bool] = True

    expected_rows: int | None = field(default=None, kw_only=True)
    is_idempotent: bool = field(default=False, kw_only=True)

    def expect_rows(self, rows: int) -> Self:
        """Require this number of changed rows: otherwise `ConditionFailed` is raised and the transaction
        rolled back.
        """
        return replace(self, expected_rows=rows)

    def idempotent(self) -> Self:
        """Declare the statement idempotent, so that it may be sent again if its outcome is unknown."""
        return replace(self, is_idempotent=True)

    def build_request(self, environment: str) -> Statement:
        """Return the statement, with the expected number of rows and if it may be repeated."""
        return Statement(
            text=self.text,
            parameters=self.parameters,
            schema=self.schema.name,
            writes=True,
            repeatable=self.is_idempotent,
            expected=self.expected_rows,
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class SqlChange(SqlWrite[int]):
    """A write that returns the number of rows changed."""

    def decode_result(self, result: StatementResult) -> int:
        return result.count


@dataclass(frozen=True)
class SqlReturning(SqlWrite["tuple[T, ...]"], Generic[T]):
    """A write that returns the rows it created or changed."""

    row: type[T]

    def decode_result(self, result: StatementResult) -> tuple[T, ...]:
        return _decode_rows(self, self.row, result)


@dataclass(frozen=True)
class SqlTransact(EngineOperation[None]):
    """Several SQL writes, all or nothing."""

    store: ClassVar[str] = "sql"
    writes: ClassVar[bool] = True

    actions: tuple[SqlWrite[Any], ...] = ()
    # No write touches the rows of another, so that the engine may send all of them as one statement.
    are_independent: bool = False
    # A repeat of the whole transaction has no further effect, so that it may be sent again.
    is_idempotent: bool = False

    kind = "TRANSACTION"

    @property
    def parts(self) -> tuple[SqlWrite[Any], ...]:
        return self.actions

    @property
    def resource(self) -> str:
        return "+".join(dict.fromkeys(each.resource for each in self.actions))

    def build_request(self, environment: str) -> tuple[Statement, ...]:
        built = (each.build_request(environment) for each in self.actions)
        if not (self.are_independent or self.is_idempotent):
            return tuple(built)
        return tuple(
            msgspec.structs.replace(
                each,
                is_independent=self.are_independent,
                repeatable=each.repeatable or self.is_idempotent,
            )
            for each in built
        )

    def decode_result(self, result: Any) -> None:
        return None


@cache
def _expand_columns(row: type[SqlRow], text: str) -> str:
    """Replace `{columns}` with the row's columns."""
    return text.replace(COLUMNS, row.columns())


@cache
def _find_verb(text: str) -> str:
    """Return INSERT, UPDATE, DELETE or MERGE if the statement writes, otherwise SELECT."""
    found = _WRITE_STATEMENT.search(_LOCKING_CLAUSE.sub(" ", _QUOTED_OR_COMMENT.sub(" ", text)))
    return "SELECT" if found is None else next(filter(None, found.groups())).upper()


@cache
def _find_table(text: str) -> str | None:
    """Return the first table that the statement names, or None."""
    found = _FIRST_TABLE.search(text)
    return None if found is None else found[1]


def _check_parameters(text: str, parameters: Mapping[str, Any]) -> None:
    """Raise InvalidRequest unless the parameters match those that the statement names."""
    named = _find_parameters(text)
    if named == parameters.keys():
        return
    if missing := sorted(named - parameters.keys()):
        raise InvalidRequest(f"Missing parameter {', '.join(missing)} of the statement {text!r}.")
    unused = sorted(parameters.keys() - named)
    raise InvalidRequest(f"Unknown parameter {', '.join(unused)} of the statement {text!r}.")


@cache
def _find_parameters(text: str) -> frozenset[str]:
    """Return the parameters that a statement names. Cached: there are as many texts as declarations.

    Raise `DeclarationError` for an unescaped percent sign, or for use of the database's clock.
    """
    if _STRAY_PERCENT.search(text):
        raise DeclarationError(f"Unescaped percent sign in the statement {text!r}: write %% instead.")
    if found := _DATABASE_CLOCK.search(text):
        raise DeclarationError(
            f"Invalid use of the database clock ({found[0]}…) in a statement: pass the time of the stores' "
            "clock as a parameter."
        )
    return frozenset(_PLACEHOLDER.findall(text))


@cache
def _check_read_only(text: str) -> None:
    """Raise `DeclarationError` if a read writes: reads are retried after a lost connection and may go to a
    replica.
    """
    if _find_verb(text) != "SELECT" or not _READ_STATEMENT.match(_QUOTED_OR_COMMENT.sub(" ", text)):
        raise DeclarationError(
            f"Invalid read: the statement {text!r} writes. Declare it with `change(…)`, or with "
            "`returning(…)` to get the changed rows."
        )


def _quote_name(name: str) -> str:
    """Quote a column name where PostgreSQL would read it as a keyword: `user` is the session's user."""
    return (
        name if _NAME.fullmatch(name) and name not in RESERVED_WORDS else '"' + name.replace('"', '""') + '"'
    )


def _decode_rows(operation: SqlOperation[Any], row: type[T], result: StatementResult) -> tuple[T, ...]:
    """Return the rows as models; raise `ItemUnreadable`, without row values, if one does not fit."""
    try:
        return tuple(row.model_validate(each) for each in result.rows)
    except ValidationError as error:
        failure = ItemUnreadable(operation.resource, {}, f"{row.__name__}: {_format_errors(error)}")
    # Raised outside the handler: Pydantic's error holds row values, which no traceback may show.
    raise failure


def _format_errors(error: ValidationError) -> str:
    """Return the columns and reasons of Pydantic's errors, without values.

    A custom validator's message may contain values, so only the kind of its error is shown.
    """
    return "; ".join(
        f"{each['loc'][0] if each['loc'] else 'the row'}: "
        + (each["type"].replace("_", " ") if each["type"] in _VALIDATOR_ERRORS else each["msg"].lower())
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )
