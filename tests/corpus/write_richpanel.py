"""Write the data folder of the Richpanel middleware with work in flight: `python -m tests.corpus.write_richpanel OUT`.

Each conversation is named for the state that it is left in. A worker process is killed after the help desk has done what
it asked for, and before it has recorded that.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from holdfast.core.clock import RunClock
from holdfast.core.errors import ExternalServiceRefused
from holdfast.guarantees import erase
from richpanel.integrations.clients import HelpDeskClient
from richpanel.model import patterns, replay_archive
from richpanel.system import SYSTEM
from tests.acceptance.richpanel.stage import EMAIL, START, STATUS
from tests.corpus.archive import SUFFIX, pack, save_notes
from tests.corpus.machine_name import remove_machine_name
from tests.corpus.richpanel_stage import NAME, QUESTIONS, CorpusStage, open_stage, variables_of

LOGIN: Final = "I can't log in"
ASKS: Final = "What is the status of my order?"
SHIPS: Final = "Do you ship to Norway, and how long does it take?"
CHARGEBACK: Final = "My bank says I can do a chargeback, and I will."
OTHER: Final = "thaddeus.quackenbush@mail.example"
ERASED: Final = "guinevere.oyelaran@mail.example"
CALLS_MAX: Final = 50
PATIENCE_S: Final = 60.0
# Longer than the longest pause between two attempts.
PAUSE_S: Final = 100.0
KEY: Final = "a key that the worker does not have"


def main(folder: Path) -> None:
    with TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        notes = asyncio.run(_write(data, Path(scratch)))
        remove_machine_name(data / "tables.db")
        pack(data, folder / f"{NAME}{SUFFIX}")
    save_notes(folder, NAME, notes)


async def _write(data: Path, scratch: Path) -> dict[str, Any]:
    async with open_stage(data, START.timestamp()) as stage:
        await _finish_some(stage)
        erased = await _erase_under_hold(stage)
        dead = await _let_die(stage)
        unknown = await _leave_unknown(stage)
        lost = await _kill_worker(stage, data, scratch)
        queued = await _queue(stage, lost)
        await patterns.CALLS.take(stage.stores, patterns.HELP_DESK, CALLS_MAX)
        return {
            "begins": START.timestamp(),
            "at": stage.clock.now(),
            "steps": stage.steps(),
            "expected": dead | unknown | queued,
            "erased": erased,
            "failures": {name: await _failure(stage, dead[name][0]) for name in dead},
            "pages": await _pages(stage),
        }


# --- finished -----------------------------------------------------------------------------------------------


async def _finish_some(stage: CorpusStage) -> None:
    """Conversations that were worked off: in shadow mode, answered, asked for a number, at risk, long."""
    await stage.automate("email", automation_enabled=False, shadow=True)
    await _said(stage, "shadow", ASKS)
    await stage.automate("email")
    await _said(stage, "answered", STATUS)
    await _said(stage, "asked", ASKS)
    await _said(stage, "risky", CHARGEBACK)
    await _said(stage, "long", ASKS, LOGIN, SHIPS, CHARGEBACK)
    # Two addresses wrote here.
    await _said(stage, "shared", LOGIN)
    ticket = stage.sandbox.desk.find_ticket("shared")
    assert ticket is not None
    ticket.customer["email"] = OTHER
    await _said(stage, "shared", SHIPS)


async def _said(stage: CorpusStage, conversation: str, *texts: str, email: str = EMAIL) -> None:
    for text in texts:
        await stage.says(text, conversation, email=email)
        await stage.work_off()


async def _erase_under_hold(stage: CorpusStage) -> dict[str, Any]:
    """A customer is erased while a legal hold keeps one of the archived events."""
    event = await stage.says(LOGIN, "erased", email=ERASED)
    await stage.work_off()
    await stage.stores.run(
        replay_archive.replays.set_legal_hold(True, conversation_id="erased", event_id=event)
    )
    done = await erase(SYSTEM, stage.stores, ERASED, kind="customer")
    return {"customer": ERASED, "event_id": event, "proof": done.proof}


# --- failed -------------------------------------------------------------------------------------------------


class _Refusing(HelpDeskClient):
    """A help desk at which the ticket is gone when it is to be tagged."""

    async def add_tag(self, *_: object) -> dict[str, Any]:
        raise ExternalServiceRefused("404", "The help desk knows no such thing: it may have been deleted.")


async def _let_die(stage: CorpusStage) -> dict[str, list[str]]:
    """Two events go to the dead letters: the help desk refuses the worker's key, and an effect for good."""
    dead = _message(await stage.says(STATUS, "dead"))
    stage.sandbox.key = KEY
    await _attempt_until(stage, dead=1)
    stage.sandbox.key = ""
    refused = _message(await stage.says(LOGIN, "refused"))
    await _attempt_until(stage, dead=2, desk=_Refusing(stage.desk_http))
    return {"dead": _answered("dead", dead), "refused": _routed("refused", refused, "accounts")[:1]}


