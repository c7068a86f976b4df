"""Breaker: keeps callers from a party that fails, in every process at once, and lets one of them try after a while.

    breaker = Breaker("CB", rate=Rate("call"), counts=(PartyFailed,), failures=5, window_s=60, recovery_s=30)
    order = await breaker.call(stores, "shop", lambda: shop.order(order_id))

The state is one item per party, and every change of it is a conditional write over what was seen:

    closed ── `failures` within `window_s` ──> open ── `recovery_s` over, one takes the probe ──> half open
       ^                                        ^                                                  │      │
       └──────── the probe succeeds ────────────┼──────────────────────────────────────────────────┘      │
                                                └──────── the probe fails ────────────────────────────────┘

Half open is an open circuit with a probe under a lease: one that dies leaves its place to the next caller. What is
written on a closed circuit has a lifetime; an open circuit has none, so that no lifetime ever closes it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from holdfast.errors import (
    CircuitOpen,
    ComponentRefused,
    ConditionFailed,
    RetryLater,
    TransactionConflict,
    error_label,
)
from holdfast.guarantees.lifetimes import kept
from holdfast.guarantees.pattern_sets import made_pattern, moment
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
    Ulids,
    as_written,
    attr,
)
from holdfast.runtime import Stores

R = TypeVar("R")
log = logging.getLogger(__name__)

BREAKERS: Final = Table(
    "Breakers",
    "breaker",
    ttl="expires_at",
    names=as_written,
    purpose="Which outside parties fail, and who may try whether they have recovered",
)
ATTEMPTS_MAX: Final = 100
# How long the record of a closed circuit outlives its last failure.
KEPT: Final = timedelta(days=1)


class Circuit(Entity, table=BREAKERS):
    """The state of one party's circuit. It is open if `retry_at` is there."""

    breaker: Attr[str] = attr()
    version: Attr[int] = attr(default=0)
    # The last failures while closed, oldest first: as many as open it, less one.
    failed_at: Attr[list[datetime]] = attr(default_factory=list)
    # Open: from when on one caller may try.
    retry_at: Attr[datetime | None] = attr(default=None)
    # Half open: who tries, and until when nobody else may.
    probe: Attr[str | None] = attr(default=None)
    probe_until: Attr[datetime | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr(default=None)

    of = Key(breaker)

    def refusal(self, now: datetime) -> datetime | None:
        """Until when callers are kept away; None where one may call, or may be the probe."""
        if self.retry_at is None:
            return None
        held = self.retry_at if self.probe_until is None else max(self.retry_at, self.probe_until)
        return held if held > now else None

    def probed(self, by: str, now: datetime, lease_s: float) -> Circuit:
        return self._with(probe=by, probe_until=now + timedelta(seconds=lease_s))

    def failed(self, now: datetime, failures: int, window_s: float, recovery_s: float) -> Circuit:
        """After a failure on a closed circuit."""
        since = now - timedelta(seconds=window_s)
        recent = [*(each for each in self.failed_at if each > since), now]
        if len(recent) >= failures:
            return self.opened(now, recovery_s)
        return self._with(failed_at=recent, expires_at=now + timedelta(seconds=window_s) + KEPT)

    def opened(self, now: datetime, recovery_s: float) -> Circuit:
        retry_at = now + timedelta(seconds=recovery_s)
        return self._with(failed_at=[], retry_at=retry_at, probe=None, probe_until=None, expires_at=None)

    def closed(self, now: datetime) -> Circuit:
        return self._with(failed_at=[], retry_at=None, probe=None, probe_until=None, expires_at=now + KEPT)

    def given_up(self) -> Circuit:
        """The probe ended without telling anything: the next caller may be one."""
        return self._with(probe=None, probe_until=None)

    def _with(self, **changes: Any) -> Circuit:
        return self.model_copy(update=changes)


kept(Circuit, None, "a day after its last failure while closed; an open one stays until its party answers")

# What becomes of a circuit; None where it stays as it is.
Change = Callable[[Circuit], Circuit | None]


class Breaker:
    """Circuits of outside parties, one by each name.

    `failures` within `window_s` open a circuit for `recovery_s`. Then one caller at a time may try, each for `probe_s`
    at most: longer than a call takes. `counts` are the errors that are the party's failure; any other shows that it
    answers. A circuit that was seen closed is taken for closed for `cached_s`, so that a call on a closed circuit costs
    a read now and then; failures are always counted in the table.
    """

    def __init__(
        self,
        prefix: str,
        *,
        rate: Rate,
        counts: tuple[type[Exception], ...] = (Exception,),
        failures: int = 5,
        window_s: float = 60.0,
        recovery_s: float = 30.0,
        probe_s: float = 30.0,
        cached_s: float = 1.0,
    ) -> None:
        self.counts, self.failures, self.window_s = counts, failures, window_s
        self.recovery_s, self.probe_s, self.cached_s = recovery_s, probe_s, cached_s
        self.state = _state_pattern(f"{prefix}1", rate)
        self.change = _change_pattern(f"{prefix}2", rate)
        # When a circuit was last seen closed, by the engine that it is in.
        self._seen_closed: WeakKeyDictionary[Any, dict[tuple[str, str], float]] = WeakKeyDictionary()

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self.state,)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.change,)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    async def call(self, stores: Stores, name: str, function: Callable[[], Awaitable[R]]) -> R:
        """What the function gives; `CircuitOpen` where it may not be called now."""
        async with self.admitted(stores, name):
            return await function()

    @asynccontextmanager
    async def admitted(self, stores: Stores, name: str) -> AsyncIterator[None]:
        """Runs the block if the circuit lets it, and learns from how it ends."""
        probe = await self._admission(stores, name)
        try:
            yield
        except self.counts:
            await self._failed(stores, name, probe)
            raise
        except Exception:
            await self._succeeded(stores, name, probe)
            raise
        except BaseException:
            await self._ended_unknown(stores, name, probe)
            raise
        else:
            await self._succeeded(stores, name, probe)

    # --- before a call --------------------------------------------------------------------------------------

    async def _admission(self, stores: Stores, name: str) -> str | None:
        """None on a closed circuit; else the token of the probe that the caller is."""
        if self._is_taken_for_closed(stores, name):
            return None
        seen = await self._read(stores, name)
        if seen.retry_at is None:
            self._seen(stores, name, seen)
            return None
        token = Ulids(stores.clock).new()
        after = await self._changed(stores, seen, lambda circuit: self._probing(circuit, token, stores))
        return token if after.probe == token else None

    def _probing(self, circuit: Circuit, token: str, stores: Stores) -> Circuit | None:
        """The circuit with this caller as its probe; None where another closed it meanwhile."""
        now = moment(stores.clock)
        if (until := circuit.refusal(now)) is not None:
            wait_s = (until - now).total_seconds()
            why = "is being tried by one caller" if circuit.probe else "failed too often"
            raise CircuitOpen(
                f"{circuit.breaker} {why} and is not called now: try again in {wait_s:.1f} s.",
                retry_after_s=wait_s,
            )
        return None if circuit.retry_at is None else circuit.probed(token, now, self.probe_s)

    # --- after it -------------------------------------------------------------------------------------------

    async def _failed(self, stores: Stores, name: str, probe: str | None) -> None:
        def change(circuit: Circuit) -> Circuit | None:
            now = moment(stores.clock)
            if probe is not None:
                return circuit.opened(now, self.recovery_s) if circuit.probe == probe else None
            if circuit.retry_at is not None:
                return None  # begun before it was opened, and no news
            return circuit.failed(now, self.failures, self.window_s, self.recovery_s)

        await self._record(stores, name, change, has_outcome=False)

    async def _succeeded(self, stores: Stores, name: str, probe: str | None) -> None:
        if probe is None:
            return  # failures are forgotten by their age alone: a success on a closed circuit writes nothing

        def change(circuit: Circuit) -> Circuit | None:
            return circuit.closed(moment(stores.clock)) if circuit.probe == probe else None

        await self._record(stores, name, change)

    async def _ended_unknown(self, stores: Stores, name: str, probe: str | None) -> None:
        """Cancelled, or the process is ending: nothing was learnt."""
        if probe is None:
            return

        def change(circuit: Circuit) -> Circuit | None:
            return circuit.given_up() if circuit.probe == probe else None

        await self._record(stores, name, change)

    async def _record(self, stores: Stores, name: str, change: Change, *, has_outcome: bool = True) -> None:
        """How a call ended. Where that cannot be written, for whatever reason, the caller still gets what the call gave:
        it may have had an effect. A probe whose end is not written leaves its place when its lease is over."""
        try:
            await self._changed(stores, await self._read(stores, name), change)
        except Exception as error:
            if isinstance(error, ComponentRefused) and not has_outcome:
                raise  # a component that can never count a failure is told at the first one
            stores.count("breaker_unrecorded", breaker=name)
            log.warning("How a call of %s ended could not be written: %s.", name, error_label(error))

    # --- the shared state -----------------------------------------------------------------------------------

    async def _read(self, stores: Stores, name: str) -> Circuit:
        return await stores.run(self.state(name)) or Circuit(breaker=name)

    async def _changed(self, stores: Stores, seen: Circuit, change: Change) -> Circuit:
        """The circuit after the change, decided again for as long as others change it in between."""
        for _ in range(ATTEMPTS_MAX):
            after = change(seen)
            if after is None:
                self._seen(stores, seen.breaker, seen)
                return seen
            try:
                await stores.run(self.change(after, seen.version))
            except ConditionFailed as refused:
                # The item as it is: one at the end of its life is not read any more, and is still written over.
                seen = (
                    Circuit.from_item(dict(refused.item)) if refused.item else Circuit(breaker=seen.breaker)
                )
            except TransactionConflict:
                seen = await self._read(stores, seen.breaker)
            else:
                self._seen(stores, seen.breaker, after)
                self._tell(stores, seen, after)
                return after
        raise RetryLater(f"The circuit of {seen.breaker} is changed by too many at once: try again.")

    def _tell(self, stores: Stores, before: Circuit, after: Circuit) -> None:
        """By the one whose write it was, so that each opening and each closing is told once over all processes."""
        if before.retry_at is None and after.retry_at is not None:
            stores.count("breaker_opened", breaker=after.breaker)
            log.warning(
                "The circuit of %s is open after %d failures: nobody calls it before %s.",
                after.breaker,
                self.failures,
                after.retry_at.isoformat(timespec="seconds"),
            )
        if before.retry_at is not None and after.retry_at is None:
            stores.count("breaker_closed", breaker=after.breaker)
            log.warning("The circuit of %s is closed again: it answers.", after.breaker)

    def _seen(self, stores: Stores, name: str, circuit: Circuit) -> None:
        cached = self._seen_closed.setdefault(stores.tables, {})
        if circuit.retry_at is None:
            cached[stores.environment, name] = stores.clock.now()
        else:
            cached.pop((stores.environment, name), None)

    def _is_taken_for_closed(self, stores: Stores, name: str) -> bool:
        seen_at = self._seen_closed.get(stores.tables, {}).get((stores.environment, name))
        return seen_at is not None and 0 <= stores.clock.now() - seen_at < self.cached_s


def _state_pattern(id: str, rate: Rate) -> Pattern[[str], Get[Circuit]]:
    def circuit_state(breaker: str) -> Get[Circuit]:
        return Circuit.of(breaker).get().consistent()

    purpose = "Whether an outside party may be called"
    return made_pattern(circuit_state, id, "circuit_state", purpose, rate=rate, example=("shop",))


def _change_pattern(id: str, rate: Rate) -> Pattern[[Circuit, int], Put[Circuit]]:
    def change_circuit(circuit: Circuit, seen: int) -> Put[Circuit]:
        if seen == 0:
            return Circuit.create(circuit.model_copy(update={"version": 1}))
        return Circuit.put(circuit).at_version(Circuit.version, seen)

    purpose = "A failure of an outside party counted, or its circuit opened, tried or closed"
    example = (Circuit(breaker="shop"), 0)
    return made_pattern(change_circuit, id, "change_circuit", purpose, rate=rate, example=example)
