"""Retention: what a system stores and for how long, and the erasure of all data of one person or case.

The promise: the report names every place where data stays and reports a missing end; an erasure deletes what
the system finds of a subject, and names what remains, where, and until when.

    periods.py     retention periods and their text form
    report.py      the report from a system's declarations
    erasure.py     delete, forget, scan again
    remainders.py  data that an erasure could not reach, and until when it stays
    proof.py       the record of an erasure
"""

from __future__ import annotations

from holdfast.guarantees.privacy.retention.erasure import SubjectData, erase
from holdfast.guarantees.privacy.retention.periods import Period
from holdfast.guarantees.privacy.retention.proof import Erasure, is_proof_intact
from holdfast.guarantees.privacy.retention.remainders import Remainder
from holdfast.guarantees.privacy.retention.report import RetentionEntry, build_retention_report

__all__ = [
    "Erasure",
    "Period",
    "Remainder",
    "RetentionEntry",
    "SubjectData",
    "build_retention_report",
    "erase",
    "is_proof_intact",
]
