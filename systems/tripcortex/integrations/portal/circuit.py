"""The portal's circuit breaker: one item that every process reads before a call and updates after it.

              ┌──── a failure: counted, with its time ────┐
              v                                           │
    closed ───┴── as many in a row as threshold ──> open ── recovery over, one takes the probe ──> half open
      ^                                               ^                                              │    │
      └──────────────── the probe succeeds ───────────┼──────────────────────────────────────────────┘    │
                                                      └──────────── the probe fails ──────────────────────┘

Every change is one conditional update, so the store decides between processes. D13 and D14 are the design
document's patterns; CB1 to CB5 add how failures below the threshold are counted, how a success clears them,
and which caller probes first. A missing item is a closed circuit. Each change extends the item's lifetime
beyond its recovery, so expiry never closes a circuit that just opened. A stored time too far in the future
comes from a clock that was set back, and is ignored.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from holdfast import Condition, Get, Pattern, Rate, Stores, UlidGenerator, Update, pattern
from holdfast.core.errors import (
    CircuitOpen,
    ComponentRefused,
    ConditionFailed,
    DeclarationError,
    ExternalServiceFailed,
    error_label,
)
from tripcortex.integrations.portal.ports import Cancellation, Offer, Order, Portal, Traveller
from tripcortex.model.entities import Circuit, CircuitState, Preferences, TripParameters

R = TypeVar("R")
log = logging.getLogger(__name__)

PORTAL_CIRCUIT: Final = "travel-portal-booking"
THRESHOLD: Final = 5
RECOVERY_S: Final = 60
# Longer than any call takes: until then no other caller probes.
PROBE_S: Final = 30
KEPT_S: Final = 86_400
# Maximum retries after another process changed the circuit.
MAX_ATTEMPTS: Final = 100

CALL: Final = Rate(per="call of the portal")
FAILURE: Final = Rate(per="call of the portal", times=0.02)
RARE: Final = Rate(per="call of the portal", times=0.001)

_NOW: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
_AT: Final = int(_NOW.timestamp())
# Far away: a store removes what has ended, also between two examples that are measured one after the other.
_END: Final = datetime(2100, 1, 1, tzinfo=UTC)
_TOKEN: Final = "01KKBW6R000000000000000002"


@dataclass(frozen=True)
class Terms:
    """The values written with each change: the threshold, the recovery time, and the item's expiry."""

    threshold: int
    recovery_s: int
    ends: datetime


_TERMS: Final = Terms(THRESHOLD, RECOVERY_S, _END)


# --- patterns ---------------------------------------------------------------------------------------------


@pattern("D13", "Read the circuit: whether the portal may be called", rate=CALL, example=(PORTAL_CIRCUIT,))
def circuit_state(circuit_id: str) -> Get[Circuit]:
    return Circuit.of(circuit_id).get().consistent()


@pattern(
    "D14",
    "Open a closed circuit, if its failure count is still the one read",
    rate=RARE,
    example=(PORTAL_CIRCUIT, 1, _AT, _TERMS),
)
def open_circuit(circuit_id: str, expected: int, failed_at: int, terms: Terms) -> Update[Circuit]:
    """The design document's condition, plus the time of the last failure, which starts the recovery."""
    return (
        _build_change(circuit_id, terms)
        .set(Circuit.state, CircuitState.open)
        .set(Circuit.failure_count, expected)
        .set(Circuit.last_failure_time, failed_at)
        .when(Circuit.state == CircuitState.closed, Circuit.failure_count == expected)
    )


@pattern(
    "CB1",
    "Count a failure on a closed circuit, with its time",
    rate=FAILURE,
    example=(PORTAL_CIRCUIT, _AT, _TERMS, _NOW),
)
def count_failure(circuit_id: str, at: int, terms: Terms, now: datetime) -> Update[Circuit]:
    """Count a failure. An expired item does not count on; it is replaced."""
    live = (Circuit.state == CircuitState.closed) & (Circuit.ttl >= now)
    return (
        _build_change(circuit_id, terms)
        .set(Circuit.state, CircuitState.closed)
        .add(Circuit.failure_count, 1)
        .set(Circuit.last_failure_time, at)
        .when(Circuit.state.not_exists() | live)
        .or_create()
    )


@pattern(
    "CB2",
    "Reset the failure count of a closed circuit after a success",
    rate=CALL,
    example=(PORTAL_CIRCUIT, _TERMS, _NOW),
)
def note_success(circuit_id: str, terms: Terms, now: datetime) -> Update[Circuit]:
    """Clear the failures, also of an expired item in any state."""
    closed = Circuit.state == CircuitState.closed
    return (
        _build_closing(circuit_id, terms)
        .set_if_absent(Circuit.last_failure_time, 0)
        .when(Circuit.state.not_exists() | closed | (Circuit.ttl < now))
        .or_create()
    )


