"""`holdfast doctor` on PostgreSQL: stopped, running, behind or newer than the code, unreachable."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from holdfast import Schema, System, open_stores, provision
from holdfast.cli import main
from holdfast.runtime import get_schema_states
from tests.contract.sql.migrations.packages import BOOKS, LOANS, write_package
from tests.postgres import create_database


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """Install only a library with a SQL schema of one revision, and work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    package = write_package(tmp_path / "code", {"0001": BOOKS})
    library = System("library", "Books", schemas=[Schema("library", migrations=package)])
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"library": library})
    return library


def run_doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Run `holdfast doctor --json` and return its exit code and its row about SQL."""
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json", *words])
    assert isinstance(exited.value.code, int)
    (found,) = [each for each in json.loads(capsys.readouterr().out) if each["store"] == "sql"]
    return exited.value.code, found


async def provision_system(system: System) -> None:
    async with open_stores(system) as stores:
        await provision(stores, system)


@pytest.mark.proves("PG-53")
def test_reports_server_reader_and_schema_revision_before_and_after_migration(
    capsys: pytest.CaptureFixture[str], system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = create_database()
    monkeypatch.setenv("HOLDFAST_SQL", url)
    monkeypatch.setenv("HOLDFAST_SQL_READER", url)
    code, found = run_doctor(capsys)
    assert (code, found["engine"], found["ok"]) == (0, "postgresql", True)
    assert ", PostgreSQL 18" in found["detail"]
    assert "2 to 10 connections, reader PostgreSQL 18" in found["detail"]
    assert "library needs a migration, nothing → 0001 (`holdfast migrate library`)" in found["detail"]
    asyncio.run(provision_system(system))
    code, found = run_doctor(capsys)
    assert (code, found["detail"].endswith("; library is up to date at 0001")) == (0, True)


@pytest.mark.proves("PG-53")
def test_unreachable_server_or_reader_is_unhealthy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = f"postgresql://clerk@127.0.0.1:{nobody.getsockname()[1]}/books"
        monkeypatch.setenv("HOLDFAST_SQL", gone)
        code, found = run_doctor(capsys)
        assert (code, found["ok"]) == (1, False)
        assert "PostgreSQL is unreachable" in found["detail"]
        assert "clerk" not in found["detail"].partition(":")[0]
        monkeypatch.setenv("HOLDFAST_SQL", create_database())
        monkeypatch.setenv("HOLDFAST_SQL_READER", gone)
        code, found = run_doctor(capsys)
    assert (code, found["ok"]) == (1, False)
    assert "the writer answers, but the reader does not" in found["detail"]


def test_schema_migrated_by_newer_code_is_unhealthy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = write_package(tmp_path / "code", {"0001": BOOKS, "0002": LOANS})
    monkeypatch.setenv("HOLDFAST_SQL", create_database(Schema("library", migrations=newer)))
    code, found = run_doctor(capsys)
    assert (code, found["ok"]) == (1, False)
    assert "the server answers; The schema library is at revision 0002" in found["detail"]


def test_does_not_create_start_or_stop_an_embedded_server(
    capsys: pytest.CaptureFixture[str], system: System, tmp_path: Path
) -> None:
    """A folder of another PostgreSQL version is unhealthy."""
    code, found = run_doctor(capsys)
    assert (code, found["engine"], found["ok"]) == (0, "embedded", True)
    assert "data/postgres does not exist yet: it is created on first use" in found["detail"]
    assert not (tmp_path / "data" / "postgres").exists()

    async def while_it_runs() -> dict[str, Any]:
        async with open_stores(system) as stores:
            await provision(stores, system)
            _, found = await asyncio.to_thread(run_doctor, capsys)
            assert [each.pending for each in await get_schema_states(stores, system.schemas)] == [()]
            return found

    running = asyncio.run(while_it_runs())
    assert running["ok"], running
    assert ", PostgreSQL 18" in running["detail"]
    assert running["detail"].endswith("library is up to date at 0001")
    code, found = run_doctor(capsys)
    assert (code, found["ok"]) == (0, True)
    assert "the server is stopped and starts on first use" in found["detail"]
    assert found["detail"].endswith("its schemas were not checked")
    (tmp_path / "data" / "postgres" / "server" / "PG_VERSION").write_text("12\n")
    code, found = run_doctor(capsys, "--data", "data")
    assert (code, found["ok"]) == (1, False)
    assert "belongs to PostgreSQL 12" in found["detail"]


def test_temporary_server_is_reported_as_owned_by_each_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SQL", "postgres::temporary:")
    assert run_doctor(capsys)[1]["detail"] == "temporary: each process has its own server"
