"""Remove the name of the machine that wrote a data folder from its tables file."""

from __future__ import annotations

from pathlib import Path

from tests.sqlite_files import open_file


def remove_machine_name(tables: Path) -> None:
    """Overwrite the owner of the background worker's lease in a tables file. The file must not be in use."""
    with open_file(tables) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("UPDATE lease SET owner = 'corpus:1:00000000'")
    connection.close()
