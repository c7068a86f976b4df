"""Handlers of UpdateTimeToLive and DescribeTimeToLive in the embedded engine."""

from __future__ import annotations

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import (
    DescribeTimeToLive,
    DescribeTimeToLiveResult,
    TimeToLiveSpecification,
    UpdateTimeToLive,
)
from holdfast.stores.tables.embedded.handlers.tables import require_active_table, require_table
from holdfast.stores.tables.embedded.records import LifetimesJob
from holdfast.stores.tables.embedded.storage import catalog, jobs
from holdfast.stores.tables.embedded.storage.reader import Reader
from holdfast.stores.tables.embedded.storage.writer import Writer


def update_time_to_live(operation: UpdateTimeToLive, writer: Writer) -> TimeToLiveSpecification:
    """Enable or disable the lifetime attribute.

    Raise `InvalidRequest` if that changes nothing or names another one. Items written from now on store their
    end of life; a job adds it to older items.
    """
    record = require_active_table(writer.catalog, operation.table).record
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
    return TimeToLiveSpecification(operation.attribute, operation.enabled)


def describe_time_to_live(operation: DescribeTimeToLive, reader: Reader) -> DescribeTimeToLiveResult:
    """Return whether the table has lifetimes, and their attribute. Raise `NotFound` without the table."""
    attribute = require_table(reader.catalog, operation.table).record.lifetime_attribute
    return DescribeTimeToLiveResult("DISABLED" if attribute is None else "ENABLED", attribute)
