"""The outbox: a message written in the transaction of what it announces, and relayed to its queue at least once, in
order per aggregate.

items (what is kept) → patterns → relaying (to the queue) → declaration (what a system declares and calls).
"""

from __future__ import annotations

from holdfast.guarantees.outbox.declaration import Outbox, Waiting
from holdfast.guarantees.outbox.items import OUTBOX, OutboxItem, OutboxStatus
from holdfast.guarantees.outbox.relaying import RelayReport

__all__ = ["OUTBOX", "Outbox", "OutboxItem", "OutboxStatus", "RelayReport", "Waiting"]
