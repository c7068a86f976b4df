"""Process that has all of Trip Cortex imported and forks the test's processes, so that they start fast.

    python -m tests.systems.tripcortex.faults.tripcortex_processes

The forked processes share memory. A line of JSON on its standard input starts one: `id`, the `arguments` of
`holdfast`, `variables`, a file for its `log`. Lines on its standard output report on each, by `id`: its
`pid`, its output (`said`), its exit code (`ended`). When its input ends, it ends, and so do the remaining
processes.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from importlib import import_module
from typing import Any, Final, NamedTuple

from tests.systems.tripcortex.faults import tripcortex_kill_points
from tripcortex.policies.embedding import build_local_embedding

BYTES: Final = 65_536
# Modules that the processes would import lazily: imported here once for all.
PRELOADED: Final = (
    "holdfast.cli.commands.run",
    "tripcortex.api.routes",
    "tripcortex.workers.dependencies",
    "alembic.command",
    "sqlalchemy.dialects.postgresql.psycopg",
    "obstore.store",
    "httpcore2",
    "prometheus_client",
    "opentelemetry.sdk.metrics",
    "opentelemetry.exporter.prometheus",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.auto",
    "uvloop",
)


class WatchedEvent(NamedTuple):
    """An event to wait for: an order, output of a child, its end."""

    what: str
    id: int = 0
    pid: int = 0


class Forker:
    """Forks a process for each order on standard input, and reports on them."""

    def __init__(self) -> None:
        # A duplicate: children have another standard output.
        self._reports = os.dup(sys.stdout.fileno())
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, WatchedEvent("order"))
        self._rest = b""
        self._alive: set[int] = set()

    def run(self) -> None:
        """Handle orders and events until standard input ends."""
        while True:
            for key, _ in self._selector.select():
                if not self._handle_event(key.fd, key.data):
                    return

    def end(self) -> None:
        """Kill the remaining processes."""
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)

    def _handle_event(self, fd: int, watched: WatchedEvent) -> bool:
        """Handle a readable file; return False when standard input has ended."""
        if watched.what == "ended":
            _, status = os.waitpid(watched.pid, 0)
            self._alive.discard(watched.pid)
            self._unregister(fd)
            self._report(id=watched.id, ended=os.waitstatus_to_exitcode(status))
            return True
        read = os.read(fd, BYTES)
        if watched.what == "said":
            self._forward_output(fd, watched, read)
            return True
        *lines, self._rest = (self._rest + read).split(b"\n")
        for line in lines:
            self._fork(json.loads(line))
        return bool(read)

    def _forward_output(self, fd: int, watched: WatchedEvent, read: bytes) -> None:
        """Report a child's output; stop listening at its end."""
        if read:
            self._report(id=watched.id, said=read.decode(errors="replace"))
        else:
            self._unregister(fd)

    def _fork(self, order: dict[str, Any]) -> None:
        """Fork a process for the order, and watch its output and its end."""
        heard, said = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(order, said)
        os.close(said)
        self._alive.add(pid)
        self._selector.register(
            os.pidfd_open(pid), selectors.EVENT_READ, WatchedEvent("ended", order["id"], pid)
        )
        self._selector.register(heard, selectors.EVENT_READ, WatchedEvent("said", order["id"], pid))
        self._report(id=order["id"], pid=pid)

    def _become(self, order: dict[str, Any], said: int) -> None:
        """Turn the child into a process as if started from the command line."""
        code = 1
        try:
            for key in [*self._selector.get_map().values()]:
                os.close(key.fd)
            os.close(self._reports)
            for path, mode, place in ((os.devnull, os.O_RDONLY, 0), (order["log"], os.O_WRONLY, 2)):
                os.dup2(os.open(path, mode | os.O_CREAT, 0o600), place)
            os.dup2(said, 1)
            os.environ.update(order["variables"])
            tripcortex_kill_points.run(order["arguments"])
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _unregister(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)

    def _report(self, **report: Any) -> None:
        """Write one line of JSON to the caller."""
        os.write(self._reports, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    for each in PRELOADED:
        import_module(each)
    build_local_embedding()
    nursery = Forker()
    try:
        nursery.run()
    finally:
        nursery.end()
