"""Once: an effect happens once, however often it is asked for, whoever dies over it, and however late somebody wakes.

`record` is what is kept, `declaration` what a system declares, `claim` the right to do it; `working` does an effect in
tables under a claim, `outside` one at an outside party; `patterns` are what all of it runs through. An effect in SQL has
its truth there: see `holdfast.guarantees.inbox`.
"""

from __future__ import annotations

from holdfast.guarantees.once.claim import Claim, Done
from holdfast.guarantees.once.declaration import Once
from holdfast.guarantees.once.patterns import OncePatterns
from holdfast.guarantees.once.record import OnceRecord, OnceStatus, fingerprint

__all__ = ["Claim", "Done", "Once", "OncePatterns", "OnceRecord", "OnceStatus", "fingerprint"]
