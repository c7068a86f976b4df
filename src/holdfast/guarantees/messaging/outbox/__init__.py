"""The outbox in tables: messages written with the change they announce, then relayed to a queue in order.

Each message is in the transaction of its change, and is sent at least once, in order per aggregate.

items (stored entities) → patterns → relay (to the queue) → declaration (what a system declares and calls).
"""

from __future__ import annotations

from holdfast.guarantees.messaging.outbox.declaration import Outbox, UnsentMessage
from holdfast.guarantees.messaging.outbox.items import OUTBOX, OutboxItem, OutboxStatus
from holdfast.guarantees.messaging.outbox.relay import RelayReport

__all__ = ["OUTBOX", "Outbox", "OutboxItem", "OutboxStatus", "RelayReport", "UnsentMessage"]
