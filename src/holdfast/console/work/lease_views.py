"""The leases of a system: who holds each, since when, and until when.

A holder's name is a ULID, made when it took the lease, so it says since when the lease is held.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.console.work.dedicated_tables import has_own_table
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees import Lease, LeaseRecord
from holdfast.model.ulids import get_ulid_time, parse_ulid
from holdfast.runtime.stores import Stores

__all__ = ["LeaseView", "read_leases"]

MAX_LEASES: Final = 200


@dataclass(frozen=True)
class LeaseView:
    """One lease: held, released, or not renewed in time."""

    system: str
    lease: str
    name: str
    state: str
    holder: str
    token: int
    lasts_s: float
    since: datetime | None = None
    until: datetime | None = field(default=None, compare=False)
    left_s: float = field(default=0.0, compare=False)


async def read_leases(stores: Stores, lease: Lease[Any]) -> list[LeaseView]:
    """Return the stored leases, at most `MAX_LEASES`.

    In a table with other items no key lists them: then only the lease of the declared example is read.
    """
    records: list[LeaseRecord]
    if has_own_table(lease.entity):
        scan = lease.entity.scan(reason="an operator looks at all leases").page(MAX_LEASES)
        records = list(await stores.run(scan))
    else:
        found = await stores.run(lease.pattern_set.read.build_example())
        records = [] if found is None else [found]
    return [_build_view(stores, lease, each) for each in sorted(records, key=lambda each: each.name)]


def _build_view(stores: Stores, lease: Lease[Any], record: LeaseRecord) -> LeaseView:
    assert stores.system is not None
    left_s = record.until - stores.clock.now()
    state = "released" if record.until == 0 else "held" if left_s > 0 else "not renewed"
    return LeaseView(
        stores.system.name,
        lease.name,
        record.name,
        state,
        record.holder,
        record.token,
        record.lease_s or lease.lease_s,
        _parse_taken_at(record.holder),
        None if record.until == 0 else datetime.fromtimestamp(record.until, UTC),
        max(0.0, left_s),
    )


def _parse_taken_at(holder: str) -> datetime | None:
    """Return the time in the holder's ULID; None for another form of name."""
    with suppress(InvalidRequest, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(get_ulid_time(parse_ulid(holder)), UTC)
    return None
