"""`holdfast run` of components that work, of a whole system, of sandboxes; `holdfast why`; `holdfast doctor` on queues."""

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

import httpx
import pytest
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from holdfast import Component, Stores, open_memory_stores, open_stores, provision
from holdfast.cli.commands.doctor import _check_other_stores
from holdfast.cli.commands.run import build_system_app
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
from tests.unit.mcp.installing import installed
from tests.unit.runtime import post_office as office
from tests.unit.runtime.post_office import SYSTEM, Letter

OFFICE = "tests.unit.runtime.post_office:SYSTEM"


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *words]


def environment(folder: Path, **variables: str) -> dict[str, str]:
    return installed(folder, "postoffice", OFFICE) | variables


@contextmanager
def running(folder: Path, *words: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`holdfast run postoffice …` in a process of its own, and the first line it says."""
    process = subprocess.Popen(
        command("run", "postoffice", *words),
        cwd=folder,
        env=environment(folder, **variables),
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


def done(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def settings(folder: Path) -> Settings:
    return Settings(base=folder)


def post(folder: Path, *ids: str) -> None:
    async def posting() -> None:
        async with open_stores(SYSTEM, settings(folder)) as stores:
            await provision(stores, SYSTEM)
            for id in ids:
                await stores.run(office.post(Letter(id=id)))

    asyncio.run(posting())


def delivered(folder: Path, id: str) -> bool:
    async def looking() -> bool:
        async with open_stores(SYSTEM, settings(folder)) as stores:
            return await stores.run(office.delivery(id)) is not None

    return asyncio.run(looking())


def until(holds: Callable[[], bool]) -> None:
    """What another process does can only be looked for."""
    while not holds():
        time.sleep(0.02)


# --- run ----------------------------------------------------------------------------------------------------


def test_a_component_that_works_says_on_what_does_it_and_ends_tidily(tmp_path: Path) -> None:
    post(tmp_path, "l-1")

    with running(tmp_path, "--component", "carrier") as (line, process):
        assert line == "postoffice carrier consumes letters and runs sweep every 60 s\n"
        until(lambda: delivered(tmp_path, "l-1"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_with_a_port_a_worker_tells_its_health_and_what_it_counted(tmp_path: Path) -> None:
    post(tmp_path, "l-1")

    with running(tmp_path, "--component", "carrier", "--port", "0") as (line, process):
        url = line.split()[-1]
        assert "; health and metrics at http://127.0.0.1:" in line
        assert httpx.get(f"{url}/health").status_code == 200
        until(lambda: "letters_delivered_total 1.0" in httpx.get(f"{url}/metrics").text)
        assert (
            'ApproximateNumberOfMessagesVisible{QueueName="letters.fifo"} 0.0'
            in httpx.get(f"{url}/metrics").text
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_without_a_component_everything_runs_in_one_process_each_as_its_component(tmp_path: Path) -> None:
    with running(tmp_path, "--port", "0") as (line, process):
        url = line.split()[4]
        assert line.endswith(" as the components api, desk\n")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("postoffice carrier consumes letters")
        assert httpx.post(f"{url}/letters/l-1").json() == {"component": "api"}
        until(lambda: httpx.get(f"{url}/deliveries/l-1").json() == {"component": "desk", "delivered": True})
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_several_components_run_in_one_process_each_as_itself(tmp_path: Path) -> None:
    post(tmp_path, "l-1")

    words = ("--component", "desk", "--component", "carrier", "--port", "0")
    with running(tmp_path, *words) as (line, process):
        url = line.split()[4]
        assert line.endswith(" as the component desk\n")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("postoffice carrier consumes letters")
        until(lambda: httpx.get(f"{url}/deliveries/l-1").json() == {"component": "desk", "delivered": True})
        assert httpx.post(f"{url}/letters/l-2").status_code == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_a_component_with_routes_of_its_own_serves_these_alone(tmp_path: Path) -> None:
    with running(tmp_path, "--component", "desk", "--port", "0") as (line, _):
        url = line.split()[4]
        assert httpx.get(f"{url}/deliveries/l-1").json() == {"component": "desk", "delivered": False}
        assert httpx.post(f"{url}/letters/l-1").status_code == 404


def test_a_component_with_nothing_to_run_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="The component idle of postoffice has nothing to run: it declares no routes"
    ):
        build_workload(replace(SYSTEM, routes=None), "idle")


def test_a_worker_that_cannot_open_its_queues_says_why_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "queues").mkdir()

    with running(tmp_path, "--component", "carrier", HOLDFAST_QUEUES="sqlite:queues") as (said, process):
        assert process.wait(timeout=60) == 1

    assert said.startswith("holdfast: ")
    assert "queues is a folder" in said


@pytest.mark.parametrize("words", [(), ("--port", "0")], ids=["alone", "with a port"])
def test_a_worker_whose_handling_cannot_begin_announces_nothing_and_says_why_in_one_line(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    refused = subprocess.run(
        command("run", "postoffice", "--component", "carrier", *words),
        cwd=tmp_path,
        env=installed(tmp_path, "postoffice", "tests.unit.runtime.post_office:UNSET"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("holdfast: Opening the handler of the queue letters failed: ")
    assert "KeyError: 'POST_OFFICE_KEY'" in refused.stderr
    assert refused.stderr.endswith("`holdfast --debug` shows the traceback.\n")


def test_what_a_request_logs_is_the_line_of_its_component() -> None:
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
        routes=None,
        components=[
            Component("desk", routes=telling("/desk")),
            Component("door", routes=telling("/signed"), has_signed_requests=True),
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
def test_a_worker_whose_queue_is_gone_says_so_and_exits_1(tmp_path: Path, words: tuple[str, ...]) -> None:
    async def remove() -> None:
        async with open_stores(SYSTEM, settings(tmp_path)) as stores:
            await stores.engines.get("queues").run(DeleteQueue("letters.fifo"))

    with running(tmp_path, "--component", "carrier", *words) as (_, process):
        asyncio.run(remove())
        assert process.wait(timeout=60) == 1
        assert process.stderr is not None
        said = process.stderr.read().splitlines()[-1]

    assert said.startswith("holdfast: ")
    assert "letters.fifo" in said


def test_a_sandbox_says_that_it_is_one_and_has_the_clock_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "clock").write_text("1000.5", encoding="utf-8")

    with running(tmp_path, "--sandbox", "railway", "--port", "0", HOLDFAST_RUN_CLOCK="clock") as (line, _):
        assert line.startswith("The sandbox railway of Post office answers at http://127.0.0.1:")
        assert line.endswith("; it is not the real service\n")
        url = line.split(" at ")[1].split("; ")[0]
        assert httpx.get(f"{url}/trains").json() == {"time": 1000.5}


def test_an_unknown_sandbox_is_refused(tmp_path: Path) -> None:
    found = done(tmp_path, "run", "postoffice", "--sandbox", "airline")

    assert (found.returncode, found.stderr) == (
        1,
        "holdfast: postoffice has no sandbox 'airline': it has railway.\n",
    )


# --- the parts of a system ----------------------------------------------------------------------------------


def test_a_system_falls_into_a_process_for_its_api_and_each_component_that_answers_or_works() -> None:
    assert plan_processes(SYSTEM) == [
        ProcessSpec(("api",)),
        ProcessSpec(("desk",)),
        ProcessSpec(("carrier",)),
    ]


def test_components_that_name_the_same_process_share_it_and_each_keeps_its_view() -> None:
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

    assert plan_processes(replace(SYSTEM, routes=None, components=everyone)) == [ProcessSpec()]


def test_routes_that_run_as_the_whole_system_cannot_be_told_from_the_rest_of_it() -> None:
    others = [each for each in SYSTEM.components if each.name != "api"]

    assert plan_processes(replace(SYSTEM, components=others)) == [ProcessSpec()]


def test_a_system_with_nothing_to_run_has_no_process() -> None:
    assert plan_processes(replace(SYSTEM, routes=None, components=[Component("idle")])) == []


def test_the_work_of_a_component_is_told_in_words() -> None:
    only_sweeps = replace(office.CARRIER, consumers=())

    assert describe_worker(SYSTEM, only_sweeps) == "postoffice carrier runs sweep every 60 s"
    assert build_workload(SYSTEM, "carrier") == Workload((), (office.CARRIER,))


# --- why ----------------------------------------------------------------------------------------------------


def test_why_tells_in_lines_and_as_data_as_a_component_that_may(tmp_path: Path) -> None:
    async def deliver() -> None:
        async with open_stores(SYSTEM, settings(tmp_path)) as stores:
            await provision(stores, SYSTEM)
            await stores.run(office.deliver("l-1"))

    asyncio.run(deliver())

    told = done(tmp_path, "why", "postoffice", "l-1", "--component", "desk")
    data = done(tmp_path, "why", "postoffice", "l-1", "--component", "desk", "--json")

    assert (told.returncode, told.stdout) == (0, "l-1 was delivered\nasked as desk\n")
    assert json.loads(data.stdout) == {"letter": "l-1", "asked_as": "desk"}


def test_why_sends_no_terminal_what_others_wrote_to_steer_it_and_json_has_it(tmp_path: Path) -> None:
    async def deliver() -> None:
        async with open_stores(SYSTEM, settings(tmp_path)) as stores:
            await provision(stores, SYSTEM)
            await stores.run(office.deliver("l-\x1b[2J"))

    asyncio.run(deliver())

    told = done(tmp_path, "why", "postoffice", "l-\x1b[2J", "--component", "desk")
    data = done(tmp_path, "why", "postoffice", "l-\x1b[2J", "--component", "desk", "--json")

    assert told.stdout == "l-\\x1b[2J was delivered\nasked as desk\n"
    assert json.loads(data.stdout)["letter"] == "l-\x1b[2J"


def test_why_nothing_is_known_of_an_id_is_a_sentence_and_exit_1(tmp_path: Path) -> None:
    post(tmp_path)

    told = done(tmp_path, "why", "postoffice", "l-9", "--component", "desk")

    assert (told.returncode, told.stderr) == (1, "holdfast: No letter l-9 was delivered.\n")


def test_why_asks_as_api_where_nobody_names_a_component(tmp_path: Path) -> None:
    post(tmp_path)

    told = done(tmp_path, "why", "postoffice", "l-9")

    assert told.returncode == 1
    assert "The component api may not run the pattern P10" in told.stderr


# --- doctor -------------------------------------------------------------------------------------------------


@pytest.fixture
def installed_office(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"postoffice": SYSTEM})


@pytest.mark.usefixtures("installed_office")
def test_doctor_tells_what_waits_and_what_died_and_that_it_is_no_illness(tmp_path: Path) -> None:
    async def let_one_die() -> None:
        async with open_stores(SYSTEM, settings(tmp_path)) as stores:
            await stores.run(office.hand_in(Letter(id="p1")))
            for _ in range(3):
                for received in await stores.run(office.take_parcels(1, 0.0)):
                    await stores.run(office.hold_parcel(received, 0))

    post(tmp_path, "l-1")
    asyncio.run(let_one_die())

    [health] = _check_other_stores(settings(tmp_path), None)

    assert (health.store, health.engine, health.ok) == ("queues", "sqlite", True)
    assert "; letters.fifo has 1 waiting; 1 other queue is empty; parcels has 1 dead letter" in health.detail


@pytest.mark.usefixtures("installed_office")
def test_doctor_makes_no_file_of_queues_and_says_which_are_missing(tmp_path: Path) -> None:
    [absent] = _check_other_stores(settings(tmp_path), None)
    assert "queues.db does not exist yet" in absent.detail
    assert list(tmp_path.iterdir()) == []

    post(tmp_path)
    [other] = _check_other_stores(replace(settings(tmp_path), environment="test"), None)
    assert "not created yet: letters-test.fifo, parcels-test" in other.detail


@pytest.mark.usefixtures("installed_office")
def test_doctor_finds_a_file_of_queues_that_is_none_ill(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "queues.db").write_bytes(b"this is no database" * 100)

    [health] = _check_other_stores(settings(tmp_path), None)

    assert not health.ok
