"""Whoever takes a request in is killed at every moment that matters, and the client comes again: it is the same request,
with one row, one file and one message. What no client comes back for is swept, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores, provision
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.guarantees import OnceStatus
from holdfast.operations.objects import ListObjects
from pagw.demo import sandbox
from pagw.model import patterns
from pagw.model.entities import IdempotencyRecord, pagw, requests_bucket
from pagw.model.patterns import SUBMISSION_LEASE_S
from pagw.system import SYSTEM
from pagw.workers.sweeper import MIN_AGE_S, sweep
from tests.postgres import connected, fresh_database

from .pagw_intake_process import Order
from .staged import ROOT

START = datetime(2026, 11, 10, 10, tzinfo=UTC)
# Of the writes of one intake: the claim is the first of a record, the completion the second.
MOMENTS = {
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


class Intakes:
    """Processes that take one request in each, and the clock that they go by."""

    def __init__(self, folder: Path) -> None:
        self.sql = fresh_database(pagw)
        self.clock = RunClock(folder / "clock", start=START.timestamp())
        self.variables = {
            "HOLDFAST_TABLES": f"sqlite:{folder / 'tables.db'}",
            "HOLDFAST_QUEUES": f"sqlite:{folder / 'queues.db'}",
            "HOLDFAST_OBJECTS": f"file:{folder / 'objects'}",
            "HOLDFAST_KEYS": f"file:{folder / 'keys.json'}",
            "HOLDFAST_SQL": self.sql,
            "HOLDFAST_ENVIRONMENT": "test",
            "HOLDFAST_RUN_CLOCK": str(folder / "clock"),
            **sandbox.build_variables({"payer": ""}, "http://127.0.0.1:9"),
        }
        self._loop = asyncio.Runner()
        self._stores = open_stores(SYSTEM, Settings.load(environ=self.variables))
        self._loop.run(self._prepared())
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.pagw_intake_process"],
            cwd=ROOT,
            env={**os.environ, **self.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        self._process.communicate()
        self._loop.run(self._stores.close())
        self._loop.close()

    async def _prepared(self) -> None:
        await provision(self._stores, SYSTEM)
        await sandbox.register(self._stores, "http://127.0.0.1:9")

    def take_in(self, order: Order) -> dict[str, Any] | None:
        """What came of it; None where it was killed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "exit" in told:
            assert told["exit"] == -signal.SIGKILL
            return None
        assert json.loads(self._process.stdout.readline()) == {"exit": 0}
        return told

    # --- what is there --------------------------------------------------------------------------------------

    def record(self, key: str) -> IdempotencyRecord | None:
        return self._loop.run(self._stores.run(patterns.submission(f"acme:{key}")))

    def files(self) -> list[str]:
        listing = ListObjects(bucket=requests_bucket.physical_name("test"))
        page = self._loop.run(self._stores.engines.get("objects").run(listing))
        return [each.key for each in page.objects]

    def pointed_at(self) -> set[str]:
        """The files that rows name."""
        with closing(connected(self.sql)) as connection:
            return {key for (key,) in connection.execute("SELECT s3_request_key FROM pagw.request_tracker")}

    def sweep(self) -> int:
        return self._loop.run(sweep(self._stores)).files

    def counts(self, key: str, id: str) -> dict[str, int]:
        with closing(connected(self.sql)) as connection:
            found = connection.execute(COUNTS.encode(), {"id": id, "key": f"acme:{key}"})
            row = found.fetchone()
            assert row is not None and found.description is not None
            return {column.name: value for column, value in zip(found.description, row, strict=True)}


@pytest.fixture
def intakes(tmp_path: Path) -> Iterator[Intakes]:
    with closing(Intakes(tmp_path)) as made:
        yield made


@pytest.mark.proves("PG-23")
@pytest.mark.proves("PG-27")
@pytest.mark.proves("PG-43")
@pytest.mark.proves("PG-X1")
def test_a_request_is_the_same_one_whenever_its_first_intake_was_killed(intakes: Intakes) -> None:
    for name, fate in MOMENTS.items():
        assert intakes.take_in(Order(name, fate=fate)) is None
        assert intakes.pointed_at() <= set(intakes.files())
        claimed = intakes.record(name)
        assert (claimed is None) == (name == "before-claim")
        if name not in ("before-claim", "after-completion"):
            _judge_under_way(intakes, name)
        intakes.clock.advance(SUBMISSION_LEASE_S + 1)
        again = intakes.take_in(Order(name))
        assert again is not None
        assert again["replayed"] == (name == "after-completion")
        assert claimed is None or claimed.pagw_id == again["id"]
        _judge_one(intakes, name, again["id"])


def _judge_under_way(intakes: Intakes, name: str) -> None:
    """Until the lease of the one that died is over, a copy is told when to come again; another payload, that it is one."""
    told = intakes.take_in(Order(name))
    assert told is not None and told["refused"] == "InProgress"
    assert 0 < told["retry_after_s"] <= SUBMISSION_LEASE_S
    assert intakes.take_in(Order(name, codes=("15820",))) == {"refused": "IdempotencyMismatch"}


def _judge_one(intakes: Intakes, name: str, id: str) -> None:
    once = {"rows": 1, "of_key": 1, "steps": 1, "messages": 1}
    assert intakes.take_in(Order(name)) == {"id": id, "replayed": True}
    assert intakes.take_in(Order(name, codes=("15820",))) == {"refused": "IdempotencyMismatch"}
    assert intakes.counts(name, id) == once
    assert [key for key in intakes.files() if id in key] == [f"202611/{id}/request/original_bundle.json"]
    record = intakes.record(name)
    assert record is not None and record.status is OnceStatus.PROCESSED


@pytest.mark.proves("PG-9")
@pytest.mark.proves("PG-X1")
def test_files_of_a_request_that_nobody_came_back_for_are_swept_when_its_key_has_ended(
    intakes: Intakes,
) -> None:
    assert intakes.take_in(Order("left", fate="object after 1")) is None
    kept = intakes.take_in(Order("kept"))
    claimed = intakes.record("left")
    assert kept is not None and claimed is not None
    left = claimed.pagw_id
    own = {id: f"202611/{id}/request/original_bundle.json" for id in (left, kept["id"])}
    assert set(intakes.files()) == set(own.values())
    intakes.clock.advance(MIN_AGE_S - 60)
    assert intakes.sweep() == 0
    intakes.clock.advance(120)
    assert intakes.sweep() == 1
    assert intakes.files() == [own[kept["id"]]]
    anew = intakes.take_in(Order("left"))
    assert anew is not None and anew["id"] != left
    assert intakes.counts("left", anew["id"])["rows"] == 1
