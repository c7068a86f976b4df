"""`holdfast doctor` with DynamoDB, S3 and SQS served by moto: what is missing, gone or deleting."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from holdfast import Bucket, Queue, System, Table, open_stores, provision
from holdfast.cli import main
from holdfast.operations.tables import CreateTable, DescribeTable
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.server import start_server
from tests.contract.moto import moto_endpoint


class Task(BaseModel):
    id: str


keys = Table("keys", partition="key")
files = Bucket("doctor-files", purpose="Files")
tasks = Queue("doctor-tasks", Task, purpose="Tasks")


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """Install only an office with a table, a queue and a bucket, and work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    office = System("office", "An office", tables=[keys], queues=[tasks], buckets=[files])
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"office": office})
    return office


def run_doctor(capsys: pytest.CaptureFixture[str]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Run `holdfast doctor --json` and return its exit code and its rows by store."""
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    return exited.value.code, {each["store"]: each for each in found}


@pytest.mark.proves("PG-53")
def test_services_are_healthy_before_and_after_provisioning_unless_gone(
    system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def prepare() -> None:
        async with open_stores(system) as stores:
            await provision(stores, system)

    with moto_endpoint() as address:
        for store, scheme in {"TABLES": "dynamodb", "OBJECTS": "s3", "QUEUES": "sqs"}.items():
            monkeypatch.setenv(f"HOLDFAST_{store}", f"{scheme}+http://{address}")
        code, absent = run_doctor(capsys)
        assert code == 0
        assert "office has not created the table keys yet" in absent["tables"]["detail"]
        assert absent["objects"]["detail"].endswith("reachable; not created yet: doctor-files")
        assert "not created yet: doctor-tasks" in absent["queues"]["detail"]
        asyncio.run(prepare())
        code, found = run_doctor(capsys)
    assert code == 0
    # The whole process shares moto's tables, including those of other tests.
    assert re.search(r"reachable, [1-9]\d* tables?$", found["tables"]["detail"])
    assert found["objects"]["detail"].endswith(", reachable")
    assert "1 queue is empty" in found["queues"]["detail"]
    code, gone = run_doctor(capsys)
    assert code == 1
    assert [store for store, each in gone.items() if not each["ok"]] == ["tables", "queues", "objects"]


@pytest.mark.proves("PG-53")
@pytest.mark.parametrize(("status", "is_well"), [("ACTIVE", True), ("UPDATING", True), ("DELETING", False)])
def test_reports_an_inactive_table_and_a_deleting_one_is_unhealthy(
    status: str, is_well: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(None) as tables:
        asyncio.run(tables.run(CreateTable(keys.definition("keys"))))
        run_blocking, run = tables.run_blocking, tables.run

        def with_status(answer: Any, operation: Any) -> Any:
            is_description = isinstance(operation, DescribeTable)
            return msgspec.structs.replace(answer, status=status) if is_description else answer

        async def ask(operation: Any) -> Any:
            return with_status(await run(operation), operation)

        monkeypatch.setattr(tables, "run", ask)
        monkeypatch.setattr(
            tables, "run_blocking", lambda operation: with_status(run_blocking(operation), operation)
        )
        with start_server(tables=tables) as url:
            monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
            _, found = run_doctor(capsys)
    assert found["tables"]["ok"] is is_well
    assert ("keys is " in found["tables"]["detail"]) is (status != "ACTIVE")
