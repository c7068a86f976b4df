"""Figures of outboxes, flows and delayed actions at /metrics: who reports them, their numbers, limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import pytest

from holdfast import Stores, System, open_memory_stores
from holdfast.core.errors import AccessRefused, InvalidRequest, StoreUnreachable
from holdfast.runtime import create_queues, create_tables
from holdfast.runtime.telemetry.figures import Figure, FigureReader, list_component_sources
from holdfast.runtime.telemetry.metrics import Metrics
from tests.postgres import create_database
from tests.unit.flows import errands
from tests.unit.guarantees.delayed_actions import delayed_letters
from tests.unit.guarantees.messaging import order_outbox, sql_shop
from tests.unit.guarantees.messaging.order_outbox import ManualClock


async def collect(stores: Stores, system: System, *components: str) -> list[str]:
    """Return the lines of the metrics of a process that runs these components."""
    chosen = [system.get_component(each) for each in components]
    text = await Metrics(stores, chosen, max_age_s=0.0).collect()
    return [line for line in text.splitlines() if not line.startswith("#")]


async def open_system(system: System, clock: ManualClock) -> Stores:
    stores = open_memory_stores(system, clock=clock)
    await create_tables(stores, system.tables)
    await create_queues(stores, system.queues)
    return stores


def find_source_names(system: System, component: str) -> set[str]:
    """Return the sources that a process with this component reports on."""
    return set(list_component_sources(open_memory_stores(system), [system.get_component(component)]))


def test_only_a_component_that_may_read_reports() -> None:
    assert find_source_names(order_outbox.SYSTEM, "api") == set()
    assert find_source_names(order_outbox.SYSTEM, "relay") == {"outbox order-changes"}
    assert find_source_names(errands.SYSTEM, "api") == {"outbox errand-flow"}
    assert find_source_names(errands.SYSTEM, "worker") == {"flow errand", "outbox errand-flow"}
    assert find_source_names(delayed_letters.SYSTEM, "author") == set()
    assert find_source_names(delayed_letters.SYSTEM, "sender") == {"delayed actions Letter"}


async def test_outbox_in_tables_reports_pending_and_dead_messages_and_the_oldest() -> None:
    clock = ManualClock()
    async with await open_system(order_outbox.SYSTEM, clock) as stores:
        queues = order_outbox.watch_queues(stores)
        queues.fail(InvalidRequest("too large"), "o-1")
        for order in ("o-1", "o-2"):
            await stores.transact(*order_outbox.build_change(stores, order, 0))
        await order_outbox.OUTBOX_OF_ORDERS.send_unsent(stores, "o-1")
        clock.moment += 90
        lines = await collect(stores, order_outbox.SYSTEM, "relay")

    labels = 'outbox="order-changes",queue="order-changes"'
    assert f'holdfast_outbox_messages{{{labels},state="pending"}} 1.0' in lines
    assert f'holdfast_outbox_messages{{{labels},state="dead"}} 1.0' in lines
    assert f"holdfast_outbox_oldest_message_age_seconds{{{labels}}} 90.0" in lines
    assert 'holdfast_figures_up{source="outbox order-changes"} 1.0' in lines


async def test_outbox_in_sql_reports_each_queue_also_an_empty_one() -> None:
    clock = ManualClock()
    async with sql_shop.open_shop_stores(create_database(sql_shop.SHOP), clock=clock) as stores:
        await sql_shop.publish_changes(stores, "o-1", 2)
        clock.moment += 60
        lines = await collect(stores, sql_shop.SYSTEM, "relay")

    labels = 'outbox="shop.outbox",queue="shop-changes"'
    assert f'holdfast_outbox_messages{{{labels},state="pending"}} 2.0' in lines
    assert f"holdfast_outbox_oldest_message_age_seconds{{{labels}}} 60.0" in lines
    empty = 'outbox="shop.outbox",queue="shop-invoices"'
    assert f'holdfast_outbox_messages{{{empty},state="pending"}} 0.0' in lines
    assert f"holdfast_outbox_oldest_message_age_seconds{{{empty}}} 0.0" in lines


async def test_flow_reports_executions_by_state_and_those_that_are_overdue() -> None:
    bench = await errands.open_bench()
    async with bench.stores:
        await bench.begin_and_reach_offer("e-1")
        await bench.begin("e-2")
        bench.clock.advance(errands.DEADLINE_S + 5)
        lines = await collect(bench.stores, errands.SYSTEM, "worker")

    assert 'holdfast_flow_executions{flow="errand",parked="false",state="offered"} 1.0' in lines
    assert 'holdfast_flow_executions{flow="errand",parked="false",state="asked"} 1.0' in lines
    assert 'holdfast_flow_executions_overdue{flow="errand"} 2.0' in lines
    (overdue,) = [each for each in lines if each.startswith("holdfast_flow_overdue_seconds")]
    assert float(overdue.split()[-1]) >= 5
    assert not any("e-1" in line or "o-1" in line for line in lines), "no id is a label"


async def test_delayed_actions_report_waiting_and_due_ones_and_the_longest_overdue() -> None:
    clock = ManualClock()
    async with await open_system(delayed_letters.SYSTEM, clock) as stores:
        for id, for_s in (("l-1", 10.0), ("l-2", 20.0), ("l-3", 3600.0)):
            await delayed_letters.hold(stores, delayed_letters.make_letter(id), for_s)
        clock.moment += 30
        lines = await collect(stores, delayed_letters.SYSTEM, "sender")

    assert 'holdfast_delayed_actions{actions="Letter",state="waiting"} 1.0' in lines
    assert 'holdfast_delayed_actions{actions="Letter",state="due"} 2.0' in lines
    assert 'holdfast_delayed_actions_overdue_seconds{actions="Letter"} 20.0' in lines


# --- limits -------------------------------------------------------------------------------------------------


async def test_a_source_that_hangs_is_left_out_and_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    asked = 0

    async def hang() -> Iterable[Figure]:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        return ()

    async def answer() -> Iterable[Figure]:
        return [Figure("holdfast_delayed_actions", 2.0)]

    reader = FigureReader({"slow": hang, "quick": answer}, timeout_s=0.01, max_age_s=0)
    figures = [await reader.read() for _ in range(3)]

    assert asked == 1
    for each in figures:
        assert {figure.labels.get("source"): figure.value for figure in each} == {
            "slow": 0.0, None: 2.0, "quick": 1.0,
        }  # fmt: skip
    assert caplog.messages == ["The figures of slow are left out of the metrics: no answer within 0.01 s"]


async def test_a_source_is_read_once_for_many_requests() -> None:
    reads = 0

    async def read() -> Iterable[Figure]:
        nonlocal reads
        reads += 1
        return ()

    reader = FigureReader({"source": read}, timeout_s=30, max_age_s=30)
    await asyncio.gather(*(reader.read() for _ in range(50)))

    assert reads == 1


async def test_a_source_that_may_not_be_read_is_not_down(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse() -> Iterable[Figure]:
        raise AccessRefused("AccessDeniedException", "not yours")

    async def fail() -> Iterable[Figure]:
        raise StoreUnreachable("gone")

    with caplog.at_level(logging.WARNING):
        reader = FigureReader({"denied": refuse, "down": fail}, timeout_s=30, max_age_s=0)
        assert await reader.read() == await reader.read()

    assert await reader.read() == [Figure("holdfast_figures_up", 0.0, {"source": "down"})]
    assert len(caplog.messages) == 2
