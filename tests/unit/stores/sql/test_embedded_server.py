"""The embedded PostgreSQL server: its folder, socket and log, and the processes that start and stop it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import open_memory_stores
from holdfast.core.errors import RowAlreadyExists, SettingsError, StoreClosed, StoreFileError
from holdfast.core.store_marker import get_marker_path
from holdfast.operations.sql import Statement
from holdfast.stores.sql.postgres import EmbeddedServer, open_embedded_postgres
from holdfast.stores.sql.postgres.embedded import (
    MAX_SOCKET_PATH_BYTES,
    TEMPORARY_CONFIGURATION,
    find_running_server,
    stop_abandoned_server,
)
from tests.postgres import new_folder

ONE = Statement(text="SELECT 1 AS one")


@pytest.fixture(scope="module")
def stopped_folder() -> Iterator[Path]:
    """Create a folder in which a server has run and stopped."""
    with new_folder() as folder:
        server = server_over(folder)
        server.use()
        server.release()
        yield folder


def server_over(folder: Path) -> EmbeddedServer:
    """Return a server over this folder, not started, without durability."""
    # These tests simulate no power loss.
    return EmbeddedServer(folder, configuration=TEMPORARY_CONFIGURATION)


def test_first_user_starts_the_server_and_last_user_stops_it(stopped_folder: Path) -> None:
    first, second = server_over(stopped_folder), server_over(stopped_folder)
    first.use()
    second.use()
    pid = first.ensure_running().pid
    assert second.ensure_running().pid == pid
    first.release()
    assert second.ensure_running().pid == pid
    with pytest.raises(StoreClosed):
        first.ensure_running()
    second.release()
    second.release()
    assert find_running_server(stopped_folder) is None


def test_killed_server_is_restarted_on_next_use(stopped_folder: Path) -> None:
    server = server_over(stopped_folder)
    server.use()
    killed = server.ensure_running()
    os.kill(killed.pid, signal.SIGKILL)
    # The kernel may take a moment to end it.
    while find_running_server(stopped_folder) is not None:
        pass
    again = server.ensure_running()
    assert again.pid != killed.pid
    server.release()
    assert find_running_server(stopped_folder) is None


def test_reused_process_id_is_not_taken_for_the_server(stopped_folder: Path) -> None:
    file = stopped_folder / "server" / "postmaster.pid"
    file.write_text(f"{os.getpid()}\n{stopped_folder / 'server'}\n1\n5432\n{stopped_folder}\n\n\nready   \n")
    assert find_running_server(stopped_folder) is None
    server = server_over(stopped_folder)
    server.use()
    assert server.ensure_running().pid != os.getpid()
    server.release()


def test_socket_folder_is_private_and_has_a_short_name(stopped_folder: Path) -> None:
    deep = stopped_folder / ("long" * 30)
    deep.mkdir()
    (stopped_folder / "server").rename(deep / "server")
    server = server_over(deep)
    try:
        server.use()
        socket_folder = Path(server.ensure_running().socket_folder)
        assert stat.S_IMODE(socket_folder.stat().st_mode) == 0o700
        (socket,) = (path for path in socket_folder.iterdir() if path.is_socket())
        assert len(os.fsencode(socket)) <= MAX_SOCKET_PATH_BYTES
        server.release()
        assert not socket_folder.exists()
    finally:
        server.release()
        (deep / "server").rename(stopped_folder / "server")


async def test_server_listens_to_no_network_and_is_durable(stopped_folder: Path) -> None:
    engine = open_embedded_postgres(stopped_folder)
    with closing(engine):
        shown = (await engine.run(Statement(text="SHOW listen_addresses"))).rows
        assert shown == ({"listen_addresses": ""},)
        durable = Statement(
            text="SELECT name, setting FROM pg_settings WHERE name = ANY(%(names)s)",
            parameters={"names": ("fsync", "full_page_writes", "synchronous_commit")},
        )
        assert {row["setting"] for row in (await engine.run(durable)).rows} == {"on"}


async def test_server_log_contains_no_row_values(stopped_folder: Path) -> None:
    engine = open_embedded_postgres(stopped_folder, statement_timeout_ms=200)
    with closing(engine):
        run = [
            "CREATE TABLE patient (name text PRIMARY KEY)",
            "INSERT INTO patient VALUES ('Jane Doe')",
            "INSERT INTO patient VALUES ('Jane Doe')",
            "SELECT 'Jane Doe'::integer",
            "SELECT 'Jane Doe' FROM pg_sleep(60)",
            "SELEKT 'Jane Doe'",
        ]
        outcomes = [await _outcome(engine.run(Statement(text=text, writes=True))) for text in run]
        assert [outcome is None for outcome in outcomes] == [True, True, False, False, False, False]
        assert isinstance(outcomes[2], RowAlreadyExists)
    assert "Jane" not in (stopped_folder / "server" / "server.log").read_text()


async def _outcome(work: Awaitable[object]) -> Exception | None:
    """Await the coroutine and return its error, or None."""
    try:
        await work
    except Exception as error:
        return error
    return None


async def test_folder_of_another_version_or_program_is_left_alone(stopped_folder: Path) -> None:
    version = stopped_folder / "server" / "PG_VERSION"
    version.write_text("16\n")
    try:
        with (
            closing(open_embedded_postgres(stopped_folder)) as engine,
            pytest.raises(StoreFileError, match="PostgreSQL 16"),
        ):
            await engine.run(ONE)
    finally:
        version.write_text("18\n")
    with new_folder() as folder:
        (folder / "server").mkdir()
        (folder / "server" / "photo.jpg").touch()
        with (
            closing(open_embedded_postgres(folder)) as engine,
            pytest.raises(StoreFileError, match="not a folder"),
        ):
            await engine.run(ONE)
        assert (folder / "server" / "photo.jpg").exists()


def copy_cluster(source: Path, target: Path) -> None:
    """Copy the files of a stopped server over those of another folder, with their owners."""
    shutil.rmtree(target / "server", ignore_errors=True)
    subprocess.run(["cp", "-a", str(source / "server"), str(target / "server")], check=True)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda folder: shutil.rmtree(folder / "server"), "says that it held data"),
        (lambda folder: (folder / "server" / "PG_VERSION").unlink(), "says that it held data"),
        (lambda folder: (folder / "server" / "global" / "pg_control").unlink(), "pg_control is missing"),
        (lambda folder: os.truncate(folder / "server" / "global" / "pg_control", 10), "missing or cut"),
    ],
)
def test_lost_data_are_refused(stopped_folder: Path, loss: Callable[[Path], None], message: str) -> None:
    with new_folder() as folder:
        copy_cluster(stopped_folder, folder)
        shutil.copy(get_marker_path(stopped_folder), get_marker_path(folder))
        try:
            loss(folder)
            with pytest.raises(StoreFileError, match=message):
                server_over(folder).use()
        finally:
            Path(get_marker_path(folder)).unlink()


def kill_server(server: EmbeddedServer) -> None:
    """Kill the server, and end this process's use of it as the end of the process would."""
    os.kill(server.ensure_running().pid, signal.SIGKILL)
    # The kernel may take a moment to end it.
    while find_running_server(server.folder) is not None:
        pass
    server._end_use()