@pattern(
    "CB3",
    "Claim the probe of an open circuit, after its recovery time or after a lost probe",
    rate=RARE,
    example=(PORTAL_CIRCUIT, _TOKEN, _AT + RECOVERY_S, _AT, _AT + RECOVERY_S + PROBE_S, _TERMS),
)
def take_probe(
    circuit_id: str, token: str, at: int, failed_until: int, leased_until: int, terms: Terms
) -> Update[Circuit]:
    """Take the probe, also if a stored time is further in the future than possible."""
    is_over = (Circuit.last_failure_time <= failed_until) | (
        Circuit.last_failure_time > at + terms.recovery_s
    )
    is_gone = (Circuit.probe_until <= at) | (Circuit.probe_until > leased_until + terms.recovery_s)
    recovered = (Circuit.state == CircuitState.open) & is_over
    deserted = (Circuit.state == CircuitState.half_open) & is_gone
    return (
        _build_change(circuit_id, terms)
        .set(Circuit.state, CircuitState.half_open)
        .set(Circuit.probe, token)
        .set(Circuit.probe_until, leased_until)
        .when(recovered | deserted)
    )


@pattern(
    "CB4",
    "Close a circuit after a successful probe, and reset its failure count",
    rate=RARE,
    example=(PORTAL_CIRCUIT, _TOKEN, _TERMS),
)
def close_by_probe(circuit_id: str, token: str, terms: Terms) -> Update[Circuit]:
    return _build_closing(circuit_id, terms).when(_held_by(token))


@pattern(
    "CB5",
    "Open a circuit again after a failed probe, or let the next caller probe if there was no result",
    rate=RARE,
    example=(PORTAL_CIRCUIT, _TOKEN, _AT, _TERMS),
)
def end_probe(circuit_id: str, token: str, failed_at: int | None, terms: Terms) -> Update[Circuit]:
    ended = _build_change(circuit_id, terms).when(_held_by(token))
    if failed_at is None:
        return ended.set(Circuit.probe_until, 0)
    return (
        ended.set(Circuit.state, CircuitState.open)
        .add(Circuit.failure_count, 1)
        .set(Circuit.last_failure_time, failed_at)
        .remove(Circuit.probe)
        .remove(Circuit.probe_until)
    )


def _build_change(circuit_id: str, terms: Terms) -> Update[Circuit]:
    """Return an update that sets threshold, recovery time and expiry, as every change does."""
    return (
        Circuit.of(circuit_id)
        .update()
        .set(Circuit.threshold, terms.threshold)
        .set(Circuit.recovery_timeout, terms.recovery_s)
        .set(Circuit.ttl, terms.ends)
    )


def _build_closing(circuit_id: str, terms: Terms) -> Update[Circuit]:
    """Return an update that closes the circuit, resets its failures and removes the probe."""
    return (
        _build_change(circuit_id, terms)
        .set(Circuit.state, CircuitState.closed)
        .set(Circuit.failure_count, 0)
        .remove(Circuit.probe)
        .remove(Circuit.probe_until)
    )


def _held_by(token: str) -> Condition[Circuit]:
    """Return the condition that this token holds the probe."""
    return (Circuit.state == CircuitState.half_open) & (Circuit.probe == token)


READS: Final[tuple[Pattern[..., Any], ...]] = (circuit_state,)
WRITES: Final[tuple[Pattern[..., Any], ...]] = (
    open_circuit,
    count_failure,
    note_success,
    take_probe,
    close_by_probe,
    end_probe,
)


# --- the circuit ------------------------------------------------------------------------------------------


