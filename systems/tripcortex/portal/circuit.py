"""The portal's circuit: one item in the document's table that every process reads before a call and changes after it.

              ┌──── a failure: counted, with its time ────┐
              v                                           │
    closed ───┴── as many in a row as the threshold ──> open ── recovery over, one takes the probe ──> half open
      ^                                                   ^                                              │    │
      └──────────────── the probe succeeds ───────────────┼──────────────────────────────────────────────┘    │
                                                          └──────────── the probe fails ──────────────────────┘

Every change is one conditional update, so that the store decides between processes. D13 and D14 are the document's; CB1 to
CB5 are what it leaves open: how a failure below the threshold is counted, how a success forgets them, and who may try
first. No item is a closed circuit. The end of an item's life is set anew by each change, and is never before its recovery is
over: no lifetime closes a circuit that was opened a moment ago. A time that lies further ahead than any of ours is that of a clock
that was set back since, and holds nobody off.
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

from holdfast import Condition, Get, Pattern, Rate, Stores, Ulids, Update, pattern
from holdfast.errors import (
    CircuitOpen,
    ComponentRefused,
    ConditionFailed,
    DeclarationError,
    PartyFailed,
    error_label,
)
from tripcortex.model import Circuit, CircuitState, Preferences, TripParameters
from tripcortex.portal.ports import Cancellation, Offer, Order, Portal, Traveller

R = TypeVar("R")
log = logging.getLogger(__name__)

PORTAL_CIRCUIT: Final = "travel-portal-booking"
THRESHOLD: Final = 5
RECOVERY_S: Final = 60
# Longer than any call may take: until then nobody else tries.
PROBE_S: Final = 30
KEPT_S: Final = 86_400
# How often a decision is made anew because another changed the circuit in between.
ATTEMPTS_MAX: Final = 100

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
    """What is written with each change: how many failures open it, for how long, and when the item ends."""

    threshold: int
    recovery_s: int
    ends: datetime


_TERMS: Final = Terms(THRESHOLD, RECOVERY_S, _END)


# --- patterns --------------------------------------------------------------------------------------------------


@pattern("D13", "Whether the portal may be called", rate=CALL, example=(PORTAL_CIRCUIT,))
def circuit_state(circuit_id: str) -> Get[Circuit]:
    return Circuit.of(circuit_id).get().consistent()


@pattern(
    "D14",
    "Open a closed circuit, if it has failed as often as was seen",
    rate=RARE,
    example=(PORTAL_CIRCUIT, 1, _AT, _TERMS),
)
def open_circuit(circuit_id: str, expected: int, failed_at: int, terms: Terms) -> Update[Circuit]:
    """The document's own condition; with the time of the last failure, by which the recovery is reckoned."""
    return (
        _changed(circuit_id, terms)
        .set(Circuit.state, CircuitState.open)
        .set(Circuit.failure_count, expected)
        .set(Circuit.last_failure_time, failed_at)
        .when(Circuit.state == CircuitState.closed, Circuit.failure_count == expected)
    )


@pattern(
    "CB1",
    "Count a failure on a closed circuit, and when it was",
    rate=FAILURE,
    example=(PORTAL_CIRCUIT, _AT, _TERMS, _NOW),
)
def count_failure(circuit_id: str, at: int, terms: Terms, now: datetime) -> Update[Circuit]:
    """One that is at the end of its life does not count on: what it says is forgotten."""
    live = (Circuit.state == CircuitState.closed) & (Circuit.ttl >= now)
    return (
        _changed(circuit_id, terms)
        .set(Circuit.state, CircuitState.closed)
        .add(Circuit.failure_count, 1)
        .set(Circuit.last_failure_time, at)
        .when(Circuit.state.missing() | live)
        .or_create()
    )


@pattern(
    "CB2",
    "A success on a closed circuit: no failure is in a row any more",
    rate=CALL,
    example=(PORTAL_CIRCUIT, _TERMS, _NOW),
)
def note_success(circuit_id: str, terms: Terms, now: datetime) -> Update[Circuit]:
    """Also in the place of one that is at the end of its life, whatever that was."""
    closed = Circuit.state == CircuitState.closed
    return (
        _closed(circuit_id, terms)
        .set_if_absent(Circuit.last_failure_time, 0)
        .when(Circuit.state.missing() | closed | (Circuit.ttl < now))
        .or_create()
    )


@pattern(
    "CB3",
    "Be the one that tries an open circuit whose recovery is over, or whose probe is gone",
    rate=RARE,
    example=(PORTAL_CIRCUIT, _TOKEN, _AT + RECOVERY_S, _AT, _AT + RECOVERY_S + PROBE_S, _TERMS),
)
def take_probe(
    circuit_id: str, token: str, at: int, failed_until: int, leased_until: int, terms: Terms
) -> Update[Circuit]:
    """Also where what is waited for lies further ahead than it can."""
    is_over = (Circuit.last_failure_time <= failed_until) | (
        Circuit.last_failure_time > at + terms.recovery_s
    )
    is_gone = (Circuit.probe_until <= at) | (Circuit.probe_until > leased_until + terms.recovery_s)
    recovered = (Circuit.state == CircuitState.open) & is_over
    deserted = (Circuit.state == CircuitState.half_open) & is_gone
    return (
        _changed(circuit_id, terms)
        .set(Circuit.state, CircuitState.half_open)
        .set(Circuit.probe, token)
        .set(Circuit.probe_until, leased_until)
        .when(recovered | deserted)
    )


