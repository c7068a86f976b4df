"""Error mapping of PostgreSQL: each failure becomes a `HoldfastError` by its SQLSTATE or its text.

An error has the SQLSTATE as its `code` and PostgreSQL's sentence in its message, with the names of
constraint, table and column. It never contains a row's values: PostgreSQL's DETAIL has them, and the
sentences of class 22 quote them. Such an error does not keep the original one, so that no traceback shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import psycopg

from holdfast.core.errors import (
    AccessRefused,
    ConditionFailed,
    DeclarationError,
    HoldfastError,
    InvalidRequest,
    NotFound,
    RequestRefused,
    RowAlreadyExists,
    SettingsError,
    StatementTimedOut,
    StoreBusy,
    StoreFailed,
    StoreFull,
    StoreIOError,
    StoreUnreachable,
    TransactionConflict,
)
from holdfast.operations.sql import Statement
from holdfast.stores.sql.postgres.merging import UNEXPECTED_ROWS_STATE

# The server ends the connection, starts, stops, or (25006) has become a read-only replica.
LOST_STATES: Final = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25006"})
# Surely nothing was done: the statement was refused before it began, or its transaction ended while idle.
UNDONE_STATES: Final = frozenset({"57P03", "25P03", "25006", "0A000", "26000"})
_LOGIN_REFUSED: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
)
_NO_ROLE: Final = re.compile(r'role ".*" does not exist')
_NO_DATABASE: Final = re.compile(r'database ".*" does not exist')
_TOO_MANY_CONNECTIONS: Final = ("too many clients", "too many connections", "remaining connection slots")
_INVALID_VALUE: Final = re.compile(r"invalid \S+ value")
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Class 22 (data exception) quotes the value, or shows its bytes.
_QUOTED_VALUE: Final = re.compile(r'".*"|\b0x[0-9a-fA-F]+', re.DOTALL)
# Sentences that a function of the schema wrote: nothing is known about them.
_FOREIGN_SENTENCES: Final = "P0"


class ConnectionLost(Exception):
    """The connection is unusable. Internal to this package. `may_be_done` says that the response was lost."""

    def __init__(self, reason: str, *, may_be_done: bool) -> None:
        super().__init__(reason)
        self.reason, self.may_be_done = reason, may_be_done


def is_lost(error: psycopg.Error) -> bool:
    """Return whether another connection may work. It does not say whether the statement was done."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state in LOST_STATES or state.startswith("08") or _is_stale_plan(error)


def is_surely_undone(error: psycopg.Error) -> bool:
    """Return whether the statement surely did nothing."""
    return error.sqlstate in UNDONE_STATES


def _is_stale_plan(error: psycopg.Error) -> bool:
    """Return whether a prepared statement is out of date; a new connection prepares it again.

    It was prepared before a migration, or the driver believes it prepared although the server never prepared
    it because its transaction had failed.
    """
    return error.sqlstate == "26000" or (error.sqlstate == "0A000" and "cached plan" in str(error))


def map_error(error: psycopg.Error, statement: Statement | None = None) -> HoldfastError:
    """Return the error to raise instead. Raise it `from None`: the original may hold values of a row."""
    subject = (statement.pattern if statement is not None else None) or "A statement"
    state = error.sqlstate or ""
    if statement is not None and statement.is_merged and state == UNEXPECTED_ROWS_STATE:
        return ConditionFailed(
            f"A write of {subject} would have affected another number of rows than it must: all of them were "
            "rolled back. Read again, decide again, retry."
        )
    map_state = _BY_STATE.get(state) or _BY_CLASS.get(state[:2])
    if map_state is not None:
        return map_state(error, subject).with_code(state)
    if not state:
        return _map_driver_error(error, subject)
    return RequestRefused(state, f"PostgreSQL refuses {subject}: {format_reason(error)}.")


def map_connection_error(error: psycopg.Error) -> HoldfastError:
    """Return the error for a failed connection. libpq gives only texts; unknown ones become
    `StoreUnreachable`.
    """
    text = str(error)
    if any(words in text for words in _LOGIN_REFUSED) or _NO_ROLE.search(text):
        return _map_refused_login(error, "")
    if _NO_DATABASE.search(text):
        return _map_missing_database(error, "")
    if _INVALID_VALUE.search(text):
        return SettingsError(f"Invalid setting `sql`: {format_reason(error)}.")
    if "certificate" in text or "SSL" in text:
        return SettingsError(
            "PostgreSQL has no valid certificate for its address, or does not encrypt: "
            f"{format_reason(error)}."
        )
    if any(words in text for words in _TOO_MANY_CONNECTIONS):
        return StoreBusy(f"PostgreSQL accepts no more connections: {format_reason(error)}.")
    return StoreUnreachable(f"PostgreSQL is unreachable: {format_reason(error)}.")


