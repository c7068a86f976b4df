"""`holdfast run`: a system's API over its tables, as the component it says, with metrics, and how it ends."""

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
from holdfast.operations.tables import DeleteTable
from holdfast.web import serve_in_thread
from tests.unit.mcp.harbour import SYSTEM, WRITES
from tests.unit.mcp.installing import installed

COMMAND = [sys.executable, "-m", "holdfast", "run"]


@contextmanager
def running(folder: Path, *words: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The API of the harbour in a process of its own, and its address."""
    process = subprocess.Popen(
        [*COMMAND, "harbour", "--port", "0", *words],
        cwd=folder,
        env=installed(folder) | variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Harbour answers at http://127.0.0.1:")
            yield line.split()[3], process
        finally:
            process.terminate()


@contextmanager
def app_of(system: System, component: str | None = None, token: str = "") -> Iterator[str]:
    with serve_in_thread(
        build_system_app(system, open_memory_stores(system), component=component, token=token)
    ) as url:
        yield url


def run_words(*words: str) -> int:
    with pytest.raises(SystemExit) as exited:
        main(words)
    assert isinstance(exited.value.code, int)
    return exited.value.code


def test_the_tables_are_made_and_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as (url, process):
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0

    with running(tmp_path) as (url, process):
        assert httpx.get(f"{url}/berths/B1").json() == {"ships": ["S1"]}
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.proves("SM-37")
@pytest.mark.proves("SM-39")
def test_metrics_are_at_their_place(tmp_path: Path) -> None:
    with running(tmp_path) as (url, _):
        httpx.get(f"{url}/berths/B1")
        metrics = httpx.get(f"{url}/metrics")

    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    of_index = '{GlobalSecondaryIndexName="by-berth",TableName="Ships"}'
    assert f"ConsumedReadCapacityUnits_total{of_index} 0.5" in metrics.text
    assert f"OnlineIndexPercentageProgress{of_index} 100.0" in metrics.text


def test_the_environment_is_in_the_names_of_the_tables(tmp_path: Path) -> None:
    with running(tmp_path, HOLDFAST_ENVIRONMENT="test") as (url, _):
        assert 'TableName="Ships-test"' in httpx.get(f"{url}/metrics").text


def test_with_a_token_in_the_settings_nothing_but_health_is_told_without_it() -> None:
    with app_of(SYSTEM, token="s3cret") as url:
        statuses = [httpx.get(f"{url}{path}").status_code for path in ("/health", "/berths/B1", "/metrics")]
        with_it = httpx.get(f"{url}/berths/B1", headers={"Authorization": "Bearer s3cret"})

    assert statuses == [200, 401, 401]
    assert with_it.status_code == 200


def test_the_routes_run_as_the_component_api_where_there_is_one(tmp_path: Path) -> None:
    with running(tmp_path) as (url, _):
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).json() == {"component": "api"}


def test_the_routes_run_as_the_component_that_is_named_and_may_do_no_more(tmp_path: Path) -> None:
    with running(tmp_path, "--component", "clerk") as (url, _):
        assert httpx.get(f"{url}/berths/B1").status_code == 200
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).status_code == 500
        assert httpx.get(f"{url}/berths/B1").json() == {"ships": []}


def test_without_a_component_api_the_routes_have_the_whole_system() -> None:
    with app_of(replace(SYSTEM, components=[Component("clerk", writes=WRITES)])) as url:
        assert httpx.post(f"{url}/ships/S1", params={"berth": "B1"}).json() == {"component": None}


def test_the_line_it_starts_with_says_as_which_component_it_runs(tmp_path: Path) -> None:
    for words, told in (((), "the component api"), (("--component", "clerk"), "the component clerk")):
        process = subprocess.Popen(
            [*COMMAND, "harbour", "--port", "0", *words],
            cwd=tmp_path,
            env=installed(tmp_path),
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline().endswith(f" as {told}\n")
            process.terminate()


def test_the_version_in_the_description_is_that_of_the_systems_package(tmp_path: Path) -> None:
    with running(tmp_path) as (url, _):
        assert httpx.get(f"{url}/openapi.json").json()["info"]["version"] == "1"


def test_a_table_that_is_gone_is_no_health() -> None:
    stores = open_memory_stores(SYSTEM)
    with serve_in_thread(build_system_app(SYSTEM, stores)) as url:
        well = httpx.get(f"{url}/health").status_code
        asyncio.run(stores.tables.run(DeleteTable("Ships")))
        ill = httpx.get(f"{url}/health").status_code

    assert (well, ill) == (200, 500)


def test_routes_may_be_several_routers() -> None:
    system = replace(SYSTEM, routes=lambda stores: [SYSTEM.routes(stores)] if SYSTEM.routes else [])

    with app_of(system) as url:
        assert httpx.get(f"{url}/berths/B1").json() == {"ships": []}


def test_a_system_without_routes_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="harbour has nothing to run: neither the System nor a component declares routes"
    ):
        build_system_app(replace(SYSTEM, routes=None), open_memory_stores(SYSTEM))


def test_an_unknown_system_is_one_line_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_words("run", "hrbour") == 1
    assert capsys.readouterr().err.startswith("holdfast: System 'hrbour' is not installed")


def test_an_unknown_component_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "harbour", "--component", "clrk"],
        cwd=tmp_path,
        env=installed(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (
        1,
        "holdfast: harbour has no component 'clrk': it has agent, api, clerk.\n",
    )
    assert not (tmp_path / "data").exists()


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "harbour", "--host", "0.0.0.0"],
        cwd=tmp_path,
        env=installed(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "without a token any of them could use the API" in done.stderr


def test_what_is_no_port_is_called_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_words("run", "harbour", "--port", "http") == 2
    assert "Invalid --port http" in capsys.readouterr().err
