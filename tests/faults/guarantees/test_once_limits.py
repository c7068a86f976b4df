"""The limits of `Once` at an external service: what can happen twice, and that it does not with a key.

Without an idempotency key, a request that its process sends after a stop, or while another worker's clock is
ahead by more than the declared margin, has its effect next to the repeated one. It is then recorded.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.guarantees import Completion
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from tests.faults.killed_processes import serve
from tests.faults.stopped_processes import stop_outside_writes
from tests.processes import Process, preload
from tests.unit.guarantees.idempotency.once_records import LEASE_S, EventRecord, events, make_event, once

SENDER = "tests.faults.guarantees.stopped_sender_process"
ACT_S = 10.0

preload(SENDER)


class Ledger:
    """A service that sends a letter for each request; with `knows_keys`, one for each key."""

    def __init__(self, knows_keys: bool) -> None:
        self.letters: list[str] = []
        self._knows_keys = knows_keys

    def handle_post(self, body: dict[str, str], worker: int) -> tuple[int, Any]:
        self.send(body["key"])
        return 200, {"letter": 1}

    def handle_get(self, key: str) -> tuple[int, Any]:
        return 404, {}

    def send(self, key: str) -> None:
        if not (self._knows_keys and key in self.letters):
            self.letters.append(key)


async def send_letter(stores: Stores, ledger: Ledger, takes_key: bool) -> Completion[EventRecord]:
    """Send the letter as another worker, once."""

    async def send(key: str) -> dict[str, Any]:
        ledger.send(key)
        return {"letter": 1}

    async def look_up(key: str) -> dict[str, Any] | None:
        return {"letter": 1} if key in ledger.letters else None

    look = None if takes_key else look_up
    return await once.call_external(
        stores, make_event(), act=send, look_up=look, takes_key=takes_key, act_s=ACT_S
    )


@pytest.mark.parametrize("takes_key", [True, False])
async def test_request_of_a_process_stopped_while_it_sends(tmp_path: Path, takes_key: bool) -> None:
    path, ledger = tmp_path / "tables.db", Ledger(takes_key)
    clock = RunClock(tmp_path / "clock", start=1_770_000_000.0)
    with open_tables(path) as tables, serve(ledger) as url:
        stores = Stores(tables, clock=clock)
        await create_tables(stores, [events])
        with Process(SENDER, path, tmp_path / "clock", url, takes_key) as sender:
            assert sender.read_first_line() == "waiting\n"
            stop_outside_writes(sender.pid, tmp_path)
            clock.advance(LEASE_S)
            assert (await send_letter(stores, ledger, takes_key)).result == {"letter": 1}
            sender.send_signal(signal.SIGCONT)
            said, log = sender.communicate()
        assert (await send_letter(stores, ledger, takes_key)).replayed
    # One letter with a key. Without one there are two, and the sender says so.
    assert ledger.letters == ["evt-1"] * (1 if takes_key else 2)
    assert "once_overlaps" in said
    assert "evt-1 may have happened twice" in log
