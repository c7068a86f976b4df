"""Maps PostgreSQL's failures to `HoldfastError`s by SQLSTATE, grouped by what the caller can do.

An error never contains a row's values: PostgreSQL's DETAIL has them, and so have the messages of class 22.
Errors show names (constraint, table, column), and such an error does not keep the original one, so that no
traceback shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import psycopg

from holdfast.core.errors import (
    AccessRefused,
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

# The server ends the connection, starts, stops, or (25006) has become a read-only replica.
LOST: Final = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25006"})
# Surely nothing was done: the statement was refused before it began, or its transaction ended while idle.
NOTHING_DONE: Final = frozenset({"57P03", "25P03", "25006", "0A000", "26000"})
_LOG_IN_REFUSED: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
)
_NO_ROLE: Final = re.compile(r'role ".*" does not exist')
_NO_DATABASE: Final = re.compile(r'database ".*" does not exist')
_NO_ROOM: Final = ("too many clients", "too many connections", "remaining connection slots")
_ILL_SAID: Final = re.compile(r"invalid \S+ value")
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


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
    return state in LOST or state.startswith("08") or _is_stale_plan(error)


def is_nothing_done(error: psycopg.Error) -> bool:
    return error.sqlstate in NOTHING_DONE


def _is_stale_plan(error: psycopg.Error) -> bool:
    """Return whether a prepared statement is out of date; a new connection prepares it again.

    It was prepared before a migration, or the driver takes it for prepared although the server never prepared
    it because its transaction had failed.
    """
    return error.sqlstate == "26000" or (error.sqlstate == "0A000" and "cached plan" in str(error))


def mapped(error: psycopg.Error, statement: Statement | None = None) -> HoldfastError:
    """Return the error to raise instead. Raise it `from None`: the original may hold values of a row."""
    subject = (statement.pattern if statement is not None else None) or "A statement"
    state = error.sqlstate or ""
    make = _BY_STATE.get(state) or _BY_CLASS.get(state[:2])
    if make is not None:
        return make(error, subject)
    if not state:
        return _without_state(error, subject)
    return RequestRefused(state, f"PostgreSQL refuses {subject}: {_condition(error)} ({state}).")


def not_connected(error: psycopg.Error) -> HoldfastError:
    """Return the error for a failed connection. libpq gives only texts; unknown ones become
    `StoreUnreachable`.
    """
    text = str(error)
    if any(words in text for words in _LOG_IN_REFUSED) or _NO_ROLE.search(text):
        return _log_in(error, "")
    if _NO_DATABASE.search(text):
        return _no_database(error, "")
    if _ILL_SAID.search(text):
        return SettingsError(f"The setting `sql` says what libpq does not take: {plain(error)}.")
    if "certificate" in text or "SSL" in text:
        return SettingsError(f"PostgreSQL is not who it must be, or does not encrypt: {plain(error)}.")
    if any(words in text for words in _NO_ROOM):
        return StoreBusy(f"PostgreSQL takes no more connections: {plain(error)}.")
    return StoreUnreachable(f"PostgreSQL is not reached: {plain(error)}.")


def _without_state(error: psycopg.Error, subject: str) -> HoldfastError:
    """Return the error for a failure that the driver itself found, without the server."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnreachable(f"PostgreSQL is not reached: {plain(error)}. Nothing was written; try again.")
    return InvalidRequest(f"{subject} has a parameter that cannot be sent to PostgreSQL: {plain(error)}.")


def plain(error: BaseException) -> str:
    """Return the first line of a driver's own message, which holds no values; for a server's error, only the
    condition.
    """
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return f"{_condition(error)} ({error.sqlstate})"
    return str(error).partition("\n")[0].rstrip(". ") or type(error).__name__


def _condition(error: psycopg.Error) -> str:
    """Return the name of the condition: `not null violation` for `NotNullViolation`."""
    return _WORDS.sub(" ", type(error).__name__).lower()


def _where(error: psycopg.Error) -> str:
    """Return ` (constraint …, table …, column …)`: the declared names, as far as the server gives them."""
    diagnosis = error.diag
    table = ".".join(filter(None, (diagnosis.schema_name, diagnosis.table_name)))
    named = (("constraint", diagnosis.constraint_name), ("table", table), ("column", diagnosis.column_name))
    told = ", ".join(f"{kind} {name}" for kind, name in named if name)
    return f" ({told})" if told else ""


