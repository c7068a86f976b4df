"""The hold queue: what goes outward waits, can be approved, edited or cancelled, and is done once when it is due.

`record` is what is kept, `declaration` what a system declares; `reviewing` is what people decide while it waits,
`executing` what happens when it is due, under a `claim`; `patterns` are what all of it runs through.
"""

from __future__ import annotations

from holdfast.guarantees.hold_queue.claim import OUTCOME_UNKNOWN
from holdfast.guarantees.hold_queue.declaration import HoldQueue
from holdfast.guarantees.hold_queue.patterns import HoldPatterns
from holdfast.guarantees.hold_queue.record import HELD, HeldRecord

__all__ = ["HELD", "OUTCOME_UNKNOWN", "HeldRecord", "HoldPatterns", "HoldQueue"]
