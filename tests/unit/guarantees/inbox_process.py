"""A process that takes a message and does its effect, and is killed before it commits: for `test_inbox.py`.

python -m tests.unit.guarantees.inbox_process DATABASE MESSAGE
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.core.clock import SystemClock
from tests.unit.guarantees.sql_announcing import INBOX, effect, stores_at


async def taken_for_ever(url: str, message_id: str) -> None:
    async with (
        stores_at(url, clock=SystemClock()) as stores,
        INBOX.receive(stores, "biller", message_id) as taken,
    ):
        await taken.run(effect("o-1", 1))
        os.write(1, b"taken\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(taken_for_ever(*sys.argv[1:]))