class PortalCircuit:
    """A circuit that opens for `recovery_s` after `threshold` failures in a row.

    Then one caller probes for at most `probe_s`. `counts` are the errors that count as the portal's failure;
    any other response, including a refusal, shows that it works.
    """

    reads, writes, patterns = READS, WRITES, (*READS, *WRITES)

    def __init__(
        self,
        circuit_id: str = PORTAL_CIRCUIT,
        *,
        threshold: int = THRESHOLD,
        recovery_s: int = RECOVERY_S,
        probe_s: int = PROBE_S,
        counts: tuple[type[Exception], ...] = (ExternalServiceFailed,),
    ) -> None:
        self.circuit_id, self.threshold, self.recovery_s = circuit_id, threshold, recovery_s
        self.probe_s, self.counts = probe_s, counts

    async def call(self, stores: Stores, function: Callable[[], Awaitable[R]]) -> R:
        """Call the function through `guard` and return its result.

        Raise `CircuitOpen` without calling it while the portal may not be called.
        """
        async with self.guard(stores):
            return await function()

    @asynccontextmanager
    async def guard(self, stores: Stores) -> AsyncIterator[None]:
        """Run the block if the circuit allows it, and record how it ends; else raise `CircuitOpen`."""
        probe = await self._admit(stores)
        try:
            yield
        except self.counts:
            await self._await_recording(stores, self._record_failure(stores, probe), has_outcome=False)
            raise
        except Exception:
            await self._await_recording(stores, self._record_success(stores, probe))
            raise
        except BaseException:
            # Cancelled, or the process is ending: the call has no outcome.
            if probe is not None:
                await self._await_recording(stores, self._release_probe(stores, probe))
            raise
        else:
            await self._await_recording(stores, self._record_success(stores, probe))

    async def get_circuit(self, stores: Stores) -> Circuit:
        """Return the circuit's current state; a missing item is a closed circuit."""
        return await stores.run(circuit_state(self.circuit_id)) or Circuit(
            circuit_id=self.circuit_id,
            recovery_timeout=self.recovery_s,
            threshold=self.threshold,
            ttl=self._build_terms(stores).ends,
        )

    # --- before a call -------------------------------------------------------------------------------------

    async def _admit(self, stores: Stores) -> str | None:
        """Return None if the circuit is closed, or the token of the probe that this caller took.

        Raise `CircuitOpen` otherwise. A closed circuit with too many failures is opened first.
        """
        for _ in range(MAX_ATTEMPTS):
            seen = await self.get_circuit(stores)
            if seen.state is CircuitState.closed:
                if seen.failure_count < self.threshold:
                    return None
                # The process that counted the last failure died before it opened the circuit.
                await self._open(stores, seen)
                continue
            self._refuse_early(stores, seen)
            token = UlidGenerator(stores.clock).new()
            if await self._try_take_probe(stores, seen, token):
                return token
        raise self._build_refusal("is busy", 1.0)

    def _refuse_early(self, stores: Stores, seen: Circuit) -> None:
        """Raise `CircuitOpen` if the recovery time or another caller's probe is not over yet."""
        now = stores.clock.now()
        if seen.state is CircuitState.half_open:
            until, most = seen.probe_until or 0, math.ceil(now + self.probe_s) + self.recovery_s
            why = "is being tested after failures"
        else:
            until, most = (
                seen.last_failure_time + seen.recovery_timeout,
                math.floor(now) + self.recovery_s + seen.recovery_timeout,
            )
            why = "failed too often"
        # Too far in the future: the clock was set back.
        if now < until <= most:
            raise self._build_refusal(why, until - now)

    async def _try_take_probe(self, stores: Stores, seen: Circuit, token: str) -> bool:
        """Try to take the probe with this token; return False if another caller was first."""
        now = stores.clock.now()
        due, leased_until = math.floor(now) - seen.recovery_timeout, math.ceil(now + self.probe_s)
        taking = take_probe(
            self.circuit_id, token, math.floor(now), due, leased_until, self._build_terms(stores)
        )
        return await _try_update(stores, taking)

    def _build_refusal(self, why: str, wait_s: float) -> CircuitOpen:
        """Return the `CircuitOpen` error; the caller raises it."""
        return CircuitOpen(
            f"The travel portal {why} and is not called now. Try again in {wait_s:.1f} s, or book on its own "
            "pages.",
            retry_after_s=wait_s,
        )

    # --- after it ------------------------------------------------------------------------------------------

    async def _record_failure(self, stores: Stores, probe: str | None) -> None:
        """Write a failure. A failed probe opens the circuit again.

        Any other failure is counted, and the circuit opens at the threshold.
        """
        if probe is not None:
            at = int(stores.clock.now())
            await _try_update(stores, end_probe(self.circuit_id, probe, at, self._build_terms(stores)))
            return
        counted = await self._count_failure(stores)
        if counted is not None and counted.failure_count >= self.threshold:
            await self._open(stores, counted)

    async def _count_failure(self, stores: Stores) -> Circuit | None:
        """Count a failure and return the circuit, or None if it is not closed.

        An expired item starts again at 1.
        """
        for _ in range(MAX_ATTEMPTS):
            now = _get_now(stores)
            counting = count_failure(self.circuit_id, int(now.timestamp()), self._build_terms(stores), now)
            try:
                return await stores.run(counting)
            except ConditionFailed as refused:
                found = Circuit.from_item(dict(refused.item)) if refused.item else None
                if found is not None and found.ttl >= now:
                    return None
                # Expired but not yet removed by the store: start again.
                await _try_update(stores, note_success(self.circuit_id, self._build_terms(stores), now))
        return None

    async def _open(self, stores: Stores, seen: Circuit) -> None:
        """Open the circuit unless another process has changed it meanwhile."""
        opening = open_circuit(
            self.circuit_id, seen.failure_count, seen.last_failure_time, self._build_terms(stores)
        )
        if await _try_update(stores, opening):
            self._report(stores, "breaker_opened", f"is open after {seen.failure_count} failures in a row")

    async def _record_success(self, stores: Stores, probe: str | None) -> None:
        """Write a success: after a probe close the circuit, else reset a closed circuit's failures."""
        if probe is None:
            # The success of an older call does not change a circuit that was opened meanwhile.
            await _try_update(
                stores, note_success(self.circuit_id, self._build_terms(stores), _get_now(stores))
            )
        elif await _try_update(stores, close_by_probe(self.circuit_id, probe, self._build_terms(stores))):
            self._report(stores, "breaker_closed", "is closed again: the portal answers")

    async def _release_probe(self, stores: Stores, probe: str) -> None:
        """Give up the probe without a result, so that the next caller can probe."""
        await _try_update(stores, end_probe(self.circuit_id, probe, None, self._build_terms(stores)))

    async def _await_recording(
        self, stores: Stores, recording: Awaitable[None], *, has_outcome: bool = True
    ) -> None:
        """Await the write of an outcome, and only log it if it fails.

        The caller still gets the call's result, because it may have bought something. A probe whose end is
        not written expires with its lease. With `has_outcome` False the call has failed anyway: a component
        that may not write raises its `ComponentRefused`.
        """
        try:
            await recording
        except Exception as error:
            if isinstance(error, ComponentRefused) and not has_outcome:
                raise  # a component that may not write must fail at its first failure
            stores.count("breaker_unrecorded", breaker=self.circuit_id)
            log.warning(
                "How a call behind %s ended could not be written: %s.", self.circuit_id, error_label(error)
            )

    def _build_terms(self, stores: Stores) -> Terms:
        """Return the values to write with a change now; the item expires a day after its recovery."""
        lasts = self.recovery_s + self.probe_s + KEPT_S
        ends = datetime.fromtimestamp(math.ceil(stores.clock.now() + lasts), UTC)
        return Terms(self.threshold, self.recovery_s, ends)

    def _report(self, stores: Stores, metric: str, what: str) -> None:
        """Count the metric and log a change of state; only the process that wrote it does."""
        stores.count(metric, breaker=self.circuit_id)
        log.warning("The circuit %s %s.", self.circuit_id, what)