def _map_driver_error(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return the error for a failure that the driver itself found: `StoreUnreachable` for a connection, else
    `InvalidRequest`.
    """
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnreachable(
            f"PostgreSQL is unreachable: {format_reason(error)}. Nothing was written; retry."
        )
    return InvalidRequest(
        f"{subject} has a parameter that the driver cannot send to PostgreSQL: {format_reason(error)}."
    )


def format_reason(error: BaseException) -> str:
    """Return PostgreSQL's sentence without values, with the SQLSTATE and the declared names that it gives.

    Of the driver's own error it is the first line, which holds no values.
    """
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return f"{format_sentence(error)} ({', '.join((f'SQLSTATE {error.sqlstate}', *_list_names(error)))})"
    return str(error).partition("\n")[0].rstrip(". ") or type(error).__name__


def format_sentence(error: psycopg.Error) -> str:
    """Return PostgreSQL's sentence without values, or the name of the condition if there is none: `not null
    violation` for `NotNullViolation`.
    """
    state, sentence = error.sqlstate or "", error.diag.message_primary
    if not sentence or state.startswith(_FOREIGN_SENTENCES):
        return _WORD_BOUNDARY.sub(" ", type(error).__name__).lower()
    return _QUOTED_VALUE.sub("…", sentence) if state.startswith("22") else sentence


def _list_names(error: psycopg.Error) -> list[str]:
    """Return `constraint …`, `table …` and `column …`: the declared names, as far as the server gives
    them.
    """
    diagnosis = error.diag
    table = ".".join(filter(None, (diagnosis.schema_name, diagnosis.table_name)))
    named = (("constraint", diagnosis.constraint_name), ("table", table), ("column", diagnosis.column_name))
    return [f"{kind} {name}" for kind, name in named if name]


def _map_unique_violation(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `RowAlreadyExists` with the name of the constraint."""
    return RowAlreadyExists(
        f"{subject} would insert a row that already exists: {format_reason(error)}. Read it, or add ON "
        "CONFLICT to the statement.",
        constraint=error.diag.constraint_name or "",
    )


def _map_invalid_value(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `InvalidRequest` for values that a type or a constraint refuses."""
    return InvalidRequest(f"PostgreSQL refuses the values of {subject}: {format_reason(error)}.")


def _map_missing_table(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `NotFound` for a table or schema that does not exist."""
    missing = NotFound(
        f"{subject} uses a table or a schema that does not exist: {format_reason(error)}. Create it with "
        "`holdfast migrate SYSTEM`."
    )
    missing.is_for_operator = True
    return missing


def _map_invalid_statement(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `DeclarationError` for SQL that PostgreSQL cannot parse or resolve."""
    return DeclarationError(f"Invalid SQL in {subject}: {format_reason(error)}.")


def _map_missing_permission(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `AccessRefused` for a statement that the user may not run."""
    return AccessRefused(
        "AccessDeniedException",
        f"The user of the setting `sql` may not run {subject}: {format_reason(error)}. Grant the "
        "permission, or use another user.",
    )


def _map_refused_login(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `AccessRefused` for a login that PostgreSQL refuses."""
    return AccessRefused(
        "AccessDeniedException",
        f"PostgreSQL refuses the login: {format_reason(error)}. Check the user in the setting `sql` and the "
        "secret that `sql_secret` names.",
    )


def _map_missing_database(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `SettingsError` for a database that does not exist."""
    return SettingsError(
        f"The database that the setting `sql` names does not exist: {format_reason(error)}. Create it, or "
        "name another."
    )


def _map_conflict(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `TransactionConflict`, which the caller may retry after it reads again."""
    return TransactionConflict(
        f"Another transaction used the same rows: {format_reason(error)}. {subject} and its whole "
        "transaction were rolled back. Read again, decide again, retry."
    )


def _map_timeout(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `StatementTimedOut` for a statement or a lock that took too long."""
    return StatementTimedOut(
        f"{subject} did not finish within `sql_statement_timeout_ms` and was rolled back: "
        f"{format_reason(error)}. Retry, or look for the transaction that locks its rows."
    )


def _map_busy_server(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `StoreBusy` for a server without free resources."""
    return StoreBusy(f"PostgreSQL is too busy to run {subject}: {format_reason(error)}. Retry later.")


def _map_full_disk(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `StoreFull`."""
    return StoreFull(
        f"The disk of PostgreSQL is full: {format_reason(error)}. {subject} was rolled back. Free some "
        "space, then retry."
    )


def _map_disk_error(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `StoreIOError` for a failure of the server's machine."""
    return StoreIOError(f"The machine of PostgreSQL failed while it ran {subject}: {format_reason(error)}.")


def _map_server_failure(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `StoreFailed` for an internal error of PostgreSQL."""
    return StoreFailed(f"PostgreSQL failed while it ran {subject}: {format_reason(error)}. Read its log.")


def _map_lost_connection(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return `StoreUnreachable`, which the caller may retry."""
    return StoreUnreachable(f"The connection to PostgreSQL was lost: {format_reason(error)}. Retry.")


_ErrorMapper = Callable[[psycopg.Error, str], HoldfastError]

_BY_STATE: Final[dict[str, _ErrorMapper]] = {
    "23505": _map_unique_violation,
    "3D000": _map_missing_database,
    "3F000": _map_missing_table,
    "40001": _map_conflict,
    "40P01": _map_conflict,
    "42501": _map_missing_permission,
    "42P01": _map_missing_table,
    "53100": _map_full_disk,
    "55P03": _map_timeout,
    "57014": _map_timeout,
    "25P04": _map_timeout,
    **dict.fromkeys(LOST_STATES, _map_lost_connection),
}
_BY_CLASS: Final[dict[str, _ErrorMapper]] = {
    "08": _map_lost_connection,
    "22": _map_invalid_value,
    "23": _map_invalid_value,
    "28": _map_refused_login,
    "40": _map_conflict,
    "42": _map_invalid_statement,
    "53": _map_busy_server,
    "54": _map_invalid_value,
    "57": _map_busy_server,
    "58": _map_disk_error,
    "XX": _map_server_failure,
}
