"""Hypothesis state machine over delayed actions in memory: reviews, executions, restores and crashes.

Each effect happens at most once, never after a cancel, never before its time, and exactly once if it is
executed until it is done. A crash is one process whose store stops answering from some request on, so that it
can release nothing.
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

from holdfast import Stores, open_memory_stores
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
from holdfast.runtime import create_tables
from holdfast.stores.tables.port import Tables
from tests.unit.guarantees.delayed_actions.delayed_letters import (
    ACT_S,
    KEY_KEPT_S,
    LEASE_S,
    Letter,
    hold,
    letters,
    list_due,
    make_letter,
    queue,
    read_letter,
)
from tests.unit.guarantees.idempotency.once_records import ManualClock, count, counters, read_counter

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
EXAMPLES = 1000 if SOAK else 60
STEPS = 40
# Few letters, so that each goes through many steps.
MAX_LETTERS = 4
FAR = datetime(2126, 1, 1, tzinfo=UTC)

T = TypeVar("T")


@dataclass
class Expected:
    """Expected state of one letter."""

    id: str
    by_key: bool
    text: str
    due_at: float
    seen: list[Letter]
    cancelled: bool = False
    refused: bool = False
    effects: int = 0
    # Number of reopens and restores: the letter may end that many times more.
    comebacks: int = 0
    is_restored: bool = False
    key_since: float | None = None


class MortalTables:
    """Tables engine of one process, which dies at request number `requests`; None never dies.

    The last request is executed only with `is_last_done`.
    """

    def __init__(self, tables: Tables, requests: int | None, is_last_done: bool) -> None:
        self._tables, self._left, self._is_last_done = tables, requests, is_last_done

    async def run(self, operation: Operation[Any]) -> Any:
        """Run the operation, or raise `StoreUnreachable` once the process is dead."""
        if self._left is None:
            return await self._tables.run(operation)
        self._left -= 1
        if self._left == 0 and self._is_last_done:
            await self._tables.run(operation)
        if self._left <= 0:
            raise StoreUnreachable("This process is dead.")
        return await self._tables.run(operation)


class DelayedActionsMachine(RuleBasedStateMachine):
    """Letters that rules delay, review, execute, reopen and restore in any order."""

    @initialize()
    def begin(self) -> None:
        """Open in-memory stores with the tables and a manual clock."""
        self.loop = asyncio.new_event_loop()
        self.clock, self.opened = ManualClock(), AsyncExitStack()
        self.stores = self.run_story(self.opened.enter_async_context(open_memory_stores(clock=self.clock)))
        self.run_story(create_tables(self.stores, [letters, counters]))
        self.letters: list[Expected] = []

    def run_story(self, story: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end on the machine's event loop."""
        return self.loop.run_until_complete(story)

    @precondition(lambda self: len(self.letters) < MAX_LETTERS)
    @rule(for_s=st.sampled_from([0.0, 0.0, 60.0]), by_key=st.booleans())
    def hold(self, for_s: float, by_key: bool) -> None:
        """Delay a new letter.

        With `by_key` it is executed under an idempotency key, otherwise with a look-up.
        """
        id = f"l-{len(self.letters)}"
        record = self.run_story(hold(self.stores, make_letter(id, expires_at=FAR), for_s))
        assert record.held_until is not None
        self.letters.append(Expected(id, by_key, record.text, record.held_until.timestamp(), [record]))

    @rule(seconds=st.sampled_from([1.0, LEASE_S, KEY_KEPT_S / 2, KEY_KEPT_S]))
    def wait(self, seconds: float) -> None:
        """Advance the clock."""
        self.clock.advance(seconds)

    @precondition(lambda self: self.letters)
    @rule(
        data=st.data(),
        how=st.sampled_from(["approve", "edit", "edit", "cancel"]),
        is_stale=st.sampled_from([False, False, True]),
    )
    def review(self, data: st.DataObject, how: str, is_stale: bool) -> None:
        """Approve, edit or cancel a letter, as it is now or as it was first."""
        expected = data.draw(st.sampled_from(self.letters))
        self.run_story(self._review(expected, how, is_stale))

    async def _review(self, expected: Expected, how: str, is_stale: bool) -> None:
        """Approve, edit or cancel the letter, as it is or (`is_stale`) as it was first; a refused review
        changes nothing.
        """
        seen = expected.seen[0] if is_stale else await read_letter(self.stores, make_letter(expected.id))
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
        """Reopen a refused letter; where it may have been sent, only if a lookup shows that it was not."""
        expected = data.draw(st.sampled_from(self.letters))
        self.run_story(self._reopen(expected))

    async def _reopen(self, expected: Expected) -> None:
        """Reopen the letter if it was refused and certainly was not sent."""
        seen = await read_letter(self.stores, make_letter(expected.id))
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
        """Restore the table to the last review, whatever was executed since."""
        expected = data.draw(st.sampled_from(self.letters))
        if expected.cancelled:
            return
        self.clock.advance(LEASE_S + 1)
        self.run_story(self.stores.run(Letter.put(expected.seen[-1])))
        expected.comebacks, expected.is_restored = expected.comebacks + 1, True

    @precondition(lambda self: self.letters)
    @rule(
        data=st.data(),
        fate=st.sampled_from(["lost", "lost", "not done", "done", "refused", "asked meanwhile"]),
        dies_at=st.none() | st.none() | st.integers(1, 6),
        is_last_done=st.booleans(),
    )
    def execute(self, data: st.DataObject, fate: str, dies_at: int | None, is_last_done: bool) -> None:
        """Execute the letter; `fate` is what the service does, `dies_at` the request at which the process
        dies.
        """
        expected = data.draw(st.sampled_from(self.letters))
        tables = MortalTables(self.stores.tables, dies_at, is_last_done)
        try:
            self.run_story(self._execute(expected, Stores(tables, clock=self.clock), fate))
        except HoldfastError:
            return

    @precondition(lambda self: self.letters)
    @rule(data=st.data())
    def race(self, data: st.DataObject) -> None:
        """Run two executors and one cancel at the same time."""
        expected = data.draw(st.sampled_from(self.letters))

        async def race_all() -> None:
            executes = [self._execute(expected, self.stores, "done") for _ in range(2)]
            answers = await asyncio.gather(
                *executes, self._review(expected, "cancel", False), return_exceptions=True
            )
            for each in answers:
                assert not isinstance(each, BaseException) or isinstance(each, HoldfastError), repr(each)

        self.run_story(race_all())

    async def _execute(self, expected: Expected, stores: Stores, fate: str) -> Completion[Letter]:
        """Execute the letter once; `fate` says what the external service does with the call."""

        async def act(record: Letter, key: str) -> str:
            if fate == "not done":
                raise ExternalServiceFailed("not now", may_be_done=False)
            if fate == "refused":
                raise ExternalServiceRefused("no", "The service does not want it.")
            self._apply_effect(expected, record)
            if fate == "asked meanwhile":
                await self._review(expected, "cancel", False)
                await self._review(expected, "edit", False)
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
                make_letter(expected.id),
                act=act,
                act_s=ACT_S,
                writes=writes,
                refused=writes,
                **ways,
            )
        except ExternalServiceRefused:
            expected.refused = True
            raise

    def _apply_effect(self, expected: Expected, record: Letter) -> None:
        """Apply the effect at the service, unless it knows the key; assert that it may happen now, for the
        first time.
        """
        now = self.clock.now()
        if expected.by_key and expected.key_since is not None and now - expected.key_since < KEY_KEPT_S:
            return
        expected.effects, expected.key_since = expected.effects + 1, now
        assert expected.effects == 1
        assert not expected.cancelled
        assert now >= expected.due_at
        assert record.text == expected.text

    @invariant()
    def no_letter_is_sent_twice(self) -> None:
        """Assert that each letter ended at most once, and once more per reopen or restore."""
        for each in getattr(self, "letters", []):
            assert self.run_story(read_counter(self.stores, f"{each.id} ended")) <= 1 + each.comebacks

    def teardown(self) -> None:
        """Execute every letter until it is done, and assert that none is due any more."""
        if hasattr(self, "letters"):
            for each in self.letters:
                self.run_story(self._execute_until_done(each))
            assert self.run_story(list_due(self.stores)) == []
            self.run_story(self.opened.aclose())
            self.loop.close()

    async def _execute_until_done(self, expected: Expected) -> None:
        """Execute the letter until nothing is left to do, and assert how it ended."""
        self.clock.advance(LEASE_S)
        while (record := await read_letter(self.stores, make_letter(expected.id))).status is OnceStatus.HELD:
            self.clock.advance(max(0.0, record.get_seconds_until_due(self.clock.now())))
            with suppress(ExternalServiceRefused):
                await self._execute(expected, self.stores, "done")
        if record.status is OnceStatus.CANCELLED:
            assert expected.cancelled and (expected.effects == 0 or expected.is_restored)
            return
        came = await self._outcome(expected)
        assert came in ("done", "no") or (came == OUTCOME_UNKNOWN and expected.by_key)
        assert came != "no" or expected.by_key or expected.effects == 0
        assert 1 <= await read_counter(self.stores, f"{expected.id} ended") <= 1 + expected.comebacks

    async def _outcome(self, expected: Expected) -> str:
        """Execute the letter again and return `done`, or the code of its refusal."""
        try:
            done = await self._execute(expected, self.stores, "done")
        except ExternalServiceRefused as refused:
            return str(refused.code)
        assert (done.result, expected.effects, done.record.executed) == (expected.text, 1, True)
        return "done"


TestDelayedActionsMachine = DelayedActionsMachine.TestCase
TestDelayedActionsMachine.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
