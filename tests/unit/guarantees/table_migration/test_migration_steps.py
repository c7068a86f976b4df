"""Steps of a migration in memory: backfill, stream, verification, lease and switch.

Some tests also run with a planted bug, to prove that they would notice it.
"""

from __future__ import annotations

import asyncio
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import Conflict, DeclarationError, LeaseLost, RetryLater
from holdfast.guarantees import MIGRATIONS, MigrationState, Phase
from holdfast.guarantees.table_migration import MigrationStep, Pace, get_status, migrate, remove_source
from holdfast.guarantees.table_migration.change_stream import ChangeStream
from holdfast.guarantees.table_migration.comparison import compare
from holdfast.guarantees.table_migration.copier import Copier
from holdfast.guarantees.table_migration.lease import MigrationLease, take_lease
from holdfast.guarantees.table_migration.rows import compute_digest, read_page
from holdfast.guarantees.table_migration.runner import MigrationRun
from holdfast.model.entities import ConditionCheck
from holdfast.operations import tables as requests
from holdfast.runtime import create_tables
from tests.unit.guarantees.table_migration.harbour import (
    MOORINGS,
    NAME,
    PACE,
    Berth,
    Mooring,
    berths,
    build_mooring,
    cast_off,
    make_berths,
    moor,
    open_harbour,
    read_moorings,
)

OLD = make_berths(1)[0]
CHANGED = OLD.model_copy(update={"note": "changed", "version": 2})
MOVED = OLD.model_copy(update={"day": "tue", "version": 2})


class _Unconditional(Copier[Berth, Mooring]):
    """Planted bug: puts rows as they were read, whatever changed since."""

    def _build_creation(self, row: Any) -> tuple[Any, ...]:
        return (Mooring.put(row.target),)


@pytest.fixture(params=["as it is", "without conditions"])
def copier(request: pytest.FixtureRequest) -> type[Copier[Berth, Mooring]]:
    """Return the copier, and in a second run the one with a planted bug."""
    return Copier if request.param == "as it is" else _Unconditional


@pytest.mark.proves("SM-X20")
@pytest.mark.parametrize("now", [CHANGED, MOVED, None], ids=["changed", "under another key", "deleted"])
async def test_backfill_does_not_overwrite_a_row_that_changed_after_its_read(
    copier: type[Copier[Berth, Mooring]], now: Berth | None
) -> None:
    """With the planted bug `_Unconditional` it does, and the test notices that."""
    async with open_harbour(rows=1) as stores:
        await migrate(MOORINGS, stores, until=MigrationStep.PREPARE, pace=PACE)
        lease = await take_lease(stores, NAME, 5)
        copying = copier(MOORINGS, lease, 4)
        page = await read_page(stores, Berth)
        await (cast_off(stores, OLD) if now is None else moor(stores, now))
        await ChangeStream(MOORINGS, lease, 0.0).drain(copying.copy_changed)
        await copying.fill(page.items or [])

        wanted = {} if now is None else {OLD.berth: build_mooring(now)}
        found = [each async for each in stores.each(Mooring.scan(reason="all"))]
        is_right = {each.berth: each for each in found} == wanted and len(found) == len(wanted)
        assert is_right == (copier is Copier), "the checker must notice the planted bug, and nothing else"


async def test_stream_removes_a_row_from_its_old_key_and_spares_the_next_owner() -> None:
    async with open_harbour(rows=2) as stores:
        await migrate(MOORINGS, stores, until=MigrationStep.BACKFILL, pace=PACE)
        first, second = make_berths(2)
        # The first berth gives its mooring to the second; then its change arrives again.
        await moor(stores, first.model_copy(update={"day": "tue", "version": 2}))
        await moor(stores, second.model_copy(update={"ship": first.ship, "version": 2}))
        await moor(stores, first.model_copy(update={"day": "tue", "version": 3}))
        await migrate(MOORINGS, stores, pace=PACE)

        found = await read_moorings(stores)
        assert (found["b0"].day, found["b1"].ship, found["b1"].day) == ("tue", "s0", "mon")
        assert (await get_status(MOORINGS, stores)).rows == 2


