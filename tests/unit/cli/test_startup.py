"""What the command line imports: a command pays only for what it uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from holdfast.cli.app import COMMANDS_PACKAGE, GROUPS
from holdfast.model.system import list_system_names

# The small systems are found from here.
ROOT = str(Path(__file__).parents[3])
COMMANDS = [entry for commands in GROUPS.values() for entry in commands.values()]
SMALL_APP = """
import typer
app = typer.Typer(add_completion=False)
@app.command()
def open(name: str, count: int = 1) -> None: "Open something."
@app.command()
def close(name: str, force: bool = False) -> None: "Close something."
def main(words): app(words, prog_name="small")
"""
HOLDFAST = "from holdfast.cli import main"
# Installs two small systems and no other.
SMALL_SYSTEMS = """
from importlib.metadata import EntryPoint
from holdfast.cli import main
from holdfast.core import installed_systems
group = installed_systems.ENTRY_POINT_GROUP
room = EntryPoint("readingroom", "tests.unit.cli.reading_room:SYSTEM", group)
shop = EntryPoint("shop", "tests.unit.reports.shop:SYSTEM", group)
installed_systems.find_entry_points = lambda group="": {} if group else {"readingroom": room, "shop": shop}
"""
# Runs `main` with each of the lists of words and prints the names of the modules imported until then.
RUN = """
import io, json, sys
real, imported = sys.stdout, []
for words in json.loads(sys.argv[1]):
    sys.stdout = io.StringIO()
    try:
        main(words)
    except SystemExit as done:
        assert not done.code, (words, done.code)
    imported.append(list(sys.modules))
print(json.dumps(imported), file=real)
"""
HTTP_SERVERS = ("uvicorn", "fastapi", "starlette", "holdfast.web.server", "holdfast.wire")
AWS = ("boto3", "botocore")
DRIVERS = ("apsw", "sqlite3", "psycopg", "sqlalchemy", "redis", "obstore")
ENGINES = ("holdfast.stores.tables.embedded", "holdfast.stores.tables.dynamodb", "holdfast.stores.sqlite")
# What only a command that runs may import.
LIBRARY = ("holdfast.model", "holdfast.operations", "holdfast.runtime", "holdfast.stores", "holdfast.reports")


def list_imports(prepare: str, *runs: list[str], folder: Path) -> list[list[str]]:
    """Run the commands in one fresh process. Return the modules that were imported after each of them."""
    done = subprocess.run(
        [sys.executable, "-c", prepare + RUN, json.dumps(runs)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))},
    )
    assert done.returncode == 0, done.stderr
    imported: list[list[str]] = json.loads(done.stdout)
    return imported


def select(imported: list[str], *packages: str) -> list[str]:
    """Return the imported modules that are one of these packages or in it."""
    return [each for each in imported if any(f"{each}.".startswith(f"{package}.") for package in packages)]


def test_version_and_help_import_no_command_no_store_and_no_system(tmp_path: Path) -> None:
    names = [name for commands in GROUPS.values() for name in commands]
    of_commands = [[name, "--help"] for name in names]

    version, main_help, *_, helps = list_imports(
        HOLDFAST, ["--version"], ["--help"], *of_commands, folder=tmp_path
    )
    [small] = list_imports(SMALL_APP, ["--help"], folder=tmp_path)

    assert select(version, "rich", "importlib.metadata", "pydantic") == []
    assert len(main_help) <= 1.5 * len(small)
    assert select(main_help, "pydantic", "asyncio", COMMANDS_PACKAGE) == []
    # Typer itself parses the arguments of commands with Pydantic.
    unused = (*LIBRARY, *HTTP_SERVERS, *AWS, *DRIVERS, "msgspec", *list_system_names())
    assert select(helps, *unused) == []


def test_listing_every_installed_system_imports_no_server_and_no_driver(tmp_path: Path) -> None:
    runs = (["systems"], ["tables"], ["patterns"], ["queues", "list"])

    *_, imported = list_imports(HOLDFAST, *runs, folder=tmp_path)

    assert set(list_system_names()) <= set(imported)
    assert select(imported, *HTTP_SERVERS, *AWS, *DRIVERS, *ENGINES) == []


def test_command_imports_no_store_that_it_does_not_use(tmp_path: Path) -> None:
    """Each command runs after those that import less: what they import counts for it, too."""
    (tmp_path / "empty").touch()
    runs = {
        ("scan", "empty"): (*HTTP_SERVERS, *AWS, *DRIVERS, *ENGINES, "tests"),
        ("readingroom", "--help"): (*HTTP_SERVERS, *AWS, *DRIVERS, *ENGINES),
        ("readingroom", "books", "list"): (*HTTP_SERVERS, *AWS, "psycopg", "redis", "holdfast.reports"),
        ("check", "shop"): (*HTTP_SERVERS, *AWS, "psycopg", "sqlalchemy", "redis", "obstore"),
    }

    snapshots = list_imports(SMALL_SYSTEMS, *map(list, runs), folder=tmp_path)

    for (words, unused), imported in zip(runs.items(), snapshots, strict=True):
        assert select(imported, *unused) == [], words


@pytest.mark.parametrize(("module", "help"), COMMANDS)
def test_listed_help_is_the_first_line_of_the_commands_docstring(module: str, help: str) -> None:
    command = getattr(import_module(f"{COMMANDS_PACKAGE}.{module}"), module)

    assert command.__doc__.splitlines()[0] == help
