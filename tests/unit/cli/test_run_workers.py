"""`holdfast run` of workers, whole systems and sandboxes; `holdfast why`; `holdfast doctor` on queues.

The processes are real, on embedded tables and queues in a temporary folder.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from holdfast import Component, Stores, open_memory_stores, open_stores, provision
from holdfast.cli.commands.run import build_system_app
from holdfast.cli.health.stores import check_queues
from holdfast.cli.processes.workload import (
    ProcessSpec,
    Workload,
    build_workload,
    describe_worker,
    plan_processes,
)
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError
from holdfast.core.logs import setup_logs
from holdfast.operations.queues import DeleteQueue
from holdfast.web import serve_in_thread
from tests.unit.mcp.installed_system import install_in_process, install_system, run_in_process
from tests.unit.runtime import post_office as office
from tests.unit.runtime.post_office import SYSTEM, Letter

OFFICE = "tests.unit.runtime.post_office:SYSTEM"
RunCommand: TypeAlias = Callable[..., tuple[int, str, str]]


def build_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *words]


def build_environment(folder: Path, **variables: str) -> dict[str, str]:
    return install_system(folder, "postoffice", OFFICE) | variables


@contextmanager
def start_office(folder: Path, *words: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `holdfast run postoffice …` in a process, and yield its first line."""
    process = subprocess.Popen(
        build_command("run", "postoffice", *words),
        cwd=folder,
        env=build_environment(folder, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            yield process.stdout.readline() or process.stderr.read(), process
        finally:
            process.terminate()


@pytest.fixture
def run_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunCommand:
    """Return a function that runs `holdfast` with words in the folder, in this process."""
    monkeypatch.chdir(tmp_path)
    install_in_process(monkeypatch, postoffice=OFFICE)
    return lambda *words: run_in_process(capsys, *words)


def make_settings(folder: Path) -> Settings:
    return Settings(base=folder)


def post(folder: Path, *ids: str) -> None:
    """Post letters with these ids to the queue, after creating what is missing."""

    async def run() -> None:
        async with open_stores(SYSTEM, make_settings(folder)) as stores:
            await provision(stores, SYSTEM)
            for id in ids:
                await stores.run(office.post(Letter(id=id)))

    asyncio.run(run())


def is_delivered(folder: Path, id: str) -> bool:
    """Return True if the letter with this id was delivered."""

    async def run() -> bool:
        async with open_stores(SYSTEM, make_settings(folder)) as stores:
            return await stores.run(office.delivery(id)) is not None

    return asyncio.run(run())


def wait_until(holds: Callable[[], bool]) -> None:
    """Poll until another process has done it."""
    while not holds():
        time.sleep(0.02)


# --- run ----------------------------------------------------------------------------------------------------


def test_worker_announces_its_queues_processes_them_and_stops_cleanly(tmp_path: Path) -> None:
    post(tmp_path, "l-1")

    with start_office(tmp_path, "--component", "carrier") as (line, process):
        assert line == "postoffice carrier consumes letters and runs sweep every 60 s\n"
        wait_until(lambda: is_delivered(tmp_path, "l-1"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_metrics_of_workers_need_a_token_on_a_public_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    install_in_process(monkeypatch, postoffice=OFFICE)
    words = ("run", "postoffice", "--component", "carrier", "--host", "0.0.0.0", "--port", "0")
    code, _, errors = run_in_process(capsys, *words)
    assert code == 1
    assert "Configure a token" in errors


def test_worker_with_a_port_serves_health_and_metrics(tmp_path: Path) -> None:
    post(tmp_path, "l-1")

    with start_office(tmp_path, "--component", "carrier", "--port", "0") as (line, process):
        url = line.split()[-1]
        assert "; health and metrics at http://127.0.0.1:" in line
        assert httpx.get(f"{url}/health/ready").status_code == 200
        wait_until(lambda: "holdfast_letters_delivered_total 1.0" in httpx.get(f"{url}/metrics").text)
        text = httpx.get(f"{url}/metrics").text
        assert 'holdfast_queue_messages{queue="letters.fifo",state="dead"} 0.0' in text
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_whole_system_runs_in_one_process_each_part_as_its_component(tmp_path: Path) -> None:
    with start_office(tmp_path, "--port", "0") as (line, process):
        url = line.split()[4]
        assert line.endswith(" as the components api, desk\n")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("postoffice carrier consumes letters")
        assert httpx.post(f"{url}/letters/l-1").json() == {"component": "api"}
        wait_until(
            lambda: httpx.get(f"{url}/deliveries/l-1").json() == {"component": "desk", "delivered": True}
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_several_components_run_in_one_process_each_as_itself(tmp_path: Path) -> None:
    post(tmp_path, "l-1")

    words = ("--component", "desk", "--component", "carrier", "--port", "0")
    with start_office(tmp_path, *words) as (line, process):
        url = line.split()[4]
        assert line.endswith(" as the component desk\n")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("postoffice carrier consumes letters")
        wait_until(
            lambda: httpx.get(f"{url}/deliveries/l-1").json() == {"component": "desk", "delivered": True}
        )
        assert httpx.post(f"{url}/letters/l-2").status_code == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_rejects_a_component_with_nothing_to_run() -> None:
    with pytest.raises(
        SettingsError, match="The component idle of postoffice has nothing to run: it declares no routes"
    ):
        build_workload(replace(SYSTEM, http=replace(SYSTEM.http, routes=None)), "idle")


def test_worker_that_cannot_open_its_queues_says_why_and_exits_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    (tmp_path / "queues").mkdir()
    monkeypatch.setenv("HOLDFAST_QUEUES", "sqlite:queues")

    code, _, errors = run_command("run", "postoffice", "--component", "carrier")

    assert (code, errors.startswith("holdfast: ")) == (1, True)
    assert "queues is a folder" in errors


@pytest.mark.parametrize("words", [(), ("--port", "0")], ids=["alone", "with a port"])
def test_worker_whose_handler_fails_to_start_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, run_command: RunCommand, words: tuple[str, ...]
) -> None:
    install_in_process(monkeypatch, postoffice="tests.unit.runtime.post_office:UNSET")

    code, output, errors = run_command("run", "postoffice", "--component", "carrier", *words)

    assert (code, output) == (1, "")
    assert errors.startswith("holdfast: Opening the handler of the queue letters failed: ")
    assert "KeyError: 'POST_OFFICE_KEY'" in errors
    assert errors.endswith("`holdfast --debug` shows the traceback.\n")


def test_request_log_lines_name_their_component() -> None:
    stream = io.StringIO()

    def telling(path: str) -> Callable[[Stores], APIRouter]:
        def routes(_: Stores) -> APIRouter:
            router = APIRouter()

            @router.get(path)
            async def tell(request: Request) -> JSONResponse:
                logging.getLogger("holdfast.tests").warning("asked at %s", request.url.path)
                return JSONResponse({})

            @router.get(path + "/in-thread")
            def tell_in_thread(word: str) -> str:
                logging.getLogger("holdfast.tests").warning("asked for %s", word)
                return word

            router.routes[1:] = [] if path == "/signed" else router.routes[1:]
            return router

        return routes

    system = replace(
        SYSTEM,
        http=replace(SYSTEM.http, routes=None),
        components=[
            Component("desk", routes=telling("/desk")),
            Component("door", routes=telling("/signed"), has_own_authentication=True),
        ],
    )
    handler = setup_logs(stream, system="postoffice")
    try:
        with serve_in_thread(build_system_app(system, open_memory_stores(system))) as url:
            assert httpx.get(f"{url}/desk").status_code == 200
            assert httpx.get(f"{url}/desk/in-thread", params={"word": "stamps"}).json() == "stamps"
            assert httpx.get(f"{url}/signed").status_code == 200
    finally:
        logging.getLogger().removeHandler(handler)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(each["message"], each["component"]) for each in lines if "asked" in each["message"]] == [
        ("asked at /desk", "desk"),
        ("asked for stamps", "desk"),
        ("asked at /signed", "door"),
    ]


@pytest.mark.parametrize("words", [(), ("--port", "0")], ids=["alone", "with a port"])
def test_worker_whose_queue_is_deleted_says_so_and_exits_1(tmp_path: Path, words: tuple[str, ...]) -> None:
    async def remove() -> None:
        async with open_stores(SYSTEM, make_settings(tmp_path)) as stores:
            await stores.engines.get("queues").run(DeleteQueue("letters.fifo"))

    with start_office(tmp_path, "--component", "carrier", *words) as (_, process):
        asyncio.run(remove())
        assert process.wait(timeout=60) == 1
        assert process.stderr is not None
        said = process.stderr.read().splitlines()[-1]

    assert said.startswith("holdfast: ")
    assert "letters.fifo" in said


def test_sandbox_says_that_it_is_not_real_and_uses_the_configured_clock(tmp_path: Path) -> None:
    (tmp_path / "clock").write_text("1000.5", encoding="utf-8")

    with start_office(tmp_path, "--sandbox", "railway", "--port", "0", HOLDFAST_RUN_CLOCK="clock") as (
        line,
        _,
    ):
        assert line.startswith("The sandbox railway of Post office answers at http://127.0.0.1:")
        assert line.endswith("; it is not the real service\n")
        url = line.split(" at ")[1].split("; ")[0]
        assert httpx.get(f"{url}/trains").json() == {"time": 1000.5}


def test_rejects_an_unknown_sandbox(run_command: RunCommand) -> None:
    found = run_command("run", "postoffice", "--sandbox", "airline")

    assert found == (1, "", "holdfast: postoffice has no sandbox 'airline': it has railway.\n")


# --- processes of a system ----------------------------------------------------------------------------------


def test_system_has_one_process_for_its_api_and_each_serving_or_working_component() -> None:
    assert plan_processes(SYSTEM) == [
        ProcessSpec(("api",)),
        ProcessSpec(("desk",)),
        ProcessSpec(("carrier",)),
    ]


def test_components_that_name_one_process_are_planned_together() -> None:
    together = replace(
        SYSTEM,
        components=[
            replace(each, process="counter" if each.name in ("desk", "carrier") else "")
            for each in SYSTEM.components
        ],
    )

    assert plan_processes(together) == [ProcessSpec(("api",)), ProcessSpec(("desk", "carrier"), "counter")]
    part = build_workload(together, "desk", "carrier")
    assert part.components == ("desk", "carrier")
    assert [each.component for each in part.routes] == ["desk"]


def test_components_that_all_share_one_process_are_the_whole_system() -> None:
    everyone = [replace(each, process="all") for each in SYSTEM.components if each.name != "api"]

    assert plan_processes(replace(SYSTEM, http=replace(SYSTEM.http, routes=None), components=everyone)) == [
        ProcessSpec()
    ]


def test_system_without_a_component_api_is_planned_as_one_process() -> None:
    others = [each for each in SYSTEM.components if each.name != "api"]

    assert plan_processes(replace(SYSTEM, components=others)) == [ProcessSpec()]


def test_a_system_with_nothing_to_run_has_no_process() -> None:
    assert (
        plan_processes(
            replace(SYSTEM, http=replace(SYSTEM.http, routes=None), components=[Component("idle")])
        )
        == []
    )


def test_describes_a_worker_that_only_runs_schedules() -> None:
    only_sweeps = replace(office.CARRIER, consumers=())

    assert describe_worker(SYSTEM, only_sweeps) == "postoffice carrier runs sweep every 60 s"
    assert build_workload(SYSTEM, "carrier") == Workload((), (office.CARRIER,))


# --- why ----------------------------------------------------------------------------------------------------


def test_why_prints_lines_and_json_as_a_permitted_component(tmp_path: Path, run_command: RunCommand) -> None:
    async def deliver() -> None:
        async with open_stores(SYSTEM, make_settings(tmp_path)) as stores:
            await provision(stores, SYSTEM)
            await stores.run(office.deliver("l-1"))

    asyncio.run(deliver())

    result = run_command("why", "postoffice", "l-1", "--component", "desk")
    _, data, _ = run_command("why", "postoffice", "l-1", "--component", "desk", "--json")

    assert result == (0, "l-1 was delivered\nasked as desk\n", "")
    assert json.loads(data) == {"letter": "l-1", "asked_as": "desk"}


def test_why_escapes_terminal_control_characters_and_json_keeps_them(
    tmp_path: Path, run_command: RunCommand
) -> None:
    async def deliver() -> None:
        async with open_stores(SYSTEM, make_settings(tmp_path)) as stores:
            await provision(stores, SYSTEM)
            await stores.run(office.deliver("l-\x1b[2J"))

    asyncio.run(deliver())

    _, result, _ = run_command("why", "postoffice", "l-\x1b[2J", "--component", "desk")
    _, data, _ = run_command("why", "postoffice", "l-\x1b[2J", "--component", "desk", "--json")

    assert result == "l-\\x1b[2J was delivered\nasked as desk\n"
    assert json.loads(data)["letter"] == "l-\x1b[2J"


def test_why_of_an_unknown_id_is_a_sentence_and_exit_1(tmp_path: Path, run_command: RunCommand) -> None:
    post(tmp_path)

    result = run_command("why", "postoffice", "l-9", "--component", "desk")

    assert result == (1, "", "holdfast: No letter l-9 was delivered.\n")


def test_why_runs_as_api_by_default(tmp_path: Path, run_command: RunCommand) -> None:
    post(tmp_path)

    code, _, errors = run_command("why", "postoffice", "l-9")

    assert code == 1
    assert "The component api may not run the pattern P10" in errors


# --- doctor -------------------------------------------------------------------------------------------------


def test_doctor_reports_waiting_and_dead_messages_as_healthy(tmp_path: Path) -> None:
    async def let_one_die() -> None:
        async with open_stores(SYSTEM, make_settings(tmp_path)) as stores:
            await stores.run(office.hand_in(Letter(id="p1")))
            for _ in range(3):
                for received in await stores.run(office.parcels.consumer.receive(1, 0.0)):
                    await stores.run(office.parcels.consumer.change_visibility(received, 0))

    post(tmp_path, "l-1")
    asyncio.run(let_one_die())

    health = check_queues(make_settings(tmp_path), [SYSTEM])

    assert (health.store, health.engine, health.ok) == ("queues", "sqlite", True)
    assert "; letters.fifo has 1 waiting; 1 other queue is empty; parcels has 1 dead letter" in health.detail


def test_doctor_creates_no_queue_file_and_reports_missing_queues(tmp_path: Path) -> None:
    absent = check_queues(make_settings(tmp_path), [SYSTEM])
    assert "queues.db does not exist yet" in absent.detail
    assert list(tmp_path.iterdir()) == []

    post(tmp_path)
    other = check_queues(replace(make_settings(tmp_path), environment="test"), [SYSTEM])
    assert "not created yet: letters-test.fifo, parcels-test" in other.detail


def test_doctor_reports_an_invalid_queue_file_as_unhealthy(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "queues.db").write_bytes(b"this is no database" * 100)

    health = check_queues(make_settings(tmp_path), [SYSTEM])

    assert not health.ok
