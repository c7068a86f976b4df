"""Metrics of a process in Prometheus' text format: requests, stores, work in progress, the process itself.

Names and units are Prometheus' (`holdfast_…_seconds`, `…_total`), except those of capacity, throttling and
indexes: designs and alarms name CloudWatch's metrics, so these have CloudWatch's names and dimensions. The
system's own values come from `stores.count` and `stores.measure`. `open_metrics(stores)` observes every
`Usage` of the stores. The instruments are OpenTelemetry's, except durations (`core/durations.py`); each
`Metrics` has its own provider and registry, so that two in one process do not mix. OpenTelemetry is an extra:
without it the stores work, nothing is counted, and the text says what to install.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.distribution import format_install_command
from holdfast.core.durations import Durations
from holdfast.core.errors import ConditionFailed, NotFound, Throttled
from holdfast.core.http.request_counts import RequestCounts
from holdfast.core.readiness import DEFAULT_TIMEOUT_S
from holdfast.model.components import Component
from holdfast.model.tables import Table
from holdfast.runtime.stores import Stores
from holdfast.runtime.table_provisioner import get_index_reports
from holdfast.runtime.telemetry.collectors import (
    HTTP_DURATION,
    HTTP_IN_PROGRESS,
    HTTP_REQUESTS,
    DurationCollector,
    build_registry,
)
from holdfast.runtime.telemetry.figures import (
    FIGURES,
    Figure,
    FigureReader,
    Read,
    group_by_name,
    list_component_sources,
    list_queue_sources,
)
from holdfast.runtime.telemetry.measurements import Measurement
from holdfast.runtime.telemetry.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation

__all__ = [
    "Metrics",
    "MetricsSource",
    "NoMetrics",
    "ProcessMetrics",
    "is_installed",
    "open_metrics",
    "open_process_metrics",
    "resolve_metric_name",
]

CONSUMED_READ: Final = "ConsumedReadCapacityUnits"
CONSUMED_WRITE: Final = "ConsumedWriteCapacityUnits"
READ_THROTTLES: Final = "ReadThrottleEvents"
WRITE_THROTTLES: Final = "WriteThrottleEvents"
THROTTLED: Final = "ThrottledRequests"
CONDITIONS_FAILED: Final = "ConditionalCheckFailedRequests"
INDEX_PROGRESS: Final = "OnlineIndexPercentageProgress"
# Our own metric: CloudWatch does not count scans, it has only their latency.
SCANS: Final = "Scans"
STORE_DURATION: Final = "holdfast_store_request_duration_seconds"
STORE_ERRORS: Final = "holdfast_store_request_errors"
# In front of the names that a system counts and measures under.
OWN_PREFIX: Final = "holdfast_"
OWN_TEXT: Final = "Counted or measured by the code of the system"

COUNTERS: Final[Mapping[str, str]] = {
    CONSUMED_READ: "Read capacity units consumed by a table or one of its global indexes",
    CONSUMED_WRITE: "Write capacity units consumed by a table or one of its global indexes",
    READ_THROTTLES: "Throttled reads, retries included",
    WRITE_THROTTLES: "Throttled writes, retries included",
    THROTTLED: "Throttled requests, retries included, by operation",
    CONDITIONS_FAILED: "Writes whose condition failed",
    SCANS: "Scans, by pattern",
    STORE_ERRORS: "Failed requests to a store, by the label of the error",
}
GAUGES: Final[Mapping[str, str]] = {INDEX_PROGRESS: "Progress of an index build, in percent", **FIGURES}
HISTOGRAMS: Final = (STORE_DURATION, HTTP_DURATION)
NAMES: Final = (*COUNTERS, HTTP_REQUESTS, *GAUGES, HTTP_IN_PROGRESS, *HISTOGRAMS)
# Other names that people use for these metrics, which CloudWatch lacks or uses for something else.
ALIASES: Final[Mapping[str, str]] = {"OnlineIndexPercentage": INDEX_PROGRESS, "UserErrors": THROTTLED}

STORE_BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1, 2.5, 5),
)
# Systems mostly measure seconds, from milliseconds to an hour.
MEASURE_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
# Figures cost reads: more frequent requests for the metrics get the same ones.
FIGURES_MAX_AGE_S: Final = 10.0
INSTALL_HINT: Final = f"# Metrics are not installed: run {format_install_command('metrics')}.\n"

_MODULES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.prometheus", "prometheus_client")
_READS: Final = frozenset({"GetItem", "Query", "Scan", "BatchGetItem"})

log = logging.getLogger(__name__)


class MetricsSource(Protocol):
    """Metrics as a server uses them: it counts its requests, and asks for the text."""

    @property
    def requests(self) -> RequestCounts: ...

    async def collect(self) -> str: ...


def open_metrics(
    stores: Stores | None = None,
    components: Sequence[Component] = (),
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Metrics | NoMetrics:
    """Start counting what these stores, and every view of them, do; count nothing if the extra is not
    installed.

    `components` are those that this process runs: it reports on the state of what they work on. `add_stores`
    adds stores that are opened later.
    """
    return Metrics(stores, components, timeout_s=timeout_s) if is_installed() else NoMetrics()


def open_process_metrics(requests: RequestCounts | None = None) -> MetricsSource:
    """Return the metrics of a process without stores: its HTTP requests, and its use of the machine."""
    return ProcessMetrics(requests) if is_installed() else NoMetrics(requests)


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

    def __init__(self, requests: RequestCounts | None = None) -> None:
        self.requests = requests or RequestCounts()

    def add_stores(self, stores: Stores, components: Sequence[Component] = ()) -> None:
        """Count nothing of these stores."""

    async def collect(self) -> str:
        """Return the hint what to install."""
        return INSTALL_HINT


class ProcessMetrics:
    """The metrics of a process without stores."""

    def __init__(self, requests: RequestCounts | None = None) -> None:
        self.requests = requests or RequestCounts()
        self._registry = build_registry(self.requests)

    async def collect(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return await asyncio.to_thread(self.render)

    def render(self) -> str:
        """Return the metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry).decode()