@dataclass(frozen=True)
class GuardedPortal:
    """A `Portal` behind its circuit: the circuit admits or refuses each call and records its outcome.

    Raise `DeclarationError` if a probe's lease is shorter than the portal's time to complete a purchase.
    """

    stores: Stores
    portal: Portal
    circuit: PortalCircuit

    def __post_init__(self) -> None:
        if self.circuit.probe_s < self.portal.act_s:
            raise DeclarationError(
                f"A purchase at this portal may take {self.portal.act_s:g} s, and a probe of its circuit "
                f"{self.circuit.probe_s} s: "
                "another would try meanwhile. Give PortalCircuit(probe_s=…) more."
            )

    @property
    def act_s(self) -> float:
        return self.portal.act_s

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        return await self.circuit.call(self.stores, lambda: self.portal.search(parameters, preferences))

    async def price(self, offer_id: str) -> Offer:
        return await self.circuit.call(self.stores, lambda: self.portal.price(offer_id))

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        return await self.circuit.call(
            self.stores, lambda: self.portal.book(reference, offer_id, traveller, price_usd)
        )

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        return await self.circuit.call(self.stores, lambda: self.portal.look_up(reference))

    async def cancel(self, order: Order) -> Cancellation:
        return await self.circuit.call(self.stores, lambda: self.portal.cancel(order))


async def _try_update(stores: Stores, change: Update[Circuit]) -> bool:
    """Run the update; return False if its condition failed, because another process was first."""
    try:
        await stores.run(change)
    except ConditionFailed:
        return False
    return True


def _get_now(stores: Stores) -> datetime:
    """Return the stores' current time, to the second."""
    return datetime.fromtimestamp(int(stores.clock.now()), UTC)
