"""Schemas of SQLite files: the owner and version of a file, and the migrations of an older file.

SQLite's header stores both: `application_id` identifies the program that wrote the file, `user_version` the
schema. They change in the same transaction as the tables, so a file is never between two versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import apsw

from holdfast.core.errors import InternalError, StoreFileError

# The file's application id, version and number of tables. One statement, so that they are consistent.
_READ_IDENTITY = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
"""


# The id of the store, for as long as its data lives: a copy or a backup has the same. Its generation is how
# often its log was truncated, so that an older copy can be recognised.
_CREATE_STORE_ID = """
    CREATE TABLE store_identity (id TEXT NOT NULL, generation INTEGER NOT NULL) STRICT;
    INSERT INTO store_identity VALUES (lower(hex(randomblob(16))), 0);
"""
_HAS_STORE_ID = "SELECT count(*) FROM sqlite_schema WHERE name = 'store_identity'"


@dataclass(frozen=True, slots=True)
class Migration:
    """The migration from the previous version to `version`: SQL statements, or a function that runs them."""

    version: int
    apply: str | Callable[[apsw.Connection], None]


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of one kind of file.

    `application` is the program's 32-bit id; a new file runs every migration.
    """

    application: int
    migrations: tuple[Migration, ...]

    def __post_init__(self) -> None:
        versions = [migration.version for migration in self.migrations]
        if versions != list(range(1, self.version + 1)) or not self.version:
            raise InternalError(
                f"Invalid migrations {versions}: expected the versions 1, 2, 3 … without a gap."
            )

    @property
    def version(self) -> int:
        """Return the newest version, which is the number of migrations."""
        return len(self.migrations)


def check_identity(connection: apsw.Connection, schema: Schema, path: str) -> None:
    """Raise `StoreFileError` if the file is foreign or too new.

    Only reads, so that a foreign file stays unchanged.
    """
    application, version, tables = _read_identity(connection)
    # A blank file is new, or its process died before its first transaction.
    blank = (application, version, tables) == (0, 0, 0)
    if application != schema.application and not blank:
        raise StoreFileError(
            f"{path} is not a Holdfast file of this kind (its application id is {application}, not "
            f"{schema.application}). It was not changed: choose another path."
        )
    if version > schema.version:
        raise StoreFileError(
            f"{path} was written by a newer Holdfast (schema {version}; this one supports up to "
            f"{schema.version}). Upgrade Holdfast, or choose another path."
        )


def migrate(connection: apsw.Connection, schema: Schema) -> None:
    """Run the missing migrations, one transaction each, and give the store its id in the first.

    A failed one leaves the file at the version before it.
    """
    _, version, _ = _read_identity(connection)
    if version and not has_store_id(connection):
        with connection:
            connection.execute(_CREATE_STORE_ID)
    for migration in schema.migrations[version:]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if migration.version == 1:
                connection.execute(_CREATE_STORE_ID)
            _apply(connection, migration)
            connection.pragma("application_id", schema.application)
            connection.pragma("user_version", migration.version)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def is_blank(connection: apsw.Connection) -> bool:
    """Return whether the file is new, or its process died before its first transaction."""
    return _read_identity(connection) == (0, 0, 0)


def has_store_id(connection: apsw.Connection) -> bool:
    """Return whether the file has an id, which every version with checksums gives it."""
    return bool(connection.execute(_HAS_STORE_ID).get)


def read_store_id(connection: apsw.Connection) -> str:
    """Return the id of the store in this file. `migrate` has run."""
    found: str = connection.execute("SELECT id FROM store_identity").get
    return found


def find_store_id(connection: apsw.Connection) -> str | None:
    """Return the id of the store in this file, or None if no version that gives one has migrated it."""
    return read_store_id(connection) if connection.execute(_HAS_STORE_ID).get else None


def read_version(connection: apsw.Connection) -> int:
    """Return the schema version of the file."""
    version: int = connection.execute("PRAGMA user_version").get
    return version


def check_version(connection: apsw.Connection, version: int, path: str) -> None:
    """Raise `StoreFileError` if another program has migrated the file while it was open."""
    found = read_version(connection)
    if found != version:
        raise StoreFileError(
            f"Another Holdfast migrated {path} to schema {found} while this one (schema {version}) had it "
            "open. Restart this process with the newer version."
        )


def _read_identity(connection: apsw.Connection) -> tuple[int, int, int]:
    """Return the file's application id, schema version and number of tables."""
    row: tuple[int, int, int] = connection.execute(_READ_IDENTITY).get
    return row


def _apply(connection: apsw.Connection, migration: Migration) -> None:
    """Run the migration's SQL or its function."""
    if isinstance(migration.apply, str):
        connection.execute(migration.apply)
    else:
        migration.apply(connection)
