"""Measures and costs of queue and object patterns, on scratch stores in memory, priced per request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import Attr, Entity, Key, Put, Stores, System, Table, Update, attr, pattern
from holdfast.config.settings import Settings
from holdfast.model.demo import Demo
from holdfast.model.entities.writes import ConditionCheck
from holdfast.model.queues import Send
from holdfast.operations.objects import GetObject
from holdfast.operations.queues import DescribeQueue
from holdfast.reports.cost.price_lists import GB, SECONDS_PER_MONTH, PriceList, load_price_list
from holdfast.reports.cost.system_cost import SystemCost, estimate_cost
from holdfast.reports.measurement.data_sources import DataSource, open_data_source, open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from holdfast.reports.pattern_list import measure_to_json
from holdfast.runtime import create_buckets, create_tables, open_stores
from tests.unit.reports.post_room import (
    LETTER,
    NOON,
    SYSTEM,
    Letter,
    enter,
    file_scan,
    forget_scan,
    hold_scan,
    letters,
    take_in,
)

T = TypeVar("T")


async def sample(stores: Stores, *, scale: int = 1, progress: Any = None) -> None:
    """Put one scan into the archive and one letter into the queue."""
    await create_tables(stores, SYSTEM.tables)
    await stores.run(SYSTEM.get_pattern("A1").call_with((b"s" * 1000, NOON, "l1")))
    await stores.run(take_in(Letter(id="l9", to="bo")))


SAMPLED = replace(SYSTEM, demo=Demo(sample=sample))


async def run_on_data_source(
    work: Callable[[DataSource], Awaitable[T]], system: System = SYSTEM, *, is_service: bool = False
) -> T:
    """Run the work on the system's sample data, presented as a service if `is_service`."""

    async with open_sample_data(system) as ground:
        chosen = DataSource(ground.stores, "a service", is_scratch=False) if is_service else ground
        return await work(chosen)


async def measure(system: System = SYSTEM, *, is_service: bool = False) -> dict[str, Measure]:
    """Measure all patterns of the system; return the measures by pattern id."""

    async def run(ground: DataSource) -> list[Measure]:
        return await measure_patterns(ground, system.patterns)

    return {each.pattern.id: each for each in await run_on_data_source(run, system, is_service=is_service)}


@pytest.mark.parametrize("system", [SYSTEM, SAMPLED], ids=["empty", "sampled"])
async def test_every_pattern_runs_with_its_example(system: System) -> None:
    assert {id: each.reason for id, each in (await measure(system)).items() if not each.is_measured} == {}


async def test_queues_and_objects_use_no_units() -> None:
    found = await measure()

    for id in ("L1", "L2", "A1", "A2"):
        row = measure_to_json(found[id])
        assert (row["items_read"], row["items_returned"], row["units"]) == (0, 0, 0)
        assert row["ms"] > 0
    assert found["L5"].units.write == 1


async def test_runs_queue_and_object_patterns_on_scratch_stores_even_for_a_service() -> None:
    found = await measure(is_service=True)

    assert [id for id, each in found.items() if not each.is_measured] == ["L5"]


async def test_lifts_a_hold_again_so_that_other_examples_can_delete() -> None:
    async def run(ground: DataSource) -> list[Measure]:
        return await measure_patterns(ground, (hold_scan, forget_scan, SYSTEM.get_pattern("A1")))

    assert [each.reason for each in await run_on_data_source(run, SAMPLED)] == [None, None, None]


async def test_sample_objects_are_unchanged_afterwards() -> None:
    async def run(ground: DataSource) -> bytes:
        await measure_patterns(ground, SAMPLED.patterns)
        engine = ground.stores.engines.get("objects")
        name = SYSTEM.buckets[0].physical_name(ground.stores.environment)
        found = await engine.run(GetObject(bucket=name, key="scans/2026/01/02/l1.pdf"))
        return bytes(found.body)

    assert await run_on_data_source(run, SAMPLED) == b"s" * 1000


def test_the_configured_queues_are_never_touched(tmp_path: Path) -> None:
    settings = Settings(
        tables=f"sqlite:{tmp_path}/tables.db",
        queues=f"sqlite:{tmp_path}/queues.db",
        objects=f"file:{tmp_path}/objects",
        environment="test",
    )

    async def run() -> list[Measure]:
        async with open_data_source(SYSTEM, settings) as ground:
            return await measure_patterns(ground, SYSTEM.patterns)

    assert all(each.is_measured for each in asyncio.run(run()))
    assert list(tmp_path.iterdir()) == []


async def test_a_system_that_needs_an_environment_is_measured_without_one() -> None:
    async def run(ground: DataSource) -> int:
        name = letters.physical_name(ground.stores.environment)
        described = await ground.stores.engines.get("queues").run(DescribeQueue(queue=name))
        return int(described.visible)

    assert SAMPLED.deployment.needs_environment
    assert await run_on_data_source(run, SAMPLED) == 1


# --- patterns that depend on each other ---------------------------------------------------------------------


jobs = Table("Jobs", partition="jobId")


class Job(Entity, table=jobs):
    job_id: Attr[str] = attr()
    owner: Attr[str] = attr(default="ada")
    of = Key(job_id)


@pattern("J1", "Claim a job", rate=LETTER, example=lambda: (Job(job_id="j1"),))
def claim(job: Job) -> Put[Job]:
    return Job.create(job)


@pattern("J2", "Hand a job on", rate=LETTER, example=("j1", "bo"))
def hand_on(job_id: str, to: str) -> Update[Job]:
    return Job.of(job_id).update().set(Job.owner, to).when(Job.owner == "ada")


@pattern("J3", "That a job is ada's", rate=LETTER, example=("j1",))
def is_hers(job_id: str) -> ConditionCheck[Job]:
    return Job.of(job_id).check().when(Job.owner == "ada")


