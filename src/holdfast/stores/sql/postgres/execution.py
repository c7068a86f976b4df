"""Execution of statements on one connection: alone, in an open transaction, or several as one transaction.

Several statements take two round trips. Every failure is raised as a `HoldfastError`, or as `ConnectionLost`
if another connection may work.
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
from holdfast.operations.sql import Statement, StatementResult
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.errors import (
    ConnectionLost,
    format_reason,
    is_lost,
    is_surely_undone,
    map_error,
)

T = TypeVar("T")
_TABLE: Final = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+[a-z_][a-z0-9_.]*", re.I)
Cursor: TypeAlias = psycopg.Cursor[dict[str, Any]]


def run_statement(connection: Connection, statement: Statement) -> StatementResult:
    """Run one statement outside a transaction: it is committed when the server responds."""

    def work() -> StatementResult:
        return _read_result(_execute(connection, statement), statement)

    return _run_mapping_errors(connection, work, statement, may_be_done=True)


def run_transaction(connection: Connection, statements: Sequence[Statement]) -> list[StatementResult]:
    """Run the statements in one transaction: send all at once, check their counts, and only then commit.

    Roll back and raise `ConditionFailed` if a statement affects another number of rows than it expects.
    """
    try:
        results = _run_together(connection, statements)
        for statement, result in zip(statements, results, strict=True):
            _check_count(statement, result)
    except HoldfastError:
        roll_back(connection)
        raise
    commit(connection)
    return results


def begin(connection: Connection) -> None:
    """Begin a transaction on the connection."""
    _run_mapping_errors(connection, lambda: connection.execute("BEGIN"))


def run_in_transaction(connection: Connection, statement: Statement) -> StatementResult:
    """Run one statement of an open transaction. Raise `ConditionFailed` for an unexpected number of rows.

    A lost connection rolls back the whole transaction.
    """
    result = _run_mapping_errors(
        connection, lambda: _read_result(_execute(connection, statement), statement), statement
    )
    _check_count(statement, result)
    return result


def commit(connection: Connection) -> None:
    """Commit. This is the only request of a transaction whose lost response leaves the outcome unknown."""
    cursor = _run_mapping_errors(connection, lambda: connection.execute("COMMIT"), may_be_done=True)
    if cursor.statusmessage != "COMMIT":
        # PostgreSQL responds so, without an error, if an earlier statement had failed.
        raise TransactionConflict(
            "PostgreSQL rolled the transaction back instead of committing it: repeat all of it."
        )


def roll_back(connection: Connection) -> None:
    """Roll back; if that fails, close the connection. Raise nothing."""
    try:
        if not connection.closed:
            with connection.expect_statements(0):
                connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _run_together(connection: Connection, statements: Sequence[Statement]) -> list[StatementResult]:
    """Send BEGIN and all statements in one pipeline, without a commit, and return their results."""
    cursors: list[Cursor] = []

    def work() -> list[StatementResult]:
        with connection.expect_statements(len(statements)):
            _run_pipeline(connection, statements, cursors)
        return [_read_result(cursor, each) for cursor, each in zip(cursors, statements, strict=True)]

    return _run_mapping_errors(connection, work, *statements, cursors=cursors)


def _run_pipeline(connection: Connection, statements: Sequence[Statement], cursors: list[Cursor]) -> None:
    """Send BEGIN and all statements, and add the cursor of each to `cursors`.

    If one fails while others are being sent, read the rest before raising its error. Leaving the pipeline
    alternates between sending and reading. Its `sync()` does not: it offers the socket the rest once and then
    only reads, while the server waits for the end of a large statement that was not sent.
    """
    first_error: Exception | None = None
    try:
        with connection.pipeline():
            try:
                connection.execute("BEGIN")
                for statement in statements:
                    cursors.append(_execute(connection, statement))
            except (psycopg.Error, HoldfastError) as error:
                first_error = error
    except psycopg.Error as error:
        # Later errors are consequences of the first one.
        first_error = first_error or error
    if first_error is not None:
        raise first_error


def _execute(connection: Connection, statement: Statement) -> Cursor:
    """Send the statement.

    Raise `InvalidRequest` for a parameter that the driver cannot send, without its value.
    """
    reason: str
    try:
        return connection.execute(statement.text.encode(), statement.parameters or None)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = type(error).__name__
    # The driver failed to adapt a parameter, before it sent anything: the error's text may contain the value.
    raise InvalidRequest(
        f"{statement.pattern or 'A statement'} has a parameter that the driver cannot send to PostgreSQL "
        f"({reason}). JSON holds strings, numbers, booleans, lists, and objects with strings as names."
    )


def _read_result(cursor: Cursor, statement: Statement) -> StatementResult:
    """Return all rows and the count. Raise `ItemUnreadable` for a value that Python cannot represent."""
    try:
        rows = tuple(cursor.fetchall()) if cursor.description is not None else ()
        return StatementResult(rows=rows, count=max(cursor.rowcount, 0))
    except (psycopg.DataError, ValueError, OverflowError) as error:
        if getattr(error, "sqlstate", None) is not None:
            raise
        column = _find_unreadable_column(cursor)
    # The error's text contains the value.
    raise ItemUnreadable(
        _format_name(statement),
        {},
        f"its column {column} holds a value that Python cannot represent, such as a date before year 1",
    )


def _find_unreadable_column(cursor: Cursor) -> str:
    """Return the first column that cannot be read, found by reading each alone."""
    result = cursor.pgresult
    transformer = Transformer(cursor)
    for position in range(result.nfields if result else 0):
        assert result is not None
        loader = transformer.get_loader(result.ftype(position), Format(result.fformat(position)))
        for row in range(result.ntuples):
            value = result.get_value(row, position)
            try:
                loader.load(value) if value is not None else None
            except (psycopg.DataError, ValueError, OverflowError):
                return (result.fname(position) or b"").decode()
    return "of unknown name"


def _check_count(statement: Statement, result: StatementResult) -> None:
    """Raise `ConditionFailed` if the statement affected another number of rows than it expects."""
    if statement.expected is not None and result.count != statement.expected:
        raise ConditionFailed(
            f"{_format_name(statement)} must affect {statement.expected} "
            f"row{'' if statement.expected == 1 else 's'} and would have affected {result.count or 'none'}: "
            "its transaction was rolled back. Read again, decide again, retry."
        )


def _format_name(statement: Statement) -> str:
    """Return the statement's pattern and its table: a pattern id alone does not help the reader of a log."""
    table = _TABLE.search(statement.text)
    return f"{statement.pattern or 'A statement'}{f' ({table[0]})' if table else ''}"


def _run_mapping_errors(
    connection: Connection,
    work: Callable[[], T],
    *statements: Statement,
    may_be_done: bool = False,
    cursors: Sequence[Cursor] = (),
) -> T:
    """Do the work and map its errors: to `ConnectionLost`, also closing the connection, or to a
    `HoldfastError`.

    `may_be_done` says that a lost connection leaves the outcome unknown. `cursors` show which of the
    `statements` failed.
    """
    mapped_error: Exception
    try:
        return work()
    except psycopg.Error as error:
        if connection.closed or is_lost(error):
            reason = format_reason(error)
            mapped_error = ConnectionLost(reason, may_be_done=may_be_done and not is_surely_undone(error))
            connection.close()
        else:
            # The first statement without a result is the one that failed.
            position = sum(cursor.pgresult is not None for cursor in cursors)
            mapped_error = map_error(error, statements[position] if position < len(statements) else None)
    # Raise outside the handler, so that the error's context does not keep the values of a row.
    raise mapped_error
