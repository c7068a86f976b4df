"""Error mapping of the SQLite driver: each error becomes a `HoldfastError` that says what the caller can do.

`map_error` is used wherever SQL runs: reads, units of work, commits, opening. An error that is not in the
table below (a wrong statement, a constraint, a misuse) can only come from a bug in Holdfast, and becomes an
`InternalError`. A missing table becomes `RowsDropped`.
"""

from __future__ import annotations

import apsw

from holdfast.core.errors import (
    DataDamaged,
    HoldfastError,
    InternalError,
    RowsDropped,
    SettingsError,
    StoreBusy,
    StoreClosed,
    StoreFileError,
    StoreFull,
    StoreIOError,
)
from holdfast.stores.sqlite.checksums import is_checksum_error

PAGE_DAMAGED = (
    "A page of {path} does not match its checksum, so it was not used. `holdfast doctor --deep` names what "
    "is damaged: restore that from a backup."
)

_ERRORS: dict[type[apsw.Error], tuple[type[HoldfastError], str]] = {
    apsw.BusyError: (StoreBusy, "{path} is locked by another program ({reason}). Retry in a moment."),
    apsw.LockedError: (StoreBusy, "{path} is locked by another program ({reason}). Retry in a moment."),
    apsw.ProtocolError: (StoreBusy, "Too many programs are opening {path} at once ({reason}). Retry."),
    apsw.SchemaChangeError: (StoreBusy, "Another program is changing {path} ({reason}). Retry."),
    apsw.CorruptError: (
        StoreFileError,
        "{path} is damaged ({reason}). It was not changed: restore it from a backup.",
    ),
    apsw.NotADBError: (
        StoreFileError,
        "{path} is not a Holdfast file, or is damaged ({reason}). It was not changed: restore a backup, or "
        "choose another path.",
    ),
    apsw.FormatError: (StoreFileError, "{path} is in a format this SQLite cannot read ({reason})."),
    apsw.FullError: (StoreFull, "The disk of {path} is full: nothing was written. Free some space."),
    apsw.IOError: (
        StoreIOError,
        "The disk of {path} failed ({reason}). See the system's log, then retry.",
    ),
    apsw.NoLFSError: (StoreIOError, "{path} is larger than this system can address ({reason})."),
    apsw.NoMemError: (StoreIOError, "No memory left for {path} ({reason})."),
    apsw.CantOpenError: (SettingsError, "Cannot open {path} ({reason}). Check the path and its permissions."),
    apsw.ReadOnlyError: (SettingsError, "Cannot write {path} ({reason}). Check its permissions."),
    apsw.PermissionsError: (SettingsError, "No permission for {path} ({reason}). Check its permissions."),
    apsw.ConnectionClosedError: (StoreClosed, "{path} was closed."),
    apsw.CursorClosedError: (StoreClosed, "{path} was closed."),
    apsw.InterruptError: (StoreClosed, "{path} was closed while this was running."),
}


def map_error(error: BaseException, path: str) -> BaseException:
    """Return a new Holdfast error for a driver error, with its cause; return any other error unchanged."""
    if not isinstance(error, apsw.Error):
        return error
    error = find_failure(error)
    if is_checksum_error(error):
        damaged = DataDamaged(PAGE_DAMAGED.format(path=path))
        damaged.__cause__ = error
        return damaged
    # SQLite reports a wrong statement, or a schema that changed while it prepared the statement again.
    is_dropped = isinstance(error, apsw.SQLError | apsw.SchemaChangeError) and "no such table" in str(error)
    refused = (
        RowsDropped if is_dropped else InternalError,
        "SQLite refused a statement on {path}: {reason}",
    )
    kind, text = refused if is_dropped else _ERRORS.get(type(error), refused)
    ours = kind(text.format(path=path, reason=error))
    ours.__cause__ = error
    return ours


def find_failure(error: apsw.Error) -> apsw.Error:
    """Return the error for which SQLite has ended a transaction, if this one only says that it has ended."""
    while isinstance(error, apsw.SQLError) and isinstance(error.__context__, apsw.Error):
        error = error.__context__
    return error


def map_error_for_submitter(error: BaseException, path: str) -> HoldfastError:
    """Return a separate error, with the same cause, for each submitter of a transaction that failed as a
    whole.
    """
    if isinstance(error, apsw.Error):
        ours = map_error(error, path)
    elif isinstance(error, DataDamaged):
        ours = DataDamaged(error.message, table=error.table, key=error.key)
    elif isinstance(error, (StoreBusy, StoreFileError)):
        ours = type(error)(error.message)
    else:
        ours = StoreIOError(
            f"A transaction on {path} was rolled back: {error!r}. Nothing was written: retry."
        )
    assert isinstance(ours, HoldfastError)
    ours.__cause__ = error
    return ours
