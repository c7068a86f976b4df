"""`Metrics` of in-memory stores: units, scans, throttles, failed conditions, latency, index progress."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast import Stores, transact
from holdfast.core.errors import ConditionFailed, NotFound, Throttled, TransactionCancelled
from holdfast.operations.tables import CreateTable
from holdfast.runtime import add_indexes, create_tables
from holdfast.runtime.telemetry.metrics import (
    INSTALL_HINT,
    NAMES,
    Metrics,
    NoMetrics,
    open_metrics,
    resolve_metric_name,
)
from holdfast.stores.tables.embedded import EngineFaults, open_tables
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import SYSTEM, Ship, by_berth, by_flag, moor, ships

R = TypeVar("R")

DURATION = "holdfast_store_request_duration_seconds"
HOSTS_PAGE = Path(__file__).parents[4] / "docs" / "guides" / "hosts.md"


def run_with_metrics(
    story: Callable[[Stores, Metrics], Awaitable[R]],
    *,
    faults: EngineFaults | None = None,
    environment: str = "",
) -> R:
    """Run a story on in-memory stores with their metrics, and return its result."""

    async def run() -> R:
        with open_tables(None, faults=faults) as tables:
            stores = Stores(tables, system=SYSTEM, environment=environment)
            return await story(stores, Metrics(stores, max_age_s=0.0))

    return asyncio.run(run())


@pytest.mark.proves("SM-37")
def test_counts_units_per_table_and_per_index() -> None:
    async def story(stores: Stores, metrics: Metrics) -> list[float]:
        await create_tables(stores, SYSTEM.tables)
        await moor(stores, "B1", 3)
        await stores.run(harbour.ships_at("B1"))
        await stores.run(harbour.ship("S001"))
        return [
            metrics.value(name, TableName="Ships", GlobalSecondaryIndexName=index)
            for name in ("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits")
            for index in ("", "by-berth")
        ]

    assert run_with_metrics(story) == [3.0, 3.0, 0.5, 0.5]


@pytest.mark.proves("SM-37")
def test_counts_a_scan_and_its_table_read_units() -> None:
    async def story(stores: Stores, metrics: Metrics) -> tuple[float, float, float]:
        await create_tables(stores, SYSTEM.tables)
        await moor(stores, "B1", 40, seal=b"x" * 2_000)
        await stores.run(harbour.ships_at("B2"))
        baseline = metrics.value("ConsumedReadCapacityUnits")
        await stores.run(harbour.every_ship())
        return baseline, metrics.value("ConsumedReadCapacityUnits"), metrics.value("Scans", Pattern="H8")

    baseline, after, scans = run_with_metrics(story)

    assert (baseline, scans) == (0.5, 1.0)
    assert after > 10 * baseline


@pytest.mark.proves("SM-38")
def test_reports_zero_throttles_on_demand() -> None:
    async def story(stores: Stores, metrics: Metrics) -> tuple[float, str]:
        await create_tables(stores, SYSTEM.tables)
        await moor(stores, "B1", 3)
        return metrics.value("ThrottledRequests"), metrics.render()

    throttled, text = run_with_metrics(story)

    assert throttled == 0.0
    assert 'ReadThrottleEvents_total{GlobalSecondaryIndexName="by-berth",TableName="Ships"} 0.0' in text
    assert 'WriteThrottleEvents_total{GlobalSecondaryIndexName="",TableName="Ships"} 0.0' in text


@pytest.mark.proves("SM-38")
def test_counts_throttled_reads_and_writes_apart_with_their_operation() -> None:
    async def story(stores: Stores, metrics: Metrics) -> list[float]:
        await create_tables(stores, SYSTEM.tables)
        for operation in (harbour.ships_at("B1"), harbour.arrive("S1", "B1"), harbour.arrive("S2", "B1")):
            with pytest.raises(Throttled):
                await stores.run(operation)
        return [
            metrics.value("ReadThrottleEvents", GlobalSecondaryIndexName="by-berth"),
            metrics.value("WriteThrottleEvents"),
            metrics.value("ThrottledRequests", Operation="PutItem"),
            metrics.value("ThrottledRequests"),
        ]

    assert run_with_metrics(story, faults=EngineFaults(throttled=1.0)) == [1.0, 2.0, 2.0, 3.0]


@pytest.mark.proves("SM-39")
def test_missing_declared_index_is_at_0_percent_until_it_is_built() -> None:
    async def story(stores: Stores, metrics: Metrics) -> tuple[float, float]:
        await stores.tables.run(CreateTable(ships.definition("Ships", indexes=())))
        await metrics.refresh()
        before = metrics.value("OnlineIndexPercentageProgress", GlobalSecondaryIndexName="by-berth")
        await add_indexes(stores, [by_berth])
        await metrics.refresh()
        return before, metrics.value("OnlineIndexPercentageProgress", GlobalSecondaryIndexName="by-berth")

    assert run_with_metrics(story) == (0.0, 100.0)


def test_shows_an_optional_index_only_if_it_exists() -> None:
    async def story(stores: Stores, metrics: Metrics) -> list[bool]:
        await create_tables(stores, SYSTEM.tables)
        shown = []
        for _ in range(2):
            await metrics.refresh()
            progress = [line for line in metrics.render().splitlines() if line.startswith("OnlineIndex")]
            shown.append(any("by-flag" in line for line in progress))
            await add_indexes(stores, [by_flag])
        return shown

    assert run_with_metrics(story) == [False, True]


@pytest.mark.proves("SM-X16")
@pytest.mark.parametrize(
    ("alias", "real"),
    [("UserErrors", "ThrottledRequests"), ("OnlineIndexPercentage", "OnlineIndexPercentageProgress")],
)
def test_maps_the_documents_metric_names_to_the_real_ones(alias: str, real: str) -> None:
    async def story(stores: Stores, metrics: Metrics) -> tuple[float, float, str]:
        await stores.tables.run(CreateTable(ships.definition("Ships", indexes=())))
        with pytest.raises(Throttled):
            await stores.run(harbour.ship("S1"))
        await metrics.refresh()
        return metrics.value(alias), metrics.value(real), metrics.render()

    by_alias, by_name, text = run_with_metrics(story, faults=EngineFaults(throttled=1.0))

    assert resolve_metric_name(alias) == real
    assert by_alias == by_name
    assert (by_alias > 0) == (alias == "UserErrors")
    assert not re.search(rf"^{alias}[{{_]", text, re.MULTILINE)


def test_rejects_an_unknown_metric_and_lists_the_known_ones() -> None:
    with pytest.raises(
        NotFound, match="Unknown metric 'Consumed': expected one of ConsumedReadCapacityUnits"
    ):
        resolve_metric_name("Consumed")


def test_counts_a_failed_condition_and_not_as_a_success() -> None:
    async def story(stores: Stores, metrics: Metrics) -> list[float]:
        await create_tables(stores, SYSTEM.tables)
        await stores.run(harbour.arrive("S1", "B1"))
        with pytest.raises(ConditionFailed):
            await stores.run(harbour.arrive("S1", "B1"))
        return [
            metrics.value("ConditionalCheckFailedRequests", TableName="Ships"),
            metrics.value(DURATION, operation="PutItem", resource="Ships"),
        ]

    assert run_with_metrics(story) == [1.0, 1.0]


def test_counts_a_transaction_on_the_table_it_touched() -> None:
    async def story(stores: Stores, metrics: Metrics) -> list[float]:
        await create_tables(stores, SYSTEM.tables)
        both = transact(harbour.arrive("S1", "B1"), harbour.arrive("S2", "B1"))
        await stores.run(both)
        with pytest.raises(TransactionCancelled):
            await stores.run(both)
        return [
            metrics.value(DURATION, operation="TransactWriteItems", resource="Ships"),
            metrics.value("ConsumedWriteCapacityUnits", TableName="Ships", GlobalSecondaryIndexName=""),
        ]

    assert run_with_metrics(story) == [1.0, 4.0]


def test_uses_the_stores_table_name_even_for_failed_requests() -> None:
    async def story(stores: Stores, metrics: Metrics) -> str:
        await create_tables(stores, SYSTEM.tables)
        await stores.run(harbour.arrive("S1", "B1"))
        with pytest.raises(ConditionFailed):
            await stores.run(harbour.arrive("S1", "B1"))
        await metrics.refresh()
        return metrics.render()

    names = set(re.findall(r'TableName="([^"]*)"', run_with_metrics(story, environment="prod")))

    assert names == {"Ships-prod"}


def test_counts_what_a_component_does() -> None:
    async def story(stores: Stores, metrics: Metrics) -> float:
        await create_tables(stores, SYSTEM.tables)
        await stores.for_component("agent").run(harbour.ship("S1"))
        return metrics.value(DURATION, store="tables", operation="GetItem")

    assert run_with_metrics(story) == 1.0


def test_separates_two_metrics_in_one_process() -> None:
    async def story(stores: Stores, metrics: Metrics) -> tuple[float, float]:
        with open_tables(None) as tables:
            others = Stores(tables, system=SYSTEM)
            other_metrics = Metrics(others)
            await create_tables(stores, SYSTEM.tables)
            await stores.run(Ship.put(Ship(ship_id="S1", berth="B1")))
            return metrics.value("ConsumedWriteCapacityUnits"), other_metrics.value(
                "ConsumedWriteCapacityUnits"
            )

    assert run_with_metrics(story) == (2.0, 0.0)


def test_metrics_text_has_the_current_index_status() -> None:
    async def story(stores: Stores, metrics: Metrics) -> str:
        await create_tables(stores, SYSTEM.tables)
        return await metrics.collect()

    assert (
        'OnlineIndexPercentageProgress{GlobalSecondaryIndexName="by-berth",TableName="Ships"} 100.0'
        in run_with_metrics(story)
    )


def test_omits_unreadable_indexes_and_reports_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(stores: Stores, metrics: Metrics) -> str:
        await create_tables(stores, SYSTEM.tables)
        await metrics.refresh()
        stores.tables.close()  # type: ignore[attr-defined]
        return await metrics.collect()

    text = run_with_metrics(story)

    assert "ConsumedReadCapacityUnits_total" in text
    assert "OnlineIndexPercentageProgress{" not in text
    assert 'holdfast_figures_up{source="indexes of Ships"} 0.0' in text
    assert "The figures of indexes of Ships are left out of the metrics" in caplog.text


def test_every_documented_alert_uses_an_existing_metric() -> None:
    page = HOSTS_PAGE.read_text(encoding="utf-8")
    rules = "\n".join(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    found = re.findall(r"\b(?:holdfast_[a-z_]+|[A-Z][A-Za-z]+(?:_total)?)(?=[\[{ ])", rules)
    used = {name.removesuffix("_total") for name in found}

    assert {"ConsumedReadCapacityUnits", "ThrottledRequests", "OnlineIndexPercentageProgress"} <= used
    assert {"holdfast_queue_messages", "holdfast_outbox_oldest_message_age_seconds"} <= used
    assert used <= set(NAMES)


def test_stores_work_without_the_extra_and_the_text_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['opentelemetry.exporter.prometheus'] = None\n"
        "from holdfast import open_memory_stores\n"
        "from holdfast.runtime.telemetry.metrics import open_metrics\n"
        "from tests.unit.mcp.harbour import SYSTEM\n"
        "import asyncio; sys.stdout.write(asyncio.run(open_metrics(open_memory_stores(SYSTEM)).collect()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=HOSTS_PAGE.parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == INSTALL_HINT == asyncio.run(NoMetrics().collect())
    assert "pip install 'holdfast-state[metrics]'" in done.stdout


def test_renders_metrics_if_the_extra_is_installed() -> None:
    async def story(stores: Stores, _: Metrics) -> str:
        return await open_metrics(stores).collect()

    assert run_with_metrics(story) != INSTALL_HINT
