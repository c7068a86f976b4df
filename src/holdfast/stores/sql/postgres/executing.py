"""Statements on one connection: alone, or several as one transaction in two round trips.

Every failure is raised as a `HoldfastError`, or as `ConnectionLost` if another connection may work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import Format

from holdfast.core.errors import (
    ConditionFailed,
    HoldfastError,
    InvalidRequest,
    ItemUnreadable,
    TransactionConflict,
)
from holdfast.operations.sql import Answer, Statement
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.failures import ConnectionLost, is_lost, is_nothing_done, mapped, plain

T = TypeVar("T")
_TABLE: Final = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+[a-z_][a-z0-9_.]*", re.I)
Cursor: TypeAlias = psycopg.Cursor[dict[str, Any]]


def one(connection: Connection, statement: Statement) -> Answer:
    """Run one statement outside a transaction: it is committed when the server responds."""

    def work() -> Answer:
        return _answer(_executed(connection, statement), statement)

    return _done(connection, work, statement, may_be_done=True)


def all_or_nothing(connection: Connection, statements: Sequence[Statement]) -> list[Answer]:
    """Run the statements in one transaction: send all at once, check their counts, and only then commit."""
    try:
        answers = _sent_together(connection, statements)
        for statement, answer in zip(statements, answers, strict=True):
            _check_count(statement, answer)
    except HoldfastError:
        roll_back(connection)
        raise
    commit(connection)
    return answers


def begin(connection: Connection) -> None:
    _done(connection, lambda: connection.execute("BEGIN"))


def within(connection: Connection, statement: Statement) -> Answer:
    """Run one statement of an open transaction. A lost connection rolls back all of it."""
    answer = _done(connection, lambda: _answer(_executed(connection, statement), statement), statement)
    _check_count(statement, answer)
    return answer


def commit(connection: Connection) -> None:
    """Commit. This is the only request of a transaction whose lost response leaves the outcome unknown."""
    cursor = _done(connection, lambda: connection.execute("COMMIT"), may_be_done=True)
    if cursor.statusmessage != "COMMIT":
        # PostgreSQL responds so, without an error, if an earlier statement had failed.
        raise TransactionConflict(
            "PostgreSQL undid the transaction instead of keeping it: do all of it again."
        )


def roll_back(connection: Connection) -> None:
    """Roll back, so that the connection is ready for the next transaction, or closed."""
    try:
        if not connection.closed:
            with connection.expecting(0):
                connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _sent_together(connection: Connection, statements: Sequence[Statement]) -> list[Answer]:
    cursors: list[Cursor] = []

    def work() -> list[Answer]:
        with connection.expecting(len(statements)):
            _send(connection, statements, cursors)
        return [_answer(cursor, each) for cursor, each in zip(cursors, statements, strict=True)]

    return _done(connection, work, *statements, answered=cursors)


def _send(connection: Connection, statements: Sequence[Statement], cursors: list[Cursor]) -> None:
    """Send all statements. If one fails while others are being sent, read the rest before raising its error.

    Leaving the pipeline alternates between sending and reading. Its `sync()` does not: it offers the socket
    the rest once and then only reads, while the server waits for the end of a large statement that was not
    sent.
    """
    failure: Exception | None = None
    try:
        with connection.pipeline():
            try:
                connection.execute("BEGIN")
                for statement in statements:
                    cursors.append(_executed(connection, statement))
            except (psycopg.Error, HoldfastError) as error:
                failure = error
    except psycopg.Error as error:
        # Later errors are consequences of the first one.
        failure = failure or error
    if failure is not None:
        raise failure


def _executed(connection: Connection, statement: Statement) -> Cursor:
    failure: str
    try:
        return connection.execute(statement.text.encode(), statement.parameters or None)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        failure = type(error).__name__
    # The driver failed to adapt a parameter, before it sent anything: the error's text may contain the value.
    raise InvalidRequest(
        f"{statement.pattern or 'A statement'} has a parameter that cannot be sent to PostgreSQL "
        f"({failure}): JSON holds "
        "texts, numbers, truth values, lists, and objects with texts as names."
    )


def _answer(cursor: Cursor, statement: Statement) -> Answer:
    try:
        rows = tuple(cursor.fetchall()) if cursor.description is not None else ()
        return Answer(rows=rows, count=max(cursor.rowcount, 0))
    except (psycopg.DataError, ValueError, OverflowError) as error:
        if getattr(error, "sqlstate", None) is not None:
            raise
        column = _unreadable_column(cursor)
    # The error's text contains the value.
    raise ItemUnreadable(
        _named(statement),
        {},
        f"its column {column} holds what Python has no value for, as a date before year 1",
    )


def _unreadable_column(cursor: Cursor) -> str:
    """Return the first column that cannot be read, found by reading each alone."""
    result = cursor.pgresult
    read = Transformer(cursor)
    for place in range(result.nfields if result else 0):
        assert result is not None
        loader = read.get_loader(result.ftype(place), Format(result.fformat(place)))
        for row in range(result.ntuples):
            value = result.get_value(row, place)
            try:
                loader.load(value) if value is not None else None
            except (psycopg.DataError, ValueError, OverflowError):
                return (result.fname(place) or b"").decode()
    return "of unknown name"


def _check_count(statement: Statement, answer: Answer) -> None:
    if statement.expected is not None and answer.count != statement.expected:
        raise ConditionFailed(
            f"{_named(statement)} must touch {statement.expected} "
            f"row{'' if statement.expected == 1 else 's'} and would have "
            f"touched {answer.count or 'none'}: nothing of its transaction is kept. Read again, decide "
            "again, repeat."
        )


def _named(statement: Statement) -> str:
    """Return the statement's pattern and its table: an id alone says little in a log."""
    table = _TABLE.search(statement.text)
    return f"{statement.pattern or 'A statement'}{f' ({table[0]})' if table else ''}"


def _done(
    connection: Connection,
    work: Callable[[], T],
    *statements: Statement,
    may_be_done: bool = False,
    answered: Sequence[Cursor] = (),
) -> T:
    """Do the work and map its errors. `may_be_done`: a lost connection leaves the outcome unknown."""
    failure: Exception
    try:
        return work()
    except psycopg.Error as error:
        if connection.closed or is_lost(error):
            failure = ConnectionLost(plain(error), may_be_done=may_be_done and not is_nothing_done(error))
            connection.close()
        else:
            # The first statement without a result is the one that failed.
            place = sum(cursor.pgresult is not None for cursor in answered)
            failure = mapped(error, statements[place] if place < len(statements) else None)
    # Raise outside the handler, so that the error's context does not keep the values of a row.
    raise failure
