"""The outbox in tables: messages written with the change they announce, then relayed to a queue in order.

Each message is in the transaction of its change, and is sent at least once, in order per aggregate.

items (stored entities) → patterns → storage (claims and marks for the relay) → declaration (what a system
declares and calls).
"""

from __future__ import annotations

from holdfast.guarantees.messaging.outbox.declaration import Outbox
from holdfast.guarantees.messaging.outbox.items import OUTBOX, OutboxItem

__all__ = ["OUTBOX", "Outbox", "OutboxItem"]