async def test_keeps_attributes_that_the_source_does_not_declare() -> None:
    async with open_harbour(rows=0) as stores:
        item = {**OLD.to_item(), "pilot": "Ada", "tugs": frozenset({"t1", "t2"})}
        await stores.tables.run(requests.PutItem("Berths", item))
        await migrate(MOORINGS, stores, pace=PACE)

        [found] = (await read_moorings(stores)).values()
        assert found.unknown_attributes == {"pilot": "Ada", "tugs": frozenset({"t1", "t2"})}


class _Deaf(Copier[Berth, Mooring]):
    """Planted bug: reads the stream and applies nothing."""

    async def copy_changed(self, changed: Any) -> None:
        return None


async def test_verification_finds_and_repairs_differences_by_counts_and_checksums(
    monkeypatch: pytest.MonkeyPatch, stores: Stores
) -> None:
    await migrate(MOORINGS, stores, until=MigrationStep.BACKFILL, pace=PACE)
    missing, different, *_ = make_berths(2)
    await stores.run(Mooring.of(missing.ship).delete(missing.day))
    await stores.run(Mooring.put(build_mooring(different).model_copy(update={"note": "scratched"})))
    await stores.run(Mooring.put(Mooring(ship="nobody's", day="mon", berth="?")))

    found = await compare(MOORINGS, stores)
    assert sorted(each.kind for each in found.differences) == ["different", "missing", "too many"]
    assert found.source.rows == found.target.rows == 10, "the counts alone do not show the difference"
    assert found.source.checksum != found.target.checksum
    await migrate(MOORINGS, stores, pace=PACE)
    assert (await compare(MOORINGS, stores)).is_equal
    assert (await get_status(MOORINGS, stores)).repaired == 3


async def test_ignored_stream_is_repaired_by_verification_or_stops_the_switch(
    monkeypatch: pytest.MonkeyPatch, stores: Stores
) -> None:
    await migrate(MOORINGS, stores, until=MigrationStep.BACKFILL, pace=PACE)
    await cast_off(stores, OLD)
    with monkeypatch.context() as deaf:
        deaf.setattr(Copier, "copy_changed", _Deaf.copy_changed)
        await migrate(MOORINGS, stores, until=MigrationStep.VERIFY, pace=PACE)
    assert len(await read_moorings(stores)) == 9, "extra rows are deleted"

    await moor(stores, OLD)
    with monkeypatch.context() as deaf:
        deaf.setattr(Copier, "copy_changed", _Deaf.copy_changed)
        with pytest.raises(Conflict, match="Both tables still differ in 1 rows"):
            await migrate(MOORINGS, stores, pace=PACE)
    assert (await get_status(MOORINGS, stores)).phase is Phase.VERIFIED, "writers are let in again"
    await moor(stores, CHANGED)


async def test_verification_finds_changes_that_the_stream_no_longer_has(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_800_000_000.0)

    async with open_memory_stores(clock=clock) as stores:
        await create_tables(stores, [berths, MIGRATIONS])
        for berth in make_berths(3):
            await stores.run(Berth.put(berth))
        await migrate(MOORINGS, stores, until=MigrationStep.PREPARE, pace=PACE)
        await moor(stores, make_berths(3)[2].model_copy(update={"version": 2}))
        await migrate(MOORINGS, stores, until=MigrationStep.BACKFILL, pace=PACE)
        await moor(stores, CHANGED)
        clock.advance(25 * 3600)
        await cast_off(stores, make_berths(2)[1])
        report = await migrate(MOORINGS, stores, pace=PACE)

        assert report.gaps == 1
        assert set(await read_moorings(stores)) == {"b0", "b2"}
        assert (await read_moorings(stores))["b0"].note == "changed"


async def test_rows_that_collide_since_the_plan_stop_the_switch(stores: Stores) -> None:
    await migrate(MOORINGS, stores, until=MigrationStep.BACKFILL, pace=PACE)
    await moor(stores, Berth(berth="twin", ship="s1", day="mon"))

    with pytest.raises(DeclarationError, match="since the plan"):
        await migrate(MOORINGS, stores, pace=PACE)
    await cast_off(stores, Berth(berth="twin", ship="s1", day="mon"))
    assert (await migrate(MOORINGS, stores, pace=PACE)).phase is Phase.SWITCHED
    assert len(await read_moorings(stores)) == 10


