"""`holdfast outbox` on an SQL outbox: lists rows with their reasons, redrives and discards dead ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores
from holdfast.cli.app import main
from holdfast.core import installed_systems
from holdfast.core.errors import InvalidRequest
from holdfast.operations.queues import SendMessages
from tests.postgres import create_database
from tests.unit.guarantees.messaging.sql_shop import (
    OUTBOX,
    SHOP,
    SYSTEM,
    create_shop_queues,
    publish_changes,
    watch_sends,
)


class FakeEntryPoint:
    """Entry point, as if the system were installed."""

    name, value = SYSTEM.name, "tests.unit.guarantees.messaging.sql_shop:SYSTEM"

    def load(self) -> Any:
        return SYSTEM


@pytest.fixture(autouse=True)
def one_dead_and_one_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the shop with a new database, a dead row of `o-1` and a pending one of `o-2`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {SYSTEM.name: FakeEntryPoint()})
    monkeypatch.setenv("HOLDFAST_SQL", create_database(SHOP))

    async def refuse(_: SendMessages) -> None:
        raise InvalidRequest("too large")

    async def fill() -> None:
        async with open_stores(SYSTEM) as stores:
            await create_shop_queues(stores)
            await publish_changes(stores, "o-1", 1)
            queues = stores.engines
            watch_sends(stores, refuse)
            await OUTBOX.publish(stores)
            stores.engines = queues
            await publish_changes(stores, "o-2", 1)

    asyncio.run(fill())


def run_outbox(*arguments: str) -> int:
    """Run `holdfast outbox` in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["outbox", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.proves("PG-X8")
def test_lists_a_dead_row_with_its_reason_and_redrive_makes_it_pending(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_outbox("list", "shop", "--json") == 0
    dead, pending = json.loads(capsys.readouterr().out)
    assert (dead["outbox"], dead["queue"], dead["aggregate"]) == ("shop.outbox", "shop-changes", "o-1")
    assert (dead["status"], dead["attempts"], dead["reason"]) == ("dead", 1, "InvalidRequest: too large")
    assert (pending["aggregate"], pending["status"], pending["reason"]) == ("o-2", "pending", None)
    assert run_outbox("redrive", "shop", "--aggregate", "o-1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"system": "shop", "outbox": "shop.outbox", "redriven": 1}]
    assert run_outbox("list", "shop", "--outbox", "shop.outbox") == 0
    assert "2 pending, 0 dead." in capsys.readouterr().out


@pytest.mark.proves("PG-X8")
def test_redrives_by_queue_or_id_and_discards_only_the_named_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def list_rows(*arguments: str) -> Any:
        assert run_outbox(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    dead, pending = list_rows("list", "shop")
    assert [each["id"] for each in list_rows("list", "shop", "--id", pending["id"])] == [pending["id"]]
    assert list_rows("list", "shop", "--queue", "shop-notes") == []
    assert list_rows("redrive", "shop", "--queue", "shop-notes")[0]["redriven"] == 0
    assert list_rows("redrive", "shop", "--id", pending["id"])[0]["redriven"] == 0
    assert run_outbox("discard", "shop") != 0
    assert "--id" in capsys.readouterr().err
    # A row that may be in flight is not discarded.
    discarded = list_rows("discard", "shop", "--id", dead["id"], "--id", pending["id"])
    assert discarded == [{"system": "shop", "outbox": "shop.outbox", "discarded": 1}]
    assert [each["id"] for each in list_rows("list", "shop")] == [pending["id"]]


def test_list_does_not_create_an_embedded_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_SQL", "postgres:never-started")

    assert run_outbox() == 0

    assert capsys.readouterr().out == "0 pending, 0 dead.\n"
    assert not (tmp_path / "never-started").exists()
