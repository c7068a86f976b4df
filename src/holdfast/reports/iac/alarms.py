"""Build the CloudWatch alarms of tables, indexes and queues.

They cover throttling and service errors, reads above the usual band (possibly a scan), an index that is being
built, dead letters, and messages that have waited for half of their retention period. Metric names are
CloudWatch's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from holdfast.model.entities.writes import Transact
from holdfast.model.patterns import Pattern
from holdfast.model.queues import DEAD_LETTER_SUFFIX, Queue
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.reports.iac.infrastructure import build_example_operation, get_deployed_indexes
from holdfast.reports.iac.stores import get_queue_address, get_table_address
from holdfast.reports.iac.tree import ENVIRONMENT_MARK, Address, ParameterReference, Resource

# Width of the usual band of reads, in standard deviations.
UNUSUAL_DEVIATIONS: Final = 3

Statistic: TypeAlias = Literal["Sum", "Minimum", "Maximum"]
Comparison: TypeAlias = Literal["GreaterThanThreshold", "LessThanThreshold", "GreaterThanUpperThreshold"]


@dataclass(frozen=True)
class Alarm:
    """An alarm on a metric of a table, an index or a queue.

    `operations` are summed if the metric is kept per operation. A threshold of None means the usual band.
    `is_for_dead_letters` selects the dead-letter queue.
    """

    resource: Table | Queue[Any]
    index: Index | None
    metric: str
    purpose: str
    comparison: Comparison = "GreaterThanThreshold"
    threshold: int | None = 0
    statistic: Statistic = "Sum"
    period_s: int = 60
    periods: int = 1
    operations: tuple[str, ...] = ()
    is_for_dead_letters: bool = False

    def to_resource(self) -> Resource:
        """Return the alarm with its name, its metrics and the topics that it is sent to."""
        resource = self.resource
        if isinstance(resource, Table):
            physical = resource.physical_name(ENVIRONMENT_MARK)
        else:
            physical = resource.physical_name(ENVIRONMENT_MARK, dead_letter=self.is_for_dead_letters)
        name = f"{resource.name}{DEAD_LETTER_SUFFIX if self.is_for_dead_letters else ''}"
        words = (*([self.index.name] if self.index else []), self.metric)
        properties = {
            "AlarmName": "-".join((physical, *words)),
            "AlarmDescription": self.purpose,
            **self._build_metrics(),
            "ComparisonOperator": self.comparison,
            "EvaluationPeriods": self.periods,
            "TreatMissingData": "notBreaching",
            "AlarmActions": ParameterReference("AlarmTopics"),
        }
        return Resource(Address("AWS::CloudWatch::Alarm", " ".join((name, *words))), properties)

    def _build_metrics(self) -> dict[str, Any]:
        """Return one metric, one metric with its usual band, or a sum over operations."""
        if self.threshold is None:
            band = f"ANOMALY_DETECTION_BAND(used, {UNUSUAL_DEVIATIONS})"
            return {
                "Metrics": [
                    {"Id": "used", "MetricStat": self._build_statistic()},
                    {"Id": "usual", "Expression": band},
                ],
                "ThresholdMetricId": "usual",
            }
        if self.operations:
            parts = [
                {"Id": each.lower(), "ReturnData": False, "MetricStat": self._build_statistic(each)}
                for each in self.operations
            ]
            total = {"Id": "total", "Expression": "SUM(METRICS())", "Label": self.metric}
            return {"Metrics": [total, *parts], "Threshold": self.threshold}
        return {
            **self._build_metric(),
            "Period": self.period_s,
            "Statistic": self.statistic,
            "Threshold": self.threshold,
        }

    def _build_statistic(self, operation: str = "") -> dict[str, Any]:
        return {"Metric": self._build_metric(operation), "Period": self.period_s, "Stat": self.statistic}

    def _build_metric(self, operation: str = "") -> dict[str, Any]:
        """Return a CloudWatch metric of the alarm's table, index or queue, or of one operation on it."""
        if isinstance(self.resource, Table):
            namespace, dimension = "AWS/DynamoDB", "TableName"
            watched = get_table_address(self.resource)
        else:
            namespace, dimension = "AWS/SQS", "QueueName"
            watched = get_queue_address(self.resource, dead=self.is_for_dead_letters)
        dimensions: list[dict[str, Any]] = [{"Name": dimension, "Value": watched.refer("Name")}]
        if self.index is not None:
            dimensions.append({"Name": "GlobalSecondaryIndexName", "Value": self.index.name})
        if operation:
            dimensions.append({"Name": "Operation", "Value": operation})
        return {"Namespace": namespace, "MetricName": self.metric, "Dimensions": dimensions}


def build_alarms(system: System, *, all_indexes: bool = False) -> list[Resource]:
    """Return the alarms of each table with its deployed indexes, then the alarms of each queue."""
    alarms = [
        *(alarm for table in system.tables for alarm in _list_table_alarms(system, table, all_indexes)),
        *(alarm for queue in system.queues for alarm in _list_queue_alarms(queue)),
    ]
    return [alarm.to_resource() for alarm in alarms]


def _list_table_alarms(system: System, table: Table, all_indexes: bool) -> Iterator[Alarm]:
    """Yield the alarms for throttling, an index that is being built, unusual reads and service errors."""
    for index in (None, *get_deployed_indexes(table, all_indexes)):
        for kind in ("Read", "Write"):
            purpose = f"{kind}s are throttled, which is unusual on demand."
            yield Alarm(table, index, f"{kind}ThrottleEvents", purpose)
        if index is not None:
            yield Alarm(
                table,
                index,
                "OnlineIndexPercentageProgress",
                "The index is being built. Queries on it are refused until it is complete.",
                comparison="LessThanThreshold",
                threshold=100,
                statistic="Minimum",
            )
    yield Alarm(
        table,
        None,
        "ConsumedReadCapacityUnits",
        "Reads are above the usual band: a client may be scanning.",
        comparison="GreaterThanUpperThreshold",
        threshold=None,
        period_s=300,
        periods=3,
    )
    if used := {kind for pattern in system.patterns for kind in _get_kinds_on_table(table, pattern)}:
        purpose = "DynamoDB itself fails requests (5xx)."
        yield Alarm(table, None, "SystemErrors", purpose, operations=tuple(sorted(used)))


def _get_kinds_on_table(table: Table, pattern: Pattern[..., Any]) -> set[str]:
    """Return CloudWatch's name of the pattern's operation; empty if it does not touch the table."""
    operation = build_example_operation(pattern)
    actions = operation.actions if isinstance(operation, Transact) else (operation,)
    return {operation.kind} if table in {action.table for action in actions} else set()


def _list_queue_alarms(queue: Queue[Any]) -> Iterator[Alarm]:
    """Yield the alarms for messages that are close to expiring unprocessed, and for dead letters."""
    yield Alarm(
        queue,
        None,
        "ApproximateAgeOfOldestMessage",
        "The oldest message has waited for half of its retention period: no consumer processes it.",
        threshold=queue.retention_s // 2,
        statistic="Maximum",
        period_s=300,
    )
    if queue.max_receives is not None:
        yield Alarm(
            queue,
            None,
            "ApproximateNumberOfMessagesVisible",
            f"Messages failed {queue.max_receives} times: `holdfast queues redrive` sends them again.",
            statistic="Maximum",
            period_s=300,
            is_for_dead_letters=True,
        )
