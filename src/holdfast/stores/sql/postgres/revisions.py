"""The revisions of a schema: those in a package of migrations, and the one that a database is at.

A package's revisions are a chain of Alembic's version files, `0001_….py`. The table `alembic_version` in the
schema itself records the current one, so that each schema of a database migrates independently. This module
changes nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from alembic.script import Script, ScriptDirectory

from holdfast.core.errors import DeclarationError, SchemaMismatch
from holdfast.operations.sql.descriptions import SchemaState

VERSION_TABLE: Final = "alembic_version"


class Revisions:
    """The revisions of one package, oldest first."""

    def __init__(self, scripts: ScriptDirectory, chain: Sequence[Script]) -> None:
        self.scripts, self._chain = scripts, tuple(chain)

    @property
    def target(self) -> str:
        """Return the newest revision."""
        return self._chain[-1].revision

    def after(self, current: str | None) -> tuple[Script, ...]:
        """Return the revisions after `current`; all of them for None."""
        names = [each.revision for each in self._chain]
        return self._chain if current is None else self._chain[names.index(current) + 1 :]

    def __contains__(self, revision: str) -> bool:
        return any(each.revision == revision for each in self._chain)


def load_revisions(migrations: str) -> Revisions:
    """Return the revisions of a package, by its dotted name.

    Raise `DeclarationError` if the package is missing or empty, or if its revisions are not one chain.
    """
    folder = _find_folder(migrations)
    scripts = ScriptDirectory(folder, version_locations=[folder])
    try:
        # Newest first, and one line only: two heads have no order to run in.
        head = scripts.get_current_head()
        chain = [] if head is None else list(scripts.iterate_revisions(head, "base"))
    except Exception as error:
        raise DeclarationError(
            f"Invalid migrations in {migrations}: expected one chain of revisions "
            f"({type(error).__name__}: {error}). Give each the one before it as its `down_revision`."
        ) from error
    if not chain:
        raise DeclarationError(f"The package {migrations} has no revision: write the first one, `0001_….py`.")
    return Revisions(scripts, chain[::-1])


def read_state(connection: psycopg.Connection[Any], schema: str, revisions: Revisions) -> SchemaState:
    """Return how far the schema is migrated.

    Raise `SchemaMismatch` if its revision is unknown to the code, as after newer code.
    """
    current = _read_current(connection, schema)
    if current is not None and current not in revisions:
        raise SchemaMismatch(
            schema,
            current,
            f"The schema {schema} is at revision {current}, and the newest revision of this code is "
            f"{revisions.target}: newer code has migrated it. Run that code; a migration is never reverted.",
        )
    pending = tuple(format_title(each) for each in revisions.after(current))
    return SchemaState(schema=schema, current=current, target=revisions.target, pending=pending)


def format_title(script: Script) -> str:
    """Return the revision and the first line of its file's docstring: `0002 Deliveries to clients`."""
    title = next(iter((script.doc or "").splitlines()), "")
    return f"{script.revision} {title.rstrip('.')}".strip()


def _find_folder(migrations: str) -> str:
    """Return the folder of the package. Raise `DeclarationError` if there is no such package."""
    try:
        found = importlib.util.find_spec(migrations)
    except ModuleNotFoundError:
        found = None
    if found is None or not found.submodule_search_locations:
        raise DeclarationError(
            f"The package {migrations}, which a schema names as its migrations, does not exist: correct the "
            "name, or create the folder with an `__init__.py`."
        )
    return next(iter(found.submodule_search_locations))


def _read_current(connection: psycopg.Connection[Any], schema: str) -> str | None:
    """Return the schema's current revision, or None if it has never been migrated."""
    table_id = connection.execute("SELECT to_regclass(%s)", [f'"{schema}".{VERSION_TABLE}']).fetchone()
    if table_id == (None,):
        return None
    table = psycopg.sql.Identifier(schema, VERSION_TABLE)
    rows = connection.execute(psycopg.sql.SQL("SELECT version_num FROM {}").format(table))
    found = [str(revision) for (revision,) in rows]
    if len(found) > 1:
        raise SchemaMismatch(
            schema,
            None,
            f"The schema {schema} is at several revisions at once ({', '.join(sorted(found))}), which "
            "Holdfast "
            f"never writes: keep only the right one in {schema}.{VERSION_TABLE}.",
        )
    return found[0] if found else None
