"""The programs in examples/: each runs in an empty folder, prints what it promises, and survives a kill."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.cases import all_cases
from tests.docs import pages

EXAMPLES: Final = pages.ROOT / "examples"
PROGRAMS: Final = sorted(EXAMPLES.glob("*.py"))
MIN_LINES, MAX_LINES = 40, 120
PUBLIC_MODULES: Final = {
    "holdfast",
    "holdfast.boto3",
    "holdfast.core.errors",
    "holdfast.flows",
    "holdfast.guarantees",
    "holdfast.mcp",
    "holdfast.runtime",
    "holdfast.stores.tables.embedded",
    "holdfast.web",
}
KILLED: Final = -signal.SIGKILL


def build_command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]


def build_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "AWS_"))}


def run(folder: Path, name: str, *arguments: str, code: int = 0) -> list[str]:
    """Run an example in the folder and return the lines that it printed; fail on another exit code."""
    done = subprocess.run(
        build_command(name, *arguments),
        cwd=folder,
        env=build_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return (done.stdout if code <= 0 else done.stderr).splitlines()


@contextmanager
def start(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start an example and kill it at the end of the block."""
    process = subprocess.Popen(
        build_command(name, *arguments),
        cwd=folder,
        env=build_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        yield process
        process.kill()
        assert process.wait() == KILLED


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that the process prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process ended before it printed this line"
    return line.strip()


# --- the programs -------------------------------------------------------------------------------------------


def test_shopping_cart_sells_each_piece_once(tmp_path: Path) -> None:
    assert run(tmp_path, "shopping_cart") == [
        "ada: 1 in the cart",
        "ada: 2 in the cart",
        "bob: 1 in the cart",
        "eve: sold out",
    ]
    assert run(tmp_path, "shopping_cart") == [
        "the shelf is as the last run left it",
        "ada: sold out",
        "ada: sold out",
        "bob: sold out",
        "eve: sold out",
    ]


def test_job_queue_finishes_the_jobs_of_a_killed_worker(tmp_path: Path) -> None:
    assert run(tmp_path, "job_queue", "submit") == ["6 jobs submitted"]
    with start(tmp_path, "job_queue", "work") as worker:
        assert re.fullmatch(r"job \d, attempt 1", read_line(worker))

    *attempts, summary = run(tmp_path, "job_queue", "work")

    assert summary == "results {1: 1, 2: 4, 3: 9, 5: 25, 6: 36}, 1 dead letter"
    assert "job 4, attempt 3" in attempts
    assert "job 4, attempt 4" not in attempts


def test_outbox_publishes_the_event_of_a_process_that_crashed(tmp_path: Path) -> None:
    assert run(tmp_path, "outbox", "place", "o-1", "--crash", code=KILLED) == ["o-1 is placed"]

    assert run(tmp_path, "outbox", "publish") == ["1 sent", "received: order_id='o-1' cents=1290"]
    assert run(tmp_path, "outbox", "publish") == ["0 sent"]
    assert run(tmp_path, "outbox", "place", "o-1") == [
        "o-1 exists: neither the order nor an event was written",
        "0 sent",
    ]


def test_agent_memory_lists_its_tools_and_remembers(tmp_path: Path) -> None:
    first = run(tmp_path, "agent_memory")
    second = run(tmp_path, "agent_memory")

    assert first[:-2] == second[:-2]
    assert [line.partition("(")[0] for line in first[:-2]] == [
        "get_session",
        "recall",
        "begin_session",
        "remember",
    ]
    assert (first[-2], second[-2]) == ("0 events from earlier runs", "2 events from earlier runs")
    assert first[-1] == second[-1] == "newest: Take the train. (0.5 read units)"


def test_agent_memory_serves_its_tools_over_the_protocol(tmp_path: Path) -> None:
    command, *arguments = build_command("agent_memory", "serve")
    server = StdioServerParameters(command=command, args=arguments, env=build_environment(), cwd=tmp_path)
    begin = {"session_id": "s-9", "goal": "Learn", "now": "2099-03-02T12:00:00Z"}

    async def ask() -> tuple[set[str], Any]:
        with (tmp_path / "errors").open("w", encoding="utf-8") as errors:
            async with Client(stdio_client(server, errlog=errors)) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                return names, (await client.call_tool("begin_session", begin)).structured_content

    names, answered = asyncio.run(ask())
    assert {"recall", "remember"} <= names
    assert answered["items"][0]["goal"] == "Learn"


def test_approval_flow_waits_over_several_processes(tmp_path: Path) -> None:
    assert "    python approval_flow.py approve e-1 TOKEN" in " ".join(run(tmp_path, "approval_flow", code=1))
    (waiting,) = run(tmp_path, "approval_flow", "request", "e-1", "250")
    assert run(tmp_path, "approval_flow", "request", "e-1", "250", code=1) == ["e-1 exists already"]
    token = waiting.removeprefix("e-1 waits for: approve e-1 ")

    (refused,) = run(tmp_path, "approval_flow", "approve", "e-1", "wrong", code=1)
    assert refused.startswith("WaitTokenRefused: ")
    assert run(tmp_path, "approval_flow", "approve", "e-1", token) == ["e-1 is paid, approved by Bob"]
    (late,) = run(tmp_path, "approval_flow", "approve", "e-1", token, code=1)
    assert late.startswith("NotWaiting: ")
    assert run(tmp_path, "approval_flow", "request", "e-2", "50") == ["e-2 is paid, approved by the rule"]


def test_boto3_streams_continues_at_its_position(tmp_path: Path) -> None:
    changes = ["ConditionalCheckFailedException", "INSERT 07A -", "MODIFY 07A Amal", "REMOVE 07A -"]

    assert run(tmp_path, "boto3_streams") == changes
    assert run(tmp_path, "boto3_streams") == ["Seats exists", "Positions exists", *changes]


def test_idempotent_api_books_once_although_the_server_is_killed(tmp_path: Path) -> None:
    def pay(url: str, cents: int) -> httpx.Response:
        body = {"account": "ada", "cents": cents}
        return httpx.post(f"{url}/payments", json=body, headers={"Idempotency-Key": "k-1"})

    with start(tmp_path, "idempotent_api", "0") as server:
        first = pay(read_line(server), 700)
    with start(tmp_path, "idempotent_api", "0") as server:
        url = read_line(server)
        again, other = pay(url, 700), pay(url, 800)
        account = httpx.get(f"{url}/accounts/ada").json()

    assert first.json() == {"result": {"booked": 700}, "replayed": False}
    assert again.json() == {"result": {"booked": 700}, "replayed": True}
    assert other.status_code == 422
    assert account == {"payments": 1, "cents": 700}


# --- what all of them have ----------------------------------------------------------------------------------


@all_cases("program", PROGRAMS)
def test_example_is_short_and_says_how_to_run_it(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    header = ast.get_docstring(ast.parse(text)) or ""

    assert MIN_LINES <= len(text.splitlines()) <= MAX_LINES
    assert re.search(r"^    pip install '?holdfast-state", header, flags=re.MULTILINE)
    assert f"    python {program.name}" in header


@all_cases("program", PROGRAMS)
def test_example_imports_the_public_surface_only(program: Path) -> None:
    tree = ast.parse(program.read_text(encoding="utf-8"))
    imported = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert {name for name in imported if name.startswith("holdfast")} <= PUBLIC_MODULES


def test_readme_lists_every_example_with_its_extra() -> None:
    rows = pages.parse_rows((EXAMPLES / "README.md").read_text(encoding="utf-8"))
    listed = {re.findall(r"\(([\w.]+)\)", row[0])[0]: row[2].strip("`") for row in rows}

    assert listed == {program.name: _read_extra(program) for program in PROGRAMS}
    project: Any = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(listed.values()) - {""} <= set(project["optional-dependencies"])


def _read_extra(program: Path) -> str:
    """Return the extra that the example's header installs, or an empty text."""
    found = re.search(r"pip install '?holdfast-state(?:\[(\w+)\])?", program.read_text(encoding="utf-8"))
    assert found
    return found[1] or ""
