"""`holdfast outbox` for an outbox in SQL: what waits, what died and why, and how it goes out again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores
from holdfast.cli.app import main
from holdfast.core.errors import InvalidRequest
from holdfast.model import system as systems
from holdfast.operations.queues import SendMessages
from tests.postgres import fresh_database
from tests.unit.guarantees.sql_announcing import OUTBOX, SHOP, SYSTEM, announced, prepared, watch


class Point:
    """An entry point, as if the system were installed."""

    name, value = SYSTEM.name, "tests.unit.guarantees.sql_announcing:SYSTEM"

    def load(self) -> Any:
        return SYSTEM


@pytest.fixture(autouse=True)
def one_dead_and_one_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(systems, "_entry_points", lambda: {SYSTEM.name: Point()})
    monkeypatch.setenv("HOLDFAST_SQL", fresh_database(SHOP))

    async def refuse(_: SendMessages) -> None:
        raise InvalidRequest("too large")

    async def filled() -> None:
        async with open_stores(SYSTEM) as stores:
            await prepared(stores)
            await announced(stores, "o-1", 1)
            queues = stores.engines
            watch(stores, refuse)
            await OUTBOX.publish(stores)
            stores.engines = queues
            await announced(stores, "o-2", 1)

    asyncio.run(filled())


def outbox(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["outbox", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.proves("PG-X8")
def test_what_died_is_listed_with_its_reason_and_pending_after_a_redrive(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert outbox("list", "shop", "--json") == 0
    dead, pending = json.loads(capsys.readouterr().out)
    assert (dead["outbox"], dead["queue"], dead["aggregate"]) == ("shop.outbox", "shop-changes", "o-1")
    assert (dead["status"], dead["attempts"], dead["reason"]) == ("dead", 1, "InvalidRequest: too large")
    assert (pending["aggregate"], pending["status"], pending["reason"]) == ("o-2", "pending", None)
    assert outbox("redrive", "shop", "--aggregate", "o-1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"system": "shop", "outbox": "shop.outbox", "redriven": 1}]
    assert outbox("list", "shop", "--outbox", "shop.outbox") == 0
    assert "2 pending, 0 dead." in capsys.readouterr().out


@pytest.mark.proves("PG-X8")
def test_one_is_redriven_by_its_queue_or_its_id_or_discarded_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def told(*arguments: str) -> Any:
        assert outbox(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    dead, pending = told("list", "shop")
    assert [each["id"] for each in told("list", "shop", "--id", pending["id"])] == [pending["id"]]
    assert told("list", "shop", "--queue", "shop-notes") == []
    assert told("redrive", "shop", "--queue", "shop-notes")[0]["redriven"] == 0
    assert told("redrive", "shop", "--id", pending["id"])[0]["redriven"] == 0
    assert outbox("discard", "shop") != 0
    assert "--id" in capsys.readouterr().err
    # One that may be on its way is not discarded.
    discarded = told("discard", "shop", "--id", dead["id"], "--id", pending["id"])
    assert discarded == [{"system": "shop", "outbox": "shop.outbox", "discarded": 1}]
    assert [each["id"] for each in told("list", "shop")] == [pending["id"]]