async def test_rejects_a_stream_without_both_images(stores: Stores) -> None:
    await stores.tables.run(requests.UpdateTable("Berths", stream=requests.StreamChange("KEYS_ONLY")))
    with pytest.raises(DeclarationError, match="shows KEYS_ONLY, and a migration needs NEW_AND_OLD_IMAGES"):
        await migrate(MOORINGS, stores, pace=PACE)


def test_digest_of_an_item_ignores_attribute_order_and_distinguishes_types() -> None:
    one: dict[str, Any] = {"a": 1, "b": [True, None, b"x"], "c": frozenset({"x", "y"})}
    assert compute_digest(one) == compute_digest(dict(reversed(one.items())))
    variants: list[Any] = [
        "1",
        1,
        True,
        b"1",
        [1],
        None,
        frozenset({"1"}),
        frozenset({1}),
        {"a": 1},
        ["N", "1"],
    ]
    assert len({compute_digest({"a": variant}) for variant in variants}) == len(variants)


class _Careless(MigrationLease):
    """Planted bug: does not check that the lease is still held."""

    def check(self) -> ConditionCheck[Any]:
        return MigrationState.of("another").check().when(MigrationState.phase.not_exists())


@pytest.fixture(params=[MigrationLease, _Careless], ids=["as it is", "unchecked"])
def lease_class(request: pytest.FixtureRequest) -> type[MigrationLease]:
    """Return the lease, and in a second run the one with a planted bug."""
    return request.param  # type: ignore[no-any-return]


@pytest.mark.proves("SM-X20")
async def test_process_that_slept_through_the_loss_of_its_lease_restores_nothing(
    lease_class: type[MigrationLease], stores: Stores
) -> None:
    """With the planted bug `_Careless` it restores a deleted row, and the test notices that."""
    await migrate(MOORINGS, stores, until=MigrationStep.PREPARE, pace=PACE)
    lost = await take_lease(stores, NAME, 0.0)
    asleep = Copier(MOORINGS, lease_class(lost.lease, stores, lost.record, 5), 4)
    page = await read_page(stores, Berth)
    await migrate(MOORINGS, stores, pace=PACE)
    await cast_off(stores, OLD)  # deleted from the target; the old row is still in the source

    if lease_class is MigrationLease:
        with pytest.raises(LeaseLost, match="Another process has taken over"):
            await asleep.fill(page.items or [])
    else:
        await asleep.fill(page.items or [])
    has_come_back = OLD.berth in await read_moorings(stores)
    assert has_come_back == (lease_class is _Careless), "the checker must notice the planted bug"


async def test_second_process_is_refused_while_another_runs_the_migration(stores: Stores) -> None:
    held = await take_lease(stores, NAME, 60)
    with pytest.raises(RetryLater, match="being run by another process"):
        await migrate(MOORINGS, stores, pace=PACE, wait=False)
    await held.release()
    assert (await migrate(MOORINGS, stores, pace=PACE, wait=False)).phase is Phase.SWITCHED


async def test_process_that_repeatedly_loses_its_lease_finishes_correctly() -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)

    async with open_harbour(rows=40) as stores:
        hasty = Pace(lease_s=0.0, hold_s=5, segments=2, batch_size=1)
        losses = 0

        async def thief() -> None:
            for _ in range(20):
                await take_lease(stores, NAME, 0.0)
                await asyncio.sleep(random.uniform(0, 0.02))

        async with asyncio.TaskGroup() as group:
            group.create_task(thief())
            while (await get_status(MOORINGS, stores)).phase is not Phase.SWITCHED:
                try:
                    await migrate(MOORINGS, stores, pace=hasty)
                except LeaseLost:
                    losses += 1
        assert losses > 0
        assert set(await read_moorings(stores)) == {f"b{number}" for number in range(40)}


async def _hold_for_a_switch(stores: Stores, seconds: float) -> MigrationState:
    """Leave a switch whose process died while writers wait for it."""
    await migrate(MOORINGS, stores, until=MigrationStep.VERIFY, pace=PACE)
    until = datetime.fromtimestamp(stores.clock.now() + seconds, UTC)
    state = await MOORINGS.load_state(stores)
    assert state is not None
    held = state.model_copy(update={"phase": Phase.SWITCHING, "hold": "h", "hold_until": until})
    await stores.run(MigrationState.put(held))
    return held