class Metrics(ProcessMetrics):
    """The metrics of one process and its stores. Any thread may render them."""

    def __init__(
        self,
        stores: Stores | None = None,
        components: Sequence[Component] = (),
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_age_s: float = FIGURES_MAX_AGE_S,
    ) -> None:
        super().__init__()
        self._figures: dict[str, list[Figure]] = {}
        self._reader = FigureReader({}, timeout_s=timeout_s, max_age_s=max_age_s)
        self._instruments: dict[str, Counter | Histogram] = {}
        # Capacity units not yet added to a counter, by counter name, table and index.
        self._units: dict[tuple[str, str, str | None], float] = {}
        self._units_lock = threading.Lock()
        self._durations = Durations(STORE_BOUNDS_S)
        self._registry.register(
            DurationCollector(
                STORE_DURATION, "Seconds that successful requests took", self._durations.snapshot
            )
        )
        self._create_instruments()
        self._physical: dict[str, str] = {}
        if stores is not None:
            self.add_stores(stores, components)

    def add_stores(self, stores: Stores, components: Sequence[Component] = ()) -> None:
        """Count what these stores do, too. Stores of several systems must be of one environment."""
        self._reader.add_sources(
            {**self._list_own_sources(stores), **list_component_sources(stores, components)}
        )
        for table in () if stores.system is None else stores.system.tables:
            self._physical[table.name] = stores.physical_name(table)
            self._start_at_zero(table)
        stores.observe(self.record_usage)
        stores.measurements.subscribe(self.record_measurement)

    def _create_instruments(self) -> None:
        """Create OpenTelemetry's instruments, with a provider and a reader of their own."""
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.view import View
        from opentelemetry.sdk.resources import Resource

        reader = PrometheusMetricReader(True, scope_info_enabled=False, registry=self._registry)
        # Instrument names are lower-cased; a view sets the name to show.
        views = [View(instrument_name=name.lower(), name=name) for name in (*COUNTERS, *GAUGES)]
        provider = MeterProvider([reader], Resource({}), shutdown_on_exit=False, views=views)
        meter = self._meter = provider.get_meter("holdfast")
        self._counters = {name: meter.create_counter(name, "", text) for name, text in COUNTERS.items()}
        for name, text in GAUGES.items():
            meter.create_observable_gauge(name, [self._build_gauge(name)], description=text)

    def _build_gauge(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return a callback that yields the last figures of this name."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            from opentelemetry.metrics import Observation

            for figure in self._figures.get(name, ()):
                yield Observation(figure.value, dict(figure.labels))

        return observe

    def _start_at_zero(self, table: Table) -> None:
        """Show what has not happened yet as 0, so that an alert can distinguish it from what is not
        monitored.
        """
        indexes = [index.name for index in table.global_indexes]
        for name in (CONSUMED_READ, CONSUMED_WRITE, READ_THROTTLES, WRITE_THROTTLES):
            for index in (None, *indexes):
                self._counters[name].add(0, self._build_labels(table.name, index))
        for name in (CONDITIONS_FAILED, SCANS, THROTTLED):
            self._counters[name].add(0, self._build_labels(table.name, None))

    # --- reading metrics ------------------------------------------------------------------------------------

    async def collect(self) -> str:
        """Return the metrics in Prometheus' text format, with figures that were read just now."""
        await self.refresh()
        return await super().collect()

    def render(self) -> str:
        """Return the metrics in Prometheus' text format, with the figures that were read last."""
        self._flush_units()
        return super().render()

    def value(self, name: str, **labels: str) -> float:
        """Return one metric, by name or alias, summed over all labels that are not given.

        For index progress it is the lowest, for distributions the number of values. Raise `NotFound` for an
        unknown name.
        """
        self._flush_units()
        real = name if name in self._instruments else resolve_metric_name(name)
        wanted = self._get_sample_name(real)
        found = [
            sample.value
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == wanted and labels.items() <= sample.labels.items()
        ]
        return min(found, default=100.0) if real == INDEX_PROGRESS else float(sum(found))

    def _get_sample_name(self, name: str) -> str:
        """Return the name of the samples to sum: of a distribution the one of its counts."""
        if name in self._instruments:
            is_distribution = hasattr(self._instruments[name], "record")
            return f"{OWN_PREFIX}{name}{'_count' if is_distribution else '_total'}"
        if name in GAUGES or name == HTTP_IN_PROGRESS:
            return name
        return f"{name}{'_count' if name in HISTOGRAMS else '_total'}"

    async def refresh(self) -> None:
        """Read the figures: of indexes, queues, and what the components of this process work on."""
        self._figures = group_by_name(await self._reader.read())

    def _list_own_sources(self, stores: Stores) -> dict[str, Read]:
        """Return how to read the indexes of each table and the state of each queue."""
        system = stores.system
        if system is None:
            return {}
        indexes = {
            f"indexes of {table.name}": self._build_index_read(stores, table)
            for table in system.tables
            if table.global_indexes
        }
        return {**indexes, **list_queue_sources(stores)}

    def _build_index_read(self, stores: Stores, table: Table) -> Read:
        """Return how to read the progress of a table's indexes, except optional ones that do not exist."""
        optional = {each.name for each in table.global_indexes if not each.default}

        async def read() -> list[Figure]:
            return [
                Figure(INDEX_PROGRESS, each.percent, self._build_labels(each.table, each.index))
                for each in await get_index_reports(stores, [table])
                if not (each.status in ("ABSENT", "NO TABLE") and each.index in optional)
            ]

        return read

    # --- recording metrics ----------------------------------------------------------------------------------

    def record_usage(self, usage: Usage) -> None:
        """Record one request: its duration, error, units, throttles and failed condition.

        The stores call it for each.
        """
        self._record_outcome(usage)
        if usage.store != "tables":
            return
        if usage.operation == "Scan":
            self._counters[SCANS].add(1, self._build_labels(usage.table, usage.index, Pattern=usage.pattern))
        self._record_units(usage)
        self._record_throttles(usage)
        if usage.error == ConditionFailed.label:
            self._counters[CONDITIONS_FAILED].add(1, self._build_labels(usage.table, None))

    def _record_outcome(self, usage: Usage) -> None:
        """Record the duration of a request, or its error.

        A receive waits for messages, so its duration says nothing about the store.
        """
        if usage.error is not None:
            labels = {"store": usage.store, "operation": usage.operation, "error": usage.error}
            self._counters[STORE_ERRORS].add(1, labels)
        elif usage.operation != "ReceiveMessage":
            name = _get_table(usage)
            resource = self._physical.get(name, name) if usage.store == "tables" else name
            self._durations.record(
                usage.ms / 1000,
                (("store", usage.store), ("operation", usage.operation), ("resource", resource)),
            )

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
            instrument = self._meter.create_counter(f"{OWN_PREFIX}{measurement.name}", "", OWN_TEXT)
        else:
            instrument = self._meter.create_histogram(
                f"{OWN_PREFIX}{measurement.name}",
                "",
                OWN_TEXT,
                explicit_bucket_boundaries_advisory=MEASURE_BOUNDS,
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


def _get_table(usage: Usage) -> str:
    """Return the request's table. A transaction has none of its own, but may have touched only one."""
    tables = {capacity.table for capacity in usage.capacity}
    return usage.table or (tables.pop() if len(tables) == 1 else "")
