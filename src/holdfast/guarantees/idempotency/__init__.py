"""Idempotency: an effect happens once, however often it is requested, even if workers die or resume late.

`record` is the stored record, `declaration` what a system declares, `claim` the right to run the effect;
`execution` runs an effect in tables under a claim, `external_call` one at an external service; `patterns` are
the access patterns. For an effect in SQL use `holdfast.guarantees.messaging.inbox`, which stores its row in
the effect's transaction.
"""

from __future__ import annotations

from holdfast.guarantees.idempotency.claim import Claim, Completion
from holdfast.guarantees.idempotency.declaration import Once
from holdfast.guarantees.idempotency.patterns import OncePatterns
from holdfast.guarantees.idempotency.record import OnceRecord, OnceStatus, fingerprint

__all__ = ["Claim", "Completion", "Once", "OncePatterns", "OnceRecord", "OnceStatus", "fingerprint"]