@pytest.mark.parametrize("end", [EmbeddedServer.release, kill_server])
def test_data_of_another_server_and_an_older_copy_are_refused(
    stopped_folder: Path, end: Callable[[EmbeddedServer], None]
) -> None:
    with new_folder() as folder, new_folder() as older:
        marker = Path(get_marker_path(folder))
        copy_cluster(stopped_folder, folder)
        copy_cluster(folder, older)
        server = server_over(folder)
        server.use()
        end(server)
        copy_cluster(older, folder)
        try:
            with pytest.raises(StoreFileError, match="older copy of this PostgreSQL"):
                server_over(folder).use()
            marker.write_text(f"holdfast store {'0' * 32}\n")
            with pytest.raises(StoreFileError, match="replaced by another store"):
                server_over(folder).use()
        finally:
            marker.unlink()
        accepted = server_over(folder)
        accepted.use()
        accepted.release()
        marker.unlink()


async def test_uncreatable_folder_error_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        closing(open_embedded_postgres(tmp_path / "file" / "postgres")) as engine,
        pytest.raises(SettingsError, match="`sql`"),
    ):
        await engine.run(ONE)


async def test_memory_stores_start_the_server_on_first_use_and_leave_no_files() -> None:
    stores = open_memory_stores()
    engine = stores.engines.get("sql")
    server: EmbeddedServer = engine._writer.endpoint.server  # type: ignore[attr-defined]
    assert server._folder is None
    assert (await engine.run(ONE)).rows == ({"one": 1},)
    folder, socket_folder = server.folder, Path(server.ensure_running().socket_folder)
    assert folder.exists()
    await stores.close()
    assert not folder.exists()
    assert not socket_folder.exists()