@pattern(
    "CB4",
    "The probe succeeded: closed, and no failure counted",
    rate=RARE,
    example=(PORTAL_CIRCUIT, _TOKEN, _TERMS),
)
def close_by_probe(circuit_id: str, token: str, terms: Terms) -> Update[Circuit]:
    return _closed(circuit_id, terms).when(_held_by(token))


@pattern(
    "CB5",
    "The probe failed: open again; or it ended without telling, and the next may try",
    rate=RARE,
    example=(PORTAL_CIRCUIT, _TOKEN, _AT, _TERMS),
)
def end_probe(circuit_id: str, token: str, failed_at: int | None, terms: Terms) -> Update[Circuit]:
    ended = _changed(circuit_id, terms).when(_held_by(token))
    if failed_at is None:
        return ended.set(Circuit.probe_until, 0)
    return (
        ended.set(Circuit.state, CircuitState.open)
        .add(Circuit.failure_count, 1)
        .set(Circuit.last_failure_time, failed_at)
        .remove(Circuit.probe)
        .remove(Circuit.probe_until)
    )


def _changed(circuit_id: str, terms: Terms) -> Update[Circuit]:
    return (
        Circuit.of(circuit_id)
        .update()
        .set(Circuit.threshold, terms.threshold)
        .set(Circuit.recovery_timeout, terms.recovery_s)
        .set(Circuit.ttl, terms.ends)
    )


def _closed(circuit_id: str, terms: Terms) -> Update[Circuit]:
    return (
        _changed(circuit_id, terms)
        .set(Circuit.state, CircuitState.closed)
        .set(Circuit.failure_count, 0)
        .remove(Circuit.probe)
        .remove(Circuit.probe_until)
    )


def _held_by(token: str) -> Condition[Circuit]:
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


# --- the circuit -----------------------------------------------------------------------------------------------


