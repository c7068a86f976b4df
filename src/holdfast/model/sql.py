"""SQL, as a system declares it: a schema with its migrations, rows, and statements that know what they give.

    pagw = Schema("pagw", migrations="pagw.migrations")

    class Tracked(SqlRow):
        pagw_id: str
        status: Status

    @pattern("S1", "A request by its id", rate=Rate(per="question"), example=("acme", "PAGW-1"))
    def request(tenant: str, pagw_id: str) -> SqlOne[Tracked]:
        return pagw.one(
            Tracked,
            "SELECT {columns} FROM pagw.request_tracker WHERE tenant = %(tenant)s AND pagw_id = %(pagw_id)s",
            tenant=tenant, pagw_id=pagw_id,
        )

    tracked = await stores.run(request("acme", "PAGW-1"))          # Tracked | None, known to the type checker

Text and values never meet: the text is the declaration's own, values are parameters. `{columns}` stands for the columns
of the row. Times are parameters too, of the stores' clock: no statement asks the database what time it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Final, Generic, LiteralString, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import DeclarationError, InvalidRequest, ItemUnreadable
from holdfast.model.operations import EngineOperation
from holdfast.operations.sql import Answer, Statement

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T", bound="SqlRow")

COLUMNS: Final = "{columns}"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")
_STRAY_PERCENT: Final = re.compile(r"(?<!%)%(?:%%)*(?!%|\(\w+\)s)")
_DATABASE_CLOCK: Final = re.compile(
    r"\b(now\"?\s*\(|(?:current_timestamp|current_date|current_time|localtimestamp|localtime)\b"
    r"|(?:clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\"?\s*\("
    # Of one argument: how long ago that is now.
    r"|(?<!\.)age\s*\((?:[^(),]|\([^()]*\))+\)"
    r"|(?:timestamptz|timestamp|date|time)\s*'(?:now|today|tomorrow|yesterday)')"
    r"|'(?:now|today|tomorrow|yesterday)'\s*(?:::|\bas\b)\s*(?:timestamp|date|time)",
    re.I,
)
_FIRST_TABLE: Final = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+([a-z_][a-z0-9_.]*)", re.I)
# Texts, quoted names and comments may say anything.
_SAID: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.S)
_LOCK: Final = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+)?UPDATE\b", re.I)
# What changes something, alone or within a WITH; anything else that is no question begins with another word.
_CHANGE: Final = re.compile(
    r"\b(INSERT|MERGE)\s+INTO\b|\b(DELETE)\s+FROM\b|(?:^|[()])\s*(UPDATE)\s+[\w\".]", re.I
)
_QUESTION: Final = re.compile(r"[\s(]*(?:SELECT|WITH|VALUES|TABLE)\b", re.I)
# Failures whose words are those of whoever wrote the validator.
_SAID_BY_OTHERS: Final = frozenset({"value_error", "assertion_error"})
# What PostgreSQL takes for something else than a column's name, unless it is quoted (`pg_get_keywords()`).
RESERVED: Final = frozenset(
    "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast "
    "char character check coalesce collate collation column concurrently constraint create cross current_catalog "
    "current_date current_role current_schema current_time current_timestamp current_user dec decimal default "
    "deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant "
    "greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join "
    "json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize "
    "json_table json_value lateral leading least left like limit localtime localtimestamp merge_action national "
    "natural nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay "
    "placing position precision primary real references returning right row select session_user setof similar "
    "smallint some substring symmetric system_user table tablesample then time timestamp to trailing treat trim true "
    "union unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat "
    "xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable".split()
)


class SqlRow(BaseModel):
    """What a statement gives, column by column. A column that the row does not know is refused: it is a misfit."""

    # What is in a row stands in no error.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def columns(cls, alias: str = "") -> str:
        """The columns as a statement names them."""
        return ", ".join(f"{alias}.{_quoted(name)}" if alias else _quoted(name) for name in cls.model_fields)


@dataclass(frozen=True, eq=False)
class Schema:
    """Tables under one name, made and changed by the migrations of a package: Alembic's versions, oldest first."""

    name: str
    migrations: str = field(kw_only=True)
    purpose: str = field(default="", kw_only=True)
    # How many of Aurora's capacity units it may grow to, where a template is not told otherwise.
    capacity_max: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DeclarationError(
                f"The schema {self.name!r} cannot be called so: lower-case letters, digits and underscores, 63 at most."
            )

    def rows(self, row: type[T], text: LiteralString, /, **parameters: Any) -> SqlRows[T]:
        return SqlRows(self, _text(row, text), parameters, row)

    def one(self, row: type[T], text: LiteralString, /, **parameters: Any) -> SqlOne[T]:
        """The only row, or None. Several are the statement's fault."""
        return SqlOne(self, _text(row, text), parameters, row)

    def change(self, text: LiteralString, /, **parameters: Any) -> SqlChange:
        return SqlChange(self, text, parameters)

    def returning(self, row: type[T], text: LiteralString, /, **parameters: Any) -> SqlReturning[T]:
        """A change that gives the rows it made or touched."""
        return SqlReturning(self, _text(row, text), parameters, row)


