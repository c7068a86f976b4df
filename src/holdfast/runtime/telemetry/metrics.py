"""Metrics of a process in Prometheus' text format: requests, queues, indexes and the system's own values.

Table requests and queues have CloudWatch's names; the system's own values come from `stores.count` and
`stores.measure`. `open_metrics(stores)` observes every `Usage` of the stores. The instruments are
OpenTelemetry's, except latencies (`latencies.py`); each `Metrics` has its own provider and registry, so that
two in one process do not mix. OpenTelemetry is an extra: without it the stores work, nothing is counted, and
the text says what to install.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import AccessRefused, ConditionFailed, HoldfastError, NotFound, Throttled
from holdfast.model.queues import Queue
from holdfast.model.tables import Table
from holdfast.runtime.stores import Stores
from holdfast.runtime.system_provisioner import ACCESS_DENIED_CODES, QueueReport, get_queue_reports
from holdfast.runtime.table_provisioner import ACCESS_DENIED, IndexReport, get_index_reports
from holdfast.runtime.telemetry.latencies import Latencies
from holdfast.runtime.telemetry.measurements import Measurement
from holdfast.runtime.telemetry.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation
    from prometheus_client.core import HistogramMetricFamily

__all__ = [
    "Metrics",
    "MetricsSource",
    "NoMetrics",
    "is_installed",
    "open_metrics",
    "resolve_metric_name",
]

CONSUMED_READ: Final = "ConsumedReadCapacityUnits"
CONSUMED_WRITE: Final = "ConsumedWriteCapacityUnits"
READ_THROTTLES: Final = "ReadThrottleEvents"
WRITE_THROTTLES: Final = "WriteThrottleEvents"
THROTTLED: Final = "ThrottledRequests"
CONDITIONS_FAILED: Final = "ConditionalCheckFailedRequests"
LATENCY: Final = "SuccessfulRequestLatency"
INDEX_PROGRESS: Final = "OnlineIndexPercentageProgress"
# Our own metric: CloudWatch does not count scans, it has only their latency.
SCANS: Final = "Scans"
QUEUE_VISIBLE: Final = "ApproximateNumberOfMessagesVisible"
QUEUE_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"
QUEUE_DELAYED: Final = "ApproximateNumberOfMessagesDelayed"
QUEUE_OLDEST_AGE: Final = "ApproximateAgeOfOldestMessage"
# Our own metric: CloudWatch reports dead letters under the dead-letter queue's name.
DEAD_LETTERS: Final = "DeadLetters"

COUNTERS: Final[Mapping[str, str]] = {
    CONSUMED_READ: "Read capacity units consumed by a table or one of its global indexes",
    CONSUMED_WRITE: "Write capacity units consumed by a table or one of its global indexes",
    READ_THROTTLES: "Throttled reads, retries included",
    WRITE_THROTTLES: "Throttled writes, retries included",
    THROTTLED: "Throttled requests, retries included, by operation",
    CONDITIONS_FAILED: "Writes whose condition failed",
    SCANS: "Scans, by pattern",
}
QUEUE_GAUGES: Final[Mapping[str, str]] = {
    QUEUE_VISIBLE: "Messages available to be received",
    QUEUE_IN_FLIGHT: "Messages received and not yet deleted or visible again",
    QUEUE_DELAYED: "Messages sent with a delay that is not over",
    QUEUE_OLDEST_AGE: "Age in seconds of the oldest waiting message; 0 if there is none",
    DEAD_LETTERS: "Messages in the queue's dead-letter queue",
}
NAMES: Final = (*COUNTERS, LATENCY, INDEX_PROGRESS, *QUEUE_GAUGES)
# Other names that people use for these metrics, which CloudWatch lacks or uses for something else.
ALIASES: Final[Mapping[str, str]] = {"OnlineIndexPercentage": INDEX_PROGRESS, "UserErrors": THROTTLED}

LATENCY_MS_BOUNDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
# Systems mostly measure seconds, from milliseconds to an hour.
MEASURE_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
MAX_REFRESH_S: Final = 5.0
INSTALL_HINT: Final = f"# Metrics are not installed: run {format_install_command('metrics')}.\n"

_MODULES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.prometheus", "prometheus_client")
_READS: Final = frozenset({"GetItem", "Query", "Scan", "BatchGetItem"})

log = logging.getLogger(__name__)


class MetricsSource(Protocol):
    """Metrics as a host uses them: attach a loop on which to query the stores, and render the text."""

    def attach_loop(self, loop: asyncio.AbstractEventLoop) -> None: ...

    def render(self) -> str: ...


def open_metrics(stores: Stores) -> MetricsSource:
    """Start counting what these stores, and every view of them, do; count nothing if the extra is not
    installed.
    """
    return Metrics(stores) if is_installed() else NoMetrics()


def is_installed() -> bool:
    """Return True if the extra `metrics` is installed."""
    try:
        return all(importlib.util.find_spec(module) is not None for module in _MODULES)
    except (ImportError, ValueError):
        return False


def resolve_metric_name(name: str) -> str:
    """Return the metric's own name for a name or an alias. Raise NotFound if there is none."""
    real = ALIASES.get(name, name)
    if real not in NAMES:
        raise NotFound(f"Unknown metric {name!r}: expected one of {', '.join((*NAMES, *ALIASES))}.")
    return real


