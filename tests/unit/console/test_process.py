"""`holdfast console` as a process: event streams and their end, hosts, origins, and who may connect."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.processes import PATIENCE_S, Process, preload
from tests.unit.console.consoles import PASSWORD, write_users

preload("holdfast.console.app", "holdfast.cli.commands.console")

TOPIC = "agenticpm-inbox"
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class RunningConsole:
    """A console with the user ada, in a process."""

    def __init__(self, folder: Path) -> None:
        self.users = folder / "users.toml"
        write_users(self.users, {"ada": ["admin", "operator"]})
        self.process = Process(
            "tests.processes",
            "console",
            "--port",
            "0",
            folder=folder,
            variables={"HOLDFAST_CONSOLE_USERS": str(self.users)},
        )
        said = self.process.read_first_line()
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert found, said + self.process.read_log()
        self.url = found[0]

    def sign_in(self) -> httpx.Client:
        client = httpx.Client(base_url=self.url, timeout=PATIENCE_S)
        response = client.post("/sign-in/password", data={"name": "ada", "password": PASSWORD})
        assert response.status_code == 303, response.text
        return client


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    console = RunningConsole(tmp_path_factory.mktemp("console"))
    with console.process:
        yield console


def open_stream(stream: httpx.Response) -> Iterator[str]:
    """Return the lines of an event stream that has begun."""
    assert stream.status_code == 200 and stream.headers["content-type"].startswith("text/event-stream")
    lines = stream.iter_lines()
    assert next(lines) == ": open"
    return lines


def test_sign_out_ends_the_streams_of_the_session_and_tells_the_page(running: RunningConsole) -> None:
    with (
        contextlib.closing(running.sign_in()) as client,
        client.stream("GET", f"/live?topic={TOPIC}") as stream,
    ):
        lines = open_stream(stream)
        token = CSRF.search(client.get("/account").text)
        assert token
        assert client.post("/sign-out", data={"csrf": token[1]}).status_code == 303

        assert [line for line in lines if line] == ["event: signed-out", "data: -"]
        # A browser that connects again is told the same, and not led elsewhere.
        again = client.get(f"/live?topic={TOPIC}", headers={"accept": "text/event-stream"})
        assert again.text == "event: signed-out\ndata: -\n\n"


def test_a_stop_ends_every_stream_at_once(tmp_path: Path) -> None:
    """A stream that had to be cancelled would end in an error, and the log would say so."""
    running = RunningConsole(tmp_path)
    with running.process, contextlib.closing(running.sign_in()) as client:
        with (
            client.stream("GET", f"/live?topic={TOPIC}") as first,
            client.stream("GET", f"/live?topic={TOPIC}") as second,
        ):
            streams = [open_stream(first), open_stream(second)]
            running.process.send_signal(signal.SIGTERM)

            assert [[line for line in lines if line] for lines in streams] == [[], []]
        assert running.process.wait() == 0
        assert "grace time" not in running.process.read_log()


def test_unknown_topics_are_refused_before_the_stream_begins(running: RunningConsole) -> None:
    with contextlib.closing(running.sign_in()) as client:
        assert client.get("/live?topic=nothing").status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8300", "console.example.org"])
def test_answers_only_for_its_own_host(running: RunningConsole, host: str) -> None:
    """A page that points its own name to this machine (DNS rebinding) reaches nothing."""
    assert httpx.get(f"{running.url}/sign-in", headers={"host": host}).status_code == 403


def test_a_page_of_another_origin_can_neither_sign_in_nor_act(running: RunningConsole) -> None:
    form = {"name": "ada", "password": PASSWORD}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        refused = httpx.post(f"{running.url}/sign-in/password", data=form, headers={"origin": origin})
        assert refused.status_code == 403
        assert "set-cookie" not in refused.headers
    accepted = httpx.post(f"{running.url}/sign-in/password", data=form, headers={"origin": running.url})
    assert accepted.status_code == 303


def test_a_demo_can_be_reached_from_this_machine_only(tmp_path: Path) -> None:
    command = Process("tests.processes", "console", "--host", "0.0.0.0", "--port", "0", folder=tmp_path)
    _, log = command.communicate()

    assert command.returncode == 1
    assert "Add users with `holdfast console users add`" in log


def test_production_refuses_the_demo(tmp_path: Path) -> None:
    command = Process(
        "tests.processes", "console", folder=tmp_path, variables={"HOLDFAST_ENVIRONMENT": "production"}
    )
    _, log = command.communicate()

    assert command.returncode == 1
    assert "signs everybody in with one click" in log and "HOLDFAST_CONSOLE_URL is missing" in log
    assert not (tmp_path / "data").exists()
