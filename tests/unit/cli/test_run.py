"""`holdfast run` of a system's API: component, permissions, token, metrics, health, restart and shutdown."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from holdfast import Component, System, open_memory_stores
from holdfast.cli import main
from holdfast.cli.commands.run import build_system_app
from holdfast.core.errors import SettingsError
from holdfast.operations.tables import CreateTable, DeleteTable
from holdfast.web import serve_in_thread
from tests.unit.mcp.harbour import SYSTEM, WRITES
from tests.unit.mcp.installed_system import HARBOUR, install_in_process, install_system, run_in_process

COMMAND = [sys.executable, "-m", "holdfast", "run"]


@contextmanager
def run_api(folder: Path, *words: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the harbour's API in a process, whose first line names its address and component; yield the
    address.
    """
    component = words[words.index("--component") + 1] if "--component" in words else "api"
    process = subprocess.Popen(
        [*COMMAND, "harbour", "--port", "0", *words],
        cwd=folder,
        env=install_system(folder) | variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Harbour answers at http://127.0.0.1:")
            assert line.endswith(f" as the component {component}\n")
            yield line.split()[3], process
        finally:
            process.terminate()


@contextmanager
def serve_app(system: System, component: str | None = None, token: str = "") -> Iterator[str]:
    """Serve the system's app in this process, on stores in memory, and yield its URL."""
    with serve_in_thread(
        build_system_app(system, open_memory_stores(system), component=component, token=token)
    ) as url:
        yield url


def run_command(*words: str) -> int:
    """Run the command line in this process and return its exit code."""
    with pytest.raises(SystemExit) as exited:
        main(words)
    assert isinstance(exited.value.code, int)
    return exited.value.code


def test_creates_tables_and_keeps_data_over_a_restart(tmp_path: Path) -> None:
    with run_api(tmp_path) as (url, process):
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0

    with run_api(tmp_path) as (url, process):
        assert httpx.get(f"{url}/berths/B1").json() == {"ships": ["S1"]}
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.proves("SM-37")
@pytest.mark.proves("SM-39")
def test_metrics_contain_the_units_and_the_progress_of_an_index(tmp_path: Path) -> None:
    with run_api(tmp_path, HOLDFAST_ENVIRONMENT="test") as (url, _):
        httpx.get(f"{url}/berths/B1")
        metrics = httpx.get(f"{url}/metrics")

    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    of_index = '{GlobalSecondaryIndexName="by-berth",TableName="Ships-test"}'
    assert f"ConsumedReadCapacityUnits_total{of_index} 0.5" in metrics.text
    assert f"OnlineIndexPercentageProgress{of_index} 100.0" in metrics.text


def test_requires_the_configured_token_for_everything_but_health() -> None:
    with serve_app(SYSTEM, token="s3cret") as url:
        statuses = [
            httpx.get(f"{url}{path}").status_code for path in ("/health/ready", "/berths/B1", "/metrics")
        ]
        with_it = httpx.get(f"{url}/berths/B1", headers={"Authorization": "Bearer s3cret"})

    assert statuses == [200, 401, 401]
    assert with_it.status_code == 200


def test_routes_run_as_the_component_api_if_declared_with_the_version_of_the_package(tmp_path: Path) -> None:
    with run_api(tmp_path) as (url, _):
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).json() == {"component": "api"}
        assert httpx.get(f"{url}/openapi.json").json()["info"]["version"] == "1"


def test_routes_run_as_the_named_component_with_its_permissions(tmp_path: Path) -> None:
    with run_api(tmp_path, "--component", "clerk") as (url, _):
        assert httpx.get(f"{url}/berths/B1").status_code == 200
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).status_code == 500
        assert httpx.get(f"{url}/berths/B1").json() == {"ships": []}


def test_routes_have_the_whole_system_without_a_component_api() -> None:
    with serve_app(replace(SYSTEM, components=[Component("clerk", uses=(WRITES,))])) as url:
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).json() == {"component": None}


def test_missing_table_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.readiness.MAX_AGE_S", 0.0)
    stores = open_memory_stores(SYSTEM)
    with serve_in_thread(build_system_app(SYSTEM, stores)) as url:
        well = httpx.get(f"{url}/health/ready")
        asyncio.run(stores.tables.run(DeleteTable("Ships")))
        ill = httpx.get(f"{url}/health/ready")

    assert (well.status_code, well.json()["stores"]) == (200, [{"store": "tables", "status": "ok"}])
    assert ill.status_code == 503
    assert ill.json()["stores"] == [{"store": "tables", "status": "unavailable", "reason": "NotFound"}]