async def test_writer_waits_for_a_running_switch_and_then_writes_to_the_new_table(stores: Stores) -> None:
    held = await _hold_for_a_switch(stores, 60)
    writing = asyncio.create_task(moor(stores, CHANGED))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not writing.done()
    assert await stores.run(Berth.of("b0").get()) == OLD
    await stores.run(MigrationState.put(held.model_copy(update={"phase": Phase.SWITCHED})))
    await writing

    assert await stores.run(Berth.of("b0").get()) == OLD
    assert (await read_moorings(stores))["b0"] == build_mooring(CHANGED)


async def test_writers_wait_for_a_dead_switch_no_longer_than_its_hold(stores: Stores) -> None:
    await _hold_for_a_switch(stores, -1)
    await moor(stores, CHANGED)
    assert await stores.run(Berth.of("b0").get()) == CHANGED
    assert (await get_status(MOORINGS, stores)).phase is Phase.VERIFIED

    assert (await migrate(MOORINGS, stores, pace=PACE)).phase is Phase.SWITCHED
    assert (await read_moorings(stores))["b0"] == build_mooring(CHANGED)


async def test_hold_of_a_process_a_day_ahead_lasts_as_long_as_it_declared(stores: Stores) -> None:
    held = await _hold_for_a_switch(stores, 0)
    began = held.changed_at + timedelta(days=1)
    ahead = {"changed_at": began, "hold_until": began + timedelta(seconds=0.05)}
    await stores.run(MigrationState.put(held.model_copy(update=ahead)))
    await moor(stores, CHANGED)
    assert await stores.run(Berth.of("b0").get()) == CHANGED
    assert (await get_status(MOORINGS, stores)).phase is Phase.VERIFIED


async def test_resumes_a_switch_left_by_a_dead_process(stores: Stores) -> None:
    await _hold_for_a_switch(stores, 60)
    assert (await migrate(MOORINGS, stores, pace=PACE)).phase is Phase.SWITCHED


async def test_retries_a_switch_whose_hold_was_lifted(
    monkeypatch: pytest.MonkeyPatch, stores: Stores
) -> None:
    """Let a writer in while the tables are compared: its write must not be lost."""
    original = MigrationRun._compare_for_switch
    lifted: list[MigrationState] = []

    async def slow(run: MigrationRun[Any, Any]) -> Any:
        comparison = await original(run)
        if not lifted:
            state = await MOORINGS.load_state(run._stores)
            assert state is not None
            await run._stores.run(MOORINGS.pattern_set.lift_hold(state))
            lifted.append(state)
            await moor(run._stores, CHANGED)
        return comparison

    monkeypatch.setattr(MigrationRun, "_compare_for_switch", slow)

    assert (await migrate(MOORINGS, stores, pace=PACE)).phase is Phase.SWITCHED
    assert lifted
    assert (await read_moorings(stores))["b0"] == build_mooring(CHANGED)


@pytest.mark.parametrize("has_fence", [True, False], ids=["as it is", "without a fence"])
async def test_keeps_a_write_that_read_before_the_switch_and_wrote_after_it(
    has_fence: bool, stores: Stores
) -> None:
    """A write without the fence is lost, and the removal of the source then refuses."""
    await migrate(MOORINGS, stores, until=MigrationStep.VERIFY, pace=PACE)
    state = await MOORINGS.load_state(stores)
    await migrate(MOORINGS, stores, pace=PACE)
    looks = iter([state])

    class _Late(type(MOORINGS)):  # type: ignore[misc]
        async def load_state(self, stores: Stores) -> MigrationState | None:
            for seen in looks:
                return seen
            return await super().load_state(stores)  # type: ignore[no-any-return]

    if has_fence:
        from holdfast import transact
        from holdfast.guarantees import fence

        to_source = transact(fence(NAME), Berth.put(CHANGED))
        late = copy(MOORINGS)
        late.__class__ = _Late
        await late.write(stores, to_source, Mooring.put(build_mooring(CHANGED)))
    else:
        await stores.run(Berth.put(CHANGED))
    has_arrived = (await read_moorings(stores))["b0"].note == "changed"
    assert has_arrived == has_fence, "the checker must notice the planted bug"
    if not has_fence:
        with pytest.raises(Conflict, match="berth = b0"):
            await remove_source(MOORINGS, stores)
