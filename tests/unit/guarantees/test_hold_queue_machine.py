"""Any interleaving of hold, approve, edit, cancel, execute, reopen, restores and crashes: each effect at most once, never
after a cancel, never before its time, and exactly once where it is executed until it is done.

A crash is a store that does not answer any more from some request on, of one process alone: nothing can be given back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast import Stores, create_tables, open_memory_stores
from holdfast.core.errors import (
    ConditionFailed,
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    NotPending,
    StoreUnreachable,
)
from holdfast.guarantees import OUTCOME_UNKNOWN, Completion, OnceStatus
from holdfast.operations.tables import Operation
from holdfast.stores.tables.port import Tables
from tests.unit.guarantees.held_records import (
    ACT_S,
    KEY_KEPT_S,
    LEASE_S,
    Letter,
    due,
    hold,
    letter,
    letters,
    queue,
    read,
)
from tests.unit.guarantees.once_records import HandClock, count, counted, counters

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
EXAMPLES = 1000 if SOAK else 60
STEPS = 40
# Few, so that much happens to each.
LETTERS_MAX = 4
FAR = datetime(2126, 1, 1, tzinfo=UTC)

T = TypeVar("T")


@dataclass
class Expected:
    """What must be true of one letter."""

    id: str
    by_key: bool
    text: str
    due_at: float
    seen: list[Letter]
    cancelled: bool = False
    refused: bool = False
    effects: int = 0
    # How often it was reopened or brought back by a restore: so often it may end anew.
    comebacks: int = 0
    is_restored: bool = False
    key_since: float | None = None


class Mortal:
    """The tables of one process. It lives for so many requests; the last one is still done, or not."""

    def __init__(self, tables: Tables, requests: int | None, is_last_done: bool) -> None:
        self._tables, self._left, self._is_last_done = tables, requests, is_last_done

    async def run(self, operation: Operation[Any]) -> Any:
        if self._left is None:
            return await self._tables.run(operation)
        self._left -= 1
        if self._left == 0 and self._is_last_done:
            await self._tables.run(operation)
        if self._left <= 0:
            raise StoreUnreachable("This process is dead.")
        return await self._tables.run(operation)


class Holding(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock, self.opened = HandClock(), AsyncExitStack()
        self.stores = self.ran(self.opened.enter_async_context(open_memory_stores(clock=self.clock)))
        self.ran(create_tables(self.stores, [letters, counters]))
        self.letters: list[Expected] = []

    def ran(self, story: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(story)

    @precondition(lambda self: len(self.letters) < LETTERS_MAX)
    @rule(for_s=st.sampled_from([0.0, 0.0, 60.0]), by_key=st.booleans())
    def hold(self, for_s: float, by_key: bool) -> None:
        id = f"l-{len(self.letters)}"
        record = self.ran(hold(self.stores, letter(id, expires_at=FAR), for_s))
        assert record.held_until is not None
        self.letters.append(Expected(id, by_key, record.text, record.held_until.timestamp(), [record]))

    @rule(seconds=st.sampled_from([1.0, LEASE_S, KEY_KEPT_S / 2, KEY_KEPT_S]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.letters)
    @rule(
        data=st.data(),
        how=st.sampled_from(["approve", "edit", "edit", "cancel"]),
        is_stale=st.sampled_from([False, False, True]),
    )
    def review(self, data: st.DataObject, how: str, is_stale: bool) -> None:
        expected = data.draw(st.sampled_from(self.letters))
        self.ran(self._reviewed(expected, how, is_stale))

    async def _reviewed(self, expected: Expected, how: str, is_stale: bool) -> None:
        seen = expected.seen[0] if is_stale else await read(self.stores, letter(expected.id))
        text = f"{seen.text}!"
        try:
            if how == "approve":
                record = await queue.approve(self.stores, seen, by="ann")
                expected.due_at = min(expected.due_at, self.clock.now())
            elif how == "edit":
                record = await queue.edit(self.stores, seen, by="ann", text=text)
                expected.text = text
            else:
                record = await queue.cancel(self.stores, seen, count(f"{expected.id} ended"), by="ann")
                assert not expected.cancelled and (expected.effects == 0 or expected.is_restored)
                expected.cancelled = True
        except (NotPending, ConditionFailed):
            return
        expected.seen.append(record)

    @precondition(lambda self: self.letters)
    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        """Because the reason is gone; where it may have been done, only if a look at the party says that it was not."""
        expected = data.draw(st.sampled_from(self.letters))
        self.ran(self._reopened(expected))

    async def _reopened(self, expected: Expected) -> None:
        seen = await read(self.stores, letter(expected.id))
        if expected.effects and (seen.refused == OUTCOME_UNKNOWN or expected.is_restored):
            return
        try:
            record = await queue.reopen(self.stores, seen, by="ann")
        except NotPending:
            return
        expected.seen.append(record)
        expected.comebacks += 1

    @precondition(lambda self: self.letters)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        """The table is brought back to when a person had decided last, whatever was done since."""
        expected = data.draw(st.sampled_from(self.letters))
        if expected.cancelled:
            return
        self.clock.advance(LEASE_S + 1)
        self.ran(self.stores.run(Letter.put(expected.seen[-1])))
        expected.comebacks, expected.is_restored = expected.comebacks + 1, True

    @precondition(lambda self: self.letters)
    @rule(
        data=st.data(),
        fate=st.sampled_from(["lost", "lost", "not done", "done", "refused", "asked meanwhile"]),
        dies_at=st.none() | st.none() | st.integers(1, 6),
        is_last_done=st.booleans(),
    )
    def execute(self, data: st.DataObject, fate: str, dies_at: int | None, is_last_done: bool) -> None:
        expected = data.draw(st.sampled_from(self.letters))
        tables = Mortal(self.stores.tables, dies_at, is_last_done)
        try:
            self.ran(self._executed(expected, Stores(tables, clock=self.clock), fate))
        except HoldfastError:
            return

    @precondition(lambda self: self.letters)
    @rule(data=st.data())
    def race(self, data: st.DataObject) -> None:
        """Two processes execute it and a person cancels it, at the same time."""
        expected = data.draw(st.sampled_from(self.letters))

        async def raced() -> None:
            executes = [self._executed(expected, self.stores, "done") for _ in range(2)]
            answers = await asyncio.gather(
                *executes, self._reviewed(expected, "cancel", False), return_exceptions=True
            )
            for each in answers:
                assert not isinstance(each, BaseException) or isinstance(each, HoldfastError), repr(each)

        self.ran(raced())

    async def _executed(self, expected: Expected, stores: Stores, fate: str) -> Completion[Letter]:
        async def act(record: Letter, key: str) -> str:
            if fate == "not done":
                raise ExternalServiceFailed("not now", may_be_done=False)
            if fate == "refused":
                raise ExternalServiceRefused("no", "The party does not want it.")
            self._effected(expected, record)
            if fate == "asked meanwhile":
                await self._reviewed(expected, "cancel", False)
                await self._reviewed(expected, "edit", False)
            if fate == "lost":
                raise ExternalServiceFailed("no answer", may_be_done=True)
            return record.text

        async def look_up(record: Letter, key: str) -> str | None:
            return record.text if expected.effects else None

        ways: dict[str, Any] = {"look_up": look_up}
        if expected.by_key:
            ways = {"takes_key": True, "key_kept_s": KEY_KEPT_S}
        writes: Callable[[Any], Any] = lambda _: [count(f"{expected.id} ended")]  # noqa: E731
        try:
            return await queue.execute(
                stores,
                letter(expected.id),
                act=act,
                act_s=ACT_S,
                writes=writes,
                refused=writes,
                **ways,
            )
        except ExternalServiceRefused:
            expected.refused = True
            raise

    def _effected(self, expected: Expected, record: Letter) -> None:
        """The party does it; under a key that it knows it does nothing."""
        now = self.clock.now()
        if expected.by_key and expected.key_since is not None and now - expected.key_since < KEY_KEPT_S:
            return
        expected.effects, expected.key_since = expected.effects + 1, now
        assert expected.effects == 1
        assert not expected.cancelled
        assert now >= expected.due_at
        assert record.text == expected.text

    @invariant()
    def none_is_ended_twice(self) -> None:
        for each in getattr(self, "letters", []):
            assert self.ran(counted(self.stores, f"{each.id} ended")) <= 1 + each.comebacks

    def teardown(self) -> None:
        if hasattr(self, "letters"):
            for each in self.letters:
                self.ran(self._ended(each))
            assert self.ran(due(self.stores)) == []
            self.ran(self.opened.aclose())
            self.loop.close()

    async def _ended(self, expected: Expected) -> None:
        """Executed until there is nothing more to do."""
        self.clock.advance(LEASE_S)
        while (record := await read(self.stores, letter(expected.id))).status is OnceStatus.HELD:
            self.clock.advance(max(0.0, record.get_seconds_until_due(self.clock.now())))
            with suppress(ExternalServiceRefused):
                await self._executed(expected, self.stores, "done")
        if record.status is OnceStatus.CANCELLED:
            assert expected.cancelled and (expected.effects == 0 or expected.is_restored)
            return
        came = await self._came_of_it(expected)
        assert came in ("done", "no") or (came == OUTCOME_UNKNOWN and expected.by_key)
        assert came != "no" or expected.by_key or expected.effects == 0
        assert 1 <= await counted(self.stores, f"{expected.id} ended") <= 1 + expected.comebacks

    async def _came_of_it(self, expected: Expected) -> str:
        try:
            done = await self._executed(expected, self.stores, "done")
        except ExternalServiceRefused as refused:
            return str(refused.code)
        assert (done.result, expected.effects, done.record.executed) == (expected.text, 1, True)
        return "done"


TestHolding = Holding.TestCase
TestHolding.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
