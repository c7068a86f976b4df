"""Intake processes killed at every critical point: a retry continues the same request.

There is one row, one file and one message. Files of abandoned requests are swept, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores, provision
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.guarantees import OnceStatus
from holdfast.operations.objects import ListObjects
from holdfast_demo.pagw import sandbox
from pagw.model import patterns
from pagw.model.entities import IdempotencyRecord, pagw, requests_bucket
from pagw.model.patterns import SUBMISSION_LEASE_S
from pagw.system import SYSTEM
from pagw.workers.sweeper import MIN_AGE_S, sweep
from tests.postgres import connect, create_database
from tests.processes import Process, preload
from tests.system_processes import build_variables
from tests.systems.pagw.idempotency_keys import build_idempotency_key

from .pagw_intake_process import Order

INTAKE = "tests.systems.pagw.faults.pagw_intake_process"
START = datetime(2026, 11, 10, 10, tzinfo=UTC)
# Writes of one intake: the first record is the claim, the second the completion.
CRASH_POINTS = {
    "before-claim": "record before 1",
    "after-claim": "record after 1",
    "before-object": "object before 1",
    "after-object": "object after 1",
    "before-commit": "commit before 1",
    "after-commit": "commit after 1",
    "before-completion": "record before 2",
    "after-completion": "record after 2",
}
COUNTS = """
    SELECT (SELECT count(*) FROM pagw.request_tracker WHERE pagw_id = %(id)s) AS rows,
           (SELECT count(*) FROM pagw.request_tracker WHERE metadata->>'idempotencyKey' = %(key)s) AS of_key,
           (SELECT count(*) FROM pagw.audit_log WHERE pagw_id = %(id)s AND event_type = 'STATUS') AS steps,
           (SELECT count(*) FROM pagw.outbox
            WHERE aggregate = %(id)s AND queue_name = 'pagw-request-enricher-queue') AS messages
"""


preload(INTAKE, "tests.systems.pagw.faults.pagw_preload")


class IntakeProcess:
    """The intake of requests, each in a process of its own, and its clock."""

    def __init__(self, folder: Path) -> None:
        self.sql = create_database(pagw)
        self.clock = RunClock(folder / "clock", start=START.timestamp())
        self.variables = {
            **build_variables(folder, folder / "keys.json", folder / "clock"),
            "HOLDFAST_SQL": self.sql,
            **sandbox.build_variables({"payer": ""}, "http://127.0.0.1:9"),
        }
        self._loop = asyncio.Runner()
        self._stores = open_stores(SYSTEM, Settings.load(environ=self.variables))
        self._loop.run(self._prepare())

    def close(self) -> None:
        self._loop.run(self._stores.close())
        self._loop.close()

    async def _prepare(self) -> None:
        await provision(self._stores, SYSTEM)
        await sandbox.register(self._stores, "http://127.0.0.1:9")

    def submit(self, order: Order) -> dict[str, Any] | None:
        """Submit one order and return its result, or None if the process was killed."""
        process = Process(INTAKE, order, variables=self.variables)
        said, log = process.communicate()
        assert process.is_killed if order.crash_point else process.returncode == 0, log
        found: dict[str, Any] | None = json.loads(said) if said else None
        return found

    # --- stores ---------------------------------------------------------------------------------------------

    def build_key(self, key: str) -> str:
        """Return the key of a record."""
        return build_idempotency_key("acme", key, self.variables)

    def get_record(self, key: str) -> IdempotencyRecord | None:
        return self._loop.run(self._stores.run(patterns.submission(self.build_key(key))))

    def list_files(self) -> list[str]:
        """Return the keys of all files in the request bucket."""
        listing = ListObjects(bucket=requests_bucket.physical_name("test"))
        page = self._loop.run(self._stores.engines.get("objects").run(listing))
        return [each.key for each in page.objects]

    def list_referenced_files(self) -> set[str]:
        """Return the files that rows reference."""
        with closing(connect(self.sql)) as connection:
            return {key for (key,) in connection.execute("SELECT s3_request_key FROM pagw.request_tracker")}

    def sweep(self) -> int:
        """Sweep orphaned files and return how many were removed."""
        return self._loop.run(sweep(self._stores)).files

    def count_rows(self, key: str, id: str) -> dict[str, int]:
        """Count the rows, audit events and messages of a request id and of its key."""
        with closing(connect(self.sql)) as connection:
            found = connection.execute(COUNTS.encode(), {"id": id, "key": self.build_key(key)})
            row = found.fetchone()
            assert row is not None and found.description is not None
            return {column.name: value for column, value in zip(found.description, row, strict=True)}


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[IntakeProcess]:
    with closing(IntakeProcess(tmp_path)) as made:
        yield made


@pytest.mark.proves("PG-23", "PG-27", "PG-43", "PG-X1")
def test_retry_after_a_killed_intake_is_the_same_request(intake: IntakeProcess) -> None:
    for name, crash_point in CRASH_POINTS.items():
        assert intake.submit(Order(name, crash_point=crash_point)) is None
        assert intake.list_referenced_files() <= set(intake.list_files())
        claimed = intake.get_record(name)
        assert (claimed is None) == (name == "before-claim")
        if name not in ("before-claim", "after-completion"):
            _check_in_progress(intake, name)
        intake.clock.advance(SUBMISSION_LEASE_S + 1)
        again = intake.submit(Order(name))
        assert again is not None
        assert again["replayed"] == (name == "after-completion")
        assert claimed is None or claimed.pagw_id == again["id"]
        _check_single_request(intake, name, again["id"])


def _check_in_progress(intake: IntakeProcess, name: str) -> None:
    """Check that, until the lease ends, a copy must wait and another payload is refused."""
    result = intake.submit(Order(name))
    assert result is not None and result["refused"] == "InProgress"
    # The clock stands still between the kill and the copy.
    assert result["retry_after_s"] == pytest.approx(SUBMISSION_LEASE_S, abs=0.01)
    assert intake.submit(Order(name, codes=("15820",))) == {"refused": "IdempotencyMismatch"}


def _check_single_request(intake: IntakeProcess, name: str, id: str) -> None:
    """Check that repeats are replayed, and that the request has one row, event, message and file."""
    once = {"rows": 1, "of_key": 1, "steps": 1, "messages": 1}
    assert intake.submit(Order(name)) == {"id": id, "replayed": True}
    assert intake.submit(Order(name, codes=("15820",))) == {"refused": "IdempotencyMismatch"}
    assert intake.count_rows(name, id) == once
    assert [key for key in intake.list_files() if id in key] == [f"202611/{id}/request/original_bundle.json"]
    record = intake.get_record(name)
    assert record is not None and record.status is OnceStatus.PROCESSED


@pytest.mark.proves("PG-9", "PG-X1")
def test_files_of_an_abandoned_request_are_swept_after_its_key_expires(intake: IntakeProcess) -> None:
    assert intake.submit(Order("left", crash_point="object after 1")) is None
    kept = intake.submit(Order("kept"))
    claimed = intake.get_record("left")
    assert kept is not None and claimed is not None
    left = claimed.pagw_id
    own = {id: f"202611/{id}/request/original_bundle.json" for id in (left, kept["id"])}
    assert set(intake.list_files()) == set(own.values())
    intake.clock.advance(MIN_AGE_S - 60)
    assert intake.sweep() == 0
    intake.clock.advance(120)
    assert intake.sweep() == 1
    assert intake.list_files() == [own[kept["id"]]]
    anew = intake.submit(Order("left"))
    assert anew is not None and anew["id"] != left
    assert intake.count_rows("left", anew["id"])["rows"] == 1
