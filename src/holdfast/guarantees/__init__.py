"""Guarantees: reusable promises built on access patterns. Each has a room here; systems take them from this door."""

from __future__ import annotations

from holdfast.guarantees.audit import Audit, AuditEntry, AuditResult
from holdfast.guarantees.inbox import Inbox
from holdfast.guarantees.lease import LEASES, HeldLease, Lease, LeaseRecord
from holdfast.guarantees.migration import (
    MIGRATIONS,
    Migration,
    MigrationState,
    Phase,
    fence,
    hold_lifted,
    source_tally,
    state_of,
)
from holdfast.guarantees.once import Claim, Done, Once, OnceRecord, OnceStatus, fingerprint

__all__ = [
    "LEASES",
    "MIGRATIONS",
    "Audit",
    "AuditEntry",
    "AuditResult",
    "Claim",
    "Done",
    "HeldLease",
    "Inbox",
    "Lease",
    "LeaseRecord",
    "Migration",
    "MigrationState",
    "Once",
    "OnceRecord",
    "OnceStatus",
    "Phase",
    "fence",
    "fingerprint",
    "hold_lifted",
    "source_tally",
    "state_of",
]
