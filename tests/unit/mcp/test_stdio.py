"""`holdfast mcp` as an agent meets it: a process of its own, the SDK's client, standard input and output."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from holdfast import create_tables, open_stores
from holdfast.config.settings import Settings
from tests.unit.mcp.calling import answer, refusal
from tests.unit.mcp.harbour import SYSTEM, moor
from tests.unit.mcp.installing import installed

R = TypeVar("R")

COMMAND = [sys.executable, "-m", "holdfast", "mcp"]


@pytest.fixture
def harboured(tmp_path: Path) -> Path:
    """A folder whose tables have ships in them."""

    async def filled() -> None:
        async with open_stores(SYSTEM, Settings(base=tmp_path)) as stores:
            await create_tables(stores, SYSTEM.tables)
            await moor(stores, "B1", 3)

    asyncio.run(filled())
    return tmp_path


def as_agent(
    folder: Path, story: Callable[[Client], Awaitable[R]], *words: str, mode: str = "auto"
) -> tuple[R, str]:
    """What the story gave, and what the server wrote to standard error."""
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *words], env=installed(folder), cwd=folder
    )

    async def told() -> R:
        with (folder / "errors").open("w") as errors:
            async with Client(stdio_client(server, errlog=errors), mode=mode) as client:
                return await story(client)

    return asyncio.run(told()), (folder / "errors").read_text(encoding="utf-8")


def ended(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env=installed(folder) | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_finds_the_tools_and_reads_what_is_in_the_file(harboured: Path, mode: str) -> None:
    async def story(client: Client) -> tuple[list[str], dict[str, Any]]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        return names, await answer(client, "ships_at", berth="B1", limit=2)

    (names, found), said = as_agent(harboured, story, "harbour", mode=mode)

    assert "ships_at" in names
    assert "arrive" not in names
    assert [item["shipId"] for item in found["items"]] == ["S001", "S002"]
    assert found["cursor"] is not None
    assert said == ""


def test_what_a_tool_prints_and_what_it_logs_stays_out_of_the_protocol(harboured: Path) -> None:
    async def story(client: Client) -> tuple[str, dict[str, Any]]:
        failed = await refusal(client, "stumble")
        return failed, await answer(client, "ship", ship_id="S001")

    (failed, found), said = as_agent(harboured, story, "harbour")

    assert failed.startswith("stumble failed unexpectedly.")
    assert found["count"] == 1
    assert "ZeroDivisionError: a secret of the code" in said


def test_without_a_name_every_system_with_an_agent_is_served_under_its_own(harboured: Path) -> None:
    installed(harboured, "twin", "tests.unit.mcp.twin:SYSTEM")

    async def story(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    names, _ = as_agent(harboured, story)

    assert {name.partition("_")[0] for name in names} == {"harbour", "twin"}
    assert {"harbour_ships_at", "twin_ship"} <= names


def test_a_system_that_cannot_be_loaded_does_not_stand_in_the_way_of_another(harboured: Path) -> None:
    installed(harboured, "broken", "tests.unit.mcp.nowhere:SYSTEM")

    async def story(client: Client) -> dict[str, Any]:
        return await answer(client, "ship", ship_id="S001")

    found, _ = as_agent(harboured, story, "harbour")
    done = ended(harboured)

    assert found["count"] == 1
    assert done.returncode == 1
    assert done.stderr.startswith(
        "holdfast: Loading the system broken (tests.unit.mcp.nowhere:SYSTEM) failed:"
    )


def test_a_system_under_another_name_than_its_own_is_refused(tmp_path: Path) -> None:
    installed(tmp_path, "hafen", "tests.unit.mcp.harbour:SYSTEM")

    done = ended(tmp_path, "hafen")

    assert done.returncode == 1
    assert "names the system harbour: give both the same name." in done.stderr


def test_the_process_ends_with_its_input_and_says_nothing(harboured: Path) -> None:
    done = ended(harboured, "harbour")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_though_its_input_is_open(harboured: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "harbour"],
        cwd=harboured,
        env=installed(harboured),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        assert process.wait(timeout=60) == 0


def test_a_system_without_an_agent_is_one_line_and_exit_1(tmp_path: Path) -> None:
    installed(tmp_path, "quiet", "tests.unit.mcp.twin:WITHOUT_AGENT")

    done = ended(tmp_path, "quiet")

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(
        "holdfast: quiet declares no component 'agent' (it has api, clerk), and so has"
    )


def test_a_system_that_is_not_installed_is_told_with_those_that_are(tmp_path: Path) -> None:
    done = ended(tmp_path, "hrbour")

    assert done.returncode == 1
    assert done.stderr.startswith("holdfast: System 'hrbour' is not installed. Installed: harbour")


def test_tables_in_memory_are_refused_as_nobody_could_have_filled_them(tmp_path: Path) -> None:
    done = ended(tmp_path, "harbour", HOLDFAST_TABLES="sqlite::memory:")

    assert done.returncode == 1
    assert "set a file or an endpoint" in done.stderr
