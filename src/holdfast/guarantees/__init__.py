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
from holdfast.guarantees.outbox import OUTBOX, Outbox, OutboxItem, OutboxStatus
from holdfast.guarantees.redaction import Kind, Redactor, Style, excerpt, redact, redact_value

__all__ = [
    "LEASES",
    "MIGRATIONS",
    "OUTBOX",
    "Audit",
    "AuditEntry",
    "AuditResult",
    "Claim",
    "Done",
    "HeldLease",
    "Inbox",
    "Kind",
    "Lease",
    "LeaseRecord",
    "Migration",
    "MigrationState",
    "Once",
    "OnceRecord",
    "OnceStatus",
    "Outbox",
    "OutboxItem",
    "OutboxStatus",
    "Phase",
    "Redactor",
    "Style",
    "excerpt",
    "fence",
    "fingerprint",
    "hold_lifted",
    "redact",
    "redact_value",
    "source_tally",
    "state_of",
]
