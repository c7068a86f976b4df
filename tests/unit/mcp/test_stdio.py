"""`holdfast mcp` as a process of its own, with the SDK's client over standard input and output."""

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

from holdfast import open_stores
from holdfast.config.settings import Settings
from holdfast.runtime import create_tables
from tests.unit.mcp.harbour import SYSTEM, moor
from tests.unit.mcp.installed_system import HARBOUR, install_in_process, install_system, run_in_process
from tests.unit.mcp.mcp_client import call_tool, get_refusal

R = TypeVar("R")

WITHOUT_AGENT = "tests.unit.mcp.twin:WITHOUT_AGENT"
NOWHERE = "tests.unit.mcp.nowhere:SYSTEM"
COMMAND = [sys.executable, "-m", "holdfast", "mcp"]


@pytest.fixture
def harbour_folder(tmp_path: Path) -> Path:
    """Create a folder whose tables contain ships."""

    async def fill() -> None:
        async with open_stores(SYSTEM, Settings(base=tmp_path)) as stores:
            await create_tables(stores, SYSTEM.tables)
            await moor(stores, "B1", 3)

    asyncio.run(fill())
    return tmp_path


def run_as_agent(
    folder: Path, story: Callable[[Client], Awaitable[R]], *words: str, mode: str = "auto"
) -> tuple[R, str]:
    """Run the story. Return its result and the server's standard error."""
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *words], env=install_system(folder), cwd=folder
    )

    async def run() -> R:
        with (folder / "errors").open("w") as errors:
            async with Client(stdio_client(server, errlog=errors), mode=mode) as client:
                return await story(client)

    return asyncio.run(run()), (folder / "errors").read_text(encoding="utf-8")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_agent_finds_the_tools_and_reads_stored_items(harbour_folder: Path, mode: str) -> None:
    # A system that cannot be loaded does not block another.
    install_system(harbour_folder, "broken", NOWHERE)

    async def story(client: Client) -> tuple[list[str], dict[str, Any]]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        return names, await call_tool(client, "ships_at", berth="B1", limit=2)

    (names, found), errors = run_as_agent(harbour_folder, story, "harbour", mode=mode)

    assert "ships_at" in names
    assert "arrive" not in names
    assert [item["shipId"] for item in found["items"]] == ["S001", "S002"]
    assert found["cursor"] is not None
    assert errors == ""


def test_output_and_logs_of_a_tool_stay_out_of_the_protocol(harbour_folder: Path) -> None:
    async def story(client: Client) -> tuple[str, dict[str, Any]]:
        failed = await get_refusal(client, "stumble")
        return failed, await call_tool(client, "ship", ship_id="S001")

    (failed, found), errors = run_as_agent(harbour_folder, story, "harbour")

    assert failed.startswith("stumble failed unexpectedly.")
    assert found["count"] == 1
    assert "The tool stumble failed: ZeroDivisionError" in errors


def test_serves_every_system_with_an_agent_by_default(harbour_folder: Path) -> None:
    install_system(harbour_folder, "twin", "tests.unit.mcp.twin:SYSTEM")

    async def story(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    names, _ = run_as_agent(harbour_folder, story)

    assert {name.partition("_")[0] for name in names} == {"harbour", "twin"}
    assert {"harbour_ships_at", "twin_ship"} <= names


def test_process_ends_silently_with_its_input(harbour_folder: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "harbour"],
        cwd=harbour_folder,
        env=install_system(harbour_folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_process_while_its_input_is_open(
    harbour_folder: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "harbour"],
        cwd=harbour_folder,
        env=install_system(harbour_folder),
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


# --- refusals before the server starts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "words", "error"),
    [
        (
            {"quiet": WITHOUT_AGENT},
            ["quiet"],
            "quiet declares no component 'agent' (it has api, clerk), and so has",
        ),
        ({"harbour": HARBOUR}, ["hrbour"], "System 'hrbour' is not installed. Installed: harbour"),
        (
            {"harbour": HARBOUR, "broken": NOWHERE},
            [],
            f"Loading the system broken ({NOWHERE}) failed:",
        ),
    ],
    ids=["no agent", "unknown", "unloadable"],
)
def test_system_that_cannot_be_served_is_named_in_one_line(
    system: dict[str, str],
    words: list[str],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install_in_process(monkeypatch, **system)

    code, output, errors = run_in_process(capsys, "mcp", *words)

    assert (code, output) == (1, "")
    assert errors.startswith(f"holdfast: {error}")


def test_rejects_a_system_under_another_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_in_process(monkeypatch, hafen=HARBOUR)

    code, _, errors = run_in_process(capsys, "mcp", "hafen")

    assert code == 1
    assert "names the system harbour: give both the same name." in errors


def test_rejects_empty_in_memory_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")
    install_in_process(monkeypatch, harbour=HARBOUR)

    code, _, errors = run_in_process(capsys, "mcp", "harbour")

    assert code == 1
    assert "set a file or an endpoint" in errors
