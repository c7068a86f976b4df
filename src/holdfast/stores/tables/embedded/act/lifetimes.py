"""UpdateTimeToLive and DescribeTimeToLive."""

from __future__ import annotations

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import (
    DescribeTimeToLive,
    DescribeTimeToLiveResult,
    LifetimeSpecification,
    UpdateTimeToLive,
)
from holdfast.stores.tables.embedded.act.tables import active_table, known_table
from holdfast.stores.tables.embedded.records import LifetimesJob
from holdfast.stores.tables.embedded.storage import catalog, jobs
from holdfast.stores.tables.embedded.storage.reading import Reading
from holdfast.stores.tables.embedded.storage.writer import Writer


def update_time_to_live(operation: UpdateTimeToLive, writer: Writer) -> LifetimeSpecification:
    """Set the lifetime attribute. Items written from now on record their end of life; a job adds it to older
    ones.
    """
    record = active_table(writer.catalog, operation.table).record
    current = record.lifetime_attribute
    if operation.enabled and current is not None:
        raise InvalidRequest(
            "TimeToLive is already enabled"
            if current == operation.attribute
            else f"TimeToLive is active on a different AttributeName: current AttributeName is {current}"
        )
    if not operation.enabled:
        if current is None:
            raise InvalidRequest("TimeToLive is already disabled")
        if current != operation.attribute:
            raise InvalidRequest(
                f"TimeToLive is active on a different AttributeName: current AttributeName is {current}"
            )
    wanted = operation.attribute if operation.enabled else None
    catalog.save_table(writer, msgspec.structs.replace(record, lifetime_attribute=wanted))
    if wanted is not None:
        jobs.add(writer.connection, LifetimesJob(record.number, wanted))
    return LifetimeSpecification(operation.attribute, operation.enabled)


def describe_time_to_live(operation: DescribeTimeToLive, reading: Reading) -> DescribeTimeToLiveResult:
    attribute = known_table(reading.catalog, operation.table).record.lifetime_attribute
    return DescribeTimeToLiveResult("DISABLED" if attribute is None else "ENABLED", attribute)
