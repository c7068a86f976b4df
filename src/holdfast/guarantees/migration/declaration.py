"""What a system declares of a migration, and what its writers and readers need while it goes on.

A reader asks `reads_target`. A writer gives `write` two operations, one for each table; the one for the source is a
transaction that begins with `fence`, so that no write slips into the source once the target is the truth: not even
that of a process which looked before the switch and wrote after it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from holdfast.errors import (
    Conflict,
    DeclarationError,
    NotFound,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.guarantees.migration.state import SOURCE_IS_OPEN, TARGET_IS_TRUTH, MigrationState, Phase
from holdfast.model import Check, Entity, Get, Operation, Put, Ref, Transact
from holdfast.runtime import Stores

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

WAIT_SECONDS_MAX: Final = 60.0
PAUSE_SECONDS_MIN: Final = 0.005
PAUSE_SECONDS_MAX: Final = 0.2


def state_of(name: str) -> Get[MigrationState]:
    """Where a migration stands. A system makes a pattern of it, so that its components may ask."""
    return MigrationState.of(name).get().consistent()


def fence(name: str) -> Check[MigrationState]:
    """The first action of every transaction that writes to the source: that it still is the table to write to."""
    is_open = MigrationState.phase.missing() | MigrationState.phase.in_(SOURCE_IS_OPEN)
    return MigrationState.of(name).check().when(is_open)


def hold_lifted(state: MigrationState) -> Put[MigrationState]:
    """Ends a hold whose switch took too long, or whose process died. The switch then finds that it was lifted."""
    lifted = state.model_copy(update={"phase": Phase.VERIFIED, "hold": None, "hold_until": None})
    is_held = (MigrationState.phase == Phase.SWITCHING) & (MigrationState.hold == (state.hold or ""))
    # Where there is no state, nobody is held either.
    return MigrationState.put(lifted).when(MigrationState.phase.missing() | is_held)


@dataclass(frozen=True, eq=False)
class Migration(Generic[S, T]):
    """The rows of `source`, each made into one of `target` by `transform`, a pure function.

    `version` is the attribute that each write to the source raises. `state` and `lift` are the system's patterns of
    `state_of` and `hold_lifted`. `plain_key` are attributes of the target that would be a simpler key: the plan
    tells how many rows it would lose.
    """

    name: str
    source: type[S]
    target: type[T]
    transform: Callable[[S], T]
    version: Ref[S, int]
    state: Callable[[], Get[MigrationState]]
    lift: Callable[[MigrationState], Put[MigrationState]]
    plain_key: tuple[Ref[T, Any], ...] = ()

    async def reads_target(self, stores: Stores) -> bool:
        """Whether the target is the table to read now. Once it is, it stays so."""
        state = await self.current(stores)
        return state is not None and state.phase in TARGET_IS_TRUTH

    async def write(self, stores: Stores, to_source: Operation[Any], to_target: Operation[Any]) -> None:
        """Runs the operation of the table that is the truth now; `to_source` begins with the fence.

        While a switch is under way it waits, for moments as a rule and never longer than the hold lasts.
        """
        self._refuse_without_fence(to_source)
        ends, pause = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX, PAUSE_SECONDS_MIN
        while asyncio.get_running_loop().time() < ends:
            state = await self.current(stores)
            if state is not None and state.phase is Phase.SWITCHING:
                await self._wait_for_switch(stores, state, pause)
                is_done = False
            elif state is not None and state.phase in TARGET_IS_TRUTH:
                is_done = await _got_through(stores, to_target)
            else:
                is_done = await _got_through(stores, to_source, has_fence=True)
            if is_done:
                return
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
        raise RetryLater(
            f"Nothing could be written for {WAIT_SECONDS_MAX:g} s because of the migration {self.name}: "
            f"`holdfast migrate … {self.name} --status` tells how far it is."
        )

    def _refuse_without_fence(self, to_source: Operation[Any]) -> None:
        first = to_source.actions[0] if isinstance(to_source, Transact) else None
        if not isinstance(first, Check) or replace(first, pattern=None) != fence(self.name):
            raise DeclarationError(
                f"A write to {self.source.__name__} needs the fence of {self.name}, or it may be lost in the switch: "
                f"write transact(fence({self.name!r}), …)."
            )

    async def current(self, stores: Stores) -> MigrationState | None:
        """Where the migration stands; None where it was never begun."""
        try:
            return await stores.run(self.state())
        except NotFound:
            return None  # not even the table of migrations is there

    async def _wait_for_switch(self, stores: Stores, state: MigrationState, pause: float) -> None:
        now = datetime.fromtimestamp(stores.clock.now(), UTC)
        if state.hold_until is not None and state.hold_until < now:
            try:
                await stores.run(self.lift(state))
            except Conflict:
                pass  # the switch was quicker after all, or somebody else has lifted it
        else:
            await asyncio.sleep(pause)


async def _got_through(stores: Stores, write: Operation[Any], *, has_fence: bool = False) -> bool:
    """Whether the write was done. A lost fence, and a transaction in the way of another, are no refusals."""
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
    await asyncio.sleep(random.uniform(0, PAUSE_SECONDS_MIN))
    return False
