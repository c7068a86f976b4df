"""The text at /metrics: it follows Prometheus' format and naming rules, and every name is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from holdfast import open_memory_stores
from holdfast.core.http.request_counts import RequestCounts
from holdfast.runtime import provision
from holdfast.runtime.telemetry.metrics import COUNTERS, INDEX_PROGRESS, Metrics, open_process_metrics
from holdfast.runtime.telemetry.usage import Usage
from tests.unit.flows import errands

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"
# Names that design documents and alarms have from CloudWatch; each is a count or a percentage.
CLOUDWATCH = {name for name in COUNTERS if not name.startswith("holdfast_")} | {INDEX_PROGRESS}
# Units that are not Prometheus' base units.
OTHER_UNITS = re.compile(r"_(ms|milliseconds|minutes|hours|kb|mb|percent)(_|$)")


async def collect_families() -> list[Metric]:
    """Return the parsed metrics of a process after requests of each kind."""
    system = errands.SYSTEM
    async with open_memory_stores(system) as stores:
        await provision(stores, system)
        metrics = Metrics(stores, system.components)
        for error in (None, "Throttled"):
            metrics.record_usage(Usage("P1", "api", "Scan", "Errands", None, error=error, ms=1.5))
        stores.count("errands_done", kind="quick")
        stores.measure("time_to_route_seconds", 0.2)
        metrics.requests.finish(metrics.requests.start(), "GET", "/errands/{id}", 200)
        return list(text_string_to_metric_families(await metrics.collect()))


async def test_every_metric_has_a_name_a_type_and_a_text_as_prometheus_asks() -> None:
    for family in await collect_families():
        assert family.documentation, family.name
        if family.name in CLOUDWATCH:
            continue
        assert re.fullmatch(r"(holdfast|process|python)_[a-z_]+", family.name)
        assert not OTHER_UNITS.search(family.name), family.name
        samples = {sample.name for sample in family.samples}
        match family.type:
            case "counter":
                assert samples == {f"{family.name}_total"}
            case "histogram":
                assert family.name.endswith("_seconds")
                assert samples == {f"{family.name}_{part}" for part in ("bucket", "count", "sum")}
            case _:
                assert (family.type, samples) == ("gauge", {family.name})


async def test_labels_are_lower_case_words_and_name_no_person() -> None:
    for family in await collect_families():
        for sample in family.samples:
            for name in sample.labels:
                assert family.name in CLOUDWATCH or re.fullmatch(r"[a-z_]+", name), (family.name, name)


async def test_durations_are_in_seconds() -> None:
    found = {family.name: family for family in await collect_families()}
    (total,) = [
        each.value
        for each in found["holdfast_store_request_duration_seconds"].samples
        if each.name.endswith("_sum") and each.labels["operation"] == "Scan"
    ]

    assert total == pytest.approx(0.0015)


async def test_process_shows_its_use_of_the_machine() -> None:
    text = await open_process_metrics(RequestCounts()).collect()
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }

    assert values["process_resident_memory_bytes"] > 1_000_000
    assert values["process_open_fds"] > 2
    assert values["process_cpu_seconds_total"] > 0
    assert values["process_start_time_seconds"] > 1_700_000_000
    assert values["holdfast_http_requests_in_progress"] == 0


async def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    shown = {family.name for family in await collect_families()}
    shown -= {"holdfast_errands_done", "holdfast_time_to_route_seconds"}
    # Only shown once there is one.
    shown |= {"holdfast_delayed_actions", "holdfast_delayed_actions_overdue_seconds", *CLOUDWATCH}
    shown |= {"holdfast_flow_executions"}
    first_cells = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {
        name.removesuffix("_total") for cell in first_cells for name in re.findall(r"`(\w+)`", cell)
    }

    assert {each.removesuffix("_total") for each in shown} == documented
