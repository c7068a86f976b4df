"""The hold queue: what goes outward waits, can be approved, edited or cancelled, and is done once when it is due."""

from __future__ import annotations

from holdfast.guarantees.hold_queue.record import HELD, HeldRecord

__all__ = ["HELD", "HeldRecord"]
