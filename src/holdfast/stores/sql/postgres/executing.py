"""Statements on one connection: alone, or several as one transaction in two round trips.

Every failure leaves here as a `HoldfastError`, or as `ConnectionLost` where another connection may serve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from holdfast.errors import ConditionFailed, InvalidRequest
from holdfast.operations.sql import Answer, Statement
from holdfast.stores.sql.postgres.failures import ConnectionLost, is_lost, is_nothing_done, mapped, plain
from holdfast.stores.sql.postgres.pools import Connection


def one(connection: Connection, statement: Statement) -> Answer:
    """By itself: done when it is answered."""
    with _failures(connection, statement, may_be_done=True):
        return _answer(_executed(connection, statement))


def all_or_nothing(connection: Connection, statements: Sequence[Statement]) -> list[Answer]:
    """All are sent at once and their counts looked at; only then is the commit sent."""
    with _failures(connection, *statements, may_be_done=False):
        with connection.pipeline():
            connection.execute("BEGIN")
            cursors = [_executed(connection, statement) for statement in statements]
        answers = [_answer(cursor) for cursor in cursors]
        for statement, answer in zip(statements, answers, strict=True):
            _check_count(statement, answer)
    commit(connection)
    return answers


def begin(connection: Connection) -> None:
    with _failures(connection, may_be_done=False):
        connection.execute("BEGIN")


def within(connection: Connection, statement: Statement) -> Answer:
    """One statement of a transaction that goes on. A lost connection undoes all of it: nothing is done."""
    with _failures(connection, statement, may_be_done=False):
        answer = _answer(_executed(connection, statement))
    _check_count(statement, answer)
    return answer


def commit(connection: Connection) -> None:
    """The only request of a transaction whose answer matters: without it nobody knows."""
    with _failures(connection, may_be_done=True):
        connection.execute("COMMIT")


def _executed(connection: Connection, statement: Statement) -> psycopg.Cursor[dict[str, Any]]:
    try:
        return connection.execute(statement.text.encode(), statement.parameters or None)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # Of the adaptation of a parameter, before anything is sent: the text of the error may have the value.
        raise InvalidRequest(
            f"{statement.pattern or 'A statement'} has a parameter that cannot be sent to PostgreSQL "
            f"({type(error).__name__}): JSON holds texts, numbers, truth values, lists and objects with texts as names."
        ) from None


def _answer(cursor: psycopg.Cursor[dict[str, Any]]) -> Answer:
    rows = tuple(cursor.fetchall()) if cursor.description is not None else ()
    return Answer(rows=rows, count=max(cursor.rowcount, 0))


def _check_count(statement: Statement, answer: Answer) -> None:
    if statement.expected is not None and answer.count != statement.expected:
        raise ConditionFailed(
            f"{statement.pattern or 'A statement'} must touch {statement.expected} rows and would have touched "
            f"{answer.count}: nothing of its transaction is kept. Read again, decide again, repeat."
        )


@contextmanager
def _failures(connection: Connection, *statements: Statement, may_be_done: bool) -> Iterator[None]:
    failure: Exception | None = None
    try:
        yield
    except psycopg.Error as error:
        if connection.closed or is_lost(error):
            failure = ConnectionLost(plain(error), may_be_done=may_be_done and not is_nothing_done(error))
            connection.close()
        else:
            failure = mapped(error, statements[0] if len(statements) == 1 else None)
    if failure is not None:
        # Outside the handler, so that not even the context keeps an error with the values of a row.
        raise failure
