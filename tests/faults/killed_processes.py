"""Replace killed worker processes until their work is done, and serve a fake service over HTTP.

For `test_once_killed.py` and `test_delayed_actions_killed.py`; `self_killing.py` runs inside the processes.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from tests.processes import Process, wait_for_first_end

# A process lives for fewer requests to the store than a fifth of the work needs, so that several are killed.
MAX_REQUESTS = 25


class FakeService(Protocol):
    """An external service. Each method returns a status and a body, or None to close the connection.

    `worker` is the process id of the caller, so that the service can kill it.
    """

    def handle_post(self, body: dict[str, str], worker: int) -> tuple[int, Any] | None: ...

    def handle_get(self, key: str) -> tuple[int, Any]: ...


def run_until_done(start: Callable[[int], Process], random: Random, *, several: int, kills_max: int) -> int:
    """Run several processes, replacing killed ones, until one ends by itself; return the number of kills.

    `start` starts one that lives for the given number of requests; 0, once enough have died, means without
    limit. The others are killed at the end.
    """
    kills, began = 0, 0
    processes: list[Process] = []
    try:
        while True:
            while len(processes) < several:
                processes.append(start(random.randrange(5, MAX_REQUESTS) if began < kills_max else 0))
                began += 1
            for ended in wait_for_first_end(processes):
                if ended.returncode == 0:
                    return kills
                assert ended.is_killed, ended.read_log()
                kills += 1
                processes.remove(ended)
                ended.close()
    finally:
        for process in processes:
            process.close()


def fail_after_effect(worker: int, random: Random, failures: Tally[str]) -> tuple[int, Any] | None:
    """Fail with an error, a closed connection, or the death of the calling worker."""
    how = random.choice(["error", "closed", "killed"])
    failures[how] += 1
    if how == "killed":
        os.kill(worker, signal.SIGKILL)
    return (502, {}) if how == "error" else None


class _OrderedServer(HTTPServer):
    """A server that handles connections one by one, in their order.

    So the request of a dead process has its effect before a later look-up, however slow the machine is.
    """

    request_queue_size = 128


@contextmanager
def serve(service: FakeService) -> Iterator[str]:
    """Serve the fake service on loopback while the block runs and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body_read = self.rfile.read(int(self.headers["Content-Length"]))
            if body_read:  # otherwise the process was killed before it sent the body
                self._respond(service.handle_post(json.loads(body_read), int(self.headers["X-Worker"])))

        def do_GET(self) -> None:
            self._respond(service.handle_get(parse_qs(urlsplit(self.path).query)["key"][0]))

        def _respond(self, answer: tuple[int, Any] | None) -> None:
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

    server = _OrderedServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
