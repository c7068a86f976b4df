"""Guarantees: reusable promises built on access patterns. Each has a room here; systems take them from this door."""

from __future__ import annotations

from holdfast.guarantees.audit import Audit, AuditEntry, AuditResult
from holdfast.guarantees.breaker import BREAKERS, Breaker, Circuit
from holdfast.guarantees.caching import ReadThrough, SessionRecord, Sessions, WindowLimit, until
from holdfast.guarantees.hold_queue import HELD, OUTCOME_UNKNOWN, HeldRecord, HoldQueue
from holdfast.guarantees.inbox import SqlInbox, inbox_ddl
from holdfast.guarantees.lease import LEASES, HeldLease, Lease, LeaseItem, LeaseRecord
from holdfast.guarantees.lifetimes import kept
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
from holdfast.guarantees.rate_limit import RATE_LIMITS, RateLimit, Windows
from holdfast.guarantees.redaction import Kind, Redactor, Style, excerpt, redact, redact_value
from holdfast.guarantees.retention import (
    Erasure,
    Kept,
    Period,
    Remainder,
    Traces,
    erase,
    is_intact,
    retention_report,
)
from holdfast.guarantees.scanning import Finding, scan_files
from holdfast.guarantees.sql_outbox import SqlOutbox, outbox_ddl

__all__ = [
    "BREAKERS",
    "HELD",
    "LEASES",
    "MIGRATIONS",
    "OUTBOX",
    "OUTCOME_UNKNOWN",
    "RATE_LIMITS",
    "Audit",
    "AuditEntry",
    "AuditResult",
    "Breaker",
    "Circuit",
    "Claim",
    "Done",
    "Erasure",
    "Finding",
    "HeldLease",
    "HeldRecord",
    "HoldQueue",
    "Kept",
    "Kind",
    "Lease",
    "LeaseItem",
    "LeaseRecord",
    "Migration",
    "MigrationState",
    "Once",
    "OnceRecord",
    "OnceStatus",
    "Outbox",
    "OutboxItem",
    "OutboxStatus",
    "Period",
    "Phase",
    "RateLimit",
    "ReadThrough",
    "Redactor",
    "Remainder",
    "SessionRecord",
    "Sessions",
    "SqlInbox",
    "SqlOutbox",
    "Style",
    "Traces",
    "WindowLimit",
    "Windows",
    "erase",
    "excerpt",
    "fence",
    "fingerprint",
    "hold_lifted",
    "inbox_ddl",
    "is_intact",
    "kept",
    "outbox_ddl",
    "redact",
    "redact_value",
    "retention_report",
    "scan_files",
    "source_tally",
    "state_of",
    "until",
]
