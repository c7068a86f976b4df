"""Reading Prometheus' text: the same as Prometheus' own parser, for the metrics that are wanted."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from holdfast import open_memory_stores
from holdfast.console.overview.metrics_text import parse_metrics
from holdfast.console.overview.targets import WANTED
from holdfast.runtime import provision
from holdfast.runtime.telemetry.metrics import Metrics
from tests.unit.console.overview.depot import DEPOT, Order, take_order


async def test_reads_what_prometheus_own_parser_reads() -> None:
    async with open_memory_stores(DEPOT) as stores:
        await provision(stores, DEPOT)
        metrics = Metrics(stores, DEPOT.components)
        await stores.run(take_order(Order(order_id="o-1")))
        stores.count("odd", reason='a "quote", a \\ and\na line, {braces} = 1')
        text = await metrics.collect()
    wanted = WANTED | {"holdfast_odd_total"}

    expected = [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in wanted
    ]

    assert [(each.name, each.labels, each.value) for each in parse_metrics(text, wanted)] == expected
    assert {"holdfast_odd_total", "holdfast_queue_messages"} <= {name for name, _, _ in expected}


def test_skips_lines_that_are_not_valid() -> None:
    text = '# HELP a\na 1\na{x="1"} nothing\na{\na\nb 2\na 3 1700000000\n'

    assert [(each.name, each.value) for each in parse_metrics(text, {"a"})] == [("a", 1.0), ("a", 3.0)]
