"""`holdfast` in a process that kills itself with SIGKILL at a chosen point, for `test_pagw_killed.py`.

The variable PAGW_TEST_CRASH_POINT, such as "commit after 12", says what is counted, if the process dies
before or after it, and at which count:

    record   a write to the idempotency table: a claim, an intent, an outcome
    object   a file written
    commit   a SQL transaction
    publish  messages sent to a queue, before they are marked in the outbox
    done     a message deleted from a queue after its work
    act      a call that makes the payer act: `after` is before its outcome is recorded

Without one, the process runs normally.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from holdfast.operations.objects import AdoptObject, PutObject
from holdfast.operations.queues import DeleteMessages, SendMessages
from holdfast.operations.tables import PutItem, TransactWriteItems, UpdateItem
from pagw.integrations.payers.json_client import JsonPayerClient
from pagw.integrations.payers.pas_client import PasPayerClient
from tests.faults.kill_points import CountedKill, run_with_kill_points

VARIABLE: Final = "PAGW_TEST_CRASH_POINT"
KINDS: Final[Mapping[type[Any], str]] = {
    PutItem: "record",
    UpdateItem: "record",
    TransactWriteItems: "record",
    AdoptObject: "object",
    PutObject: "object",
    SendMessages: "publish",
    DeleteMessages: "done",
}


def parse(text: str) -> CountedKill:
    """Parse a crash point such as `commit after 12`; an empty text never crashes."""
    kind, moment, number = text.split() or ("none", "after", "0")
    return CountedKill(kind, moment, int(number), KINDS)


def main(*arguments: str) -> None:
    """Run the `holdfast` command with the crash point of the environment."""
    crash_point = parse(os.environ.get(VARIABLE, ""))
    for client in (JsonPayerClient, PasPayerClient):
        _count_calls(client, crash_point)
    run_with_kill_points(arguments, crash_point.run)


def _count_calls(client: Any, crash_point: CountedKill) -> None:
    """Count the calls of a payer's client that make the payer act."""
    original_send = client.send

    async def send(*given: Any) -> Any:
        return await crash_point.run("act", lambda: original_send(*given))

    client.send = send
