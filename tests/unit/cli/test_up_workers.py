"""`holdfast up` with workers and sandboxes: which processes it starts, and restarts of dead workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from holdfast.cli.commands.up import _build_children
from holdfast.cli.processes.supervisor import MAX_RESTARTS, ChildProcess, supervise
from holdfast.config.settings import Settings
from holdfast.model.demo import Demo
from tests.unit.mcp import harbour
from tests.unit.mcp.installed_system import install_system
from tests.unit.runtime.post_office import CARRIER, SYSTEM, railway

OFFICE = "tests.unit.runtime.post_office:SYSTEM"

# Writes a line into a file on each start, and kills itself until the given number of starts.
DIES = """
import os, pathlib, signal, sys
file, sound = pathlib.Path(sys.argv[1]), int(sys.argv[2])
with file.open("a") as opened:
    opened.write("started\\n")
if len(file.read_text().split()) < sound:
    os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getppid(), signal.SIGTERM)
signal.pause()
"""


def test_every_api_keeps_its_port_and_other_processes_follow() -> None:
    children = _build_children(Settings(api_port=9000), [harbour.SYSTEM, SYSTEM], sample=True)

    assert [child.command[3:] for child in children] == [
        ("serve",),
        ("run", "postoffice", "--sandbox", "railway", "--port", "9004"),
        ("run", "harbour", "--port", "9000", "--sample"),
        ("run", "postoffice", "--component", "api", "--port", "9001", "--sample"),
        ("run", "postoffice", "--component", "desk", "--port", "9002"),
        ("run", "postoffice", "--component", "carrier", "--port", "9003"),
    ]


def test_only_processes_without_routes_are_to_be_restarted() -> None:
    children = _build_children(Settings(), [SYSTEM])

    assert [child.name for child in children if child.restarts] == ["The component carrier of Post office"]


def test_components_of_one_process_start_together_and_name_themselves() -> None:
    shared = [
        replace(each, process="" if each.name == "api" else "counter", routes=None)
        for each in SYSTEM.components
    ]
    stamps = replace(CARRIER, name="stamps", process="counter")
    children = _build_children(Settings(api_port=9000), [replace(SYSTEM, components=[*shared, stamps])])

    assert [(child.name, child.command[3:], child.restarts) for child in children[-1:]] == [
        (
            "The process counter of Post office (carrier, stamps)",
            ("run", "postoffice", "--component", "carrier", "--component", "stamps", "--port", "9001"),
            True,
        )
    ]


def test_processes_of_a_system_get_the_addresses_of_its_sandboxes() -> None:
    children = _build_children(Settings(api_port=9000), [SYSTEM])

    variables = {"POSTOFFICE_RAILWAY_URL": "http://127.0.0.1:9003"}
    assert [child.variables for child in children] == [{}, {}, variables, variables, variables]


def test_starts_no_sandbox_for_a_service_with_a_configured_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTOFFICE_RAILWAY_URL", "https://railway.example")

    children = _build_children(Settings(), [SYSTEM])

    assert not [child for child in children if "--sandbox" in child.command]
    assert not any(child.variables for child in children)


def test_sandboxes_get_distinct_known_ports_if_ports_are_free_ones() -> None:
    demo = Demo(sandboxes={"a": railway, "b": railway})
    children = _build_children(Settings(api_port=0), [replace(SYSTEM, demo=demo)])

    ports = [child.command[-1] for child in children if "--sandbox" in child.command]
    assert "0" not in ports
    assert len(set(ports)) == 2


async def supervise_dying_child(
    file: Path, sound: int, *, restarts: bool = True
) -> tuple[str | None, int, list[str]]:
    """Supervise a process that kills itself until its start number `sound`.

    Return how it ended, how often it started, and the reports.
    """
    reports: list[str] = []
    child = ChildProcess("The worker", (sys.executable, "-c", DIES, str(file), str(sound)), restarts=restarts)
    ended = await supervise([child], report=reports.append, pause_s=0.01)
    return ended, len(file.read_text(encoding="utf-8").split()), reports


async def test_restarts_a_dead_worker_and_reports_it(tmp_path: Path) -> None:
    ended, starts, reports = await supervise_dying_child(tmp_path / "starts", 3)

    assert (ended, starts) == (None, 3)
    assert reports == [f"The worker was killed by SIGKILL. It is restarted ({each} of 5)." for each in (1, 2)]


async def test_worker_that_keeps_dying_ends_all(tmp_path: Path) -> None:
    ended, starts, _ = await supervise_dying_child(tmp_path / "starts", 1000)

    assert (ended, starts) == ("The worker was killed by SIGKILL.", 1 + MAX_RESTARTS)


async def test_does_not_restart_a_process_that_is_not_to_be_restarted(tmp_path: Path) -> None:
    ended, starts, reports = await supervise_dying_child(tmp_path / "starts", 1000, restarts=False)

    assert (ended, starts, reports) == ("The worker was killed by SIGKILL.", 1, [])


async def test_worker_that_refuses_to_start_ends_all_at_once() -> None:
    child = ChildProcess("The worker", (sys.executable, "-c", "raise SystemExit(1)"), restarts=True)

    ended = await supervise([child], pause_s=0.01)

    assert ended == "The worker exited with code 1; its output is above."


async def test_restarts_a_worker_that_exits_after_it_was_stable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.processes.supervisor.STABLE_AFTER_S", 0.0)
    reports: list[str] = []
    program = DIES.replace("os.kill(os.getpid(), signal.SIGKILL)", "raise SystemExit(1)")
    command = (sys.executable, "-c", program, str(tmp_path / "starts"), "2")

    ended = await supervise(
        [ChildProcess("The worker", command, restarts=True)], report=reports.append, pause_s=0.01
    )

    assert ended is None
    assert reports == ["The worker exited with code 1; its output is above. It is restarted (1 of 5)."]


def test_killed_worker_is_restarted_and_delivers_a_letter(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up"],
        cwd=tmp_path,
        env=install_system(tmp_path, "postoffice", OFFICE)
        | {"HOLDFAST_API_PORT": "0", "HOLDFAST_SERVE_PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None and process.stderr is not None
            said = [process.stdout.readline() for _ in range(5)]
            api, desk = (_find_address(said, f"as the component {name}") for name in ("api", "desk"))
            os.kill(_find_carrier_pid(process.pid), signal.SIGKILL)
            assert "The component carrier of Post office was killed by SIGKILL." in process.stderr.readline()
            httpx.post(f"{api}/letters/l-1")
            while not httpx.get(f"{desk}/deliveries/l-1").json()["delivered"]:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.05)
            process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            process.terminate()


def _find_address(said: list[str], ending: str) -> str:
    """Return the address in the only line that ends like this."""
    [line] = [each for each in said if each.endswith(f"{ending}\n")]
    found = re.search(r"http://\S+", line)
    assert found is not None
    return found[0]


def _find_carrier_pid(parent: int) -> int:
    """Return the process id of the child that runs the carrier."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
    return next(int(each) for each in children if b"carrier" in Path(f"/proc/{each}/cmdline").read_bytes())