def test_missing_index_is_logged_for_the_operator_and_not_shown_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stores, (ships, *_) = open_memory_stores(SYSTEM), SYSTEM.tables
    asyncio.run(stores.tables.run(CreateTable(ships.definition("Ships", indexes=()))))
    with serve_in_thread(build_system_app(SYSTEM, stores)) as url:
        at_start = caplog.messages[:]
        answer = httpx.get(f"{url}/berths/B1")

    assert "The table Ships lacks the index by-berth: `holdfast indexes add harbour` adds it." in at_start
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:holdfast:error:HoldfastError")
    assert "index" not in answer.text
    logged = caplog.messages[-1]
    assert answer.json()["instance"] in logged
    assert "does not have the specified index: by-berth. The index by-berth of Ships is declared" in logged


def test_missing_table_is_not_shown_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    stores = open_memory_stores(SYSTEM)
    with serve_in_thread(build_system_app(SYSTEM, stores)) as url:
        assert caplog.messages == []
        asyncio.run(stores.tables.run(DeleteTable("Ships")))
        answer = httpx.get(f"{url}/berths/B1")

    assert (answer.status_code, "Ships" in answer.text) == (500, False)
    assert "Ships" in caplog.messages[-1]


def test_routes_may_be_several_routers() -> None:
    system = replace(
        SYSTEM,
        http=replace(
            SYSTEM.http, routes=lambda stores: [SYSTEM.http.routes(stores)] if SYSTEM.http.routes else []
        ),
    )

    with serve_app(system) as url:
        assert httpx.get(f"{url}/berths/B1").json() == {"ships": []}


def test_rejects_a_system_with_neither_routes_nor_work() -> None:
    with pytest.raises(
        SettingsError, match="harbour has nothing to run: neither the System nor a component declares routes"
    ):
        build_system_app(replace(SYSTEM, http=replace(SYSTEM.http, routes=None)), open_memory_stores(SYSTEM))


def test_unknown_system_prints_one_line_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("run", "hrbour") == 1
    assert capsys.readouterr().err.startswith("holdfast: System 'hrbour' is not installed")


def test_refuses_an_unknown_component_or_a_public_address_without_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    install_in_process(monkeypatch, harbour=HARBOUR)

    unknown = "holdfast: harbour has no component 'clrk': it has agent, api, clerk.\n"
    assert run_in_process(capsys, "run", "harbour", "--component", "clrk") == (1, "", unknown)
    assert not (tmp_path / "data").exists()
    code, _, errors = run_in_process(capsys, "run", "harbour", "--host", "0.0.0.0")
    assert code == 1
    assert "any client there could use this server" in errors


def test_invalid_port_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("run", "harbour", "--port", "http") == 2
    assert "Invalid --port http" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux spreads connections over processes")
def test_several_processes_answer_on_one_port_and_end_together(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "harbour", "--port", "0", "--processes", "2"],
        cwd=tmp_path,
        env=install_system(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        try:
            assert parent.stdout is not None and parent.stderr is not None
            lines = [parent.stdout.readline() for _ in range(3)]
            *answering, ready = lines
            urls = {line.split()[3] for line in answering}
            [url] = urls
            assert ready == f"Ready: 2 processes of Harbour share {url}\n"
            assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).status_code == 200
            # The address, and the state of a socket that listens.
            port = f":{int(url.rpartition(':')[2]):04X} "
            sockets = Path("/proc/net/tcp").read_text().splitlines()
            assert sum(port in each and " 0A " in each for each in sockets) == 2
            for _ in range(20):
                assert httpx.get(f"{url}/berths/B1").json() == {"ships": ["S1"]}
            parent.send_signal(signal.SIGINT)
            assert parent.wait(timeout=60) == 0
            with pytest.raises(httpx.ConnectError):
                httpx.get(url)
        finally:
            parent.terminate()


def test_several_processes_refuse_a_sandbox_and_tables_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    install_in_process(monkeypatch, harbour=HARBOUR)
    assert run_command("run", "harbour", "--processes", "2", "--sandbox", "tide") == 2
    assert "exclude each other" in capsys.readouterr().err
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")
    assert run_command("run", "harbour", "--processes", "2") == 1
    assert "each would have tables of its own" in " ".join(capsys.readouterr().err.split())