@dataclass(frozen=True)
class SqlOperation(EngineOperation[R_co]):
    """What is common: a statement of one schema."""

    store: ClassVar[str] = "sql"

    schema: Schema
    text: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check(self.text, self.parameters)

    @property
    def kind(self) -> str:
        """The verb: of a `WITH`, that which changes something."""
        return _verb_of(self.text)

    @property
    def resource(self) -> str:
        """The table that it is about: the first that it names."""
        return _table_of(self.text) or self.schema.name

    def request(self, environment: str) -> Statement:
        return Statement(
            text=self.text,
            parameters=self.parameters,
            schema=self.schema.name,
            writes=self.writes,
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class SqlRead(SqlOperation[R_co], Generic[T, R_co]):
    row: type[T]
    is_on_reader: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_question(self.text)

    def on_reader(self) -> Self:
        """May be answered by a reader, which is some milliseconds behind: never before a decision."""
        return replace(self, is_on_reader=True)

    def request(self, environment: str) -> Statement:
        return Statement(
            text=self.text,
            parameters=self.parameters,
            schema=self.schema.name,
            on_reader=self.is_on_reader,
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class SqlRows(SqlRead[T, "tuple[T, ...]"], Generic[T]):
    def answer(self, result: Answer) -> tuple[T, ...]:
        return _read(self, self.row, result)


@dataclass(frozen=True)
class SqlOne(SqlRead[T, "T | None"], Generic[T]):
    def answer(self, result: Answer) -> T | None:
        rows = _read(self, self.row, result)
        if len(rows) > 1:
            raise DeclarationError(
                f"{self.pattern or 'A statement'} asks for one row and found {len(rows)}: say which, or ask for rows."
            )
        return rows[0] if rows else None


@dataclass(frozen=True)
class SqlWrite(SqlOperation[R_co]):
    writes: ClassVar[bool] = True

    expected: int | None = field(default=None, kw_only=True)
    is_repeatable: bool = field(default=False, kw_only=True)

    def expecting(self, rows: int) -> Self:
        """Touches so many rows or nothing at all: `ConditionFailed` otherwise, and the transaction is undone."""
        return replace(self, expected=rows)

    def repeatable(self) -> Self:
        """Doing it twice is doing it once, and so it may be sent again where nobody knows whether it was done."""
        return replace(self, is_repeatable=True)

    def request(self, environment: str) -> Statement:
        return Statement(
            text=self.text,
            parameters=self.parameters,
            schema=self.schema.name,
            writes=True,
            repeatable=self.is_repeatable,
            expected=self.expected,
            pattern=self.pattern,
        )


@dataclass(frozen=True)
class SqlChange(SqlWrite[int]):
    """Gives how many rows it touched."""

    def answer(self, result: Answer) -> int:
        return result.count


@dataclass(frozen=True)
class SqlReturning(SqlWrite["tuple[T, ...]"], Generic[T]):
    row: type[T]

    def answer(self, result: Answer) -> tuple[T, ...]:
        return _read(self, self.row, result)


@dataclass(frozen=True)
class SqlTransact(EngineOperation[None]):
    """Several changes of SQL, all or nothing."""

    store: ClassVar[str] = "sql"
    writes: ClassVar[bool] = True

    actions: tuple[SqlWrite[Any], ...] = ()

    kind = "TRANSACTION"

    @property
    def parts(self) -> tuple[SqlWrite[Any], ...]:
        return self.actions

    @property
    def resource(self) -> str:
        return "+".join(dict.fromkeys(each.resource for each in self.actions))

    def request(self, environment: str) -> tuple[Statement, ...]:
        return tuple(each.request(environment) for each in self.actions)

    def answer(self, result: Any) -> None:
        return None


@cache
def _text(row: type[SqlRow], text: str) -> str:
    return text.replace(COLUMNS, row.columns())


@cache
def _verb_of(text: str) -> str:
    found = _CHANGE.search(_LOCK.sub(" ", _SAID.sub(" ", text)))
    return "SELECT" if found is None else next(filter(None, found.groups())).upper()


@cache
def _table_of(text: str) -> str | None:
    found = _FIRST_TABLE.search(text)
    return None if found is None else found[1]


def _check(text: str, parameters: Mapping[str, Any]) -> None:
    """What cannot be run, or would be run wrongly, is refused where it is made."""
    named = _named_in(text)
    if named == parameters.keys():
        return
    if missing := sorted(named - parameters.keys()):
        raise InvalidRequest(f"A statement names {', '.join(missing)}, and is not given it: {text!r}.")
    unused = sorted(parameters.keys() - named)
    raise InvalidRequest(f"A statement is given {', '.join(unused)}, and does not name it: {text!r}.")


@cache
def _named_in(text: str) -> frozenset[str]:
    """The parameters that a text names. There are as many texts as declarations, and each is looked at once."""
    if _STRAY_PERCENT.search(text):
        raise DeclarationError(f"A statement has a lone percent sign, which must be doubled: {text!r}.")
    if found := _DATABASE_CLOCK.search(text):
        raise DeclarationError(
            f"A statement asks the database what time it is ({found[0]}…): pass the time of the stores' clock."
        )
    return frozenset(_PLACEHOLDER.findall(text))


@cache
def _check_question(text: str) -> None:
    """A read is asked again when its connection is lost, and of a reader: it changes nothing."""
    if _verb_of(text) != "SELECT" or not _QUESTION.match(_SAID.sub(" ", text)):
        raise DeclarationError(
            f"A read must change nothing, and this does: {text!r}. Declare it with `change(…)`, or with `returning(…)` for "
            "the rows it touched."
        )


def _quoted(name: str) -> str:
    """A column by its name, and never what the word means otherwise: `user` is whoever is logged in."""
    return name if _NAME.fullmatch(name) and name not in RESERVED else '"' + name.replace('"', '""') + '"'


def _read(operation: SqlOperation[Any], row: type[T], result: Answer) -> tuple[T, ...]:
    try:
        return tuple(row.model_validate(each) for each in result.rows)
    except ValidationError as error:
        failure = ItemUnreadable(operation.resource, {}, f"{row.__name__}: {_misfits(error)}")
    # Outside the handler: what Pydantic raises has the row's values, and no traceback shows them.
    raise failure


def _misfits(error: ValidationError) -> str:
    """Which columns, and why: in Pydantic's own words, which have no value, and not in those of a validator, which may."""
    return "; ".join(
        f"{each['loc'][0] if each['loc'] else 'the row'}: "
        + (each["type"].replace("_", " ") if each["type"] in _SAID_BY_OTHERS else each["msg"].lower())
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )
