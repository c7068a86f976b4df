"""Error mapping of PostgreSQL, with made-up driver errors: every SQLSTATE and connection failure."""

from __future__ import annotations

import psycopg
from psycopg import errors

from holdfast.core.errors import (
    AccessRefused,
    Conflict,
    DeclarationError,
    HoldfastError,
    InternalError,
    InvalidRequest,
    NotFound,
    RetryLater,
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
from holdfast.stores.sql.postgres.errors import is_lost, is_surely_undone, map_connection_error, map_error
from tests.cases import all_cases

STATES = sorted(errors._sqlcodes)

KINDS: list[tuple[str, type[HoldfastError]]] = [
    ("08006", StoreUnreachable),
    ("22001", InvalidRequest),
    ("22P02", InvalidRequest),
    ("23502", InvalidRequest),
    ("23503", InvalidRequest),
    ("23505", RowAlreadyExists),
    ("23514", InvalidRequest),
    ("23P01", InvalidRequest),
    ("28P01", AccessRefused),
    ("3D000", SettingsError),
    ("3F000", NotFound),
    ("40001", TransactionConflict),
    ("40P01", TransactionConflict),
    ("42501", AccessRefused),
    ("42601", DeclarationError),
    ("42703", DeclarationError),
    ("42P01", NotFound),
    ("53100", StoreFull),
    ("53300", StoreBusy),
    ("55P03", StatementTimedOut),
    ("57014", StatementTimedOut),
    ("57P01", StoreUnreachable),
    ("58030", StoreIOError),
    ("XX001", StoreFailed),
]


def make_error(state: str, text: str = "Jane Doe") -> psycopg.Error:
    """Return the driver's error for this SQLSTATE."""
    return errors.lookup(state)(text)


@all_cases(("state", "kind"), KINDS)
def test_maps_each_failure_to_its_error_class(state: str, kind: type[HoldfastError]) -> None:
    failure = map_error(make_error(state), Statement(text="SELECT 1", pattern="S7"))
    assert type(failure) is kind
    assert state[:2] in ("08", "28", "3D", "57", "53", "58") or "S7" in failure.message


def test_maps_every_failure_without_server_text() -> None:
    assert len(STATES) > 200
    for state in STATES:
        failure = map_error(make_error(state))
        assert not isinstance(failure, InternalError)
        assert type(failure) is not HoldfastError
        assert "Jane" not in str(failure), state


def test_recognizes_failures_that_a_new_connection_fixes() -> None:
    for state in ("08003", "08006", "57P01", "57P02", "57P03", "25006"):
        assert is_lost(make_error(state)), state
    for state in ("23505", "40001", "57014", "42P01", "0A000"):
        assert not is_lost(make_error(state)), state
    assert is_lost(make_error("0A000", "cached plan must not change result type"))
    assert is_lost(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert not is_lost(psycopg.DataError("no text"))


def test_only_definite_refusals_count_as_not_done() -> None:
    assert is_surely_undone(make_error("57P03"))
    assert is_surely_undone(make_error("25006"))
    assert not is_surely_undone(make_error("57P01"))
    assert not is_surely_undone(psycopg.OperationalError("server closed the connection unexpectedly"))


CONNECTING: list[tuple[str, type[HoldfastError]]] = [
    ('FATAL:  password authentication failed for user "gateway"', AccessRefused),
    ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', AccessRefused),
    ('FATAL:  role "gateway" does not exist', AccessRefused),
    ('FATAL:  database "pagwdb" does not exist', DeclarationError),
    ("server does not support SSL, but SSL was required", DeclarationError),
    ("SSL error: certificate verify failed", DeclarationError),
    ("FATAL:  sorry, too many clients already", StoreBusy),
    ("Connection refused", StoreUnreachable),
    ("timeout expired", StoreUnreachable),
    ("FATAL:  the database system is starting up", StoreUnreachable),
]


@all_cases(("words", "kind"), CONNECTING)
def test_classifies_connection_failures_by_libpq_text(words: str, kind: type[HoldfastError]) -> None:
    assert isinstance(map_connection_error(psycopg.OperationalError(f"connection failed: {words}")), kind)


def test_distinguishes_permanent_from_temporary_failures() -> None:
    assert not isinstance(map_error(make_error("23505")), RetryLater | Conflict)
    assert isinstance(map_error(make_error("40001")), Conflict)
    assert isinstance(map_error(make_error("57014")), RetryLater)
