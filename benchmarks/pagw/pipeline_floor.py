"""The floor of the benchmark `pagw-pipeline`: the pipeline's durable writes and calls, by hand.

    python -m benchmarks.pagw.pipeline_floor CONNINFO PAYER FOLDER REQUESTS STEPS OBJECTS MESSAGES

For each request, one after the other like its stages: transactions that insert four rows and update one,
objects that are fsynced with their names, messages put into and taken from a queue in SQLite in shared
transactions, and one call to the payer. Sixteen requests at a time, in threads. Nothing is read, checked,
encrypted or decided.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import apsw
import httpx2 as httpx
from psycopg_pool import ConnectionPool

CONCURRENCY = 16
ROW = "x" * 300
OBJECT = b"x" * 4_000
CREATE_TABLES = (
    "CREATE TABLE IF NOT EXISTS floor_requests (id TEXT PRIMARY KEY, step INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS floor_rows "
    "(id BIGSERIAL PRIMARY KEY, request TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS floor_rows_request ON floor_rows (request)",
)
INSERT_REQUEST = "INSERT INTO floor_requests (id, step) VALUES (%s, 0)"
ADVANCE_REQUEST = "UPDATE floor_requests SET step = step + 1 WHERE id = %s AND step = %s"
INSERT_ROW = "INSERT INTO floor_rows (request, body) VALUES (%s, %s)"
# Inbox, audit and two outbox messages.
ROWS_PER_STEP = 4


class PipelineFloor:
    """The work of the pipeline without its decisions."""

    def __init__(self, pool: ConnectionPool, http: httpx.Client, folder: Path) -> None:
        self._pool, self._http, self._folder = pool, http, folder
        self._queue = SharedQueue(folder / "queue.db")

    def process_request(self, request: str, steps: int, objects: int, messages: int) -> None:
        """Do the work of one request: this many transactions, objects and messages, and one call to the
        payer.
        """
        with self._pool.connection() as connection:
            connection.execute(INSERT_REQUEST, (request,))
        for step in range(max(steps, objects, messages)):
            if step < messages:
                self._pass_message()
            if step == steps // 2:
                self._http.get("/prior-authorizations", params={"reference": request})
            if step < objects:
                self._write_object(f"{request}-{step}")
            if step < steps:
                self._write_step(request, step)

    def _write_step(self, request: str, step: int) -> None:
        with self._pool.connection() as connection, connection.transaction(), connection.pipeline():
            connection.execute(ADVANCE_REQUEST, (request, step))
            for _ in range(ROWS_PER_STEP):
                connection.execute(INSERT_ROW, (request, ROW))

    def _write_object(self, name: str) -> None:
        written = self._folder / f"{name}.new"
        _write_and_sync(written, os.O_WRONLY | os.O_CREAT, OBJECT)
        written.rename(self._folder / name)
        _write_and_sync(self._folder, os.O_RDONLY)

    def _pass_message(self) -> None:
        """Put a message into the queue and take one from it."""
        self._queue.execute("INSERT INTO messages (body) VALUES (?)", ROW)
        self._queue.execute("DELETE FROM messages WHERE id = (SELECT min(id) FROM messages)")


class SharedQueue:
    """A queue with one writer thread, which commits everything that waits in one transaction."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting: SimpleQueue[tuple[str, tuple[str, ...], Future[None]]] = SimpleQueue()
        threading.Thread(target=self._run_writer, daemon=True).start()

    def execute(self, statement: str, *values: str) -> None:
        """Run a statement on the writer thread and wait until it is committed."""
        future: Future[None] = Future()
        self._waiting.put((statement, values, future))
        future.result()

    def _run_writer(self) -> None:
        """Commit everything that waits in one transaction, again and again."""
        connection = apsw.Connection(str(self._file))
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.execute("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        while True:
            taken = [self._waiting.get()]
            while not self._waiting.empty():
                taken.append(self._waiting.get())
            with connection:
                for statement, values, _ in taken:
                    connection.execute(statement, values)
            for _, _, future in taken:
                future.set_result(None)


def _write_and_sync(path: Path, flags: int, body: bytes = b"") -> None:
    """Open the path with these flags, write the body if there is one, and fsync."""
    descriptor = os.open(path, flags, 0o600)
    if body:
        os.write(descriptor, body)
    os.fsync(descriptor)
    os.close(descriptor)


def main() -> None:
    conninfo, payer, folder, *counts = sys.argv[1:]
    requests, steps, objects, messages = map(int, counts)
    Path(folder).mkdir(exist_ok=True)
    with (
        ConnectionPool(conninfo, min_size=10, kwargs={"autocommit": True}, open=True) as pool,
        httpx.Client(base_url=payer) as http,
        ThreadPoolExecutor(CONCURRENCY) as threads,
    ):
        with pool.connection() as connection:
            for statement in CREATE_TABLES:
                connection.execute(statement.encode())
        floor = PipelineFloor(pool, http, Path(folder))
        print("ready", flush=True)
        sys.stdin.read()
        futures = [
            threads.submit(floor.process_request, f"{os.getpid()}-{number}", steps, objects, messages)
            for number in range(requests)
        ]
        for each in futures:
            each.result()


if __name__ == "__main__":
    main()
