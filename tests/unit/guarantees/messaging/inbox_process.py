"""Process for `test_inbox.py` that receives a message, applies its effect and never commits.

python -m tests.unit.guarantees.messaging.inbox_process DATABASE MESSAGE
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.core.clock import SystemClock
from tests.unit.guarantees.messaging.sql_shop import INBOX, effect, open_shop_stores


async def receive_and_hang(url: str, message_id: str) -> None:
    """Receive the message, run its effect, write `taken` to stdout, and wait to be killed."""
    async with (
        open_shop_stores(url, clock=SystemClock()) as stores,
        INBOX.receive(stores, "biller", message_id) as taken,
    ):
        await taken.run(effect("o-1", 1))
        os.write(1, b"taken\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(receive_and_hang(*sys.argv[1:]))
