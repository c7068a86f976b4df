"""`holdfast serve`: which options and settings reach the server, refusals, and shutdown by a signal."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.operations.tables import PutItem
from holdfast.stores.tables.embedded import EngineFaults


@pytest.fixture
def server_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Capture the server's arguments instead of starting it."""
    monkeypatch.chdir(tmp_path)
    called: dict[str, Any] = {}
    server = ModuleType("holdfast.wire.http.server")
    server.serve = called.update  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "holdfast.wire", ModuleType("holdfast.wire"))
    monkeypatch.setitem(sys.modules, "holdfast.wire.http.server", server)
    return called


def run_serve(*words: str) -> int:
    """Run the command line in this process and return its exit code."""
    with pytest.raises(SystemExit) as exited:
        main(words)
    assert isinstance(exited.value.code, int)
    return exited.value.code


def test_server_gets_the_defaults_without_options(server_arguments: dict[str, Any]) -> None:
    assert run_serve("serve") == 0
    assert server_arguments == {
        "host": "127.0.0.1",
        "port": 8000,
        "data": Path("data"),
        "memory": False,
        "credentials": None,
        "allowed_hosts": (),
        "allowed_origins": (),
        "faults": None,
        "health_timeout_s": 2.0,
    }


def test_server_gets_the_allowed_hosts_and_origins(
    server_arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_ALLOWED_HOSTS", "tables.example.com")
    monkeypatch.setenv("HOLDFAST_ALLOWED_ORIGINS", "https://app.example.com")

    assert run_serve("serve") == 0
    assert server_arguments["allowed_hosts"] == ("tables.example.com",)
    assert server_arguments["allowed_origins"] == ("https://app.example.com",)


def test_options_override_settings(server_arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SERVE_PORT", "9000")
    monkeypatch.setenv("HOLDFAST_SERVE_HOST", "127.0.0.2")
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    assert run_serve("serve", "--port", "0", "--data", "shop") == 0
    assert (server_arguments["host"], server_arguments["port"]) == ("127.0.0.2", 0)
    assert (server_arguments["data"], server_arguments["memory"]) == (Path("shop"), False)


def test_creates_the_data_folder_on_the_first_start(server_arguments: dict[str, Any], tmp_path: Path) -> None:
    assert run_serve("serve", "--data", "shop/state") == 0
    assert server_arguments["data"] == Path("shop/state")
    assert (tmp_path / "shop" / "state").is_dir()


def test_rejects_a_data_folder_that_cannot_be_created(
    server_arguments: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop").write_text("a file", encoding="utf-8")

    assert run_serve("serve", "--data", "shop") == 1
    assert capsys.readouterr().err == (
        "holdfast: Failed to create the data folder shop (File exists): choose another with --data.\n"
    )
    assert server_arguments == {}


def test_a_port_in_use_leaves_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run_serve("serve", "--data", "shop/state", "--port", str(taken.getsockname()[1])) == 1

    assert "is in use" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_keeps_an_existing_folder_when_serving_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run_serve("serve", "--data", "shop/state", "--port", str(taken.getsockname()[1])) == 1

    assert list(tmp_path.rglob("*")) == [tmp_path / "shop"]


def test_reports_a_folder_at_the_files_path_with_a_remedy(
    server_arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("shop/tables.db").mkdir(parents=True)

    assert run_serve("serve", "--data", "shop") == 1
    assert capsys.readouterr().err == (
        "holdfast: shop/tables.db is a folder, but must be a file: "
        "move it, or choose another data folder with --data.\n"
    )
    assert server_arguments == {}


def test_keeps_a_text_at_the_files_path_and_suggests_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tables.db").write_text("a diary, not a database" * 100, encoding="utf-8")

    assert run_serve("serve", "--data", ".", "--port", "0") == 1
    assert "is not a Holdfast file" in (said := capsys.readouterr().err)
    assert said.endswith("Choose another data folder with --data.\n")
    assert Path("tables.db").read_text(encoding="utf-8").startswith("a diary")


@pytest.mark.parametrize("text", ["abc", "-1", "65536", "8000.5", "9" * 5000])
def test_invalid_port_is_a_usage_error_in_one_line(
    server_arguments: dict[str, Any], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_serve("serve", f"--port={text}") == 2
    assert capsys.readouterr().err == (
        f"holdfast: Invalid --port {text}: expected a number from 1 to 65535, or 0 for a free port.\n"
    )
    assert server_arguments == {}


def test_memory_needs_no_folder(server_arguments: dict[str, Any]) -> None:
    assert run_serve("serve", "--memory") == 0
    assert not Path("data").exists()
    assert (server_arguments["data"], server_arguments["memory"]) == (None, True)


def test_memory_with_a_folder_is_a_usage_error(
    server_arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_serve("serve", "--memory", "--data", "shop") == 2
    assert "exclude each other" in capsys.readouterr().err
    assert server_arguments == {}


def test_credentials_reach_the_server(server_arguments: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "who.txt").write_text("AKID secret\n", encoding="utf-8")

    assert run_serve("serve", "--credentials", "who.txt") == 0
    assert server_arguments["credentials"] == {"AKID": "secret"}


def count_outcomes(faults: EngineFaults) -> list[str]:
    """Apply the faults to two hundred writes and return the outcome of each: "done" or an error code."""
    outcomes_seen = []
    for _ in range(200):
        try:
            faults.raise_for(PutItem("tab", {"pk": "a"}))
            outcomes_seen.append("done")
        except HoldfastError as error:
            outcomes_seen.append(error.code)
    return outcomes_seen


@pytest.mark.parametrize(
    ("words", "faults"),
    [
        ("--throttle 0.25 --conflicts 0.5 --seed 7", EngineFaults(throttled=0.25, conflicts=0.5, seed=7)),
        ("--throttle 0.25 --seed 8", EngineFaults(throttled=0.25, seed=8)),
        ("--conflicts 0.5 --seed 9", EngineFaults(conflicts=0.5, seed=9)),
        ("--throttle 1", EngineFaults(throttled=1)),
        ("--conflicts 1", EngineFaults(conflicts=1)),
    ],
)
def test_throttling_and_conflict_rates_reach_the_server_with_their_seed(
    server_arguments: dict[str, Any], words: str, faults: EngineFaults
) -> None:
    assert run_serve("serve", *words.split()) == 0
    assert count_outcomes(server_arguments["faults"]) == count_outcomes(faults)


def test_seed_alone_causes_no_faults(server_arguments: dict[str, Any]) -> None:
    assert run_serve("serve", "--seed", "7") == 0
    assert server_arguments["faults"] is None


@pytest.mark.parametrize("option", ["--throttle", "--conflicts"])
@pytest.mark.parametrize("share", ["-0.1", "1.5", "half"])
def test_invalid_rate_is_a_usage_error(server_arguments: dict[str, Any], option: str, share: str) -> None:
    assert run_serve("serve", option, share) == 2
    assert server_arguments == {}


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_server_stopped_by_a_signal_exits_0(tmp_path: Path, ending: signal.Signals) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--data", "shop"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert "answers DynamoDB" in server.stdout.readline()
    server.send_signal(ending)
    _, complaints = server.communicate(timeout=30)

    assert (server.returncode, complaints) == (0, "")
