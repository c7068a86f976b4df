"""Statements on one connection: alone, or several as one transaction in two round trips.

Every failure leaves here as a `HoldfastError`, or as `ConnectionLost` where another connection may serve.
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
    """By itself: done when it is answered."""

    def work() -> Answer:
        return _answer(_executed(connection, statement), statement)

    return _done(connection, work, statement, may_be_done=True)


def all_or_nothing(connection: Connection, statements: Sequence[Statement]) -> list[Answer]:
    """All are sent at once and their counts looked at; only then is the commit sent."""
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
    """One statement of a transaction that goes on. A lost connection undoes all of it: nothing is done."""
    answer = _done(connection, lambda: _answer(_executed(connection, statement), statement), statement)
    _check_count(statement, answer)
    return answer


def commit(connection: Connection) -> None:
    """The only request of a transaction whose answer matters: without it nobody knows."""
    cursor = _done(connection, lambda: connection.execute("COMMIT"), may_be_done=True)
    if cursor.statusmessage != "COMMIT":
        # PostgreSQL answers so, and calls it no error, where a statement had failed before.
        raise TransactionConflict(
            "PostgreSQL undid the transaction instead of keeping it: do all of it again."
        )


def roll_back(connection: Connection) -> None:
    """Ready for the next transaction, or closed."""
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
    """An error may come while others are still being sent: the rest is read first, and then it is raised.

    Leaving the pipeline sends what is left and reads what is answered, in turns. Its `sync()` would not: it
    offers the socket the rest once and then only reads, while the server waits for the end of a large
    statement that stays here.
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
        # After a first failure, these are its consequences.
        failure = failure or error
    if failure is not None:
        raise failure


def _executed(connection: Connection, statement: Statement) -> Cursor:
    failure: str
    try:
        return connection.execute(statement.text.encode(), statement.parameters or None)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        failure = type(error).__name__
    # Of the adaptation of a parameter, before anything is sent: the text of that error may have the value.
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
    # The text of that error has the value.
    raise ItemUnreadable(
        _named(statement),
        {},
        f"its column {column} holds what Python has no value for, as a date before year 1",
    )


def _unreadable_column(cursor: Cursor) -> str:
    """The first that cannot be read, found by reading each by itself."""
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
    """By its pattern and the table it is about: an id alone says little to who reads a log."""
    table = _TABLE.search(statement.text)
    return f"{statement.pattern or 'A statement'}{f' ({table[0]})' if table else ''}"


def _done(
    connection: Connection,
    work: Callable[[], T],
    *statements: Statement,
    may_be_done: bool = False,
    answered: Sequence[Cursor] = (),
) -> T:
    """`may_be_done`: whether losing the connection now leaves it open if that was done."""
    failure: Exception
    try:
        return work()
    except psycopg.Error as error:
        if connection.closed or is_lost(error):
            failure = ConnectionLost(plain(error), may_be_done=may_be_done and not is_nothing_done(error))
            connection.close()
        else:
            # The first without an answer is the one that failed.
            place = sum(cursor.pgresult is not None for cursor in answered)
            failure = mapped(error, statements[place] if place < len(statements) else None)
    # Outside the handler, so that not even its context keeps an error with the values of a row.
    raise failure
