"""Circuit breaker: stops calls to a failing external service in all processes until a probe succeeds.

    breaker = Breaker("CB", rate=Rate("call"), counted_errors=(ExternalServiceFailed,), failures=5)
    order = await breaker.call(stores, "shop", lambda: shop.order(order_id))

The state is one item per service, and every change of it is a conditional write on the state that was read:

    closed ── `failures` within `window_s` ──> open ── after `recovery_s`, one caller probes ──> half open
       ^                                        ^                                                 │     │
       └──────── the probe succeeds ────────────┼─────────────────────────────────────────────────┘     │
                                                └──────── the probe fails ──────────────────────────────┘

Half open is an open circuit with a probe under a lease: if the probe dies, the next caller takes its place.
The record of a closed circuit has a lifetime; an open circuit has none, so that expiry never closes it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
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
from holdfast.guarantees.pattern_sets import build_pattern, utc_now
from holdfast.model import (
    Attr,
    Entity,
    EpochSeconds,
    Get,
    Key,
    Pattern,
    Put,
    Rate,
    Table,
    UlidGenerator,
    attr,
    keep_names,
)
from holdfast.runtime import Stores

R = TypeVar("R")
log = logging.getLogger(__name__)

BREAKERS: Final = Table(
    "Breakers",
    "breaker",
    ttl="expires_at",
    naming=keep_names,
    purpose="Failures of external services, and the caller that may probe their recovery",
)
"""The table of circuit breakers. Add it to the tables of a system that uses `Breaker`."""
MAX_ATTEMPTS: Final = 100
# Time that the record of a closed circuit is kept after its last failure.
CLOSED_LIFETIME: Final = timedelta(days=1)


class Circuit(Entity, table=BREAKERS):
    """The circuit of one external service. It is open if `retry_at` is set."""

    breaker: Attr[str] = attr()
    version: Attr[int] = attr(default=0)
    # The last failures while closed, oldest first: one less than open it at most.
    failed_at: Attr[list[datetime]] = attr(default_factory=list)
    # Open: when one caller may probe.
    retry_at: Attr[datetime | None] = attr(default=None)
    # Half open: the caller that probes, and until when no other may.
    probe: Attr[str | None] = attr(default=None)
    probe_until: Attr[datetime | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr(default=None)

    of = Key(breaker)

    def refused_until(self, now: datetime) -> datetime | None:
        """Return until when calls are refused, or None if the caller may call or probe."""
        if self.retry_at is None:
            return None
        held = self.retry_at if self.probe_until is None else max(self.retry_at, self.probe_until)
        return held if held > now else None

    def with_probe(self, by: str, now: datetime, lease_s: float) -> Circuit:
        """Return the circuit with the caller `by` as its probe for `lease_s` seconds."""
        return self._with(probe=by, probe_until=now + timedelta(seconds=lease_s))

    def with_failure(self, now: datetime, failures: int, window_s: float, recovery_s: float) -> Circuit:
        """Return the circuit after a failure while closed: open if `failures` happened within `window_s`
        seconds.
        """
        since = now - timedelta(seconds=window_s)
        recent = [*(each for each in self.failed_at if each > since), now]
        if len(recent) >= failures:
            return self.to_open(now, recovery_s)
        return self._with(failed_at=recent, expires_at=now + timedelta(seconds=window_s) + CLOSED_LIFETIME)

    def to_open(self, now: datetime, recovery_s: float) -> Circuit:
        """Return the circuit open, without a probe, until `recovery_s` seconds from now."""
        retry_at = now + timedelta(seconds=recovery_s)
        return self._with(failed_at=[], retry_at=retry_at, probe=None, probe_until=None, expires_at=None)

    def to_closed(self, now: datetime) -> Circuit:
        """Return the circuit closed, without failures."""
        return self._with(
            failed_at=[], retry_at=None, probe=None, probe_until=None, expires_at=now + CLOSED_LIFETIME
        )

    def without_probe(self) -> Circuit:
        """Return the circuit without its probe, which ended without an outcome: the next caller may probe."""
        return self._with(probe=None, probe_until=None)

    def _with(self, **changes: Any) -> Circuit:
        """Return a copy with these attributes."""
        return self.model_copy(update=changes)


declare_retention(
    Circuit, None, "a day after its last failure while closed; while open, until its service responds"
)

# Returns the changed circuit, or None for no change.
Change = Callable[[Circuit], Circuit | None]


class Breaker:
    """Circuits of external services, one per name.

    `failures` within `window_s` open a circuit for `recovery_s`. Then one caller at a time may probe, for
    `probe_s` at most: choose it longer than a call takes. `counted_errors` are the errors that count as
    failures of the service; any other error shows that it responds. A circuit that was read as closed counts
    as closed for `closed_cache_s`, which saves a read per call; failures are always counted in the table.
    """

    def __init__(
        self,
        prefix: str,
        *,
        rate: Rate,
        counted_errors: tuple[type[Exception], ...] = (Exception,),
        failures: int = 5,
        window_s: float = 60.0,
        recovery_s: float = 30.0,
        probe_s: float = 30.0,
        closed_cache_s: float = 1.0,
    ) -> None:
        self.counted_errors, self.failures, self.window_s = counted_errors, failures, window_s
        self.recovery_s, self.probe_s, self.closed_cache_s = recovery_s, probe_s, closed_cache_s
        self.state = _build_state_pattern(f"{prefix}1", rate)
        self.change = _build_change_pattern(f"{prefix}2", rate)
        # The time at which a circuit was last read as closed, per engine.
        self._closed_at: WeakKeyDictionary[Any, dict[tuple[str, str], float]] = WeakKeyDictionary()

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that read, to grant to a component."""
        return (self.state,)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that write, to grant to a component."""
        return (self.change,)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        """All patterns, for the system's declaration."""
        return (*self.reads, *self.writes)

    async def call(self, stores: Stores, name: str, function: Callable[[], Awaitable[R]]) -> R:
        """Call the function under `guard` and return its result. `name` is the external service."""
        async with self.guard(stores, name):
            return await function()

    @asynccontextmanager
    async def guard(self, stores: Stores, name: str) -> AsyncIterator[None]:
        """Run the block if the circuit allows it, and record how it ends; otherwise raise `CircuitOpen`.

        A counted error is a failure; any other error, and success, closes the circuit after a probe. `name`
        is the external service.
        """
        probe = await self._admit(stores, name)
        try:
            yield
        except self.counted_errors:
            await self._record_failure(stores, name, probe)
            raise
        except Exception:
            await self._record_success(stores, name, probe)
            raise
        except BaseException:
            await self._release_probe(stores, name, probe)
            raise
        else:
            await self._record_success(stores, name, probe)

    # --- before a call --------------------------------------------------------------------------------------

    async def _admit(self, stores: Stores, name: str) -> str | None:
        """Return None on a closed circuit, or the token of the probe that the caller becomes; raise
        `CircuitOpen` otherwise.
        """
        if self._is_known_closed(stores, name):
            return None
        seen = await self._read(stores, name)
        if seen.retry_at is None:
            self._remember_state(stores, name, seen)
            return None
        token = UlidGenerator(stores.clock).new()
        after = await self._apply_change(
            stores, seen, lambda circuit: self._become_probe(circuit, token, stores)
        )
        return token if after.probe == token else None

    def _become_probe(self, circuit: Circuit, token: str, stores: Stores) -> Circuit | None:
        """Return the circuit with this caller as its probe, or None if another caller has closed it.

        Raise `CircuitOpen` while no probe is allowed, or another caller probes.
        """
        now = utc_now(stores.clock)
        if (until := circuit.refused_until(now)) is not None:
            wait_s = (until - now).total_seconds()
            why = "is being probed by another caller" if circuit.probe else "failed too often"
            raise CircuitOpen(
                f"{circuit.breaker} {why} and is not called now. Retry in {wait_s:.1f} s.",
                retry_after_s=wait_s,
            )
        return None if circuit.retry_at is None else circuit.with_probe(token, now, self.probe_s)

    # --- after it -------------------------------------------------------------------------------------------

    async def _record_failure(self, stores: Stores, name: str, probe: str | None) -> None:
        """Count a failure on a closed circuit, or open it again after a failed probe.

        `probe` is this caller's token.
        """

        def change(circuit: Circuit) -> Circuit | None:
            now = utc_now(stores.clock)
            if probe is not None:
                return circuit.to_open(now, self.recovery_s) if circuit.probe == probe else None
            if circuit.retry_at is not None:
                return None  # the call started before the circuit opened
            return circuit.with_failure(now, self.failures, self.window_s, self.recovery_s)

        await self._record_end(stores, name, change, has_outcome=False)

    async def _record_success(self, stores: Stores, name: str, probe: str | None) -> None:
        """Close the circuit after a successful probe; without a probe do nothing."""
        if probe is None:
            return  # failures expire by age alone: a success on a closed circuit writes nothing

        def change(circuit: Circuit) -> Circuit | None:
            return circuit.to_closed(utc_now(stores.clock)) if circuit.probe == probe else None

        await self._record_end(stores, name, change)

    async def _release_probe(self, stores: Stores, name: str, probe: str | None) -> None:
        """Release the probe of a call that was cancelled: its outcome is unknown."""
        if probe is None:
            return

        def change(circuit: Circuit) -> Circuit | None:
            return circuit.without_probe() if circuit.probe == probe else None

        await self._record_end(stores, name, change)

    async def _record_end(
        self, stores: Stores, name: str, change: Change, *, has_outcome: bool = True
    ) -> None:
        """Change the circuit after a call.

        If that write fails, only log and count it: the caller needs the call's result. The place of an
        unrecorded probe is free again when its lease ends. A component without the grant gets
        `ComponentRefused` if `has_outcome` is False.
        """
        try:
            await self._apply_change(stores, await self._read(stores, name), change)
        except Exception as error:
            if isinstance(error, ComponentRefused) and not has_outcome:
                raise  # a component without the grant to count failures must fail at the first one
            stores.count("breaker_unrecorded", breaker=name)
            log.warning("Failed to record the outcome of a call to %s: %s.", name, error_label(error))

    # --- the shared state -----------------------------------------------------------------------------------

    async def _read(self, stores: Stores, name: str) -> Circuit:
        """Return the stored circuit of the service, or a new closed one."""
        return await stores.run(self.state(name)) or Circuit(breaker=name)

    async def _apply_change(self, stores: Stores, seen: Circuit, change: Change) -> Circuit:
        """Write the circuit that `change` returns, and return it; if other callers changed it meanwhile,
        decide again.

        Raise `RetryLater` after `MAX_ATTEMPTS`.
        """
        for _ in range(MAX_ATTEMPTS):
            after = change(seen)
            if after is None:
                self._remember_state(stores, seen.breaker, seen)
                return seen
            try:
                await stores.run(self.change(after, seen.version))
            except ConditionFailed as refused:
                # From the error, not from a read: a read hides an expired item, which still fails the
                # condition.
                seen = (
                    Circuit.from_item(dict(refused.item)) if refused.item else Circuit(breaker=seen.breaker)
                )
            except TransactionConflict:
                seen = await self._read(stores, seen.breaker)
            else:
                self._remember_state(stores, seen.breaker, after)
                self._report_change(stores, seen, after)
                return after
        raise RetryLater(f"Too many callers change the circuit of {seen.breaker} at once. Retry.")

    def _report_change(self, stores: Stores, before: Circuit, after: Circuit) -> None:
        """Log and count an opening or closing: only the caller that wrote it does, so once over all
        processes.
        """
        if before.retry_at is None and after.retry_at is not None:
            stores.count("breaker_opened", breaker=after.breaker)
            log.warning(
                "The circuit of %s is open after %d failures: no calls before %s.",
                after.breaker,
                self.failures,
                after.retry_at.isoformat(timespec="seconds"),
            )
        if before.retry_at is not None and after.retry_at is None:
            stores.count("breaker_closed", breaker=after.breaker)
            log.warning("The circuit of %s is closed again: it responds.", after.breaker)

    def _remember_state(self, stores: Stores, name: str, circuit: Circuit) -> None:
        """Remember that the circuit was read as closed, or forget it if it is open."""
        cached = self._closed_at.setdefault(stores.tables, {})
        if circuit.retry_at is None:
            cached[stores.environment, name] = stores.clock.now()
        else:
            cached.pop((stores.environment, name), None)

    def _is_known_closed(self, stores: Stores, name: str) -> bool:
        """Return True if the circuit was read as closed within the last `closed_cache_s` seconds."""
        seen_at = self._closed_at.get(stores.tables, {}).get((stores.environment, name))
        return seen_at is not None and 0 <= stores.clock.now() - seen_at < self.closed_cache_s


def _build_state_pattern(id: str, rate: Rate) -> Pattern[[str], Get[Circuit]]:
    """Build the consistent read of a circuit."""

    def circuit_state(breaker: str) -> Get[Circuit]:
        return Circuit.of(breaker).get().consistent()

    purpose = "Read the circuit of an external service"
    return build_pattern(circuit_state, id, "circuit_state", purpose, rate=rate, example=("shop",))


def _build_change_pattern(id: str, rate: Rate) -> Pattern[[Circuit, int], Put[Circuit]]:
    """Build the write of a circuit, on condition that its version is as read (0: none exists)."""

    def change_circuit(circuit: Circuit, seen: int) -> Put[Circuit]:
        if seen == 0:
            return Circuit.create(circuit.model_copy(update={"version": 1}))
        return Circuit.put(circuit).at_version(Circuit.version, seen)

    purpose = "Count a failure of an external service, or open, probe or close its circuit"
    example = (Circuit(breaker="shop"), 0)
    return build_pattern(change_circuit, id, "change_circuit", purpose, rate=rate, example=example)
