"""Processes that are killed and replaced until the work is done, and the party that they ask, as an HTTP server.

For `test_once_killed.py` and `test_hold_queue_killed.py`; `deadly.py` is what runs inside the processes.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parents[2]
# A process lives for about as many requests to the store.
REQUESTS_MAX = 60

Process = subprocess.Popen[str]


class Party(Protocol):
    """Answers with a status and a body; with None, the connection is closed without an answer."""

    def posted(self, asked: dict[str, str], worker: int) -> tuple[int, Any] | None: ...

    def found(self, key: str) -> tuple[int, Any]: ...


def process_of(module: str, *arguments: object) -> Process:
    command = [sys.executable, "-m", f"tests.faults.{module}", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outlived(begun: Callable[[int], Process], random: Random, *, several: int, kills_max: int) -> int:
    """So many processes until one has ended by itself; who is killed is replaced. How many were.

    `begun` starts one that lives for so many requests; for 0, when enough have died, as long as it likes.
    """
    kills, began = 0, 0
    processes: list[Process] = []
    try:
        while True:
            while len(processes) < several:
                processes.append(begun(random.randrange(10, REQUESTS_MAX) if began < kills_max else 0))
                began += 1
            ended = _first_ended(processes)
            if ended.returncode == 0:
                return kills
            assert ended.returncode == -signal.SIGKILL, ended.communicate()[1]
            kills += 1
            processes.remove(ended)
            ended.communicate()
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _first_ended(processes: list[Process]) -> Process:
    """A process has ended when its end of the pipe is closed."""
    with selectors.DefaultSelector() as selector:
        for process in processes:
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, process)
        [(ready, _), *_] = selector.select()
    ended: Process = ready.data
    ended.wait()
    return ended


def failed_after_the_effect(worker: int, random: Random, failures: Tally[str]) -> tuple[int, Any] | None:
    """With an error, a closed connection, or the death of who asked."""
    how = random.choice(["error", "closed", "killed"])
    failures[how] += 1
    if how == "killed":
        os.kill(worker, signal.SIGKILL)
    return (502, {}) if how == "error" else None


@contextmanager
def served(party: Party) -> Iterator[str]:
    class Desk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            if asked:  # else the process was killed before it had said what it wants
                self._answered(party.posted(json.loads(asked), int(self.headers["X-Worker"])))

        def do_GET(self) -> None:
            self._answered(party.found(parse_qs(urlsplit(self.path).query)["key"][0]))

        def _answered(self, answer: tuple[int, Any] | None) -> None:
            if answer is None:
                return
            body = json.dumps(answer[1]).encode()
            try:
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:
                pass  # the process was killed meanwhile

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
