"""`holdfast doctor` where tables, objects and queues are services: each is asked for what systems declare in it."""

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
from holdfast.wire.server import running_server
from tests.contract.moto import moto_endpoint


class Task(BaseModel):
    id: str


keys = Table("keys", partition="key")
files = Bucket("doctor-files", purpose="Files")
tasks = Queue("doctor-tasks", Task, purpose="Tasks")


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    monkeypatch.chdir(tmp_path)
    office = System("office", "An office", [keys], [], queues=[tasks], buckets=[files])
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"office": office})
    return office


def examined(capsys: pytest.CaptureFixture[str]) -> tuple[Any, dict[str, dict[str, Any]]]:
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    return exited.value.code, {each["store"]: each for each in found}


@pytest.mark.proves("PG-53")
def test_a_table_a_bucket_and_a_queue_are_looked_for_at_their_services(
    system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def prepared() -> None:
        async with open_stores(system) as stores:
            await provision(stores, system)

    with moto_endpoint() as address:
        for store, scheme in {"TABLES": "dynamodb", "OBJECTS": "s3", "QUEUES": "sqs"}.items():
            monkeypatch.setenv(f"HOLDFAST_{store}", f"{scheme}+http://{address}")
        code, absent = examined(capsys)
        assert code == 0
        assert "office has not created the table keys yet" in absent["tables"]["detail"]
        assert absent["objects"]["detail"].endswith("reachable; not created yet: doctor-files")
        assert "not created yet: doctor-tasks" in absent["queues"]["detail"]
        asyncio.run(prepared())
        code, found = examined(capsys)
    assert code == 0
    # moto's tables are those of the whole process, other tests' too.
    assert re.search(r"reachable, [1-9]\d* tables?$", found["tables"]["detail"])
    assert found["objects"]["detail"].endswith(", reachable")
    assert "1 queue is empty" in found["queues"]["detail"]
    code, gone = examined(capsys)
    assert code == 1
    assert [store for store, each in gone.items() if not each["ok"]] == ["tables", "queues", "objects"]


@pytest.mark.proves("PG-53")
@pytest.mark.parametrize(("status", "is_well"), [("ACTIVE", True), ("UPDATING", True), ("DELETING", False)])
def test_the_status_of_a_table_is_told_and_one_that_goes_is_ill(
    status: str, is_well: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_tables(None) as tables:
        asyncio.run(tables.run(CreateTable(keys.definition("keys"))))
        run_blocking, run = tables.run_blocking, tables.run

        def with_status(answer: Any, operation: Any) -> Any:
            told = isinstance(operation, DescribeTable)
            return msgspec.structs.replace(answer, status=status) if told else answer

        async def asked(operation: Any) -> Any:
            return with_status(await run(operation), operation)

        monkeypatch.setattr(tables, "run", asked)
        monkeypatch.setattr(
            tables, "run_blocking", lambda operation: with_status(run_blocking(operation), operation)
        )
        with running_server(tables=tables) as url:
            monkeypatch.setenv("HOLDFAST_TABLES", f"dynamodb+{url}")
            _, found = examined(capsys)
    assert found["tables"]["ok"] is is_well
    assert ("keys is " in found["tables"]["detail"]) is (status != "ACTIVE")
