"""Circuit breaker: stops calls to a failing external service in all processes until a probe succeeds.

    breaker = Breaker(Circuit, prefix="CB", rate=Rate("call"), counted_errors=(ExternalServiceFailed,))
    order = await breaker.call(stores, "shop", lambda: shop.order(order_id))

The state is one item per service, and every change of it is a conditional write on the state that was read:

    closed ── `failures` within `window_s` ──> open ── after `recovery_s`, one caller probes ──> half open
       ^                                        ^                                                 │     │
       └──────── the probe succeeds ────────────┼─────────────────────────────────────────────────┘     │
                                                └──────── the probe fails ──────────────────────────────┘

Half open is an open circuit with a probe under a lease: if the probe dies, the next caller takes its place.
A missing or expired item is a closed circuit, so the item of an open one must outlive its recovery.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

from holdfast.core.errors import (
    CircuitOpen,
    ComponentRefused,
    ConditionFailed,
    RetryLater,
    TransactionConflict,
    error_label,
)
from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.pattern_sets import Guarantee, PatternSet, build_pattern
from holdfast.model.entities import Attr, Entity, EpochSeconds, Get, Key, Put, Update, attr, get_declaration
from holdfast.model.patterns import Pattern, Rate
from holdfast.model.tables import Table, keep_names
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import Stores

R = TypeVar("R")
C = TypeVar("C", bound="CircuitRecord")
log = logging.getLogger(__name__)

BREAKERS: Final = Table(
    "Breakers",
    "breaker",
    ttl="expires_at",
    naming=keep_names,
    purpose="Failures of external services, and the caller that may probe their recovery",
)
"""The table of circuit breakers. Add it to the tables of a system that uses `Breaker` with `Circuit`."""
MAX_ATTEMPTS: Final = 100
# Time that the record of a closed circuit is kept after its last failure.
CLOSED_LIFETIME: Final = timedelta(days=1)
# Far away, because a store removes an expired item, also between two examples that are measured.
_EXAMPLE_TIME: Final = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class CircuitLimits:
    """The limits of a `Breaker`, for its record. `window_s` is None if consecutive failures count."""

    failures: int
    window_s: float | None
    recovery_s: float
    lease_s: float


class CircuitRecord(Entity):
    """The circuit of one external service.

    Derive from it with a table, a key and these methods, to store circuits in the form of the system's own
    design. `Circuit` is the library's. Methods that change the circuit return a copy, or the circuit itself
    if nothing changes. `probe` is the token of the caller that probes.
    """

    probe: Attr[str | None] = attr(default=None)

    @classmethod
    @abstractmethod
    def build_closed(cls, service: str, now: datetime, limits: CircuitLimits) -> Self:
        """Return the circuit of a service that has not failed."""

    @abstractmethod
    def get_refusal_end(self) -> datetime | None:
        """Return the end of the probe's lease, or else of the recovery time; None on a closed circuit."""

    @abstractmethod
    def has_expired(self, now: datetime) -> bool:
        """Return True if the store may remove the record at any time: then it counts as missing."""

    @abstractmethod
    def with_probe(self, token: str, now: datetime, limits: CircuitLimits) -> Self:
        """Return the open circuit with this probe, for the time of its lease."""

    @abstractmethod
    def without_probe(self, now: datetime, limits: CircuitLimits) -> Self:
        """Return the circuit without its probe, which ended without an outcome: the next caller may probe."""

    @abstractmethod
    def with_failure(self, now: datetime, limits: CircuitLimits) -> Self:
        """Return the circuit after a failed call on a closed circuit, or after a failed probe."""

    @abstractmethod
    def with_success(self, now: datetime, limits: CircuitLimits) -> Self:
        """Return the circuit closed, without failures."""

    @abstractmethod
    def replace(self, seen: Self | None) -> Put[Any] | Update[Any]:
        """Return the write of this circuit, on condition that the stored one is `seen` (None: missing)."""


