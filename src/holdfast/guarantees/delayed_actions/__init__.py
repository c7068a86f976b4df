"""Delayed actions: each waits, can be approved, edited or cancelled, and runs once when it is due.

`record` is the stored record, `declaration` what a system declares; `reviews` are people's decisions while it
waits, `execution` runs it when it is due, under a `claim`; `patterns` are the access patterns.
"""

from __future__ import annotations

from holdfast.guarantees.delayed_actions.claim import OUTCOME_UNKNOWN
from holdfast.guarantees.delayed_actions.declaration import DelayedActions
from holdfast.guarantees.delayed_actions.patterns import DelayedActionPatterns
from holdfast.guarantees.delayed_actions.record import DELAYED_ACTIONS, DelayedAction
from holdfast.guarantees.delayed_actions.reviews import Review, ReviewDecision

__all__ = [
    "DELAYED_ACTIONS",
    "OUTCOME_UNKNOWN",
    "DelayedAction",
    "DelayedActionPatterns",
    "DelayedActions",
    "Review",
    "ReviewDecision",
]
