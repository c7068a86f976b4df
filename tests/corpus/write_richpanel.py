"""Generator of the Richpanel archive: a data folder with work in flight, and notes for the tests.

    python -m tests.corpus.write_richpanel OUT

Each conversation is named for its final state. A worker process is killed after the help desk did what the
worker requested, and before the worker recorded it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from holdfast.core.clock import RunClock
from holdfast.core.errors import ExternalServiceRefused
from holdfast.guarantees import erase
from richpanel.integrations.clients import HelpDeskClient
from richpanel.model import patterns, replay_archive
from richpanel.system import SYSTEM
from tests.corpus.archive import SUFFIX, pack, save_notes
from tests.corpus.machine_name import remove_machine_name
from tests.corpus.richpanel_stage import NAME, QUESTIONS, CorpusStage, build_variables, open_stage
from tests.processes import Process
from tests.systems.richpanel.acceptance.middleware import EMAIL, START, STATUS

LOGIN: Final = "I can't log in"
ASKS: Final = "What is the status of my order?"
SHIPS: Final = "Do you ship to Norway, and how long does it take?"
CHARGEBACK: Final = "My bank says I can do a chargeback, and I will."
OTHER: Final = "thaddeus.quackenbush@mail.example"
ERASED: Final = "guinevere.oyelaran@mail.example"
MAX_CALLS: Final = 50
PATIENCE_S: Final = 60.0
# Longer than the longest backoff between two attempts.
PAUSE_S: Final = 100.0
KEY: Final = "a key that the worker does not have"


def main(folder: Path) -> None:
    """Write the archive and its notes into `folder`."""
    with TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        notes = asyncio.run(_write(data, Path(scratch)))
        remove_machine_name(data / "tables.db")
        pack(data, folder / f"{NAME}{SUFFIX}")
    save_notes(folder, NAME, notes)


async def _write(data: Path, scratch: Path) -> dict[str, Any]:
    """Bring conversations into every state on a new data folder and return the notes."""
    async with open_stage(data, START.timestamp()) as stage:
        await _finish_some(stage)
        erased = await _erase_under_hold(stage)
        dead = await _let_die(stage)
        unknown = await _leave_unknown(stage)
        lost = await _kill_worker(stage, data, scratch)
        queued = await _queue_webhooks(stage, lost)
        await patterns.CALLS.take(stage.stores, patterns.HELP_DESK, MAX_CALLS)
        return {
            "begins": START.timestamp(),
            "at": stage.clock.now(),
            "steps": stage.build_steps(),
            "expected": dead | unknown | queued,
            "erased": erased,
            "failures": {name: await _read_failure(stage, dead[name][0]) for name in dead},
            "pages": await _note_pages(stage),
        }


# --- finished -----------------------------------------------------------------------------------------------


async def _finish_some(stage: CorpusStage) -> None:
    """Finish conversations: in shadow mode, answered, asked for a number, at risk, long."""
    await stage.enable_automation("email", automation_enabled=False, shadow=True)
    await _say_and_process(stage, "shadow", ASKS)
    await stage.enable_automation("email")
    await _say_and_process(stage, "answered", STATUS)
    await _say_and_process(stage, "asked", ASKS)
    await _say_and_process(stage, "risky", CHARGEBACK)
    await _say_and_process(stage, "long", ASKS, LOGIN, SHIPS, CHARGEBACK)
    # Two addresses wrote here.
    await _say_and_process(stage, "shared", LOGIN)
    ticket = stage.sandbox.desk.find_ticket("shared")
    assert ticket is not None
    ticket.customer["email"] = OTHER
    await _say_and_process(stage, "shared", SHIPS)


async def _say_and_process(stage: CorpusStage, conversation: str, *texts: str, email: str = EMAIL) -> None:
    """Send the texts to a conversation, and process the queue after each."""
    for text in texts:
        await stage.send(text, conversation, email=email)
        await stage.drain_queue()


async def _erase_under_hold(stage: CorpusStage) -> dict[str, Any]:
    """Erase a customer while a legal hold keeps one of the archived events."""
    event = await stage.send(LOGIN, "erased", email=ERASED)
    await stage.drain_queue()
    await stage.stores.run(
        replay_archive.replays.set_legal_hold(True, conversation_id="erased", event_id=event)
    )
    done = await erase(SYSTEM, stage.stores, ERASED, kind="customer")
    return {"customer": ERASED, "event_id": event, "proof": done.proof}


# --- failed -------------------------------------------------------------------------------------------------


class _RefusingHelpDesk(HelpDeskClient):
    """Help desk whose ticket is missing when it is tagged."""

    async def add_tag(self, *_: object) -> dict[str, Any]:
        raise ExternalServiceRefused("404", "The help desk knows no such thing: it may have been deleted.")


async def _let_die(stage: CorpusStage) -> dict[str, list[str]]:
    """Send two events to the dead letters and return the effect keys that they will have in the end.

    The help desk rejects the worker's key in one case, and permanently refuses an effect in the other.
    """
    dead = _get_message_id(await stage.send(STATUS, "dead"))
    stage.sandbox.key = KEY
    await _attempt_until(stage, dead=1)
    stage.sandbox.key = ""
    refused = _get_message_id(await stage.send(LOGIN, "refused"))
    await _attempt_until(stage, dead=2, desk=_RefusingHelpDesk(stage.desk_http))
    return {
        "dead": _list_reply_keys("dead", dead),
        "refused": _list_routing_keys("refused", refused, "accounts")[:1],
    }


async def _attempt_until(stage: CorpusStage, *, dead: int, desk: HelpDeskClient | None = None) -> None:
    """Process messages, with pauses, until the queue has this many dead letters."""
    while (await stage.get_queue_report()).dead != dead:
        await stage.attempt(stage.build_worker(desk))
        stage.clock.advance(PAUSE_S)


async def _read_failure(stage: CorpusStage, action: str) -> str | None:
    """Return the recorded failure name of the event behind an action."""
    _, _, conversation, *_, message = action.split(":")
    record = await stage.get_record(f"evt:rp:{conversation}:{message}")
    assert record is not None
    return record.error


async def _leave_unknown(stage: CorpusStage) -> dict[str, list[str]]:
    """Leave a reply with unknown outcome: the help desk answers every effect with an error."""
    event = await stage.send(STATUS, "unknown")
    stage.set_faults(failed_after=1.0)
    while len(stage.list_references("unknown")) < 3:
        await stage.attempt()
        stage.clock.advance(1)
    stage.set_faults()
    return {"unknown": _list_reply_keys("unknown", _get_message_id(event))}


async def _kill_worker(stage: CorpusStage, data: Path, scratch: Path) -> str:
    """Kill a worker process while it waits for the help desk, which has assigned the ticket."""
    lost = await stage.send(STATUS, "lost")
    stage.set_faults(silent_after=1.0, silence_s=2.0)
    with _start_worker(stage, data, scratch) as worker:
        give_up_at = time.monotonic() + PATIENCE_S
        while not stage.list_references("lost"):
            assert worker.is_alive and time.monotonic() < give_up_at, "the worker does not work"
            await asyncio.sleep(0.01)
        worker.kill()
    stage.set_faults()
    return _get_message_id(lost)


def _start_worker(stage: CorpusStage, data: Path, scratch: Path) -> Process:
    """Start a worker process on the data folder."""
    clock = scratch / "clock"
    RunClock(clock, start=stage.clock.now())
    variables = {
        **build_variables(data),
        "HOLDFAST_RUN_CLOCK": str(clock),
        "RICHPANEL_HELPDESK_URL": stage.settings.helpdesk_url,
        "RP_MW_ARCHIVE": "on",
    }
    return Process("tests.processes", "run", "richpanel", "--component", "worker", variables=variables)


# --- queued -------------------------------------------------------------------------------------------------


async def _queue_webhooks(stage: CorpusStage, lost: str) -> dict[str, list[str]]:
    """Queue accepted webhooks, one of which a dead worker has received; return the effect keys to come.

    `lost` is the id of the message that the killed worker handles.
    """
    received = _get_message_id(await stage.send(LOGIN, "received"))
    assert len(await stage.receive()) == 1
    behind = _get_message_id(await stage.send(SHIPS, "lost"))
    first = [_get_message_id(await stage.send(text, "first")) for text in (LOGIN, SHIPS, CHARGEBACK)]
    chat = _get_message_id(await stage.send(STATUS, "chat", channel="chat"))
    # A webhook that gives the text in place of the message's id, and one that gives neither.
    by_text = stage.write(LOGIN, "text")
    await stage.deliver({**by_text, "message_id": None, "text": LOGIN})
    by_arrival = stage.write(LOGIN, "arrival")
    await stage.deliver({"ticket_id": "arrival", "trigger": "customer_message", "channel": "email"})
    return {
        "lost": [
            *_list_reply_keys("lost", lost),
            *_list_suggestion_keys("lost", behind, "sales", "faq_shipping"),
        ],
        "received": _list_suggestion_keys("received", received, "accounts", "faq_account"),
        "first": [
            *_list_suggestion_keys("first", first[0], "accounts", "faq_account"),
            *_list_suggestion_keys("first", first[1], "sales", "faq_shipping"),
            *_list_routing_keys("first", first[2], "risk"),
            f"act:rp_tag:first:mw-risk-chargeback:{first[2]}",
        ],
        "chat": _list_routing_keys("chat", chat, "orders"),
        "text": _list_suggestion_keys("text", by_text["message_id"], "accounts", "faq_account"),
        "arrival": _list_suggestion_keys("arrival", by_arrival["message_id"], "accounts", "faq_account"),
    }


def _get_message_id(event_id: str) -> str:
    """Return the message id in an event id."""
    return event_id.rpartition(":")[2]


def _list_routing_keys(conversation: str, message: str, team: str) -> list[str]:
    """Return the effect keys of routing a message to a team: the assignment and the tag."""
    return [
        f"act:rp_assign:{conversation}:{team}:{message}",
        f"act:rp_tag:{conversation}:mw-routed:{message}",
    ]


def _list_reply_keys(conversation: str, message: str) -> list[str]:
    """Return the effect keys of a message that is routed to orders and answered."""
    return [*_list_routing_keys(conversation, message, "orders"), f"act:rp_reply:{conversation}:{message}"]


def _list_suggestion_keys(conversation: str, message: str, team: str, note: str) -> list[str]:
    """Return the effect keys of a message that is routed, with a suggested answer as a note."""
    return [*_list_routing_keys(conversation, message, team), f"act:rp_note:{conversation}:{note}:{message}"]


# --- pages --------------------------------------------------------------------------------------------------


async def _note_pages(stage: CorpusStage) -> dict[str, Any]:
    """Note the first pages that a caller has read: the cursor, and the keys that follow."""
    found = {}
    for name, (question, key) in QUESTIONS.items():
        first = await stage.stores.run(question(None))
        assert first.cursor is not None, f"{name} has one page only"
        rest = await stage.stores.all(question(first.cursor))
        keys = {"first": [*map(key, first)], "rest": [*map(key, rest)]}
        found[name] = {"cursor": first.cursor, **keys}
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
