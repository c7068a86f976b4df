"""`holdfast outbox` on outboxes in tables and in SQL: lists messages, redrives and discards dead ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Stores, System, open_stores
from holdfast.cli.app import main
from holdfast.core import installed_systems
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees.messaging.declaration import BaseOutbox
from tests.postgres import create_database
from tests.unit.guarantees.messaging import order_outbox, sql_shop
from tests.unit.guarantees.messaging.order_outbox import create_tables_and_queues, watch_queues

# The system, its outbox, and the function that builds a change with its message.
SHOPS: dict[str, tuple[System, BaseOutbox, Callable[..., tuple[Any, ...]]]] = {
    "orders": (order_outbox.SYSTEM, order_outbox.OUTBOX_OF_ORDERS, order_outbox.build_change),
    "shop": (sql_shop.SYSTEM, sql_shop.OUTBOX, sql_shop.build_change),
}
RunOutbox = Callable[..., Any]


async def fill(name: str) -> None:
    """Leave a dead message of `o-1` and a pending one of `o-2`."""
    system, outbox, build_change = SHOPS[name]

    async def change(stores: Stores, order_id: str) -> None:
        await stores.transact(*build_change(stores, order_id, 0))

    async with open_stores(system) as stores:
        await create_tables_and_queues(stores, system)
        await change(stores, "o-1")
        watch_queues(stores).fail(InvalidRequest("too large"))
        await outbox.send_unsent(stores)
        await change(stores, "o-2")


@pytest.fixture(params=SHOPS)
async def system(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a system with a dead and a pending message in an empty folder, and return its name."""
    name: str = request.param

    point = SimpleNamespace(name=name, value="", load=lambda: SHOPS[name][0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {name: point})
    if name == "shop":
        monkeypatch.setenv("HOLDFAST_SQL", create_database(sql_shop.SHOP))
    await fill(name)
    return name


def run_outbox(*arguments: str) -> int:
    """Run `holdfast outbox` in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["outbox", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> RunOutbox:
    """Return a function that runs `holdfast outbox --json` and returns what it prints."""

    def run(*arguments: str) -> Any:
        assert run_outbox(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.proves("PG-X8")
def test_lists_a_dead_message_with_its_reason_and_redrive_makes_it_pending(
    system: str, run_json: RunOutbox
) -> None:
    outbox = SHOPS[system][1]
    [queue, *_] = outbox.pattern_set.queues
    dead, pending = run_json("list", system)
    assert (dead["outbox"], dead["queue"], dead["aggregate"]) == (outbox.name, queue, "o-1")
    assert (dead["status"], dead["attempts"], dead["reason"]) == ("dead", 1, "InvalidRequest: too large")
    assert (pending["aggregate"], pending["status"], pending["reason"]) == ("o-2", "pending", None)
    assert dead["age_s"] >= pending["age_s"]
    assert run_json("redrive", system, "--aggregate", "o-1") == [
        {"system": system, "outbox": outbox.name, "redriven": 1}
    ]
    assert {each["status"] for each in run_json("list", system, "--outbox", outbox.name)} == {"pending"}


@pytest.mark.proves("PG-X8")
def test_redrives_by_queue_or_id_and_discards_only_the_named_message(
    system: str, run_json: RunOutbox, capsys: pytest.CaptureFixture[str]
) -> None:
    dead, pending = run_json("list", system)
    assert [each["id"] for each in run_json("list", system, "--id", pending["id"])] == [pending["id"]]
    assert run_json("list", system, "--queue", "another") == []
    assert run_json("redrive", system, "--queue", "another")[0]["redriven"] == 0
    assert run_json("redrive", system, "--id", pending["id"])[0]["redriven"] == 0
    assert run_outbox("discard", system) != 0
    assert "--id" in capsys.readouterr().err
    # A message that may be in flight is not discarded.
    [discarded] = run_json("discard", system, "--id", dead["id"], "--id", pending["id"])
    assert discarded["discarded"] == 1
    assert [each["id"] for each in run_json("list", system)] == [pending["id"]]


def test_prints_pending_and_dead_messages_of_every_system_as_a_table(
    system: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_outbox() == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["system", "outbox"]
    assert table[1].split()[:2] == [system, SHOPS[system][1].name]
    assert table[-1] == "1 pending, 1 dead."
    assert run_outbox("list", system, "--aggregate", "o-1") == 0
    output = capsys.readouterr().out
    assert "InvalidRequest: too large" in output
    assert "0 pending, 1 dead." in output


@pytest.mark.parametrize("system", ["orders"], indirect=True)
def test_rejects_an_unknown_outbox_and_lists_the_known_ones(
    system: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_outbox("list", system, "--outbox", "nobody") == 1
    assert "it has order-changes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("redrive",), ("discard", "--id", "1"), ("list", "--outbox", "order-changes")]
)
def test_all_but_a_whole_list_need_the_system(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_outbox(*words) == 2
    assert "needs SYSTEM" in capsys.readouterr().err


@pytest.mark.parametrize("system", ["shop"], indirect=True)
def test_list_does_not_create_an_embedded_server(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_SQL", "postgres:never-started")

    assert run_outbox() == 0

    assert capsys.readouterr().out == "0 pending, 0 dead.\n"
    assert not (tmp_path / "never-started").exists()
