"""Guarantees: reusable promises built on access patterns, one package each; systems import them from here."""

from __future__ import annotations

from holdfast.guarantees.audit import Audit, AuditEntry, AuditResult
from holdfast.guarantees.cache import ReadThrough, SessionRecord, Sessions, WindowLimit, lifetime_until
from holdfast.guarantees.delayed_actions import (
    DELAYED_ACTIONS,
    OUTCOME_UNKNOWN,
    DelayedAction,
    DelayedActions,
    Review,
    ReviewDecision,
)
from holdfast.guarantees.idempotency import Claim, Completion, Once, OnceRecord, OnceStatus, fingerprint
from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.messaging.inbox import SqlInbox, inbox_ddl
from holdfast.guarantees.messaging.messages import OutboxStatus
from holdfast.guarantees.messaging.outbox import OUTBOX, Outbox, OutboxItem
from holdfast.guarantees.messaging.sql_outbox import SqlOutbox, outbox_ddl
from holdfast.guarantees.privacy.redaction import (
    IdentifierKind,
    MaskStyle,
    Redactor,
    redact,
    redact_excerpt,
    redact_value,
)
from holdfast.guarantees.privacy.retention import (
    Erasure,
    Period,
    Remainder,
    RetentionEntry,
    SubjectData,
    build_retention_report,
    erase,
    is_proof_intact,
)
from holdfast.guarantees.privacy.scanning import Finding, scan_files
from holdfast.guarantees.resilience.breaker import BREAKERS, Breaker, Circuit, CircuitLimits, CircuitRecord
from holdfast.guarantees.resilience.lease import LEASES, HeldLease, Lease, LeaseItem, LeaseRecord
from holdfast.guarantees.resilience.rate_limit import RATE_LIMITS, RateLimit
from holdfast.guarantees.table_migration import (
    MIGRATIONS,
    Migration,
    MigrationState,
    Phase,
    fence,
    get_migration_state,
    lift_hold,
    tally_source,
)

__all__ = [
    "BREAKERS",
    "DELAYED_ACTIONS",
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
    "CircuitLimits",
    "CircuitRecord",
    "Claim",
    "Completion",
    "DelayedAction",
    "DelayedActions",
    "Erasure",
    "Finding",
    "HeldLease",
    "IdentifierKind",
    "Lease",
    "LeaseItem",
    "LeaseRecord",
    "MaskStyle",
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
    "RetentionEntry",
    "Review",
    "ReviewDecision",
    "SessionRecord",
    "Sessions",
    "SqlInbox",
    "SqlOutbox",
    "SubjectData",
    "WindowLimit",
    "build_retention_report",
    "declare_retention",
    "erase",
    "fence",
    "fingerprint",
    "get_migration_state",
    "inbox_ddl",
    "is_proof_intact",
    "lifetime_until",
    "lift_hold",
    "outbox_ddl",
    "redact",
    "redact_excerpt",
    "redact_value",
    "scan_files",
    "tally_source",
]