@pattern("J4", "A job that nobody ever had", rate=LETTER, example=("j2",))
def unheard_of(job_id: str) -> Update[Job]:
    return Job.of(job_id).update().set(Job.owner, "bo").when(Job.owner == "ada")


async def create_empty_jobs(stores: Stores, *, scale: int = 1, progress: Any = None) -> None:
    await create_tables(stores, (jobs,))


CLAIMS = System(
    "claims",
    "Claims.",
    tables=(jobs,),
    patterns=(hand_on, is_hers, claim, unheard_of),
    demo=Demo(sample=create_empty_jobs),
)


async def test_measures_a_dependent_pattern_after_the_one_it_needs() -> None:
    found = await measure(CLAIMS)

    assert [found[id].reason for id in ("J1", "J2", "J3")] == [None] * 3
    assert found["J2"].units.write == 1
    assert found["J3"].is_measured


async def test_pattern_without_a_predecessor_fails() -> None:
    found = (await measure(CLAIMS))["J4"]

    assert found.has_failed
    assert "ConditionFailed" in (found.reason or "")


async def test_undoes_the_writes_that_a_dependent_pattern_needed() -> None:
    async def run(ground: DataSource) -> Job | None:
        await measure_patterns(ground, CLAIMS.patterns)
        return await ground.stores.run(Job.of("j1").get())

    assert await run_on_data_source(run, CLAIMS) is None


# --- cost ---------------------------------------------------------------------------------------------------


async def estimate(system: System = SYSTEM, prices: PriceList | None = None) -> SystemCost:
    """Estimate the system's cost on its sample data."""

    async def run(ground: DataSource) -> SystemCost:
        return await estimate_cost(system, ground, prices or load_price_list())

    return await run_on_data_source(run, system)


async def test_a_call_on_a_fifo_queue_costs_more_than_on_a_standard_one() -> None:
    by_id = {each.pattern.id: each for each in (await estimate()).patterns}

    assert (by_id["L1"].requests, by_id["N1"].requests) == (1, 1)
    assert by_id["L1"].cost == pytest.approx(0.50)
    assert by_id["N1"].cost == pytest.approx(0.40)
    assert by_id["L1"].write_units == 0


async def test_a_large_message_is_billed_for_every_64_kb() -> None:
    large = Letter(id="l1", to="a" * 100_000)

    def send(letter: Letter) -> Send[Letter]:
        return letters.send(letter)

    heavy = type(take_in)(send, "L1", "Heavy", take_in.rate, (large,))
    [found] = (await estimate(replace(SYSTEM, patterns=(heavy,), components=()))).patterns

    assert found.requests == 2
    assert found.cost == pytest.approx(1.00)


async def test_queue_costs_its_requests_and_its_consumers_polls() -> None:
    by_name = {each.queue: each for each in (await estimate()).queues}

    assert by_name["letters"].requests == 4_000_000
    assert by_name["letters"].polls == pytest.approx(SECONDS_PER_MONTH / 20)
    assert by_name["letters"].total == pytest.approx((4_000_000 + SECONDS_PER_MONTH / 20) * 0.5 / 1e6)
    assert by_name["notices"].polls == 0
    assert by_name["notices"].total == pytest.approx(1.2)


async def test_bucket_costs_its_requests_and_storage() -> None:
    [bucket] = (await estimate(SAMPLED)).buckets

    assert (bucket.objects, bucket.writes, bucket.reads) == (1, 3_000_000, 2_000_000)
    assert bucket.size_bytes >= 1000
    assert bucket.requests == pytest.approx(3 * 5.0 + 2 * 0.4)
    assert bucket.storage == pytest.approx(bucket.size_bytes / GB * 0.023)


async def test_counts_objects_of_a_configured_folder_without_changing_them(tmp_path: Path) -> None:
    settings = Settings(
        tables=f"sqlite:{tmp_path}/tables.db",
        queues="sqlite::memory:",
        objects=f"file:{tmp_path}/objects",
        keys=f"file:{tmp_path}/keys.json",
        environment="test",
    )

    async def run() -> SystemCost:
        async with open_stores(SYSTEM, settings) as stores:
            await create_tables(stores, SYSTEM.tables)
            await create_buckets(stores, SYSTEM.buckets)
            # Now, because an entry of an earlier day is expired and may be removed at any moment.
            await stores.run(enter("l1", datetime.now(UTC)))
            for letter in ("l1", "l2", "l3"):
                await stores.run(file_scan(b"s" * 1000, NOON, letter))
        files = sorted((tmp_path / "objects").rglob("*"))
        async with open_data_source(SYSTEM, settings) as ground:
            found = await estimate_cost(SYSTEM, ground, load_price_list())
        assert sorted((tmp_path / "objects").rglob("*")) == files
        return found

    [bucket] = (await run()).buckets

    assert (bucket.objects, bucket.size_bytes) == (3, 3000)


async def test_total_includes_queues_and_buckets() -> None:
    found = await estimate()
    parts = [each.total for each in (*found.tables, *found.queues, *found.buckets)]  # type: ignore[attr-defined]

    assert found.total == pytest.approx(sum(parts))
    assert found.uncounted == ()


async def test_omits_stores_missing_from_the_price_list_and_gives_the_reason() -> None:
    found = await estimate(prices=load_price_list().model_copy(update={"queues": None, "objects": None}))
    left_out = {each.pattern.id: each.reason for each in found.uncounted}

    assert set(left_out) == {each.id for each in SYSTEM.patterns} - {"L5"}
    assert left_out["L1"] == "the price list dynamodb-2024-11 has no prices of queues"
    assert found.total == pytest.approx(sum(table.total for table in found.tables))