class Circuit(CircuitRecord, table=BREAKERS):
    """The circuit of one external service, in the table `BREAKERS`. It is open if `retry_at` is set.

    An open circuit has no lifetime, so that expiry never closes it.
    """

    breaker: Attr[str] = attr()
    version: Attr[int] = attr(default=0)
    # The last failures while closed, oldest first: one less than open it at most.
    failed_at: Attr[list[datetime]] = attr(default_factory=list)
    # Open: when one caller may probe.
    retry_at: Attr[datetime | None] = attr(default=None)
    # Half open: until when no other caller may probe.
    probe_until: Attr[datetime | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr(default=None)

    of = Key(breaker)

    @classmethod
    def build_closed(cls, service: str, now: datetime, limits: CircuitLimits) -> Self:
        return cls(breaker=service, expires_at=now + CLOSED_LIFETIME)

    def get_refusal_end(self) -> datetime | None:
        return self.probe_until or self.retry_at

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at < now

    def with_probe(self, token: str, now: datetime, limits: CircuitLimits) -> Self:
        return self._with(probe=token, probe_until=now + timedelta(seconds=limits.lease_s))

    def without_probe(self, now: datetime, limits: CircuitLimits) -> Self:
        return self._with(probe=None, probe_until=None)

    def with_failure(self, now: datetime, limits: CircuitLimits) -> Self:
        window = None if limits.window_s is None else timedelta(seconds=limits.window_s)
        # A clock that is ahead counts failures in the future: they count as of now.
        recent = [*(min(each, now) for each in self.failed_at if window is None or each > now - window), now]
        if self.retry_at is not None or len(recent) >= limits.failures:
            retry_at = now + timedelta(seconds=limits.recovery_s)
            return self._with(failed_at=[], retry_at=retry_at, probe=None, probe_until=None, expires_at=None)
        return self._with(failed_at=recent, expires_at=now + (window or timedelta()) + CLOSED_LIFETIME)

    def with_success(self, now: datetime, limits: CircuitLimits) -> Self:
        if self.retry_at is None and not self.failed_at:
            return self
        expires_at = now + CLOSED_LIFETIME
        return self._with(failed_at=[], retry_at=None, probe=None, probe_until=None, expires_at=expires_at)

    def replace(self, seen: Self | None) -> Put[Any]:
        if seen is None:
            return Circuit.create(self._with(version=1))
        return Circuit.put(self).at_version(Circuit.version, seen.version)

    def _with(self, **changes: Any) -> Self:
        """Return a copy with these attributes."""
        return self.model_copy(update=changes)


declare_retention(
    Circuit, None, "a day after its last failure while closed; while open, until its service responds"
)

# Returns the changed circuit, or the same one for no change.
Change = Callable[[C, datetime], C]


@dataclass(frozen=True)
class BreakerPatterns(PatternSet, Generic[C]):
    """The patterns of a `Breaker`."""

    state: Pattern[[str], Get[C]]
    change: Pattern[[C, C | None], Put[Any] | Update[Any]]


class Breaker(Guarantee, Generic[C]):
    """Circuits of external services, one per service, stored as `entity`.

    `failures` within `window_s` open a circuit for `recovery_s`; if `window_s` is None, as many in a row do.
    Then one caller at a time may probe, for `lease_s` at most: choose it longer than a call takes.
    `counted_errors` are the errors that count as failures of the service; any other error shows that it
    responds. A circuit that was read as closed counts as closed for `closed_cache_s`, which saves a read per
    call; failures are always counted in the table.

    `prefix` begins the ids of the two patterns; a pair is their whole ids. `rate` is that of the calls.
    """

    def __init__(
        self,
        entity: type[C],
        *,
        prefix: str | tuple[str, str],
        rate: Rate,
        counted_errors: tuple[type[Exception], ...] = (Exception,),
        failures: int = 5,
        window_s: float | None = 60.0,
        recovery_s: float = 30.0,
        lease_s: float = 30.0,
        closed_cache_s: float = 1.0,
    ) -> None:
        self.name, self.entity, self.counted_errors = entity.__name__, entity, counted_errors
        self.limits = CircuitLimits(failures, window_s, recovery_s, lease_s)
        self.closed_cache_s = closed_cache_s
        read_id, change_id = (f"{prefix}1", f"{prefix}2") if isinstance(prefix, str) else prefix
        self.pattern_set: BreakerPatterns[C] = BreakerPatterns(
            _build_state_pattern(read_id, rate, entity, self.limits),
            _build_change_pattern(change_id, rate, entity, self.limits),
        )
        self.adopt_patterns()
        # The time at which a circuit was last read as closed, per engine.
        self._closed_at: WeakKeyDictionary[Any, dict[tuple[str, str], float]] = WeakKeyDictionary()

    async def call(self, stores: Stores, service: str, function: Callable[[], Awaitable[R]]) -> R:
        """Call the function under `guard` and return its result."""
        async with self.guard(stores, service):
            return await function()

    @asynccontextmanager
    async def guard(self, stores: Stores, service: str) -> AsyncIterator[None]:
        """Run the block if the circuit allows it, and record how it ends; otherwise raise `CircuitOpen`.

        A counted error is a failure; any other error counts as a success.
        """
        probe = await self._admit(stores, service)
        try:
            yield
        except self.counted_errors:
            await self._record_failure(stores, service, probe)
            raise
        except Exception:
            await self._record_success(stores, service, probe)
            raise
        except BaseException:
            await self._release_probe(stores, service, probe)
            raise
        else:
            await self._record_success(stores, service, probe)

    async def get_circuit(self, stores: Stores, service: str) -> C:
        """Return the stored circuit of the service, or a closed one if there is none."""
        return await stores.run(self.pattern_set.state(service)) or self.entity.build_closed(
            service, stores.now(), self.limits
        )

    # --- before a call --------------------------------------------------------------------------------------

    async def _admit(self, stores: Stores, service: str) -> str | None:
        """Return None on a closed circuit, or the token of the probe that the caller becomes; raise
        `CircuitOpen` otherwise.
        """
        if self._is_known_closed(stores, service):
            return None
        seen = await stores.run(self.pattern_set.state(service))
        if seen is None or seen.get_refusal_end() is None:
            self._remember_state(stores, service, is_closed=True)
            return None
        token = UlidGenerator(stores.clock).new()

        def become_probe(circuit: C, now: datetime) -> C:
            if circuit.get_refusal_end() is None:
                return circuit  # another caller has closed it
            self._refuse_early(stores, service, circuit)
            return circuit.with_probe(token, now, self.limits)

        after = await self._apply_change(stores, service, seen, become_probe)
        return token if after.probe == token else None

    def _refuse_early(self, stores: Stores, service: str, circuit: C) -> None:
        """Raise `CircuitOpen` while no probe is allowed, or another caller probes.

        Longer than the recovery time, or the lease of a probe, only a clock that is ahead refuses.
        """
        until = circuit.get_refusal_end()
        if until is None:
            return
        max_s = self.limits.lease_s if circuit.probe else self.limits.recovery_s
        key, version = (self.name, service), (circuit.probe, until)
        wait_s = stores.deadlines.compute_left_s(key, version, until.timestamp(), max_s)
        if wait_s > 0:
            why = "is being probed by another caller" if circuit.probe else "failed too often"
            raise CircuitOpen(
                f"{service} {why} and is not called now. Retry in {wait_s:.1f} s.", retry_after_s=wait_s
            )

    # --- after it -------------------------------------------------------------------------------------------

    async def _record_failure(self, stores: Stores, service: str, probe: str | None) -> None:
        """Count a failure on a closed circuit, or open it again after a failed probe.

        `probe` is this caller's token.
        """
        await self._record_end(
            stores,
            service,
            probe,
            lambda circuit, now: circuit.with_failure(now, self.limits),
            has_outcome=False,
        )

    async def _record_success(self, stores: Stores, service: str, probe: str | None) -> None:
        """Close the circuit after a successful probe; if consecutive failures count, clear them."""
        if probe is None and self.limits.window_s is not None:
            return  # failures expire by age alone: a success on a closed circuit writes nothing
        await self._record_end(
            stores, service, probe, lambda circuit, now: circuit.with_success(now, self.limits)
        )

    async def _release_probe(self, stores: Stores, service: str, probe: str | None) -> None:
        """Release the probe of a call that was cancelled: its outcome is unknown."""
        if probe is not None:
            await self._record_end(
                stores, service, probe, lambda circuit, now: circuit.without_probe(now, self.limits)
            )

    async def _record_end(
        self, stores: Stores, service: str, probe: str | None, change: Change[C], *, has_outcome: bool = True
    ) -> None:
        """Change the circuit after a call, unless it was opened or the probe was replaced meanwhile.

        If that write fails, only log and count it: the caller needs the call's result. The place of an
        unrecorded probe is free again when its lease ends. A component without the grant gets
        `ComponentRefused` if `has_outcome` is False.
        """

        def change_own(circuit: C, now: datetime) -> C:
            is_own = circuit.probe == probe and (probe is not None or circuit.get_refusal_end() is None)
            return change(circuit, now) if is_own else circuit

        try:
            await self._apply_change(
                stores, service, await stores.run(self.pattern_set.state(service)), change_own
            )
        except Exception as error:
            if isinstance(error, ComponentRefused) and not has_outcome:
                raise  # a component without the grant to count failures must fail at the first one
            stores.count("breaker_unrecorded", breaker=service)
            log.warning("Failed to record the outcome of a call to %s: %s.", service, error_label(error))

    # --- the shared state -----------------------------------------------------------------------------------

    async def _apply_change(self, stores: Stores, service: str, seen: C | None, change: Change[C]) -> C:
        """Write the circuit that `change` returns, and return it; if other callers changed it meanwhile,
        decide again.

        Raise `RetryLater` after `MAX_ATTEMPTS`.
        """
        for _ in range(MAX_ATTEMPTS):
            now = stores.now()
            if seen is None or seen.has_expired(now):
                before = self.entity.build_closed(service, now, self.limits)
            else:
                before = seen
            after = change(before, now)
            try:
                if after != before:
                    await stores.run(self.pattern_set.change(after, seen))
            except ConditionFailed as refused:
                # From the error, not from a read: a read hides an expired item, which still fails the
                # condition.
                seen = self.entity.from_item(dict(refused.item)) if refused.item else None
            except TransactionConflict:
                seen = await stores.run(self.pattern_set.state(service))
            else:
                self._remember_state(stores, service, is_closed=after.get_refusal_end() is None)
                self._report_change(stores, service, before, after)
                return after
        raise RetryLater(f"Too many callers change the circuit of {service} at once. Retry.")

    def _report_change(self, stores: Stores, service: str, before: C, after: C) -> None:
        """Log and count an opening or closing: only the caller that wrote it does, so once over all
        processes.
        """
        was_open, until = before.get_refusal_end() is not None, after.get_refusal_end()
        if not was_open and until is not None:
            stores.count("breaker_opened", breaker=service)
            log.warning(
                "The circuit of %s is open after %d failures: no calls before %s.",
                service,
                self.limits.failures,
                until.isoformat(timespec="seconds"),
            )
        if was_open and until is None:
            stores.count("breaker_closed", breaker=service)
            log.warning("The circuit of %s is closed again: it responds.", service)

    def _remember_state(self, stores: Stores, service: str, *, is_closed: bool) -> None:
        """Remember that the circuit was read as closed, or forget it if it is open."""
        cached = self._closed_at.setdefault(stores.tables, {})
        if is_closed:
            cached[stores.environment, service] = stores.clock.now()
        else:
            cached.pop((stores.environment, service), None)

    def _is_known_closed(self, stores: Stores, service: str) -> bool:
        """Return True if the circuit was read as closed within the last `closed_cache_s` seconds."""
        seen_at = self._closed_at.get(stores.tables, {}).get((stores.environment, service))
        return seen_at is not None and 0 <= stores.clock.now() - seen_at < self.closed_cache_s


def _build_state_pattern(
    id: str, rate: Rate, entity: type[C], limits: CircuitLimits
) -> Pattern[[str], Get[C]]:
    """Build the consistent read of a circuit."""
    declaration = get_declaration(entity)

    def circuit_state(service: str) -> Get[C]:
        item = declaration.to_item(entity.build_closed(service, _EXAMPLE_TIME, limits))
        return Get[C](declaration, tuple(declaration.extract_key(item).items())).consistent()

    purpose = "Read the circuit of an external service"
    return build_pattern(circuit_state, id, "circuit_state", purpose, rate=rate, example=("shop",))


def _build_change_pattern(
    id: str, rate: Rate, entity: type[C], limits: CircuitLimits
) -> Pattern[[C, C | None], Put[Any] | Update[Any]]:
    """Build the write of a circuit, on condition that it is as read (None: missing)."""

    def change_circuit(circuit: C, seen: C | None) -> Put[Any] | Update[Any]:
        return circuit.replace(seen)

    purpose = "Count a failure of an external service, or open, probe or close its circuit"
    example = (entity.build_closed("shop", _EXAMPLE_TIME, limits), None)
    return build_pattern(change_circuit, id, "change_circuit", purpose, rate=rate, example=example)
