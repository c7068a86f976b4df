"""`holdfast up` with workers and sandboxes: which processes it starts, and restarts of dead ones."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.cli.commands.up import _build_children
from holdfast.cli.processes.supervisor import MAX_RESTARTS, ChildProcess, supervise
from holdfast.config.settings import IN_MEMORY, Settings
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
if len(file.read_text().splitlines()) < sound:
    os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getppid(), signal.SIGTERM)
signal.pause()
"""


def test_every_api_keeps_its_port_and_other_processes_follow() -> None:
    children = _build_children(Settings(api_port=9000), [harbour.SYSTEM, SYSTEM], sample=True)

    assert [child.command[3:] for child in children] == [
        ("serve",),
        ("run", "postoffice", "--sandbox", "railway", "--port", "9004"),
        ("run", "harbour", "--port", "9000"),
        ("run", "postoffice", "--component", "api", "--port", "9001"),
        ("run", "postoffice", "--component", "desk", "--port", "9002"),
        ("run", "postoffice", "--component", "carrier", "--port", "9003"),
    ]


def test_sample_is_written_again_by_a_restart_only_if_it_ended_with_the_process() -> None:
    *_, on_file = _build_children(Settings(), [harbour.SYSTEM], sample=True)
    *_, in_memory = _build_children(Settings(tables=IN_MEMORY), [harbour.SYSTEM], sample=True)

    assert ("--sample" in on_file.command, on_file.first_options) == (False, ("--sample",))
    assert ("--sample" in in_memory.command, in_memory.first_options) == (True, ())


def test_components_of_one_process_start_together_and_name_themselves() -> None:
    shared = [
        replace(each, process="" if each.name == "api" else "counter", routes=None)
        for each in SYSTEM.components
    ]
    stamps = replace(CARRIER, name="stamps", process="counter")
    children = _build_children(Settings(api_port=9000), [replace(SYSTEM, components=[*shared, stamps])])

    assert [(child.name, child.command[3:]) for child in children[-1:]] == [
        (
            "The process counter of Post office (carrier, stamps)",
            ("run", "postoffice", "--component", "carrier", "--component", "stamps", "--port", "9001"),
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


def test_every_process_has_a_known_port_of_its_own_if_ports_are_free_ones() -> None:
    demo = Demo(sandboxes={"a": railway, "b": railway})
    children = _build_children(Settings(api_port=0, serve_port=0), [replace(SYSTEM, demo=demo)])

    ports = [child.command[child.command.index("--port") + 1] for child in children]
    assert "0" not in ports
    assert len(set(ports)) == len(children) == 6


async def supervise_dying_child(file: Path, sound: int) -> tuple[str | None, int, list[str]]:
    """Supervise a process that kills itself until its start number `sound`.

    Return how it ended, how often it started, and the reports.
    """
    reports: list[str] = []
    child = ChildProcess("The worker", (sys.executable, "-c", DIES, str(file), str(sound)))
    ended = await supervise([child], report=reports.append, pause_s=0.01)
    return ended, len(file.read_text(encoding="utf-8").split()), reports


async def test_restarts_a_killed_process_after_a_growing_pause_and_reports_it(tmp_path: Path) -> None:
    ended, starts, reports = await supervise_dying_child(tmp_path / "starts", 3)

    assert (ended, starts) == (None, 3)
    assert reports == [
        "The worker was killed by SIGKILL. It is restarted in 0.01 s (1 of 5).",
        "The worker was killed by SIGKILL. It is restarted in 0.02 s (2 of 5).",
    ]


async def test_process_that_keeps_dying_ends_all_and_says_so(tmp_path: Path) -> None:
    ended, starts, _ = await supervise_dying_child(tmp_path / "starts", 1000)

    assert starts == 1 + MAX_RESTARTS
    assert ended == (
        "The worker was killed by SIGKILL. It was restarted 5 times and ended each time within 60 s."
    )


async def test_process_that_refuses_to_start_ends_all_at_once() -> None:
    child = ChildProcess("The worker", (sys.executable, "-c", "raise SystemExit(1)"))

    ended = await supervise([child], pause_s=0.01)

    assert ended == "The worker exited with code 1; its output is above."


async def test_restarts_a_process_that_was_ready_and_exits_without_its_first_options(tmp_path: Path) -> None:
    reports: list[str] = []
    program = DIES.replace("os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(print('ready') or 1)")
    program = program.replace('"started', '" ".join(["started", *sys.argv[3:]]) + "')
    command = (sys.executable, "-c", program, str(tmp_path / "starts"), "2")

    ended = await supervise(
        [ChildProcess("The worker", command, first_options=("sample",))], report=reports.append, pause_s=0.01
    )

    assert ended is None
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "started sample\nstarted\n"
    assert reports == [
        "The worker exited with code 1; its output is above. It is restarted in 0.01 s (1 of 5)."
    ]


def test_every_killed_process_is_restarted_at_its_address_and_goes_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "--no-console"],
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
            said = {process.stdout.readline() for _ in range(5)}
            assert process.stdout.readline().startswith("Ready: 5 processes are up")
            for child in _list_children(process.pid):
                os.kill(child, signal.SIGKILL)
            reports = [process.stderr.readline() for _ in range(5)]
            assert all(
                "was killed by SIGKILL. It is restarted in 0.5 s (1 of 5)." in each for each in reports
            )
            # Each prints the same address as before.
            assert {process.stdout.readline() for _ in range(5)} == said
            for line in said:
                _check_operation_paths(_find_address([line], ""))
            api, desk = (_find_address(said, f"as the component {name}") for name in ("api", "desk"))
            httpx.post(f"{api}/letters/l-1")
            while not httpx.get(f"{desk}/deliveries/l-1").json()["delivered"]:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.05)
            process.terminate()
            assert process.wait(timeout=60) == 0
            assert process.stderr.read() == ""
        finally:
            process.terminate()


def _find_address(said: Iterable[str], ending: str) -> str:
    """Return the address in the only line that ends like this."""
    [line] = [each for each in said if each.endswith(f"{ending}\n")]
    found = re.search(r"http://[\d.]+:\d+", line)
    assert found is not None
    return found[0]


def _check_operation_paths(url: str) -> None:
    """Check that a port shows its health and its metrics: of an API, a worker, the endpoint, a sandbox."""
    assert httpx.get(f"{url}/health/live").json() == {"status": "ok"}
    assert httpx.get(f"{url}/health/ready").json()["status"] == "ok"
    families = {each.name for each in text_string_to_metric_families(httpx.get(f"{url}/metrics").text)}
    assert {"process_cpu_seconds", "python_gc_collections", "holdfast_http_requests"} <= families


def _list_children(parent: int) -> list[int]:
    """Return the ids of a process's children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
    return [int(each) for each in children]
