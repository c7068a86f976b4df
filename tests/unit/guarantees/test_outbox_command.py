"""`holdfast outbox`: what waits, what died and why, and how it goes out again."""

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
from tests.unit.guarantees.announcing import (
    OUTBOX_OF_ORDERS,
    SYSTEM,
    changed,
    prepared,
    with_failing_queue,
)


class Point:
    """An entry point, as if the system were installed."""

    name, value = SYSTEM.name, "tests.unit.guarantees.announcing:SYSTEM"

    def load(self) -> Any:
        return SYSTEM


@pytest.fixture(autouse=True)
def one_dead_and_one_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(systems, "_entry_points", lambda: {SYSTEM.name: Point()})

    async def filled() -> None:
        async with open_stores(SYSTEM) as stores:
            await prepared(stores)
            queue = with_failing_queue(stores)
            queue.error = InvalidRequest("too large")
            await stores.transact(*changed(stores, "o-1", 0))
            await OUTBOX_OF_ORDERS.relay(stores)
            await stores.transact(*changed(stores, "o-2", 0))
            queue.close()

    asyncio.run(filled())


def outbox(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["outbox", *arguments])
    return int(ended.value.code or 0)


def test_programs_are_told_what_waits_and_what_died(capsys: pytest.CaptureFixture[str]) -> None:
    assert outbox("list", "orders", "--json") == 0
    dead, pending = json.loads(capsys.readouterr().out)
    assert (dead["aggregate"], dead["status"], dead["attempts"]) == ("o-1", "dead", 1)
    assert dead["reason"] == "InvalidRequest: too large"
    assert (pending["aggregate"], pending["status"], pending["reason"]) == ("o-2", "pending", None)
    assert dead["age_s"] >= pending["age_s"]


def test_people_are_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert outbox("list", "orders", "--aggregate", "o-1") == 0
    told = capsys.readouterr().out
    assert "InvalidRequest: too large" in told
    assert "0 pending, 1 dead." in told


def test_what_died_is_pending_after_a_redrive(capsys: pytest.CaptureFixture[str]) -> None:
    assert outbox("redrive", "orders", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"system": "orders", "outbox": "order-changes", "redriven": 1}
    ]
    assert outbox("list", "orders", "--json") == 0
    assert {each["status"] for each in json.loads(capsys.readouterr().out)} == {"pending"}


def test_an_unknown_outbox_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert outbox("list", "orders", "--outbox", "nobody") == 1
    assert "it has order-changes" in capsys.readouterr().err
