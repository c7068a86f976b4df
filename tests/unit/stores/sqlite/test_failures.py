"""Error mapping of the SQLite driver: every error class becomes one of ours, with its cause."""

from __future__ import annotations

import apsw
import pytest

from holdfast.core.errors import (
    CancellationReason,
    HoldfastError,
    InternalError,
    RowsDropped,
    SettingsError,
    StoreBusy,
    StoreClosed,
    StoreFileError,
    StoreFull,
    StoreIOError,
    TransactionCancelled,
)
from holdfast.stores.sqlite.errors import map_error, map_error_for_submitter
from tests.cases import all_cases

ALL = [
    kind
    for kind in vars(apsw).values()
    if isinstance(kind, type) and issubclass(kind, apsw.Error) and kind is not apsw.Error
]
EXPECTED = {
    apsw.BusyError: StoreBusy,
    apsw.LockedError: StoreBusy,
    apsw.ProtocolError: StoreBusy,
    apsw.SchemaChangeError: StoreBusy,
    apsw.CorruptError: StoreFileError,
    apsw.NotADBError: StoreFileError,
    apsw.FormatError: StoreFileError,
    apsw.FullError: StoreFull,
    apsw.IOError: StoreIOError,
    apsw.NoLFSError: StoreIOError,
    apsw.NoMemError: StoreIOError,
    apsw.CantOpenError: SettingsError,
    apsw.ReadOnlyError: SettingsError,
    apsw.PermissionsError: SettingsError,
    apsw.ConnectionClosedError: StoreClosed,
    apsw.CursorClosedError: StoreClosed,
    apsw.InterruptError: StoreClosed,
}


@all_cases("kind", ALL)
def test_an_error_of_the_driver_is_mapped(kind: type[apsw.Error]) -> None:
    error = kind("the reason")

    ours = map_error(error, "data/tables.db")

    assert type(ours) is EXPECTED.get(kind, InternalError)
    assert isinstance(ours, HoldfastError)
    assert "data/tables.db" in ours.message
    assert ours.__cause__ is error


def test_other_errors_are_unchanged() -> None:
    error = KeyError("x")
    assert map_error(error, "data/tables.db") is error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (apsw.FullError("x"), StoreFull),
        (StoreBusy("held"), StoreBusy),
        (StoreFileError("newer"), StoreFileError),
        (TransactionCancelled([CancellationReason("None")]), StoreIOError),
        (ValueError("x"), StoreIOError),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_a_failed_transaction_gives_each_submitter_an_error_of_its_own(
    error: Exception, expected: type[HoldfastError]
) -> None:
    first, second = (
        map_error_for_submitter(error, "data/tables.db"),
        map_error_for_submitter(error, "data/tables.db"),
    )
    assert first is not second
    assert type(first) is type(second) is expected
    assert first.__cause__ is error


@pytest.mark.parametrize("kind", [apsw.SQLError, apsw.SchemaChangeError])
def test_recognizes_rows_dropped_by_another_process(kind: type[apsw.Error]) -> None:
    assert type(map_error(kind("no such table: items_3"), "tables.db")) is RowsDropped
