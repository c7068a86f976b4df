"""`provision` in memory: tables and queues, denied access; and metrics of queues and of the system's own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import Queue, Stores, open_memory_stores, provision
from holdfast.core.clock import RunClock
from holdfast.core.errors import AccessRefused, InvalidRequest
from holdfast.operations.queues import CreateQueue, DescribeQueue, ListQueues
from holdfast.runtime import Measurement, create_queues, get_queue_reports
from holdfast.runtime.engines import Engines
from holdfast.runtime.telemetry.metrics import Metrics
from tests.unit.runtime import post_office as office
from tests.unit.runtime.post_office import SYSTEM, Letter


def test_creates_tables_queues_and_dead_letter_queues_idempotently() -> None:
    async def story() -> tuple[str, ...]:
        async with open_memory_stores(SYSTEM) as stores:
            assert await provision(stores, SYSTEM) == {}
            await stores.run(office.post(Letter(id="A1")))
            assert await provision(stores, SYSTEM) == {}
            [report, _] = await get_queue_reports(stores, SYSTEM.queues)
            assert report.waiting.visible == 1
            assert await stores.run(office.delivery("l-1")) is None
            names: tuple[str, ...] = await stores.engines.get("queues").run(ListQueues())
            return names

    assert sorted(asyncio.run(story())) == ["letters-dead.fifo", "letters.fifo", "parcels", "parcels-dead"]


async def test_updates_a_queue_whose_declaration_changed_and_keeps_its_messages() -> None:
    slower = Queue("parcels", Letter, visibility_s=90, max_receives=2)
    async with open_memory_stores(SYSTEM) as stores:
        await provision(stores, SYSTEM)
        await stores.run(office.hand_in(Letter(id="p1")))
        await create_queues(stores, [slower])
        found = await stores.engines.get("queues").run(DescribeQueue("parcels"))
        assert (found.definition.visibility_s, found.visible) == (90, 1)


class NoCreateQueues:
    """Queue engine whose policy forbids creating queues."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    async def run(self, operation: Any) -> Any:
        """Run the operation; raise `AccessRefused` for a creation."""
        if isinstance(operation, CreateQueue):
            raise AccessRefused("AccessDeniedException", "not authorized to perform: sqs:CreateQueue")
        return await self._behind.run(operation)

    def close(self) -> None:
        self._behind.close()


async def test_uses_and_reports_an_existing_queue_that_it_may_not_create() -> None:
    async with open_memory_stores(SYSTEM) as stores:
        await provision(stores, SYSTEM)
        guarded = NoCreateQueues(stores.engines.get("queues"))
        view = Stores(stores.tables, system=SYSTEM, engines=Engines({"queues": lambda: guarded}))
        assert sorted(await provision(view, SYSTEM)) == ["queue letters.fifo", "queue parcels"]


def test_rejects_a_missing_queue_that_it_may_not_create() -> None:
    async def story() -> None:
        async with open_memory_stores(SYSTEM) as stores:
            guarded = NoCreateQueues(stores.engines.get("queues"))
            await provision(Stores(stores.tables, engines=Engines({"queues": lambda: guarded})), SYSTEM)

    with pytest.raises(AccessRefused, match="sqs:CreateQueue"):
        asyncio.run(story())


async def test_queue_names_contain_the_environment() -> None:
    async with open_memory_stores(SYSTEM) as stores:
        stores.environment = "test"
        await provision(stores, SYSTEM)
        assert [each.physical for each in await get_queue_reports(stores, SYSTEM.queues)] == [
            "letters-test.fifo",
            "parcels-test",
        ]


# --- metrics ------------------------------------------------------------------------------------------------


def test_metrics_report_the_state_of_each_queue() -> None:
    async def story() -> tuple[str, list[float]]:
        async with open_memory_stores(SYSTEM) as stores:
            await provision(stores, SYSTEM)
            metrics = Metrics(stores)
            for id in ("A1", "A2"):
                await stores.run(office.post(Letter(id=id)))
            await stores.run(office.take(1, 0.0))
            await metrics.refresh()
            values = [
                metrics.value("holdfast_queue_messages", queue="letters.fifo", state=state)
                for state in ("visible", "in_flight", "delayed", "dead")
            ]
            return metrics.render(), values

    text, values = asyncio.run(story())
    assert values == [1, 1, 0, 0]
    assert 'holdfast_queue_oldest_message_age_seconds{queue="parcels"} 0.0' in text
    assert 'holdfast_figures_up{source="queue letters"} 1.0' in text
    # A queue is not a table.
    assert 'TableName="letters"' not in text
    labels = '{operation="SendMessage",resource="letters",store="queues"}'
    assert f"holdfast_store_request_duration_seconds_count{labels} 2.0" in text


async def test_counts_dead_letters_for_their_source_queue() -> None:
    async with open_memory_stores(SYSTEM) as stores:
        await provision(stores, SYSTEM)
        metrics = Metrics(stores)
        await stores.run(office.hand_in(Letter(id="p1")))
        for _ in range(3):
            for received in await stores.run(office.parcels.consumer.receive(1, 0.0)):
                await stores.run(office.parcels.consumer.change_visibility(received, 0))
        await metrics.refresh()
        assert metrics.value("holdfast_queue_messages", queue="parcels", state="dead") == 1


def test_exports_a_systems_own_metrics_from_every_component() -> None:
    async def story() -> tuple[str, float]:
        async with open_memory_stores(SYSTEM) as stores:
            metrics = Metrics(stores)
            stores.for_component("carrier").count("duplicates_dropped", queue="letters")
            stores.count("duplicates_dropped", 2, queue="letters")
            stores.measure("time_to_route_seconds", 0.3)
            return metrics.render(), metrics.value("time_to_route_seconds")

    text, measured = asyncio.run(story())
    assert 'holdfast_duplicates_dropped_total{queue="letters"} 3.0' in text
    assert 'holdfast_time_to_route_seconds_bucket{le="0.5"} 1.0' in text
    assert measured == 1


async def test_listener_receives_each_count_without_metrics() -> None:
    heard: list[Measurement] = []
    async with open_memory_stores(SYSTEM) as stores:
        stores.measurements.subscribe(heard.append)
        stores.for_component("carrier").count("sweeps", by="hand")
    assert heard == [Measurement("sweeps", 1, {"by": "hand"})]


@pytest.mark.parametrize(("name", "value"), [("Not Prometheus", 1), ("", 1), ("sweeps", -1)])
def test_rejects_an_invalid_name_and_a_decreasing_counter(name: str, value: float) -> None:
    async def story() -> None:
        async with open_memory_stores(replace(SYSTEM)) as stores:
            stores.count(name, value)

    with pytest.raises(InvalidRequest):
        asyncio.run(story())


async def test_stores_return_the_time_of_their_clock_in_utc(tmp_path: Path) -> None:
    async with open_memory_stores(
        SYSTEM, clock=RunClock(tmp_path / "clock", start=1_800_000_000.5)
    ) as stores:
        assert stores.now() == datetime(2027, 1, 15, 8, 0, 0, 500_000, tzinfo=UTC)
