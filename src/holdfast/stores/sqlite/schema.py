"""Whose file it is, which version of the schema it has, and how an older one is brought up to date.

SQLite's header has room for both: `application_id` says which program wrote the file, `user_version` which
schema. They change in the same transaction as the tables, so a file is never between two versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import apsw

from holdfast.core.errors import InternalError, StoreFileError

# Whose file it is, its version and how many tables it has. One statement, so that all are of one moment.
_IDENTITY = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """The step to `version`, from the one before: statements, or a function that runs them."""

    version: int
    apply: str | Callable[[apsw.Connection], None]


@dataclass(frozen=True, slots=True)
class Schema:
    """`application` is the 32-bit number of the program; a new file runs every migration, from the first."""

    application: int
    migrations: tuple[Migration, ...]

    def __post_init__(self) -> None:
        if [step.version for step in self.migrations] != list(range(1, self.version + 1)) or not self.version:
            raise InternalError("migrations must be numbered 1, 2, 3 … without a gap")

    @property
    def version(self) -> int:
        return len(self.migrations)


def check_identity(connection: apsw.Connection, schema: Schema, path: str) -> None:
    """Reads only, so that a file which is not ours is left exactly as it was."""
    application, version, tables = _identity(connection)
    # Blank is a new file, or that of a process which died before its first transaction.
    blank = (application, version, tables) == (0, 0, 0)
    if application != schema.application and not blank:
        raise StoreFileError(
            f"{path} is not a Holdfast file of this kind (its application id is {application}, not "
            f"{schema.application}). It was left as it is: choose another path."
        )
    if version > schema.version:
        raise StoreFileError(
            f"{path} was written by a newer Holdfast (schema {version}, this one knows {schema.version}). "
            "Upgrade Holdfast, or choose another path."
        )


def migrate(connection: apsw.Connection, schema: Schema) -> None:
    """One transaction for each step: a step that fails leaves the file at the version before it."""
    _, version, _ = _identity(connection)
    for step in schema.migrations[version:]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _apply(connection, step)
            connection.pragma("application_id", schema.application)
            connection.pragma("user_version", step.version)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def check_version(connection: apsw.Connection, version: int, path: str) -> None:
    """For a file that is open already: a newer program may have migrated it in the meantime."""
    found = connection.execute("PRAGMA user_version").get
    if found != version:
        raise StoreFileError(
            f"{path} was changed to schema {found} by another Holdfast while this one ({version}) had it "
            "open. "
            "Restart this process with the newer version."
        )


def _identity(connection: apsw.Connection) -> tuple[int, int, int]:
    row: tuple[int, int, int] = connection.execute(_IDENTITY).get
    return row


def _apply(connection: apsw.Connection, step: Migration) -> None:
    if isinstance(step.apply, str):
        connection.execute(step.apply)
    else:
        step.apply(connection)
