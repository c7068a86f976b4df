"""Open a system on a data folder with a fixed clock, and copy such a folder while the system uses it.

A copy is what `kill -9` would leave: claims, leases and messages in flight are as their owners wrote them
last.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from holdfast.config.settings import SECRET_VARIABLE_PREFIX, Settings
from holdfast.core.clock import RunClock
from tests.corpus import database
from tests.sqlite_files import open_file

CLOCK: Final = "clock"
# Next to the data: the state of the sandboxes, and the SQL rows.
SERVICES: Final = "services"
SQL: Final = "sql"
# The environment in every physical name. The data contains it: never change it.
ENVIRONMENT: Final = "corpus"


def build_settings(folder: Path, url: str) -> Settings:
    """Return settings that keep everything in `folder`, and SQL rows in the database at `url`."""
    return Settings(
        tables=f"sqlite:{folder / 'tables.db'}",
        queues=f"sqlite:{folder / 'queues.db'}",
        objects=f"file:{folder / 'objects'}",
        keys=f"file:{folder / 'keys.json'}",
        sql=url,
        run_clock=str(folder / CLOCK),
        environment=ENVIRONMENT,
    )


def open_clock(folder: Path, *, start: float | None = None) -> RunClock:
    """Open the folder's run clock; `start` sets its time, for a new folder."""
    return RunClock(folder / CLOCK, start=start)


def read_secrets(*names: str) -> dict[str, str]:
    """Return the current environment variables of the secrets that the data depends on."""
    variables = [SECRET_VARIABLE_PREFIX + re.sub("[/-]", "_", name).upper() for name in names]
    return {variable: os.environ[variable] for variable in variables}


def use_secrets(patch: pytest.MonkeyPatch, sandbox: ModuleType, secrets: Mapping[str, str]) -> None:
    """Make a system's stage, which sets the secrets of its `sandbox`, use the secrets of the data instead."""
    build = sandbox.build_variables
    patch.setattr(sandbox, "build_variables", lambda *given: {**build(*given), **secrets})


def copy_folder(source: Path, target: Path, *, url: str, schema: str) -> None:
    """Copy the data folder `source`, and dump `schema` of the database at `url` next to the copy."""
    # Databases are copied below; `-waiting` holds the pipes of processes that wait for messages.
    ignored = shutil.ignore_patterns("*.db", "*-wal", "*-shm", "*-waiting")
    shutil.copytree(source, target, ignore=ignored)
    for file in sorted(source.glob("*.db")):
        _copy_sqlite(file, target / file.name)
    _hide_machine(target / "tables.db")
    database.dump(url, schema, target / SQL)


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite file with everything that is committed, including its write-ahead log."""
    read, written = open_file(source), open_file(target)
    with written.backup("main", read, "main") as backup:
        backup.step()
    written.close()
    read.close()


def _hide_machine(tables: Path) -> None:
    """Keep the name of this machine out of the copy: the lease of the background worker contains it."""
    with open_file(tables) as connection:
        connection.execute("UPDATE lease SET owner = 'a process of the corpus'")
    connection.close()