def _unique(error: psycopg.Error, subject: str) -> HoldfastError:
    return RowAlreadyExists(
        f"{subject} would make a row that is there already{_where(error)}: read it, or let the statement say "
        "what to do "
        "on a conflict.",
        constraint=error.diag.constraint_name or "",
    )


def _value(error: psycopg.Error, subject: str) -> HoldfastError:
    return InvalidRequest(f"PostgreSQL refuses the values of {subject}: {_condition(error)}{_where(error)}.")


def _missing(error: psycopg.Error, subject: str) -> HoldfastError:
    return NotFound(
        f"{subject} is about a table or a schema that is not there: {error.diag.message_primary}. Make it "
        "with "
        "`holdfast migrate SYSTEM`."
    )


def _declared_wrongly(error: psycopg.Error, subject: str) -> HoldfastError:
    return DeclarationError(f"PostgreSQL cannot run the text of {subject}: {error.diag.message_primary}.")


def _permission(error: psycopg.Error, subject: str) -> HoldfastError:
    return AccessRefused(
        "AccessDeniedException",
        f"The user of the setting `sql` may not do {subject}: {error.diag.message_primary}. Grant it, or use "
        "another.",
    )


def _log_in(error: psycopg.Error, subject: str) -> HoldfastError:
    return AccessRefused(
        "AccessDeniedException",
        "PostgreSQL refuses the log-in: check the user in the setting `sql` and the secret that `sql_secret` "
        "names.",
    )


def _no_database(error: psycopg.Error, subject: str) -> HoldfastError:
    return SettingsError(
        "The database that the setting `sql` names is not there: create it, or name another."
    )


def _conflict(error: psycopg.Error, subject: str) -> HoldfastError:
    return TransactionConflict(
        f"Another transaction was on the same rows ({_condition(error)}): {subject} and all of its "
        "transaction were "
        "undone. Read again, decide again, repeat."
    )


def _timed_out(error: psycopg.Error, subject: str) -> HoldfastError:
    return StatementTimedOut(
        f"{subject} was not done in the time that `sql_statement_timeout_ms` gives it, and was undone: try "
        "again, or "
        "look for what holds its rows."
    )


def _busy(error: psycopg.Error, subject: str) -> HoldfastError:
    return StoreBusy(f"PostgreSQL has no room for {subject} now ({_condition(error)}): try again later.")


def _full(error: psycopg.Error, subject: str) -> HoldfastError:
    return StoreFull(
        f"The disk of PostgreSQL is full: nothing of {subject} was kept. Free some space, repeat it."
    )


def _disk(error: psycopg.Error, subject: str) -> HoldfastError:
    return StoreIOError(f"The machine of PostgreSQL failed under {subject}: {_condition(error)}.")


def _failed(error: psycopg.Error, subject: str) -> HoldfastError:
    return StoreFailed(
        f"PostgreSQL failed at {subject} ({_condition(error)}, {error.sqlstate}): look at its log."
    )


def _unreachable(error: psycopg.Error, subject: str) -> HoldfastError:
    return StoreUnreachable(f"The connection to PostgreSQL was lost ({_condition(error)}): try again.")


_Make = Callable[[psycopg.Error, str], HoldfastError]

_BY_STATE: Final[dict[str, _Make]] = {
    "23505": _unique,
    "3D000": _no_database,
    "3F000": _missing,
    "40001": _conflict,
    "40P01": _conflict,
    "42501": _permission,
    "42P01": _missing,
    "53100": _full,
    "55P03": _timed_out,
    "57014": _timed_out,
    "25P04": _timed_out,
    **dict.fromkeys(LOST, _unreachable),
}
_BY_CLASS: Final[dict[str, _Make]] = {
    "08": _unreachable,
    "22": _value,
    "23": _value,
    "28": _log_in,
    "40": _conflict,
    "42": _declared_wrongly,
    "53": _busy,
    "54": _value,
    "57": _busy,
    "58": _disk,
    "XX": _failed,
}
