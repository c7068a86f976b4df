"""What a process asked of its tables, counted under CloudWatch's names, as Prometheus' text.

With it go how the system's queues stand, and what the system itself counts (`stores.count`, `stores.measure`).
`open_metrics(stores)` listens to every `Usage` of the stores. The instruments are OpenTelemetry's, but for latencies
(`latencies.py`); each `Metrics` has a provider and a registry of its own, so that two in one process do not mix.
OpenTelemetry is an extra: without it the stores work, nothing is counted, and the text says what to install.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.errors import AccessRefused, ConditionFailed, HoldfastError, NotFound, Throttled
from holdfast.model.queues import Queue
from holdfast.model.tables import Table
from holdfast.runtime.counting import Counted
from holdfast.runtime.latencies import Latencies
from holdfast.runtime.preparation import NOT_ALLOWED_CODES, QueueReport, queue_reports
from holdfast.runtime.provisioning import NOT_ALLOWED, IndexReport, index_reports
from holdfast.runtime.stores import Stores
from holdfast.runtime.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation
    from prometheus_client.core import HistogramMetricFamily

CONSUMED_READ: Final = "ConsumedReadCapacityUnits"
CONSUMED_WRITE: Final = "ConsumedWriteCapacityUnits"
READ_THROTTLES: Final = "ReadThrottleEvents"
WRITE_THROTTLES: Final = "WriteThrottleEvents"
THROTTLED: Final = "ThrottledRequests"
CONDITIONS_FAILED: Final = "ConditionalCheckFailedRequests"
LATENCY: Final = "SuccessfulRequestLatency"
INDEX_PROGRESS: Final = "OnlineIndexPercentageProgress"
# Ours: CloudWatch has no count of scans, only their latency.
SCANS: Final = "Scans"
QUEUE_VISIBLE: Final = "ApproximateNumberOfMessagesVisible"
QUEUE_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"
QUEUE_DELAYED: Final = "ApproximateNumberOfMessagesDelayed"
QUEUE_OLDEST_AGE: Final = "ApproximateAgeOfOldestMessage"
# Ours: CloudWatch has them under the name of the queue that they are in.
DEAD_LETTERS: Final = "DeadLetters"

COUNTERS: Final[Mapping[str, str]] = {
    CONSUMED_READ: "Read capacity units consumed, of a table or of one of its global indexes",
    CONSUMED_WRITE: "Write capacity units consumed, of a table or of one of its global indexes",
    READ_THROTTLES: "Reads that were throttled, repeats included",
    WRITE_THROTTLES: "Writes that were throttled, repeats included",
    THROTTLED: "Requests that were throttled, repeats included, by operation",
    CONDITIONS_FAILED: "Writes whose condition did not hold",
    SCANS: "Scans, by the pattern that asked for them",
}
QUEUE_GAUGES: Final[Mapping[str, str]] = {
    QUEUE_VISIBLE: "Messages that wait to be received",
    QUEUE_IN_FLIGHT: "Messages that were received and are not yet done, or rest",
    QUEUE_DELAYED: "Messages that were sent with a delay which is not over",
    QUEUE_OLDEST_AGE: "The age in seconds of the oldest message that waits; 0 where none does",
    DEAD_LETTERS: "Messages that were tried too often and wait among the queue's dead letters",
}
NAMES: Final = (*COUNTERS, LATENCY, INDEX_PROGRESS, *QUEUE_GAUGES)
# Names that are in use for these metrics, though CloudWatch has none of them or means something else by it.
ALIASES: Final[Mapping[str, str]] = {"OnlineIndexPercentage": INDEX_PROGRESS, "UserErrors": THROTTLED}

LATENCY_MS_BOUNDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
# What systems measure is mostly seconds, from milliseconds to an hour.
MEASURE_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
REFRESH_SECONDS_MAX: Final = 5.0
HOW_TO_INSTALL: Final = "# Nothing is counted: pip install '.[metrics]' in the clone of Holdfast, or make setup, brings what counts.\n"

_MODULES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.prometheus", "prometheus_client")
_READS: Final = frozenset({"GetItem", "Query", "Scan", "BatchGetItem"})

log = logging.getLogger(__name__)


class MetricsText(Protocol):
    """What a host needs of metrics: the loop on which the store may be asked, and the text."""

    def follow(self, loop: asyncio.AbstractEventLoop) -> None: ...

    def text(self) -> str: ...


def open_metrics(stores: Stores) -> MetricsText:
    """Counts what these stores, and every view of them, do from now on."""
    return Metrics(stores) if is_installed() else NoMetrics()


def is_installed() -> bool:
    """Whether the extra `metrics` is there."""
    try:
        return all(importlib.util.find_spec(module) is not None for module in _MODULES)
    except (ImportError, ValueError):
        return False


def metric_name(name: str) -> str:
    """The name a metric has here: its own, or the one that an alias stands for."""
    real = ALIASES.get(name, name)
    if real not in NAMES:
        raise NotFound(f"There is no metric {name!r}: there are {', '.join((*NAMES, *ALIASES))}.")
    return real


class NoMetrics:
    """In the place of metrics where the extra is not installed."""

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """There is nothing to look at."""

    def text(self) -> str:
        return HOW_TO_INSTALL


class Metrics:
    """The counters of one process. Any thread may ask for the text."""

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
        self._own: dict[str, Counter | Histogram] = {}
        self._optional: set[tuple[str, str]] = set()
        self._unseen: set[str] = set()
        # Capacity units that no counter has yet, by its name, the table and the index.
        self._units: dict[tuple[str, str, str | None], float] = {}
        self._units_lock = threading.Lock()
        self._registry = CollectorRegistry()
        reader = PrometheusMetricReader(True, scope_info_enabled=False, registry=self._registry)
        # Instruments have small letters, whatever they are called; a view gives them the name they shall show.
        views = [View(instrument_name=name.lower(), name=name) for name in NAMES]
        provider = MeterProvider([reader], Resource({}), shutdown_on_exit=False, views=views)
        meter = self._meter = provider.get_meter("holdfast")
        self._counters = {name: meter.create_counter(name, "", text) for name, text in COUNTERS.items()}
        self._latencies = Latencies(LATENCY_MS_BOUNDS)
        self._registry.register(_ShownLatencies(self._latencies))
        meter.create_observable_gauge(
            INDEX_PROGRESS, [self._index_progress], description="How much of an index is built, in percent"
        )
        for name, text in QUEUE_GAUGES.items():
            meter.create_observable_gauge(name, [self._queue_gauge(name)], description=text)
        self._physical: dict[str, str] = {}
        for table in () if stores.system is None else stores.system.tables:
            self._physical[table.name] = stores.physical_name(table)
            self._begin_at_zero(table)
        stores.observe(self.count)
        stores.counting.listen(self.count_own)

    def _begin_at_zero(self, table: Table) -> None:
        """What has not happened yet is shown as 0, so that an alert can tell it from what is not watched."""
        indexes = [index.name for index in table.global_indexes]
        self._optional |= {(table.name, each.name) for each in table.global_indexes if not each.default}
        for name in (CONSUMED_READ, CONSUMED_WRITE, READ_THROTTLES, WRITE_THROTTLES):
            for index in (None, *indexes):
                self._counters[name].add(0, self._labels(table.name, index))
        for name in (CONDITIONS_FAILED, SCANS, THROTTLED):
            self._counters[name].add(0, self._labels(table.name, None))

    # --- reading --------------------------------------------------------------------------------------------

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on the text looks at the indexes first, on this loop; the text is asked for elsewhere."""
        self._loop = loop

    def text(self) -> str:
        """Prometheus' text format."""
        from prometheus_client import generate_latest

        if self._loop is not None:
            self._refresh(self._loop)
        self._hand_over_units()
        return generate_latest(self._registry).decode()

    def value(self, name: str, **labels: str) -> float:
        """One metric, by its name or an alias of it, summed over all labels that are not given.

        Of an index's progress it is the lowest, of latency the number of requests.
        """
        self._hand_over_units()
        real = name if name in self._own else metric_name(name)
        suffix = {LATENCY: "_count", INDEX_PROGRESS: ""} | dict.fromkeys(QUEUE_GAUGES, "")
        suffix |= {own: "_count" for own, each in self._own.items() if hasattr(each, "record")}
        found = [
            sample.value
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == real + suffix.get(real, "_total") and labels.items() <= sample.labels.items()
        ]
        return min(found, default=100.0) if real == INDEX_PROGRESS else float(sum(found))

    async def look_at_indexes(self) -> None:
        """Asks the store how far every index of the system is."""
        tables = () if self._stores.system is None else self._stores.system.tables
        self._indexes = [report for table in tables for report in await self._indexes_of(table)]

    async def _indexes_of(self, table: Table) -> list[IndexReport]:
        """Nothing of a table that this process may not look at: a component knows its own."""
        try:
            return await index_reports(self._stores, [table])
        except AccessRefused as refused:
            if refused.code != NOT_ALLOWED:
                raise
            if table.name not in self._unseen:
                self._unseen.add(table.name)
                log.warning(
                    "The indexes of %s may not be looked at, and are left out: %s", table.name, refused
                )
            return []

    async def look_at_queues(self) -> None:
        """Asks the store how every queue of the system stands."""
        queues = () if self._stores.system is None else self._stores.system.queues
        self._queues = [report for queue in queues for report in await self._reports_of(queue)]

    async def _reports_of(self, queue: Queue[Any]) -> list[QueueReport]:
        try:
            return await queue_reports(self._stores, [queue])
        except AccessRefused as refused:
            if refused.code not in NOT_ALLOWED_CODES:
                raise
            if queue.name not in self._unseen:
                self._unseen.add(queue.name)
                log.warning("%s may not be looked at, and is left out: %s", queue.name, refused)
            return []

    def _refresh(self, loop: asyncio.AbstractEventLoop) -> None:
        # An old figure would pass for a new one: what cannot be looked at is left out.
        self._indexes, self._queues = [], []
        self._look("indexes", self.look_at_indexes, loop)
        self._look("queues", self.look_at_queues, loop)

    def _look(self, what: str, look: Callable[[], Awaitable[None]], loop: asyncio.AbstractEventLoop) -> None:
        async def looking() -> None:
            await look()

        asked = asyncio.run_coroutine_threadsafe(looking(), loop)
        try:
            asked.result(REFRESH_SECONDS_MAX)
        except (HoldfastError, TimeoutError) as error:
            asked.cancel()
            log.warning("The %s cannot be looked at: %s", what, str(error) or "no answer in time")

    def _queue_gauge(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(_: CallbackOptions) -> Iterable[Observation]:
            from opentelemetry.metrics import Observation

            for report in self._queues:
                value = _gauge(report, name)
                if value is not None:
                    yield Observation(value, {"QueueName": report.physical})

        return observed

    def _index_progress(self, _: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for report in self._indexes:
            is_absent = report.status in ("ABSENT", "NO TABLE")
            if is_absent and (report.table, report.index) in self._optional:
                continue
            yield Observation(report.percent, self._labels(report.table, report.index))

    # --- counting -------------------------------------------------------------------------------------------

    def count(self, usage: Usage) -> None:
        """What one request was. Called by the stores, for each."""
        if usage.store != "tables":
            self._count_elsewhere(usage)
            return
        if usage.operation == "Scan":
            self._counters[SCANS].add(1, self._labels(usage.table, usage.index, Pattern=usage.pattern))
        self._count_units(usage)
        self._count_throttles(usage)
        if usage.error is None:
            table = _table_of(usage)
            named = (("TableName", self._physical.get(table, table)),) if table else ()
            self._latencies.record(usage.ms, (("Operation", usage.operation), *named))
        elif usage.error == ConditionFailed.label:
            self._counters[CONDITIONS_FAILED].add(1, self._labels(usage.table, None))

    def _count_elsewhere(self, usage: Usage) -> None:
        """A request to a queue or a bucket. A receive waits for messages: how long says nothing about the store."""
        if usage.error is None and usage.operation != "ReceiveMessage":
            name = "QueueName" if usage.store == "queues" else "BucketName"
            self._latencies.record(usage.ms, (("Operation", usage.operation), (name, usage.table)))

    def count_own(self, counted: Counted) -> None:
        """What the system itself counts or measures."""
        instrument = self._own.get(counted.name) or self._own_instrument(counted)
        if counted.kind == "count" and hasattr(instrument, "add"):
            instrument.add(counted.value, dict(counted.labels))
        elif counted.kind == "measure" and hasattr(instrument, "record"):
            instrument.record(counted.value, dict(counted.labels))
        else:
            log.warning("%s is counted in one place and measured in another.", counted.name)

    def _own_instrument(self, counted: Counted) -> Counter | Histogram:
        made: Counter | Histogram
        if counted.kind == "count":
            made = self._meter.create_counter(counted.name)
        else:
            made = self._meter.create_histogram(
                counted.name, explicit_bucket_boundaries_advisory=MEASURE_BOUNDS
            )
        self._own[counted.name] = made
        return made

    def _count_units(self, usage: Usage) -> None:
        for capacity in usage.capacity:
            # A local index draws on its table's capacity, a global one on its own.
            own = sum(capacity.local_indexes.values(), capacity.own)
            for index, units in ((None, own), *capacity.global_indexes.items()):
                for name, amount in ((CONSUMED_READ, units.read), (CONSUMED_WRITE, units.write)):
                    if amount:
                        place = name, capacity.table, index
                        with self._units_lock:
                            self._units[place] = self._units.get(place, 0.0) + amount

    def _hand_over_units(self) -> None:
        """Summed up until somebody asks: every request to a table has some, and a counter takes its time for each."""
        with self._units_lock:
            units, self._units = self._units, {}
        for (name, table, index), amount in units.items():
            self._counters[name].add(amount, self._labels(table, index))

    def _count_throttles(self, usage: Usage) -> None:
        """Each attempt, also those that the engine waited out; an engine that tells of none has made one."""
        at_least = int(usage.error == Throttled.label)
        by_kind = READ_THROTTLES if usage.operation in _READS else WRITE_THROTTLES
        if events := max(usage.throttle_events, at_least):
            self._counters[by_kind].add(events, self._labels(usage.table, usage.index))
        if attempts := max(usage.throttled_requests, at_least):
            self._counters[THROTTLED].add(
                attempts, self._labels(usage.table, None, Operation=usage.operation)
            )

    def _labels(self, table: str, index: str | None, **more: str | None) -> dict[str, Any]:
        """CloudWatch's dimensions. A table has the name it has in the store; what is not known is left out."""
        named = {"TableName": self._physical.get(table, table), "GlobalSecondaryIndexName": index, **more}
        return {name: value for name, value in named.items() if value}


class _ShownLatencies:
    """As a registry of Prometheus asks. All have the same names of labels; those that one lacks are empty."""

    def __init__(self, latencies: Latencies) -> None:
        self._latencies = latencies

    def collect(self) -> Iterable[HistogramMetricFamily]:
        from prometheus_client.core import HistogramMetricFamily

        if not (found := self._latencies.found()):
            return
        names = sorted({name for labels, _, _ in found for name in labels})
        family = HistogramMetricFamily(LATENCY, "Milliseconds that successful requests took", labels=names)
        for labels, buckets, total in found:
            family.add_metric([labels.get(name, "") for name in names], buckets, total)
        yield family


def _gauge(report: QueueReport, name: str) -> float | None:
    waiting = report.waiting
    return {
        QUEUE_VISIBLE: waiting.visible,
        QUEUE_IN_FLIGHT: waiting.in_flight,
        QUEUE_DELAYED: waiting.delayed,
        QUEUE_OLDEST_AGE: waiting.oldest_age_s or 0.0,
        DEAD_LETTERS: report.dead,
    }[name]


def _table_of(usage: Usage) -> str:
    """A transaction has no table of its own; where it touched only one, it is that."""
    tables = {capacity.table for capacity in usage.capacity}
    return usage.table or (tables.pop() if len(tables) == 1 else "")
