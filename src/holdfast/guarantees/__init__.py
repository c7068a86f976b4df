"""Guarantees: reusable promises built on access patterns. Each has a room here; systems take them from this door."""

from __future__ import annotations

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

__all__ = [
    "MIGRATIONS",
    "Migration",
    "MigrationState",
    "Phase",
    "fence",
    "hold_lifted",
    "source_tally",
    "state_of",
]
