"""The command `holdfast queues` on embedded queues: list, show and redrive, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.app import main
from holdfast.operations.queues import (
    ChangeVisibility,
    CreateQueue,
    OutgoingMessage,
    ReceiveMessages,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues

from .desk import Ticket, notes, tickets

SYSTEM = "tests.unit.stores.queues.desk:SYSTEM"


@pytest.fixture(autouse=True)
def _desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the system `desk` by an entry point, and run in an empty folder."""
    record = tmp_path / "installed" / "desk-1.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: desk\nVersion: 1\n")
    (record / "entry_points.txt").write_text(f"[holdfast.systems]\ndesk = {SYSTEM}\n")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "test")
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def dead_letter_queue(tmp_path: Path) -> None:
    """Send three tickets, of which the first of a desk has become a dead letter."""
    (tmp_path / "data").mkdir()
    with open_queues(tmp_path / "data" / "queues.db") as queues:
        for definition in (*tickets.definitions("test"), *notes.definitions("test")):
            queues.run_blocking(CreateQueue(definition))
        messages = tuple(tickets.build_outgoing(Ticket(id=f"t{number}", desk="a")) for number in range(3))
        queues.run_blocking(SendMessages("tickets-test.fifo", messages))
        _make_dead_letter(queues)


def _make_dead_letter(queues: EmbeddedQueues) -> None:
    """Receive and release the first ticket; the next receive makes it a dead letter and holds the second."""
    (first,) = queues.run_blocking(ReceiveMessages("tickets-test.fifo"))
    queues.run_blocking(ChangeVisibility("tickets-test.fifo", (first.receipt,), 0))
    (second,) = queues.run_blocking(ReceiveMessages("tickets-test.fifo"))
    assert second.body != first.body


def _run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run `holdfast queues`, check its exit code and return what it printed."""
    with pytest.raises(SystemExit) as ended:
        main(["queues", *words])
    output = capsys.readouterr()
    assert ended.value.code == code, output.err
    return output.out + output.err


def _run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run `holdfast queues … --json` and return the parsed output."""
    return json.loads(_run(capsys, *words, "--json"))


@pytest.mark.usefixtures("dead_letter_queue")
def test_queues_and_dead_letters_are_listed_with_their_backlog(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {each["physical_name"]: each for each in _run_json(capsys, "list", "desk")}

    assert list(listed) == ["tickets-test.fifo", "tickets-dead-test.fifo", "notes-test"]
    live, dead = listed["tickets-test.fifo"], listed["tickets-dead-test.fifo"]
    assert (live["visible"], live["in_flight"], live["delayed"], live["dead_letters"]) == (1, 1, 0, False)
    assert (dead["visible"], dead["dead_letters"], dead["system"], dead["queue"]) == (
        1,
        True,
        "desk",
        "tickets",
    )
    assert dead["oldest_age_s"] >= 0
    assert listed["notes-test"]["oldest_age_s"] is None


def test_lists_queues_that_are_not_created(capsys: pytest.CaptureFixture[str]) -> None:
    assert {each["exists"] for each in _run_json(capsys, "list", "desk")} == {False}
    assert "not created yet" in _run(capsys, "list")


@pytest.mark.usefixtures("dead_letter_queue")
def test_a_system_that_is_not_set_up_does_not_hide_the_queues_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "installed" / "desk-1.dist-info" / "entry_points.txt").write_text(
        f"[holdfast.systems]\ndesk = {SYSTEM}\nbank = tests.unit.stores.queues.desk:BANK\n"
    )
    monkeypatch.delenv("HOLDFAST_ENVIRONMENT")

    output = _run(capsys, "list")

    assert "bank is skipped: " in output
    assert "tickets-dead.fifo" in output
    assert "bank is skipped" not in _run(capsys, "list", "desk")
    assert "environment" in _run(capsys, "list", "bank", code=1)


@pytest.mark.usefixtures("dead_letter_queue")
def test_without_arguments_lists_the_queues_of_every_system(capsys: pytest.CaptureFixture[str]) -> None:
    bare, listed = _run_json(capsys), _run_json(capsys, "list")

    names = [(each["system"], each["physical_name"]) for each in bare]
    assert ("desk", "tickets-dead-test.fifo") in names
    assert names == [(each["system"], each["physical_name"]) for each in listed]


@pytest.mark.usefixtures("dead_letter_queue")
def test_prints_a_table_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    output = _run(capsys, "list", "desk")

    assert "tickets-dead-test.fifo" in output
    assert "dead-letter queue" in output


@pytest.mark.usefixtures("dead_letter_queue")
def test_dead_letters_are_shown_and_stay(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        (shown,) = _run_json(capsys, "show", "desk", "tickets", "--dead")
        assert json.loads(shown["body"]) == {"id": "t0", "desk": "a"}
        assert (shown["group"], shown["deduplication"], shown["died_in"]) == ("a", "t0", "tickets-test.fifo")
        assert (shown["receives"], "receipt" in shown) == (1, False)
    output = _run(capsys, "show", "desk", "tickets", "--dead")
    assert [word in output for word in ("t0", "from queue", "tickets-test.fifo", "The worker's log")] == [
        True
    ] * 4
    assert "from queue" not in _run(capsys, "show", "desk", "tickets")
    assert len(_run_json(capsys, "show", "desk", "tickets", "--count", "1")) == 1
    assert len(_run_json(capsys, "show", "desk", "tickets")) == 2


@pytest.mark.usefixtures("dead_letter_queue")
def test_message_text_cannot_style_or_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_queues(tmp_path / "data" / "queues.db") as queues:
        known = tickets.build_outgoing(Ticket(id="t9", desk="b"))
        written = OutgoingMessage(
            body="[/] [red]t9 \x9b2J", group=known.group, deduplication=known.deduplication
        )
        queues.run_blocking(SendMessages("tickets-test.fifo", (written,)))

    output = _run(capsys, "show", "desk", "tickets")

    assert r"[/] [red]t9 \x9b2J" in output
    assert "\x9b" not in output


@pytest.mark.usefixtures("dead_letter_queue")
def test_dead_letters_are_moved_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run_json(capsys, "redrive", "desk", "tickets", "--count", "5") == {
        "source": "tickets-dead-test.fifo",
        "target": "tickets-test.fifo",
        "moved": 1,
    }
    assert "0 moved" in _run(capsys, "redrive", "desk", "tickets")
    assert len(_run_json(capsys, "show", "desk", "tickets")) == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("redrive", "desk"), 2, "needs SYSTEM and QUEUE"),
        (("show",), 2, "needs SYSTEM and QUEUE"),
        (("redrive", "desk", "notes"), 2, "has no dead-letter queue"),
        (("redrive", "desk", "tickets"), 1, "The queue tickets-dead-test.fifo does not exist"),
        (("show", "desk", "nothing"), 1, "desk has no queue 'nothing': it has tickets, notes"),
        (("show", "desk", "tickets", "--count", "0"), 2, "--count"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_rejects_invalid_arguments(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in _run(capsys, *words, code=code)
