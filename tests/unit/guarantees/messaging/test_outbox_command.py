"""`holdfast outbox` on an outbox in tables: lists pending and dead items, and redrives them."""

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
from tests.unit.guarantees.messaging.order_outbox import (
    OUTBOX_OF_ORDERS,
    SYSTEM,
    build_change,
    create_tables_and_queues,
    replace_queue_with_failing,
)


class FakeEntryPoint:
    """Entry point, as if the system were installed."""

    name, value = SYSTEM.name, "tests.unit.guarantees.messaging.order_outbox:SYSTEM"

    def load(self) -> Any:
        return SYSTEM


@pytest.fixture(autouse=True)
def one_dead_and_one_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the order system in an empty folder, with a dead item of `o-1` and a pending one of `o-2`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {SYSTEM.name: FakeEntryPoint()})

    async def fill() -> None:
        async with open_stores(SYSTEM) as stores:
            await create_tables_and_queues(stores)
            queue = replace_queue_with_failing(stores)
            queue.error = InvalidRequest("too large")
            await stores.transact(*build_change(stores, "o-1", 0))
            await OUTBOX_OF_ORDERS.relay(stores)
            await stores.transact(*build_change(stores, "o-2", 0))
            queue.close()

    asyncio.run(fill())


def run_outbox(*arguments: str) -> int:
    """Run `holdfast outbox` in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["outbox", *arguments])
    return int(ended.value.code or 0)


def test_prints_pending_and_dead_items_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_outbox("list", "orders", "--json") == 0
    dead, pending = json.loads(capsys.readouterr().out)
    assert (dead["aggregate"], dead["status"], dead["attempts"]) == ("o-1", "dead", 1)
    assert dead["reason"] == "InvalidRequest: too large"
    assert (pending["aggregate"], pending["status"], pending["reason"]) == ("o-2", "pending", None)
    assert dead["age_s"] >= pending["age_s"]


def test_prints_pending_and_dead_items_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """`--aggregate` limits the list, and the counts below it, to one aggregate."""
    assert run_outbox("list", "orders", "--aggregate", "o-1") == 0
    output = capsys.readouterr().out
    assert "InvalidRequest: too large" in output
    assert "0 pending, 1 dead." in output


def test_redrive_makes_dead_items_pending(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_outbox("redrive", "orders", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"system": "orders", "outbox": "order-changes", "redriven": 1}
    ]
    assert run_outbox("list", "orders", "--json") == 0
    assert {each["status"] for each in json.loads(capsys.readouterr().out)} == {"pending"}


def test_rejects_an_unknown_outbox_and_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_outbox("list", "orders", "--outbox", "nobody") == 1
    assert "it has order-changes" in capsys.readouterr().err


def test_without_arguments_lists_the_messages_of_every_system(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_outbox("--json") == 0
    assert [(each["system"], each["aggregate"]) for each in json.loads(capsys.readouterr().out)] == [
        ("orders", "o-1"),
        ("orders", "o-2"),
    ]
    assert run_outbox() == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["system", "outbox"]
    assert table[1].split()[:2] == ["orders", "order-changes"]
    assert table[-1] == "1 pending, 1 dead."


@pytest.mark.parametrize(
    "words", [("redrive",), ("discard", "--id", "1"), ("list", "--outbox", "order-changes")]
)
def test_all_but_a_whole_list_need_the_system(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_outbox(*words) == 2
    assert "needs SYSTEM" in capsys.readouterr().err
