"""A lease: one holder at a time, known by a fencing token that only grows.

    leases = Lease("LE", rate=Rate("sweep"), lease_s=30)

    async with leases.held(stores, "sweeper") as lease:      # renewed while the block runs, cancelled when lost
        await stores.transact(lease.check(), …)              # written only while the lease is this holder's

Time decides only when another may take over. The right itself is the token: whoever checks it, in a transaction or at an
outside party that remembers the highest it has seen, refuses a holder that slept through its loss. Records have no
lifetime, because with one the token would begin anew.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import (
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
from holdfast.guarantees.lifetimes import kept
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import (
    Attr,
    Check,
    Entity,
    Get,
    Key,
    Pattern,
    Put,
    Rate,
    Table,
    Ulids,
    as_written,
    attr,
    declaration_of,
)
from holdfast.operations.values import Value
from holdfast.runtime import Stores

LEASE_S: Final = 30.0
TRIES_MAX: Final = 20
PAUSE_S_MAX: Final = 0.05
# A lease is renewed so often in its time, so that one lost answer is no loss.
RENEWALS: Final = 3

LEASES: Final = Table(
    "Leases", "name", names=as_written, purpose="Who holds what, until when, and by which fencing token"
)


class LeaseRecord(Entity):
    """Who holds a name. Derive from it with a table and a key that has `name` in it, to keep leases among other items.

    `until` is epoch seconds with thousandths; 0 after it was given back.
    """

    name: Attr[str] = attr()
    holder: Attr[str] = attr()
    token: Attr[int] = attr()
    until: Attr[float] = attr()


class LeaseItem(LeaseRecord, table=LEASES):
    """In the table of leases."""

    name: Attr[str] = attr()

    of = Key(name)


@dataclass(frozen=True)
class LeasePatterns:
    """List them in the system and its components: `*leases.patterns`, or `.reads` and `.writes` apart."""

    read: Pattern[[str], Get[LeaseRecord]]
    take: Pattern[[LeaseRecord, LeaseRecord | None], Put[LeaseRecord]]
    keep: Pattern[[LeaseRecord], Put[LeaseRecord]]
    check: Pattern[[LeaseRecord], Check[LeaseRecord]]

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self.read, self.check)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.take, self.keep)

    def __iter__(self) -> Iterator[Pattern[..., Any]]:
        return iter((self.read, self.take, self.keep, self.check))


class Lease:
    """Leases by name, in the table `LEASES`, which the system names among its own; or as `record`, in one of its own."""

    def __init__(
        self,
        prefix: str,
        *,
        rate: Rate,
        lease_s: float = LEASE_S,
        example: str = "sweeper",
        record: type[LeaseRecord] = LeaseItem,
    ) -> None:
        if lease_s <= 0:
            raise DeclarationError(f"A lease of {lease_s:g} s is over before it begins: declare one above 0.")
        self.lease_s, self.entity = lease_s, record
        kept(record, None, "one record for each name of a lease, without an end: its token only grows")
        self.patterns = _patterns(prefix, rate, example, record)

    async def take(self, stores: Stores, name: str) -> HeldLease:
        """The lease, if nobody holds it or its holder gave no sign of life in time; else `InProgress`."""
        for _ in range(TRIES_MAX):
            seen = await stores.run(self.patterns.read(name))
            now = stores.clock.now()
            if seen is not None and seen.until > now:
                raise InProgress(
                    f"The lease {name} is held for another {seen.until - now:.1f} s at least: come again then.",
                    retry_after_s=seen.until - now,
                )
            record = self.entity(
                name=name,
                holder=Ulids(stores.clock).new(),
                token=1 if seen is None else seen.token + 1,
                until=_moment(now + self.lease_s),
            )
            if await _is_stored(stores, self.patterns.take(record, seen)):
                return HeldLease(self, stores, record)
        raise _busy(name)

    @asynccontextmanager
    async def held(self, stores: Stores, name: str) -> AsyncIterator[HeldLease]:
        """Held while the block runs: renewed, given back at the end, and the block cancelled when it is lost."""
        lease = await self.take(stores, name)
        try:
            async with renewing(lease.renew, self.lease_s):
                yield lease
        finally:
            with suppress(HoldfastError):
                await lease.release()


@dataclass
class HeldLease:
    """A lease in the hands of one holder. `token` is greater than that of every holder before."""

    lease: Lease
    stores: Stores
    record: LeaseRecord

    @property
    def token(self) -> int:
        return self.record.token

    async def renew(self) -> None:
        await self._put(self.stores.clock.now() + self.lease.lease_s)

    async def release(self) -> None:
        """Another may take it at once."""
        await self._put(0)

    def check(self) -> Check[LeaseRecord]:
        """For a transaction: its writes happen only while the lease is this holder's."""
        return self.lease.patterns.check(self.record)

    async def _put(self, until: float) -> None:
        record = self.record.model_copy(update={"until": _moment(until)})
        if not await _is_stored(self.stores, self.lease.patterns.keep(record)):
            raise LeaseLost(
                f"The lease {record.name} with the token {record.token} was lost: another has taken it. Stop, and write "
                "nothing more under it."
            )
        self.record = record


