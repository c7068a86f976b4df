"""The sampler: one process samples, an hour is kept, and a failure of one system does not hide another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import Stores, open_memory_stores, open_stores
from holdfast.config.settings import Settings
from holdfast.console.model import CONSOLE
from holdfast.console.overview.history import MAX_SAMPLES, SampleHistory
from holdfast.console.overview.records import LEASE_S, SAMPLER, ConsoleSample
from holdfast.console.overview.sampler import LEASE_NAME, Sampler, run_sampler
from holdfast.console.overview.samples import Sample, SystemSample
from holdfast.console.system_pages import OpenQuestions
from holdfast.core.errors import Conflict, StoreFailed
from holdfast.runtime import provision
from tests.unit.console.overview.depot import DEPOT, Parcel, parcels
from tests.unit.guarantees.idempotency.once_records import ManualClock

HOUR_S = 3600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def own(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(CONSOLE, clock=clock) as opened:
        await provision(opened, CONSOLE)
        yield opened


@pytest.fixture
async def depot(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(DEPOT, clock=clock) as opened:
        await provision(opened, DEPOT)
        yield opened


async def keep(own: Stores, sampler: Sampler, *samples: Sample) -> None:
    lease = await SAMPLER.take(own, LEASE_NAME)
    for each in samples:
        await sampler.keep(lease, each)
    await lease.release()


async def test_sample_has_the_figures_of_the_stores(own: Stores, depot: Stores) -> None:
    await depot.run(parcels.send(Parcel(order_id="o-1")))

    sample = await Sampler(own, {"depot": depot}, Settings()).take()

    assert sample.at == own.clock.now()
    assert sample.systems["depot"].queues["parcels"].visible == 1
    assert sample.systems["depot"].stores == {"tables": "", "queues": ""}
    assert sample.systems["depot"].rates is None


async def test_sample_has_the_questions_of_the_pages(own: Stores, depot: Stores) -> None:
    async def count() -> int:
        return 3

    questions = {"depot": OpenQuestions(count, "/inbox")}
    sample = await Sampler(own, {"depot": depot}, Settings(), questions).take()

    assert sample.systems["depot"].questions == 3
    assert sample.systems["depot"].unread == []


async def test_questions_that_cannot_be_counted_are_named(own: Stores, depot: Stores) -> None:
    async def count() -> int:
        raise StoreFailed("The disk is gone.")

    questions = {"depot": OpenQuestions(count, "/inbox")}
    sample = await Sampler(own, {"depot": depot}, Settings(), questions).take()

    assert (sample.systems["depot"].questions, sample.systems["depot"].unread) == (0, ["questions"])


async def test_system_that_cannot_be_read_leaves_the_others(
    own: Stores, depot: Stores, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = Sampler(own, {"broken": depot, "depot": depot}, Settings())

    async def fail(_: object) -> SystemSample:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(sampler._systems["broken"], "read", fail)

    assert (await sampler.take()).systems.keys() == {"depot"}
    assert "The figures of broken were not read." in caplog.text


async def test_process_that_lost_the_lease_keeps_no_sample(
    own: Stores, depot: Stores, clock: ManualClock
) -> None:
    sampler = Sampler(own, {"depot": depot}, Settings())
    lost = await SAMPLER.take(own, LEASE_NAME)
    clock.advance(LEASE_S + 1)
    held = await SAMPLER.take(own, LEASE_NAME)

    with pytest.raises(Conflict):
        await sampler.keep(lost, await sampler.take())
    await sampler.keep(held, await sampler.take())

    history = SampleHistory(own)
    await history.refresh()
    assert len(history.samples) == 1


async def test_of_several_consoles_one_samples_and_all_show_it(tmp_path: Path) -> None:
    settings = replace(Settings().in_folder(tmp_path), environment="dev")
    async with open_stores(settings=settings) as first, open_stores(settings=settings) as second:
        consoles = [each.for_system(CONSOLE) for each in (first, second)]
        await provision(consoles[0], CONSOLE)
        await provision(first.for_system(DEPOT), DEPOT)
        samplers = [
            Sampler(own, {"depot": stores.for_system(DEPOT)}, settings, every_s=0.05)
            for own, stores in zip(consoles, (first, second), strict=True)
        ]
        taken = [_count_takes(each) for each in samplers]
        histories = [SampleHistory(each) for each in consoles]
        async with run_sampler(samplers[0]), run_sampler(samplers[1]):
            await _wait_for_samples(histories[0], 3)
            await _wait_for_samples(histories[1], 3)
        # One process took every sample; the other none, because it never had the lease.
        assert sorted(min(1, each["count"]) for each in taken) == [0, 1]


async def test_another_console_takes_over_after_the_first_one_ended(tmp_path: Path) -> None:
    settings = replace(Settings().in_folder(tmp_path), environment="dev")
    async with open_stores(settings=settings) as stores:
        own, depot = stores.for_system(CONSOLE), stores.for_system(DEPOT)
        await provision(own, CONSOLE)
        await provision(depot, DEPOT)
        history = SampleHistory(own)
        for expected in (1, 2):
            async with run_sampler(Sampler(own, {"depot": depot}, settings, every_s=0.05)):
                await _wait_for_samples(history, expected)


async def test_history_keeps_an_hour(own: Stores, depot: Stores, clock: ManualClock) -> None:
    sampler, history = Sampler(own, {"depot": depot}, Settings()), SampleHistory(own)
    old = clock.now()
    await keep(own, sampler, Sample(old), Sample(old + 15))
    assert await history.refresh() == old + 15

    clock.advance(HOUR_S + 10)
    await keep(own, sampler, Sample(clock.now()))

    assert await history.refresh() == clock.now()
    assert [each.at for each in history.samples] == [old + 15, clock.now()]
    # Another process reads the same, although the store may not have removed the oldest yet.
    other = SampleHistory(own)
    await other.refresh()
    assert [each.at for each in other.samples] == [old + 15, clock.now()]


async def test_history_reads_each_sample_once(own: Stores, depot: Stores, clock: ManualClock) -> None:
    sampler, history = Sampler(own, {"depot": depot}, Settings()), SampleHistory(own)
    await keep(own, sampler, Sample(clock.now()))
    for _ in range(3):
        await history.refresh()
        clock.advance(15)
        await keep(own, sampler, Sample(clock.now()))
    with own.meter_usage() as usage:
        await asyncio.gather(history.refresh(), history.refresh())

    assert len(history.samples) == 4
    assert usage.items_returned == 1
    assert MAX_SAMPLES == 480


async def test_sample_of_a_clock_a_day_ahead_hides_no_other(
    own: Stores, depot: Stores, clock: ManualClock
) -> None:
    sampler, history = Sampler(own, {"depot": depot}, Settings()), SampleHistory(own)
    await keep(own, sampler, Sample(clock.now() + 24 * HOUR_S))
    assert await history.refresh() == 0

    await keep(own, sampler, Sample(clock.now()))

    assert await history.refresh() == clock.now()


async def test_record_of_a_sample_expires_after_an_hour(
    own: Stores, depot: Stores, clock: ManualClock
) -> None:
    await keep(own, Sampler(own, {"depot": depot}, Settings()), Sample(clock.now()))
    kept = await own.all(ConsoleSample.of().query())
    assert len(kept) == 1

    clock.advance(HOUR_S + 1)

    assert list(await own.all(ConsoleSample.of().query())) == []


async def test_sample_of_another_version_is_skipped(own: Stores, depot: Stores, clock: ManualClock) -> None:
    strange = ConsoleSample(at=own.now(), content='{"at": 1, "systems": []}')
    await own.run(ConsoleSample.put(strange))
    clock.advance(1)
    await keep(own, Sampler(own, {"depot": depot}, Settings()), Sample(clock.now()))
    history = SampleHistory(own)

    assert await history.refresh() == clock.now()
    assert len(history.samples) == 1


def _count_takes(sampler: Sampler) -> dict[str, int]:
    """Count the samples that a sampler takes."""
    counted = {"count": 0}
    take = sampler.take

    async def count_and_take() -> Sample:
        counted["count"] += 1
        return await take()

    sampler.take = count_and_take  # type: ignore[method-assign]
    return counted


async def _wait_for_samples(history: SampleHistory, count: int) -> None:
    """Wait until so many samples are stored; no event says so across processes."""
    async with asyncio.timeout(60):
        while len(history.samples) < count:
            await history.refresh()
            await asyncio.sleep(0.02)
