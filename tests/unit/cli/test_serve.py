"""`holdfast serve`: which options and settings reach the server, what is refused, and how it ends."""

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
from holdfast.stores.tables.embedded import Faults


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the server was started with; in place of the server, which would not return."""
    monkeypatch.chdir(tmp_path)
    called: dict[str, Any] = {}
    server = ModuleType("holdfast.wire.server")
    server.serve = called.update  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "holdfast.wire", ModuleType("holdfast.wire"))
    monkeypatch.setitem(sys.modules, "holdfast.wire.server", server)
    return called


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as exited:
        main(words)
    assert isinstance(exited.value.code, int)
    return exited.value.code


def test_without_options_the_defaults_are_served(served: dict[str, Any]) -> None:
    assert run("serve") == 0
    assert served == {
        "host": "127.0.0.1",
        "port": 8000,
        "data": Path("data"),
        "memory": False,
        "credentials": None,
        "faults": None,
    }


def test_options_win_over_settings(served: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SERVE_PORT", "9000")
    monkeypatch.setenv("HOLDFAST_SERVE_HOST", "127.0.0.2")
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    assert run("serve", "--port", "0", "--data", "shop") == 0
    assert (served["host"], served["port"]) == ("127.0.0.2", 0)
    assert (served["data"], served["memory"]) == (Path("shop"), False)


def test_the_data_folder_is_made_on_the_first_start(served: dict[str, Any], tmp_path: Path) -> None:
    assert run("serve", "--data", "shop/state") == 0
    assert served["data"] == Path("shop/state")
    assert (tmp_path / "shop" / "state").is_dir()


def test_a_data_folder_that_cannot_be_made_is_refused(
    served: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop").write_text("a file", encoding="utf-8")

    assert run("serve", "--data", "shop") == 1
    assert capsys.readouterr().err == (
        "holdfast: Failed to create the data folder shop (File exists): choose another with --data.\n"
    )
    assert served == {}


def test_a_port_in_use_leaves_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run("serve", "--data", "shop/state", "--port", str(taken.getsockname()[1])) == 1

    assert "is in use" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays_when_nothing_can_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run("serve", "--data", "shop/state", "--port", str(taken.getsockname()[1])) == 1

    assert list(tmp_path.rglob("*")) == [tmp_path / "shop"]


def test_a_folder_in_the_place_of_the_file_is_told_with_what_to_do(
    served: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("shop/tables.db").mkdir(parents=True)

    assert run("serve", "--data", "shop") == 1
    assert capsys.readouterr().err == (
        "holdfast: shop/tables.db is a folder, but must be a file: "
        "move it, or choose another data folder with --data.\n"
    )
    assert served == {}


def test_a_text_in_the_place_of_the_file_is_kept_and_another_folder_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tables.db").write_text("a diary, not a database" * 100, encoding="utf-8")

    assert run("serve", "--data", ".", "--port", "0") == 1
    assert "is not a Holdfast file" in (said := capsys.readouterr().err)
    assert said.endswith("Choose another data folder with --data.\n")
    assert Path("tables.db").read_text(encoding="utf-8").startswith("a diary")


@pytest.mark.parametrize("text", ["abc", "-1", "65536", "8000.5", "9" * 5000])
def test_what_is_no_port_is_called_wrongly_in_one_plain_line(
    served: dict[str, Any], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("serve", f"--port={text}") == 2
    assert capsys.readouterr().err == (
        f"holdfast: Invalid --port {text}: expected a number from 1 to 65535, or 0 for a free port.\n"
    )
    assert served == {}


def test_memory_needs_no_folder(served: dict[str, Any]) -> None:
    assert run("serve", "--memory") == 0
    assert not Path("data").exists()
    assert (served["data"], served["memory"]) == (None, True)


def test_memory_and_a_folder_exclude_each_other_and_are_called_wrongly(
    served: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("serve", "--memory", "--data", "shop") == 2
    assert "exclude each other" in capsys.readouterr().err
    assert served == {}


def test_credentials_reach_the_server(served: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "who.txt").write_text("AKID secret\n", encoding="utf-8")

    assert run("serve", "--credentials", "who.txt") == 0
    assert served["credentials"] == {"AKID": "secret"}


def outcomes(faults: Faults) -> list[str]:
    """What becomes of two hundred writes."""
    told = []
    for _ in range(200):
        try:
            faults.raise_for(PutItem("tab", {"pk": "a"}))
            told.append("done")
        except HoldfastError as error:
            told.append(error.code)
    return told


@pytest.mark.parametrize(
    ("words", "faults"),
    [
        ("--throttle 0.25 --conflicts 0.5 --seed 7", Faults(throttled=0.25, conflicts=0.5, seed=7)),
        ("--throttle 0.25 --seed 8", Faults(throttled=0.25, seed=8)),
        ("--conflicts 0.5 --seed 9", Faults(conflicts=0.5, seed=9)),
        ("--throttle 1", Faults(throttled=1)),
        ("--conflicts 1", Faults(conflicts=1)),
    ],
)
def test_throttling_and_conflicts_reach_the_server_with_their_seed(
    served: dict[str, Any], words: str, faults: Faults
) -> None:
    assert run("serve", *words.split()) == 0
    assert outcomes(served["faults"]) == outcomes(faults)


def test_a_seed_alone_makes_nothing_fail(served: dict[str, Any]) -> None:
    assert run("serve", "--seed", "7") == 0
    assert served["faults"] is None


@pytest.mark.parametrize("option", ["--throttle", "--conflicts"])
@pytest.mark.parametrize("share", ["-0.1", "1.5", "half"])
def test_a_share_that_is_none_is_called_wrongly(served: dict[str, Any], option: str, share: str) -> None:
    assert run("serve", option, share) == 2
    assert served == {}


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_by_a_signal_has_done_what_was_asked(
    tmp_path: Path, ending: signal.Signals
) -> None:
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
