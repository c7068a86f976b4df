"""Retention: what a system keeps and for how long, and the erasure of all that belongs to one person or case.

The promise: the report names every place where data stays and says where an end is missing; an erasure deletes what
the system finds of a subject, and names what remains, where, and until when.

    periods.py   how long something is kept, and how that is said
    report.py    what follows from a system's declarations
    erasure.py   delete, forget, look again
    remains.py   what an erasure could not reach, and until when
    proof.py     an erasure written down
"""

from __future__ import annotations

from holdfast.guarantees.retention.erasure import Traces, erase
from holdfast.guarantees.retention.periods import Period
from holdfast.guarantees.retention.proof import Erasure, is_intact
from holdfast.guarantees.retention.remains import Remainder
from holdfast.guarantees.retention.report import Kept, retention_report

__all__ = [
    "Erasure",
    "Kept",
    "Period",
    "Remainder",
    "Traces",
    "erase",
    "is_intact",
    "retention_report",
]
