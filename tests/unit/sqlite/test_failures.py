"""Every error of the driver becomes one of ours, with its cause."""

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
from holdfast.stores.sqlite.failures import mapped, mapped_for_all

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


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_of_the_driver_is_mapped(kind: type[apsw.Error]) -> None:
    error = kind("the reason")

    ours = mapped(error, "data/tables.db")

    assert type(ours) is EXPECTED.get(kind, InternalError)
    assert isinstance(ours, HoldfastError)
    assert "data/tables.db" in ours.message
    assert ours.__cause__ is error


def test_an_error_that_is_not_the_drivers_stays_as_it_is() -> None:
    error = KeyError("x")
    assert mapped(error, "data/tables.db") is error


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
    first, second = mapped_for_all(error, "data/tables.db"), mapped_for_all(error, "data/tables.db")
    assert first is not second
    assert type(first) is type(second) is expected
    assert first.__cause__ is error


@pytest.mark.parametrize("kind", [apsw.SQLError, apsw.SchemaChangeError])
def test_rows_that_another_process_dropped_are_told_apart(kind: type[apsw.Error]) -> None:
    assert type(mapped(kind("no such table: items_3"), "tables.db")) is RowsDropped