async def _attempt_until(stage: CorpusStage, *, dead: int, desk: HelpDeskClient | None = None) -> None:
    while (await stage.queue()).dead != dead:
        await stage.attempt(stage.worker(desk))
        stage.clock.advance(PAUSE_S)


async def _failure(stage: CorpusStage, action: str) -> str | None:
    """The name under which the failure of the event behind an action was recorded."""
    _, _, conversation, *_, message = action.split(":")
    record = await stage.record(f"evt:rp:{conversation}:{message}")
    assert record is not None
    return record.error


async def _leave_unknown(stage: CorpusStage) -> dict[str, list[str]]:
    """The help desk answers each effect with an error, also the last: nobody knows whether the reply was sent."""
    event = await stage.says(STATUS, "unknown")
    stage.fail(failed_after=1.0)
    while len(stage.references("unknown")) < 3:
        await stage.attempt()
        stage.clock.advance(1)
    stage.fail()
    return {"unknown": _answered("unknown", _message(event))}


async def _kill_worker(stage: CorpusStage, data: Path, scratch: Path) -> str:
    """A worker process is killed while it waits for the help desk, which has assigned the ticket."""
    lost = await stage.says(STATUS, "lost")
    stage.fail(silent_after=1.0, silence_s=2.0)
    with _worker(stage, data, scratch) as worker:
        give_up_at = time.monotonic() + PATIENCE_S
        while not stage.references("lost"):
            assert worker.poll() is None and time.monotonic() < give_up_at, "the worker does not work"
            await asyncio.sleep(0.01)
        worker.kill()
    stage.fail()
    return _message(lost)


@contextmanager
def _worker(stage: CorpusStage, data: Path, scratch: Path) -> Iterator[subprocess.Popen[bytes]]:
    clock = scratch / "clock"
    RunClock(clock, start=stage.clock.now())
    variables = {
        **variables_of(data),
        "HOLDFAST_RUN_CLOCK": str(clock),
        "RICHPANEL_HELPDESK_URL": stage.settings.helpdesk_url,
        "RP_MW_ARCHIVE": "on",
    }
    command = [sys.executable, "-m", "holdfast", "run", "richpanel", "--component", "worker"]
    with (scratch / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()


# --- queued -------------------------------------------------------------------------------------------------


async def _queue(stage: CorpusStage, lost: str) -> dict[str, list[str]]:
    """Webhooks that were accepted and not worked on; one of them a dead worker has received."""
    received = _message(await stage.says(LOGIN, "received"))
    assert len(await stage.receive()) == 1
    behind = _message(await stage.says(SHIPS, "lost"))
    first = [_message(await stage.says(text, "first")) for text in (LOGIN, SHIPS, CHARGEBACK)]
    chat = _message(await stage.says(STATUS, "chat", channel="chat"))
    # A webhook that gives the text in place of the message's id, and one that gives neither.
    by_text = stage.write(LOGIN, "text")
    await stage.deliver({**by_text, "message_id": None, "text": LOGIN})
    by_arrival = stage.write(LOGIN, "arrival")
    await stage.deliver({"ticket_id": "arrival", "trigger": "customer_message", "channel": "email"})
    return {
        "lost": [*_answered("lost", lost), *_suggested("lost", behind, "sales", "faq_shipping")],
        "received": _suggested("received", received, "accounts", "faq_account"),
        "first": [
            *_suggested("first", first[0], "accounts", "faq_account"),
            *_suggested("first", first[1], "sales", "faq_shipping"),
            *_routed("first", first[2], "risk"),
            f"act:rp_tag:first:mw-risk-chargeback:{first[2]}",
        ],
        "chat": _routed("chat", chat, "orders"),
        "text": _suggested("text", by_text["message_id"], "accounts", "faq_account"),
        "arrival": _suggested("arrival", by_arrival["message_id"], "accounts", "faq_account"),
    }


def _message(event_id: str) -> str:
    return event_id.rpartition(":")[2]


def _routed(conversation: str, message: str, team: str) -> list[str]:
    return [
        f"act:rp_assign:{conversation}:{team}:{message}",
        f"act:rp_tag:{conversation}:mw-routed:{message}",
    ]


def _answered(conversation: str, message: str) -> list[str]:
    return [*_routed(conversation, message, "orders"), f"act:rp_reply:{conversation}:{message}"]


def _suggested(conversation: str, message: str, team: str, note: str) -> list[str]:
    return [*_routed(conversation, message, team), f"act:rp_note:{conversation}:{note}:{message}"]


# --- pages --------------------------------------------------------------------------------------------------


async def _pages(stage: CorpusStage) -> dict[str, Any]:
    """First pages that a caller has read: the cursor, and the keys that follow."""
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
