"""Lease: one process at a time holds a name, for a limited time, with a fencing token that only grows.

    leases = Lease(LeaseItem, prefix="LE", rate=Rate("sweep"), lease_s=30)

    async with leases.hold(stores, "sweeper") as lease:  # renewed while the block runs, cancelled when lost
        await stores.transact(lease.check(), …)          # committed only while this holder has the lease

Time only decides when another process may take over. The right itself is the record: a transaction that
checks its holder, or an external service that remembers the highest token, refuses a holder that slept past
its loss. Records have no lifetime, because the token would then start again at 1.

The record says how long its lease lasts. A lease that ends later than that by the reader's clock was written
by a clock that is ahead: it is free once the reader has seen it unchanged for as long (`core/deadlines.py`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from holdfast.core.errors import (
    ConditionFailed,
    DeclarationError,
    HoldfastError,
    InProgress,
    LeaseLost,
    OutcomeUnknown,
    RetryLater,
    TransactionConflict,
    error_label,
)
from holdfast.core.rng import RNG
from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.pattern_sets import Guarantee, Patterns, PatternSet, build_pattern
from holdfast.model.entities import (
    Attr,
    Condition,
    ConditionCheck,
    Entity,
    Get,
    Key,
    Put,
    attr,
    get_declaration,
)
from holdfast.model.patterns import Pattern, Rate
from holdfast.model.tables import Table, keep_names
from holdfast.model.ulids import UlidGenerator
from holdfast.operations.values import Value
from holdfast.runtime import Stores

LEASE_S: Final = 30.0
MAX_ATTEMPTS: Final = 20
MAX_PAUSE_S: Final = 0.05
# Renewals per lease time, so that one lost response does not lose the lease.
RENEWALS_PER_LEASE: Final = 3

LEASES: Final = Table(
    "Leases", "name", naming=keep_names, purpose="Holder, end and fencing token of each lease"
)
"""The table of leases. Add it to the tables of a system that uses `Lease`."""


class LeaseRecord(Entity):
    """The holder of a named lease.

    Derive from it with a table and a key that contains `name`, to store leases with other items. The next
    holder gets the further attributes of the record, which `renew` saves. `until` is epoch seconds with
    milliseconds; 0 after a release. `lease_s` is how long the lease lasts from each renewal.
    """

    name: Attr[str] = attr()
    holder: Attr[str] = attr()
    token: Attr[int] = attr()
    until: Attr[float] = attr()
    # Absent in records of version 0.2 and before.
    lease_s: Attr[float | None] = attr(default=None)


class LeaseItem(LeaseRecord, table=LEASES):
    """A lease in the table `LEASES`."""

    name: Attr[str] = attr()

    of = Key(name)


L = TypeVar("L", bound=LeaseRecord)


@dataclass(frozen=True)
class LeasePatterns(PatternSet, Generic[L]):
    """The patterns of a `Lease`."""

    read: Pattern[[str], Get[L]]
    take: Pattern[[L, L | None], Put[L]]
    keep: Pattern[[L], Put[L]]
    check: Pattern[[L], ConditionCheck[L]]


class Lease(Guarantee, Generic[L]):
    """Leases by name, stored as `LeaseItem` in the table `LEASES`, or as a record in the system's own table.

    A holder that does not renew for `lease_s` seconds loses its lease. `example` is the name of a lease.
    """

    def __init__(
        self, entity: type[L], *, prefix: str, rate: Rate, lease_s: float = LEASE_S, example: str = "sweeper"
    ) -> None:
        if lease_s <= 0:
            raise DeclarationError(f"Invalid lease_s={lease_s:g}: expected seconds above 0.")
        self.name, self.entity, self.lease_s = entity.__name__, entity, lease_s
        declare_retention(entity, None, "one record per lease name, kept indefinitely: its token only grows")
        self.pattern_set: LeasePatterns[L] = _build_patterns(entity, prefix, rate, example)
        self.adopt_patterns()

    @property
    def holder(self) -> Patterns:
        """The role that takes, renews, checks and releases leases: all patterns."""
        return self.patterns

    @property
    def observer(self) -> Patterns:
        """The role that reads who holds a lease."""
        return (self.pattern_set.read,)

    async def take(self, stores: Stores, name: str, *, lease_s: float | None = None) -> HeldLease[L]:
        """Take the lease if it is free or its holder did not renew in time; otherwise raise `InProgress`.

        Nothing renews it. `lease_s` overrides the declared one.
        """
        lease_s = self.lease_s if lease_s is None else lease_s
        for _ in range(MAX_ATTEMPTS):
            seen = await stores.run(self.pattern_set.read(name))
            now = stores.clock.now()
            if seen is not None and (left_s := self._compute_left_s(stores, seen, lease_s)) > 0:
                raise InProgress(
                    f"The lease {name} is held for at least another {left_s:.1f} s. Retry then.",
                    retry_after_s=left_s,
                )
            changes: dict[str, Any] = {
                "holder": UlidGenerator(stores.clock).new(),
                "token": 1 if seen is None else seen.token + 1,
                "until": _truncate_to_millisecond(now + lease_s),
                "lease_s": lease_s,
            }
            record = self.entity(name=name, **changes) if seen is None else seen.model_copy(update=changes)
            if await _try_put(stores, self.pattern_set.take(record, seen)):
                return HeldLease(self, stores, record, lease_s)
        raise _build_busy_error(name)

    def _compute_left_s(self, stores: Stores, seen: L, lease_s: float) -> float:
        """Return the seconds until the lease is free; `lease_s` is for a record without its own."""
        max_s = lease_s if seen.lease_s is None else seen.lease_s
        key, version = (self.name, seen.name), (seen.holder, seen.until)
        return stores.deadlines.compute_left_s(key, version, seen.until, max_s)

    @asynccontextmanager
    async def hold(self, stores: Stores, name: str) -> AsyncIterator[HeldLease[L]]:
        """Hold the lease while the block runs: renew it, release it at the end, and cancel the block if it is
        lost.

        Raises `InProgress` if another process holds it, and `LeaseLost` if it was lost.
        """
        lease = await self.take(stores, name)
        try:
            async with keep_renewed(lease.renew, self.lease_s):
                yield lease
        finally:
            with suppress(HoldfastError):
                await lease.release()


@dataclass
class HeldLease(Generic[L]):
    """A lease held by this process, for `lease_s` seconds from each renewal. `record` is as last written."""

    lease: Lease[L]
    stores: Stores
    record: L
    lease_s: float

    @property
    def token(self) -> int:
        """The fencing token, greater than that of every earlier holder."""
        return self.record.token

    async def renew(self, **changes: Any) -> None:
        """Extend the lease by `lease_s` seconds from now; raise `LeaseLost` if another process has taken
        it.

        `changes` are further attributes of the record, saved with the renewal.
        """
        await self._put(self.stores.clock.now() + self.lease_s, **changes)

    async def release(self) -> None:
        """Release the lease: another process may take it at once.

        Raises `LeaseLost` if it was taken already.
        """
        await self._put(0)

    def check(self) -> ConditionCheck[L]:
        """Return a condition check for a transaction: its writes are made only while this holder has the
        lease.
        """
        return self.lease.pattern_set.check(self.record)

    def build_lost_error(self) -> LeaseLost:
        """Return the error for a lease that another process has taken."""
        return LeaseLost(
            f"The lease {self.record.name} with token {self.token} was lost: another process has taken it. "
            "Stop, and write nothing more under it."
        )

    async def _put(self, until: float, **changes: Any) -> None:
        """Write the end of the lease, in epoch seconds, and the changes; raise `LeaseLost` if another process
        has taken it.
        """
        record = self.record.model_copy(update={**changes, "until": _truncate_to_millisecond(until)})
        if not await _try_put(self.stores, self.lease.pattern_set.keep(record)):
            raise self.build_lost_error()
        self.record = record


@asynccontextmanager
async def keep_renewed(renew: Callable[[], Awaitable[None]], lease_s: float) -> AsyncIterator[None]:
    """Call `renew` repeatedly while the block runs.

    If the lease is lost, cancel the block and raise `LeaseLost`. The lease is lost if another process takes
    over, if no renewal succeeds for as long as the lease lasts, or if one fails permanently.
    """
    work = asyncio.current_task()
    assert work is not None
    cancelled_before = work.cancelling()
    lost: list[LeaseLost] = []

    async def renew_in_background() -> None:
        try:
            await _renew_until_lost(renew, lease_s, ends)
        except LeaseLost as error:
            lost.append(error)
            work.cancel()

    def start() -> None:
        renewals.append(asyncio.create_task(renew_in_background()))

    # Most work ends long before the first renewal is due, so the task starts only then.
    renewals: list[asyncio.Task[None]] = []
    ends = asyncio.get_running_loop().time() + lease_s
    first = asyncio.get_running_loop().call_later(lease_s / RENEWALS_PER_LEASE, start)
    try:
        yield
    except asyncio.CancelledError:
        # Translate only our own cancellation: one by the caller must propagate.
        if lost and work.uncancel() <= cancelled_before:
            raise lost[0] from None
        raise
    finally:
        first.cancel()
        for renewal in renewals:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)


async def _renew_until_lost(renew: Callable[[], Awaitable[None]], lease_s: float, ends: float) -> None:
    """Renew three times per lease until it is lost, then raise `LeaseLost`.

    `ends` is the event loop time at which the lease ends unless it is renewed.
    """
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        try:
            async with asyncio.timeout_at(ends):
                await renew()
            ends = begun + lease_s
        except LeaseLost:
            raise
        except RetryLater as error:
            if loop.time() >= ends:
                raise _build_not_renewed(error.message) from error
        except TimeoutError as error:
            raise _build_not_renewed("no response") from error
        except Exception as error:
            # Renewal has stopped, whatever the error: the work must not continue.
            raise _build_not_renewed(error_label(error)) from error
        await asyncio.sleep(lease_s / RENEWALS_PER_LEASE)


def _build_not_renewed(why: str) -> LeaseLost:
    """Return the error for a lease that could not be renewed; `why` is the reason."""
    return LeaseLost(
        f"The lease could not be renewed in time ({why}): another process may have taken it. Stop, and write "
        "nothing more under it."
    )


def _build_patterns(entity: type[L], prefix: str, rate: Rate, example: str) -> LeasePatterns[L]:
    """Build the four patterns, `{prefix}1` to `{prefix}4`: read, take, keep (renew or release) and check a
    lease.
    """
    held = entity(name=example, holder="01KGK5CD00EXAMPLE000000000", token=1, until=1770166800.0)

    declaration = get_declaration(entity)

    def address(record: L) -> tuple[tuple[str, Value], ...]:
        return tuple(declaration.extract_key(declaration.to_item(record)).items())

    def read_lease(name: str) -> Get[L]:
        return Get[L](declaration, address(held.model_copy(update={"name": name}))).consistent()

    def take_lease(record: L, seen: L | None) -> Put[L]:
        if seen is None:
            return entity.create(record)
        # Conditional on the state that was read: a holder that has renewed since keeps the lease.
        return entity.put(record).when(is_held_by(seen), entity.until == seen.until)

    def keep_lease(record: L) -> Put[L]:
        return entity.put(record).when(is_held_by(record))

    def check_lease(record: L) -> ConditionCheck[L]:
        return ConditionCheck[L](declaration, address(record)).when(is_held_by(record))

    def is_held_by(record: L) -> Condition[L]:
        # Each take writes a new holder, so the token need not be compared.
        condition: Condition[L] = entity.holder == record.holder
        return condition

    def build(number: int, function: Any, purpose: str, *example: Any, **types: Any) -> Any:
        id, name = f"{prefix}{number}", function.__name__
        return build_pattern(function, id, name, purpose, rate=rate, example=example, argument_types=types)

    return LeasePatterns(
        build(1, read_lease, "Read the holder of a lease", example),
        build(2, take_lease, "Take a free lease", held, None, record=entity, seen=entity | None),
        build(3, keep_lease, "Renew or release a lease", held, record=entity),
        build(
            4,
            check_lease,
            "Check that a holder still has a lease, in a transaction with other writes",
            held,
            record=entity,
        ),
    )


async def _try_put(stores: Stores, put: Put[L]) -> bool:
    """Return True if the put was made, False if its condition failed; raise `RetryLater` if the store is too
    busy.

    It is sent again after a lost response: if the stored item is the put itself, it was made.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            await stores.run(put)
            return True
        except ConditionFailed as refused:
            return dict(refused.item or {}) == put.build_item()
        except (TransactionConflict, OutcomeUnknown):
            await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S))
    raise _build_busy_error(put.entity.name)


def _build_busy_error(name: str) -> RetryLater:
    return RetryLater(f"The store is too busy for the lease {name} or does not respond. Retry in a moment.")


def _truncate_to_millisecond(seconds: float) -> float:
    return math.floor(seconds * 1000) / 1000
