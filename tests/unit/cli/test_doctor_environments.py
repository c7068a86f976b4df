"""`holdfast doctor` on a data folder with several environments: each is checked and named."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Bucket, Queue, System, Table, open_stores, provision
from holdfast.cli import main
from holdfast.cli.health.environments import (
    find_environments,
    list_bucket_names,
    list_queue_names,
    list_table_names,
)
from holdfast.config.settings import Settings
from holdfast.model.system import Deployment
from holdfast.operations.objects import PutObject
from holdfast.operations.queues import ChangeVisibility, ReceiveMessages, SendMessages
from tests.sqlite_files import open_file


class Letter(BaseModel):
    text: str


letters = Queue("letters", Letter, max_receives=1, visibility_s=30)
SYSTEM = System(
    "office",
    "Sorts letters",
    tables=[Table("Letters", "id"), Table("Senders", "id")],
    queues=[letters],
    buckets=[Bucket("office-scans")],
    deployment=Deployment(needs_environment=True),
)
# A system without environments in the same folder.
ARCHIVE = System("archive", "Keeps letters", tables=[Table("Archive", "id")])


@pytest.fixture(autouse=True)
def _two_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the two systems, and fill a data folder in the environments `dev` and `staging`.

    A letter has become a dead letter in `staging`.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"archive": ARCHIVE, "office": SYSTEM})
    for environment in ("dev", "staging"):
        asyncio.run(_fill(environment))


async def _fill(environment: str) -> None:
    async with open_stores(SYSTEM, Settings(environment=environment)) as stores:
        await provision(stores, SYSTEM)
        await stores.engines.get("objects").run(PutObject(f"office-scans-{environment}", "a", b"a scan"))
        if environment == "staging":
            await _lose_letter(stores.engines.get("queues"))


async def _lose_letter(queues: Any) -> None:
    """Receive a letter more often than its queue allows."""
    await queues.run(SendMessages("letters-staging", (letters.build_outgoing(Letter(text="lost")),)))
    (received,) = await queues.run(ReceiveMessages("letters-staging"))
    await queues.run(ChangeVisibility("letters-staging", (received.receipt,), 0))
    assert await queues.run(ReceiveMessages("letters-staging")) == ()


def run_doctor(capsys: pytest.CaptureFixture[str]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Run `holdfast doctor --data data --json` and return its exit code and its rows by store."""
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--data", "data", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert all(list(row) == ["store", "engine", "ok", "detail"] for row in rows)
    return exited.value.code, {row["store"]: row for row in rows}


@pytest.fixture(params=["", "dev", "staging"], ids=lambda name: name or "none")
def named(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name an environment in the settings, or none."""
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", request.param)
    return str(request.param)


@pytest.mark.usefixtures("named")
def test_every_environment_with_data_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = run_doctor(capsys)

    assert (code, list(rows)) == (0, ["tables", "queues", "objects"])
    for row in rows.values():
        assert "; environments: dev, staging" in row["detail"]
    assert "office" not in rows["tables"]["detail"]
    assert "; 2 queues are empty; letters-staging has 1 dead letter" in rows["queues"]["detail"]
    assert "not created yet" not in rows["queues"]["detail"]


def test_system_that_has_not_run_in_the_named_environment_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "prod")

    code, rows = run_doctor(capsys)

    assert code == 0
    assert "; environments: dev, staging;" in rows["tables"]["detail"]
    assert "; office: 2 tables not created yet (it has not run in prod)" in rows["tables"]["detail"]
    assert "; not created yet: letters-prod" in rows["queues"]["detail"]


@pytest.mark.usefixtures("named")
def test_table_that_is_missing_in_one_environment_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    _run_sql("tables.db", "DELETE FROM tables WHERE name = 'Senders-staging'")

    code, rows = run_doctor(capsys)

    assert code == 0
    assert "; office has not created the table Senders-staging yet" in rows["tables"]["detail"]


@pytest.mark.parametrize(
    ("store", "harmed"),
    [("tables", "Letters-staging"), ("queues", "letters-staging"), ("objects", "office-scans-staging")],
)
@pytest.mark.usefixtures("named")
def test_damage_in_one_environment_is_found(
    store: str, harmed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if store == "tables":
        _run_sql("tables.db", f"UPDATE tables SET record = x'c1' WHERE name = '{harmed}'")
    elif store == "queues":
        _run_sql("queues.db", f"UPDATE queues SET definition = x'c1' WHERE name = '{harmed}'")
    else:
        Path("data", "objects", harmed, "bucket.json").write_bytes(b"{")

    code, rows = run_doctor(capsys)

    assert code == 1
    assert [name for name, row in rows.items() if not row["ok"]] == [store]
    assert harmed in rows[store]["detail"]
    assert "damaged" in rows[store]["detail"]


@pytest.mark.usefixtures("named")
def test_copied_folder_is_checked_with_its_own_keys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree("data", tmp_path / "elsewhere" / "data")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run_doctor(capsys)[0] == 0

    Path("data", "keys.json").unlink()
    code, rows = run_doctor(capsys)
    assert (code, rows["objects"]["ok"]) == (1, False)


def _run_sql(file: str, statement: str) -> None:
    connection = open_file(Path("data", file))
    connection.execute(statement)
    assert connection.changes() == 1
    connection.close()


def test_dead_letter_queue_is_not_taken_for_an_environment() -> None:
    found = find_environments(["letters-dead-dev", "letters-dev", "letters-dead"], [SYSTEM], list_queue_names)

    assert found == {"office": {"", "dev"}}


def test_longest_declared_name_wins() -> None:
    shop = System("shop", "Sells", tables=[Table("Orders", "id"), Table("Orders-old", "id")])

    found = find_environments(
        ["Orders-dev", "Orders-old-dev", "Orders-old", "Visits"], [shop], list_table_names
    )

    assert found == {"shop": {"", "dev"}}


def test_table_with_one_name_for_all_environments_names_none() -> None:
    shop = System("shop", "Sells", tables=[Table("Orders", "id", physical="orders_{environment}")])
    fixed = System("fixed", "Sells", tables=[Table("Visits", "id", physical="visits")])

    found = find_environments(["orders_dev", "visits"], [shop, fixed], list_table_names)

    assert found == {"shop": {"dev"}}


def test_bucket_names_of_a_system_are_tried_in_the_environments_that_it_declares() -> None:
    regions = {"dev": "eu-1", "staging": "us-2"}
    bucket = Bucket("scans", physical=lambda environment: f"x-{environment}-{regions[environment]}")
    system = System("office", "Sorts", buckets=[bucket], deployment=Deployment(environments=regions))

    found = find_environments(["x-dev-eu-1", "x-staging-us-2", "y"], [system], list_bucket_names)

    assert found == {"office": {"dev", "staging"}}
