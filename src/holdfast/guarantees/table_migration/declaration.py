"""`Migration`: declares a table migration, and routes reads and writes to the right table while it runs.

A reader calls `should_read_target`. A writer passes `write` two operations, one for each table; the one for
the source is a transaction that starts with `fence`, so that no write reaches the source once the target is
authoritative, not even from a process that read the state before the switch and writes after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from holdfast.core.errors import (
    Conflict,
    DeclarationError,
    NotFound,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.core.rng import RNG
from holdfast.guarantees.pattern_sets import Guarantee, PatternSet
from holdfast.guarantees.table_migration.state import SOURCE_PHASES, TARGET_PHASES, MigrationState, Phase
from holdfast.model.entities import ConditionCheck, Entity, Get, Put, Ref, Transact
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.runtime import Stores

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

MAX_WAIT_S: Final = 60.0
MIN_PAUSE_S: Final = 0.005
MAX_PAUSE_S: Final = 0.2


def get_migration_state(name: str) -> Get[MigrationState]:
    """Return the read of a migration's state.

    A system makes a pattern of it, so that its components may run it.
    """
    return MigrationState.of(name).get().consistent()


def fence(name: str) -> ConditionCheck[MigrationState]:
    """Return the first action of each transaction that writes to the source: a check that the source is still
    open.
    """
    is_open = MigrationState.phase.not_exists() | MigrationState.phase.in_(SOURCE_PHASES)
    return MigrationState.of(name).check().when(is_open)


def lift_hold(state: MigrationState) -> Put[MigrationState]:
    """Return the put that ends the hold of a switch that took too long, or whose process died.

    The switch then fails.
    """
    lifted = state.model_copy(update={"phase": Phase.VERIFIED, "hold": None, "hold_until": None})
    is_held = (MigrationState.phase == Phase.SWITCHING) & (MigrationState.hold == (state.hold or ""))
    # Without a state, no writer is blocked.
    return MigrationState.put(lifted).when(MigrationState.phase.not_exists() | is_held)


@dataclass(frozen=True)
class MigrationPatterns(PatternSet):
    """The patterns of a `Migration`, which the system declares."""

    state: Pattern[[], Get[MigrationState]]
    lift_hold: Pattern[[MigrationState], Put[MigrationState]]


class Migration(Guarantee, Generic[S, T]):
    """A migration: `transform`, a pure function, makes each row of `source` into one of `target`.

    `version` is the attribute that each write to the source increments. `state` and `lift_hold` are the
    system's patterns of `get_migration_state` and `lift_hold`. `plain_key` are target attributes that would
    be a simpler key: the plan reports how many rows it would lose.
    """

    def __init__(
        self,
        name: str,
        source: type[S],
        target: type[T],
        transform: Callable[[S], T],
        *,
        version: Ref[S, int],
        state: Pattern[[], Get[MigrationState]],
        lift_hold: Pattern[[MigrationState], Put[MigrationState]],
        plain_key: tuple[Ref[T, Any], ...] = (),
    ) -> None:
        self.name, self.source, self.target, self.transform = name, source, target, transform
        self.version, self.plain_key = version, plain_key
        self.pattern_set: MigrationPatterns = MigrationPatterns(state, lift_hold)

    async def should_read_target(self, stores: Stores) -> bool:
        """Return True if the target is authoritative and to be read. Once true, it stays true."""
        state = await self.load_state(stores)
        return state is not None and state.phase in TARGET_PHASES

    async def write(self, stores: Stores, to_source: Operation[Any], to_target: Operation[Any]) -> None:
        """Run the operation of the authoritative table; `to_source` must start with the fence.

        During a switch it waits, usually for moments and never longer than the hold lasts. Raises
        `RetryLater` after a minute, `DeclarationError` if the fence is missing.
        """
        self._check_fence(to_source)
        ends, pause = asyncio.get_running_loop().time() + MAX_WAIT_S, MIN_PAUSE_S
        while asyncio.get_running_loop().time() < ends:
            state = await self.load_state(stores)
            if state is not None and state.phase is Phase.SWITCHING:
                await self._wait_for_switch(stores, state, pause)
                is_done = False
            elif state is not None and state.phase in TARGET_PHASES:
                is_done = await _try_write(stores, to_target)
            else:
                is_done = await _try_write(stores, to_source, has_fence=True)
            if is_done:
                return
            pause = min(pause * 2, MAX_PAUSE_S)
        raise RetryLater(
            f"The migration {self.name} blocked this write for {MAX_WAIT_S:g} s. Check its progress "
            f"with `holdfast migrate … {self.name} --status`."
        )

    def _check_fence(self, to_source: Operation[Any]) -> None:
        """Raise `DeclarationError` unless the operation is a transaction that starts with the fence."""
        first = to_source.actions[0] if isinstance(to_source, Transact) else None
        if not isinstance(first, ConditionCheck) or replace(first, pattern=None) != fence(self.name):
            raise DeclarationError(
                f"Invalid write to {self.source.__name__}: it needs the fence of {self.name}, or the switch "
                f"may lose it. Use transact(fence({self.name!r}), …)."
            )

    async def load_state(self, stores: Stores) -> MigrationState | None:
        """Return the state of the migration, or None if it was never started."""
        try:
            return await stores.run(self.pattern_set.state())
        except NotFound:
            return None  # the table of migrations does not exist yet

    async def _wait_for_switch(self, stores: Stores, state: MigrationState, pause: float) -> None:
        """Sleep for `pause` seconds, or lift the hold if it has ended."""
        if state.hold_until is not None and self._compute_left_s(stores, state, state.hold_until) < 0:
            try:
                await stores.run(self.pattern_set.lift_hold(state))
            except Conflict:
                pass  # the switch completed, or another writer has lifted the hold
        else:
            await asyncio.sleep(pause)

    def _compute_left_s(self, stores: Stores, state: MigrationState, until: datetime) -> float:
        """Return the seconds until the hold ends. The process that began it wrote both times of the state."""
        hold_s = (until - state.changed_at).total_seconds()
        return stores.deadlines.compute_left_s((self.name, "hold"), state.hold, until.timestamp(), hold_s)


async def _try_write(stores: Stores, write: Operation[Any], *, has_fence: bool = False) -> bool:
    """Return True if the write was made; False after a failed fence or a transaction conflict: the caller
    retries.
    """
    try:
        await stores.run(write)
        return True
    except TransactionConflict:
        pass
    except TransactionCancelled as error:
        codes = [reason.code for reason in error.reasons]
        is_fenced_off = has_fence and codes[0] == "ConditionalCheckFailed"
        if not is_fenced_off and "TransactionConflict" not in codes:
            raise
    await asyncio.sleep(RNG.uniform(0, MIN_PAUSE_S))
    return False