class PortalCircuit:
    """`threshold` failures in a row open it for `recovery_s`; then one caller tries, for `probe_s` at most.

    `counts` are the errors that are the portal's failure; any other answer, a refusal too, shows that it works.
    """

    reads, writes, patterns = READS, WRITES, (*READS, *WRITES)

    def __init__(
        self,
        circuit_id: str = PORTAL_CIRCUIT,
        *,
        threshold: int = THRESHOLD,
        recovery_s: int = RECOVERY_S,
        probe_s: int = PROBE_S,
        counts: tuple[type[Exception], ...] = (PartyFailed,),
    ) -> None:
        self.circuit_id, self.threshold, self.recovery_s = circuit_id, threshold, recovery_s
        self.probe_s, self.counts = probe_s, counts

    async def call(self, stores: Stores, function: Callable[[], Awaitable[R]]) -> R:
        """What the function gives; `CircuitOpen` where the portal may not be called now."""
        async with self.admitted(stores):
            return await function()

    @asynccontextmanager
    async def admitted(self, stores: Stores) -> AsyncIterator[None]:
        """Runs the block if the circuit lets it, and learns from how it ends."""
        probe = await self._admission(stores)
        try:
            yield
        except self.counts:
            await self._recorded(stores, self._failed(stores, probe), has_outcome=False)
            raise
        except Exception:
            await self._recorded(stores, self._succeeded(stores, probe))
            raise
        except BaseException:
            # Cancelled, or the process is ending: nothing was learnt.
            if probe is not None:
                await self._recorded(stores, self._left(stores, probe))
            raise
        else:
            await self._recorded(stores, self._succeeded(stores, probe))

    async def standing(self, stores: Stores) -> Circuit:
        """The circuit as it is; one that nobody has written is closed."""
        return await stores.run(circuit_state(self.circuit_id)) or Circuit(
            circuit_id=self.circuit_id,
            recovery_timeout=self.recovery_s,
            threshold=self.threshold,
            ttl=self._terms(stores).ends,
        )

    # --- before a call ---------------------------------------------------------------------------------------

    async def _admission(self, stores: Stores) -> str | None:
        """None on a closed circuit; else the token of the probe that the caller is."""
        for _ in range(ATTEMPTS_MAX):
            seen = await self.standing(stores)
            if seen.state is CircuitState.closed:
                if seen.failure_count < self.threshold:
                    return None
                # Who counted the last failure died before it opened the circuit.
                await self._open(stores, seen)
                continue
            self._refuse_early(stores, seen)
            token = Ulids(stores.clock).new()
            if await self._is_probe(stores, seen, token):
                return token
        raise self._refusal("is changed by too many at once", 1.0)

    def _refuse_early(self, stores: Stores, seen: Circuit) -> None:
        now = stores.clock.now()
        if seen.state is CircuitState.half_open:
            until, most = seen.probe_until or 0, math.ceil(now + self.probe_s) + self.recovery_s
            why = "is being tried by one caller"
        else:
            until, most = (
                seen.last_failure_time + seen.recovery_timeout,
                math.floor(now) + self.recovery_s + seen.recovery_timeout,
            )
            why = "failed too often"
        # Further ahead than any of ours is: the clock was set back.
        if now < until <= most:
            raise self._refusal(why, until - now)

    async def _is_probe(self, stores: Stores, seen: Circuit, token: str) -> bool:
        now = stores.clock.now()
        due, leased_until = math.floor(now) - seen.recovery_timeout, math.ceil(now + self.probe_s)
        taking = take_probe(self.circuit_id, token, math.floor(now), due, leased_until, self._terms(stores))
        return await _done(stores, taking)

    def _refusal(self, why: str, wait_s: float) -> CircuitOpen:
        return CircuitOpen(
            f"The travel portal {why} and is not called now: try again in {wait_s:.1f} s, or book on its own pages.",
            retry_after_s=wait_s,
        )

    # --- after it --------------------------------------------------------------------------------------------

    async def _failed(self, stores: Stores, probe: str | None) -> None:
        if probe is not None:
            at = int(stores.clock.now())
            await _done(stores, end_probe(self.circuit_id, probe, at, self._terms(stores)))
            return
        counted = await self._counted(stores)
        if counted is not None and counted.failure_count >= self.threshold:
            await self._open(stores, counted)

    async def _counted(self, stores: Stores) -> Circuit | None:
        """The circuit with one failure more; None where it is not closed, and a failure is no news."""
        for _ in range(ATTEMPTS_MAX):
            now = _moment(stores)
            counting = count_failure(self.circuit_id, int(now.timestamp()), self._terms(stores), now)
            try:
                return await stores.run(counting)
            except ConditionFailed as refused:
                found = Circuit.from_item(dict(refused.item)) if refused.item else None
                if found is not None and found.ttl >= now:
                    return None
                # At the end of its life, though the store has not removed it: begun anew.
                await _done(stores, note_success(self.circuit_id, self._terms(stores), now))
        return None

    async def _open(self, stores: Stores, seen: Circuit) -> None:
        """Where another has changed it meanwhile, that one has decided on what it read."""
        opening = open_circuit(
            self.circuit_id, seen.failure_count, seen.last_failure_time, self._terms(stores)
        )
        if await _done(stores, opening):
            self._tell(stores, "breaker_opened", f"is open after {seen.failure_count} failures in a row")

    async def _succeeded(self, stores: Stores, probe: str | None) -> None:
        if probe is None:
            # On one that was opened meanwhile, the success of an older call changes nothing.
            await _done(stores, note_success(self.circuit_id, self._terms(stores), _moment(stores)))
        elif await _done(stores, close_by_probe(self.circuit_id, probe, self._terms(stores))):
            self._tell(stores, "breaker_closed", "is closed again: the portal answers")

    async def _left(self, stores: Stores, probe: str) -> None:
        await _done(stores, end_probe(self.circuit_id, probe, None, self._terms(stores)))

    async def _recorded(
        self, stores: Stores, recording: Awaitable[None], *, has_outcome: bool = True
    ) -> None:
        """Where it cannot be written how a call ended, the caller still gets what the call gave: it may have bought
        something. A probe whose end is not written leaves its place when its lease is over."""
        try:
            await recording
        except Exception as error:
            if isinstance(error, ComponentRefused) and not has_outcome:
                raise  # a component that can never count a failure is told at the first one
            stores.count("breaker_unrecorded", breaker=self.circuit_id)
            log.warning(
                "How a call behind %s ended could not be written: %s.", self.circuit_id, error_label(error)
            )

    def _terms(self, stores: Stores) -> Terms:
        lasts = self.recovery_s + self.probe_s + KEPT_S
        ends = datetime.fromtimestamp(math.ceil(stores.clock.now() + lasts), UTC)
        return Terms(self.threshold, self.recovery_s, ends)

    def _tell(self, stores: Stores, metric: str, what: str) -> None:
        """By the one whose write it was: once over all processes."""
        stores.count(metric, breaker=self.circuit_id)
        log.warning("The circuit %s %s.", self.circuit_id, what)


@dataclass(frozen=True)
class GuardedPortal:
    """A portal behind its circuit: each call is let through by it or refused, and teaches it."""

    stores: Stores
    portal: Portal
    circuit: PortalCircuit

    def __post_init__(self) -> None:
        if self.circuit.probe_s < self.portal.act_s:
            raise DeclarationError(
                f"A purchase at this portal may take {self.portal.act_s:g} s, and a probe of its circuit {self.circuit.probe_s} s: "
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


async def _done(stores: Stores, change: Update[Circuit]) -> bool:
    """Whether the change was made, and not another's before it."""
    try:
        await stores.run(change)
    except ConditionFailed:
        return False
    return True


def _moment(stores: Stores) -> datetime:
    return datetime.fromtimestamp(int(stores.clock.now()), UTC)