def test_removes_the_temporary_server_of_a_killed_process() -> None:
    code = (
        "import sys, time; from holdfast.stores.sql.postgres import EmbeddedServer; server = "
        "EmbeddedServer(None); server.use(); print(server.folder, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    stop_abandoned_server(folder)
    assert find_running_server(folder) is not None, "it is in use"
    process.kill()
    process.communicate()
    stop_abandoned_server(folder)
    assert find_running_server(folder) is None
    assert not folder.exists()


def test_killed_server_and_server_without_data_leave_no_socket() -> None:
    server = EmbeddedServer(None)
    server.use()
    running = server.ensure_running()
    socket_folder = Path(running.socket_folder)
    os.kill(running.pid, signal.SIGKILL)
    while find_running_server(server.folder) is not None:
        pass
    data = (socket_folder / "data").readlink()
    server.release()
    assert not socket_folder.exists()
    socket_folder.mkdir()
    (socket_folder / "data").symlink_to(data)
    EmbeddedServer(None).folder.rmdir()
    assert not socket_folder.exists()


def test_process_exit_without_closing_stops_the_server(stopped_folder: Path) -> None:
    code = (
        "import asyncio; from pathlib import Path; from holdfast.stores.sql.postgres import "
        "open_embedded_postgres; from holdfast.operations.sql import Statement; "
        f"engine = open_embedded_postgres(Path({str(stopped_folder)!r})); "
        "print(asyncio.run(engine.run(Statement(text='SELECT 1 AS one'))).rows)"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "({'one': 1},)\n"
    # The pool may have noticed and logged the end, and nothing else.
    assert "Traceback" not in ended.stderr
    assert find_running_server(stopped_folder) is None


def test_forked_child_cannot_use_the_engine_nor_stop_the_server(stopped_folder: Path) -> None:
    code = (
        "import asyncio, os; from pathlib import Path; from holdfast.core.errors import SettingsError; "
        "from holdfast.stores.sql.postgres import open_embedded_postgres; from holdfast.operations.sql "
        "import Statement\n"
        f"engine = open_embedded_postgres(Path({str(stopped_folder)!r}))\n"
        "one = Statement(text='SELECT 1 AS one')\n"
        "asyncio.run(engine.run(one))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        asyncio.run(engine.run(one))\n"
        "    except SettingsError:\n"
        "        pass\n"
        "    try:\n"
        "        engine.listen('deaf')\n"
        "    except SettingsError:\n"
        "        engine.close()\n"
        "        raise SystemExit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "print(asyncio.run(engine.run(one)).rows)\n"
        "engine.close()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "({'one': 1},)\n"), ended.stderr
    assert find_running_server(stopped_folder) is None
