"""A process that has all of Trip Cortex imported, and forks its processes: dozens of them take no time and little memory.

    python -m tests.faults.tripcortex_nursery

A line of JSON on its standard input starts one: `id`, the `arguments` of `holdfast`, `variables`, a file for its `log`. Lines on
its standard output tell of each, by `id`: its `pid`, what it `said`, how it `ended` (as a return code). With its input it
ends, and so do those that are left.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from importlib import import_module
from typing import Any, Final, NamedTuple

from tests.faults import tripcortex_fate
from tripcortex.policies.embedding import build_local_embedding

BYTES: Final = 65_536
# What the processes import when they want it: done here, none of them has to.
LOADED: Final = (
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


class Watched(NamedTuple):
    """What is waited for: an order, a word of a child, its end."""

    what: str
    id: int = 0
    pid: int = 0


class Nursery:
    def __init__(self) -> None:
        # A number of its own: children have another standard output.
        self._told = os.dup(sys.stdout.fileno())
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, Watched("order"))
        self._rest = b""
        self._alive: set[int] = set()

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if not self._heard(key.fd, key.data):
                    return

    def end(self) -> None:
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)

    def _heard(self, fd: int, watched: Watched) -> bool:
        if watched.what == "ended":
            _, status = os.waitpid(watched.pid, 0)
            self._alive.discard(watched.pid)
            self._forget(fd)
            self._tell(id=watched.id, ended=os.waitstatus_to_exitcode(status))
            return True
        read = os.read(fd, BYTES)
        if watched.what == "said":
            self._said(fd, watched, read)
            return True
        *lines, self._rest = (self._rest + read).split(b"\n")
        for line in lines:
            self._fork(json.loads(line))
        return bool(read)

    def _said(self, fd: int, watched: Watched, read: bytes) -> None:
        if read:
            self._tell(id=watched.id, said=read.decode(errors="replace"))
        else:
            self._forget(fd)

    def _fork(self, order: dict[str, Any]) -> None:
        heard, said = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(order, said)
        os.close(said)
        self._alive.add(pid)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, Watched("ended", order["id"], pid))
        self._selector.register(heard, selectors.EVENT_READ, Watched("said", order["id"], pid))
        self._tell(id=order["id"], pid=pid)

    def _become(self, order: dict[str, Any], said: int) -> None:
        """A process as if it had been started from the command line."""
        code = 1
        try:
            for key in [*self._selector.get_map().values()]:
                os.close(key.fd)
            os.close(self._told)
            for path, mode, place in ((os.devnull, os.O_RDONLY, 0), (order["log"], os.O_WRONLY, 2)):
                os.dup2(os.open(path, mode | os.O_CREAT, 0o600), place)
            os.dup2(said, 1)
            os.environ.update(order["variables"])
            tripcortex_fate.run(order["arguments"])
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _forget(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)

    def _tell(self, **told: Any) -> None:
        os.write(self._told, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    for each in LOADED:
        import_module(each)
    build_local_embedding()
    nursery = Nursery()
    try:
        nursery.run()
    finally:
        nursery.end()