@asynccontextmanager
async def renewing(renew: Callable[[], Awaitable[None]], lease_s: float) -> AsyncIterator[None]:
    """Calls `renew` again and again while the block runs. When the lease is lost the block is cancelled, and LeaseLost
    raised: by somebody else's taking over, because no renewal came through for as long as the lease lasts, or because
    one failed in a way that will not pass."""
    work = asyncio.current_task()
    assert work is not None
    cancelled_before = work.cancelling()
    lost: list[LeaseLost] = []

    async def go_on() -> None:
        try:
            await _renewed_until_lost(renew, lease_s, ends)
        except LeaseLost as error:
            lost.append(error)
            work.cancel()

    def begin() -> None:
        renewals.append(asyncio.create_task(go_on()))

    # Most work is done long before the lease needs a sign of life: only then somebody begins to give it.
    renewals: list[asyncio.Task[None]] = []
    ends = asyncio.get_running_loop().time() + lease_s
    first = asyncio.get_running_loop().call_later(lease_s / RENEWALS, begin)
    try:
        yield
    except asyncio.CancelledError:
        # Cancelled by us alone: somebody else's wish to end the work is not swallowed.
        if lost and work.uncancel() <= cancelled_before:
            raise lost[0] from None
        raise
    finally:
        first.cancel()
        for renewal in renewals:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)


async def _renewed_until_lost(renew: Callable[[], Awaitable[None]], lease_s: float, ends: float) -> None:
    """`ends` is when the lease does, unless it is renewed."""
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
                raise _not_renewed(error.message) from error
        except TimeoutError as error:
            raise _not_renewed("no answer came") from error
        except Exception as error:
            # Whatever it was, nobody renews any more: the work must not go on as if somebody did.
            raise _not_renewed(error_label(error)) from error
        await asyncio.sleep(lease_s / RENEWALS)


def _not_renewed(why: str) -> LeaseLost:
    return LeaseLost(
        f"The lease could not be renewed in its time ({why}): it may be another's now. Stop, and write nothing more "
        "under it."
    )


def _patterns(prefix: str, rate: Rate, example: str, entity: type[LeaseRecord]) -> LeasePatterns:
    held = entity(name=example, holder="01KGK5CD00EXAMPLE000000000", token=1, until=1770166800.0)

    declaration = declaration_of(entity)

    def address(record: LeaseRecord) -> tuple[tuple[str, Value], ...]:
        return tuple(declaration.key_of(declaration.to_item(record)).items())

    def read_lease(name: str) -> Get[LeaseRecord]:
        return Get[LeaseRecord](declaration, address(held.model_copy(update={"name": name}))).consistent()

    def take_lease(record: LeaseRecord, seen: LeaseRecord | None) -> Put[LeaseRecord]:
        if seen is None:
            return entity.create(record)
        # Of the very state that was seen: a holder that has renewed meanwhile keeps it.
        return entity.put(record).when(_is_of(entity, seen), entity.until == seen.until)

    def keep_lease(record: LeaseRecord) -> Put[LeaseRecord]:
        return entity.put(record).when(_is_of(entity, record))

    def check_lease(record: LeaseRecord) -> Check[LeaseRecord]:
        return Check[LeaseRecord](declaration, address(record)).when(_is_of(entity, record))

    return LeasePatterns(
        made_pattern(
            read_lease, f"{prefix}1", "read_lease", "Who holds a lease", rate=rate, example=(example,)
        ),
        made_pattern(
            take_lease,
            f"{prefix}2",
            "take_lease",
            "Take a lease that nobody holds",
            rate=rate,
            example=(held, None),
        ),
        made_pattern(
            keep_lease,
            f"{prefix}3",
            "keep_lease",
            "Renew a lease, or give it back",
            rate=rate,
            example=(held,),
        ),
        made_pattern(
            check_lease,
            f"{prefix}4",
            "check_lease",
            "That a lease is still its holder's, for other writes",
            rate=rate,
            example=(held,),
        ),
    )


def _is_of(entity: type[LeaseRecord], record: LeaseRecord) -> Any:
    return (entity.token == record.token) & (entity.holder == record.holder)


async def _is_stored(stores: Stores, put: Put[LeaseRecord]) -> bool:
    """Whether it was done. It is sent again where the answer was lost: what is found may be the put itself."""
    for _ in range(TRIES_MAX):
        try:
            await stores.run(put)
            return True
        except ConditionFailed as refused:
            return dict(refused.item or {}) == put.item()
        except (TransactionConflict, OutcomeUnknown):
            await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))
    raise _busy(put.entity.name)


def _busy(name: str) -> RetryLater:
    return RetryLater(
        f"The store is too busy for the lease {name}, or does not answer: come again in a moment."
    )


def _moment(seconds: float) -> float:
    return math.floor(seconds * 1000) / 1000