class NoMetrics:
    """The replacement for metrics if the extra is not installed."""

    def attach_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing: there is nothing to refresh."""

    def render(self) -> str:
        """Return the hint what to install."""
        return INSTALL_HINT


class Metrics:
    """The metrics of one process. Any thread may render them."""

    def __init__(self, stores: Stores) -> None:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.view import View
        from opentelemetry.sdk.resources import Resource
        from prometheus_client import CollectorRegistry

        self._stores = stores
        self._loop: asyncio.AbstractEventLoop | None = None
        self._indexes: list[IndexReport] = []
        self._queues: list[QueueReport] = []
        self._instruments: dict[str, Counter | Histogram] = {}
        self._optional_indexes: set[tuple[str, str]] = set()
        self._warned: set[str] = set()
        # Capacity units not yet added to a counter, by counter name, table and index.
        self._units: dict[tuple[str, str, str | None], float] = {}
        self._units_lock = threading.Lock()
        self._registry = CollectorRegistry()
        reader = PrometheusMetricReader(True, scope_info_enabled=False, registry=self._registry)
        # Instrument names are lower-cased; a view sets the name to show.
        views = [View(instrument_name=name.lower(), name=name) for name in NAMES]
        provider = MeterProvider([reader], Resource({}), shutdown_on_exit=False, views=views)
        meter = self._meter = provider.get_meter("holdfast")
        self._counters = {name: meter.create_counter(name, "", text) for name, text in COUNTERS.items()}
        self._latencies = Latencies(LATENCY_MS_BOUNDS)
        self._registry.register(_LatencyCollector(self._latencies))
        meter.create_observable_gauge(
            INDEX_PROGRESS,
            [self._observe_index_progress],
            description="Progress of an index build, in percent",
        )
        for name, text in QUEUE_GAUGES.items():
            meter.create_observable_gauge(name, [self._build_queue_gauge(name)], description=text)
        self._physical: dict[str, str] = {}
        for table in () if stores.system is None else stores.system.tables:
            self._physical[table.name] = stores.physical_name(table)
            self._start_at_zero(table)
        stores.observe(self.record_usage)
        stores.measurements.subscribe(self.record_measurement)

    def _start_at_zero(self, table: Table) -> None:
        """Show what has not happened yet as 0, so that an alert can distinguish it from what is not
        monitored.
        """
        indexes = [index.name for index in table.global_indexes]
        self._optional_indexes |= {
            (table.name, each.name) for each in table.global_indexes if not each.default
        }
        for name in (CONSUMED_READ, CONSUMED_WRITE, READ_THROTTLES, WRITE_THROTTLES):
            for index in (None, *indexes):
                self._counters[name].add(0, self._build_labels(table.name, index))
        for name in (CONDITIONS_FAILED, SCANS, THROTTLED):
            self._counters[name].add(0, self._build_labels(table.name, None))

    # --- reading metrics ------------------------------------------------------------------------------------

    def attach_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Refresh index and queue reports on this loop before each rendering, which runs on another
        thread.
        """
        self._loop = loop

    def render(self) -> str:
        """Return the metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        if self._loop is not None:
            self._refresh(self._loop)
        self._flush_units()
        return generate_latest(self._registry).decode()

    def value(self, name: str, **labels: str) -> float:
        """Return one metric, by name or alias, summed over all labels that are not given.

        For index progress it is the lowest, for distributions the number of values. Raise `NotFound` for an
        unknown name.
        """
        self._flush_units()
        real = name if name in self._instruments else resolve_metric_name(name)
        suffix = {LATENCY: "_count", INDEX_PROGRESS: ""} | dict.fromkeys(QUEUE_GAUGES, "")
        suffix |= {own: "_count" for own, each in self._instruments.items() if hasattr(each, "record")}
        found = [
            sample.value
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == real + suffix.get(real, "_total") and labels.items() <= sample.labels.items()
        ]
        return min(found, default=100.0) if real == INDEX_PROGRESS else float(sum(found))

    async def refresh_indexes(self) -> None:
        """Read the build progress of every index of the system."""
        tables = () if self._stores.system is None else self._stores.system.tables
        self._indexes = [report for table in tables for report in await self._read_index_reports(table)]

    async def _read_index_reports(self, table: Table) -> list[IndexReport]:
        """Return a table's index reports; none, with one warning, if this process has no access to the
        table.
        """
        try:
            return await get_index_reports(self._stores, [table])
        except AccessRefused as refused:
            if refused.code != ACCESS_DENIED:
                raise
            if table.name not in self._warned:
                self._warned.add(table.name)
                log.warning("No access to the indexes of %s, so they are left out: %s", table.name, refused)
            return []

    async def refresh_queues(self) -> None:
        """Read the state of every queue of the system."""
        queues = () if self._stores.system is None else self._stores.system.queues
        self._queues = [report for queue in queues for report in await self._read_queue_reports(queue)]

    async def _read_queue_reports(self, queue: Queue[Any]) -> list[QueueReport]:
        """Return a queue's report; none, with one warning, if this process has no access to the queue."""
        try:
            return await get_queue_reports(self._stores, [queue])
        except AccessRefused as refused:
            if refused.code not in ACCESS_DENIED_CODES:
                raise
            if queue.name not in self._warned:
                self._warned.add(queue.name)
                log.warning("No access to the queue %s, so it is left out: %s", queue.name, refused)
            return []

    def _refresh(self, loop: asyncio.AbstractEventLoop) -> None:
        # A stale value would look current: what cannot be read is left out.
        """Read the index and queue reports again, on the loop."""
        self._indexes, self._queues = [], []
        self._refresh_on_loop("indexes", self.refresh_indexes, loop)
        self._refresh_on_loop("queues", self.refresh_queues, loop)

    def _refresh_on_loop(
        self, what: str, refresh: Callable[[], Awaitable[None]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Run `refresh` on the loop from this thread, for at most five seconds; only log a failure."""

        async def run() -> None:
            await refresh()

        future = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            future.result(MAX_REFRESH_S)
        except (HoldfastError, TimeoutError) as error:
            future.cancel()
            log.warning("Refreshing the metrics of the %s failed: %s", what, str(error) or "timed out")

    def _build_queue_gauge(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return a callback that yields the gauge `name` of each queue."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            from opentelemetry.metrics import Observation

            for report in self._queues:
                value = _get_gauge_value(report, name)
                if value is not None:
                    yield Observation(value, {"QueueName": report.physical})

        return observe

    def _observe_index_progress(self, _: CallbackOptions) -> Iterable[Observation]:
        """Yield the progress of each index, except optional ones that do not exist."""
        from opentelemetry.metrics import Observation

        for report in self._indexes:
            is_absent = report.status in ("ABSENT", "NO TABLE")
            if is_absent and (report.table, report.index) in self._optional_indexes:
                continue
            yield Observation(report.percent, self._build_labels(report.table, report.index))

    # --- recording metrics ----------------------------------------------------------------------------------

    def record_usage(self, usage: Usage) -> None:
        """Record one request: its latency, units, throttles and failed condition.

        The stores call it for each.
        """
        if usage.store != "tables":
            self._record_other_store(usage)
            return
        if usage.operation == "Scan":
            self._counters[SCANS].add(1, self._build_labels(usage.table, usage.index, Pattern=usage.pattern))
        self._record_units(usage)
        self._record_throttles(usage)
        if usage.error is None:
            table = _get_table(usage)
            table_label = (("TableName", self._physical.get(table, table)),) if table else ()
            self._latencies.record(usage.ms, (("Operation", usage.operation), *table_label))
        elif usage.error == ConditionFailed.label:
            self._counters[CONDITIONS_FAILED].add(1, self._build_labels(usage.table, None))

    def _record_other_store(self, usage: Usage) -> None:
        """Record the latency of a request to another store than tables, unless it failed or is a receive.

        A receive waits for messages, so its duration says nothing about the store.
        """
        if usage.error is None and usage.operation != "ReceiveMessage":
            name = "QueueName" if usage.store == "queues" else "BucketName"
            self._latencies.record(usage.ms, (("Operation", usage.operation), (name, usage.table)))

    def record_measurement(self, measurement: Measurement) -> None:
        """Record a value that the system itself counts or measures; warn if a name is used for both."""
        instrument = self._instruments.get(measurement.name) or self._create_instrument(measurement)
        if measurement.kind == "count" and hasattr(instrument, "add"):
            instrument.add(measurement.value, dict(measurement.labels))
        elif measurement.kind == "measure" and hasattr(instrument, "record"):
            instrument.record(measurement.value, dict(measurement.labels))
        else:
            log.warning("Metric %s is used both as a counter and as a distribution.", measurement.name)

    def _create_instrument(self, measurement: Measurement) -> Counter | Histogram:
        """Create the counter or histogram of a measurement's name."""
        instrument: Counter | Histogram
        if measurement.kind == "count":
            instrument = self._meter.create_counter(measurement.name)
        else:
            instrument = self._meter.create_histogram(
                measurement.name, explicit_bucket_boundaries_advisory=MEASURE_BOUNDS
            )
        self._instruments[measurement.name] = instrument
        return instrument

    def _record_units(self, usage: Usage) -> None:
        """Add the request's units to the sums by table and index, until `_flush_units`."""
        for capacity in usage.capacity:
            # A local index consumes its table's capacity, a global one its own.
            own = sum(capacity.local_indexes.values(), capacity.own)
            for index, units in ((None, own), *capacity.global_indexes.items()):
                for name, amount in ((CONSUMED_READ, units.read), (CONSUMED_WRITE, units.write)):
                    if amount:
                        counter = name, capacity.table, index
                        with self._units_lock:
                            self._units[counter] = self._units.get(counter, 0.0) + amount

    def _flush_units(self) -> None:
        """Add the accumulated units to the counters.

        They are summed until needed, because a counter is slow.
        """
        with self._units_lock:
            units, self._units = self._units, {}
        for (name, table, index), amount in units.items():
            self._counters[name].add(amount, self._build_labels(table, index))

    def _record_throttles(self, usage: Usage) -> None:
        """Record each throttled attempt, including retried ones; a throttled request without reported
        attempts counts once.
        """
        at_least = int(usage.error == Throttled.label)
        by_kind = READ_THROTTLES if usage.operation in _READS else WRITE_THROTTLES
        if events := max(usage.throttle_events, at_least):
            self._counters[by_kind].add(events, self._build_labels(usage.table, usage.index))
        if attempts := max(usage.throttled_requests, at_least):
            self._counters[THROTTLED].add(
                attempts, self._build_labels(usage.table, None, Operation=usage.operation)
            )

    def _build_labels(self, table: str, index: str | None, **more: str | None) -> dict[str, Any]:
        """Return CloudWatch's dimensions, with the table's physical name and without unknown values."""
        named = {"TableName": self._physical.get(table, table), "GlobalSecondaryIndexName": index, **more}
        return {name: value for name, value in named.items() if value}


class _LatencyCollector:
    """A collector for Prometheus' registry.

    All samples have the same label names; missing labels are empty.
    """

    def __init__(self, latencies: Latencies) -> None:
        self._latencies = latencies

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Yield the latency histogram, if anything was recorded."""
        from prometheus_client.core import HistogramMetricFamily

        if not (found := self._latencies.snapshot()):
            return
        names = sorted({name for labels, _, _ in found for name in labels})
        family = HistogramMetricFamily(LATENCY, "Milliseconds that successful requests took", labels=names)
        for labels, buckets, total in found:
            family.add_metric([labels.get(name, "") for name in names], buckets, total)
        yield family


def _get_gauge_value(report: QueueReport, name: str) -> float | None:
    """Return the gauge `name` of the queue; None for dead letters of a queue without a dead-letter queue."""
    waiting = report.waiting
    return {
        QUEUE_VISIBLE: waiting.visible,
        QUEUE_IN_FLIGHT: waiting.in_flight,
        QUEUE_DELAYED: waiting.delayed,
        QUEUE_OLDEST_AGE: waiting.oldest_age_s or 0.0,
        DEAD_LETTERS: report.dead,
    }[name]


def _get_table(usage: Usage) -> str:
    """Return the request's table. A transaction has none of its own, but may have touched only one."""
    tables = {capacity.table for capacity in usage.capacity}
    return usage.table or (tables.pop() if len(tables) == 1 else "")
