"""The retention report: every place where a system's data stays, for how long, and what has no end.

It reads no store. It follows from the declarations of tables, entities, queues, buckets and schemas, and from
`Privacy.retention`, which adds what a declaration cannot express: the expiry that the code writes into an
item, and when rows of a schema are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import DeclarationError
from holdfast.core.limits import MAX_RECOVERY_DAYS, STREAM_RETENTION_S
from holdfast.guarantees.privacy.retention.periods import DAY_S, Period, format_period
from holdfast.model.entities.declaration import Declaration
from holdfast.model.entities.entity import get_declaration
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema
from holdfast.model.system import System
from holdfast.model.tables import Table


@dataclass(frozen=True)
class RetentionEntry:
    """One kind of stored data: `what` is kept in the table, queue, bucket or schema `name`.

    `problem` reports a missing end.
    """

    store: str
    name: str
    what: str
    seconds: float | None
    until: str
    why: str = ""
    problem: str = ""


def build_retention_report(system: System) -> list[RetentionEntry]:
    """Return every kind of data that the system stores, with its retention; what has no end has a `problem`.

    Raises `DeclarationError` if `Privacy.retention` names an unknown resource.
    """
    known = {each.name for each in (*system.tables, *system.queues, *system.buckets, *system.schemas)}
    if strangers := sorted(set(system.privacy.retention) - known):
        raise DeclarationError(
            f"Invalid retention of {system.name}: {', '.join(strangers)} is not a table, queue, bucket or "
            "schema: correct the name in Privacy(retention=…)."
        )
    rows = [
        kept
        for table in system.tables
        for kept in _report_table(table, system.privacy.retention.get(table.name))
    ]
    rows += [kept for queue in system.queues for kept in _report_queue(queue)]
    rows += [
        kept
        for bucket in system.buckets
        for kept in _report_bucket(bucket, system.privacy.retention.get(bucket.name))
    ]
    rows += [_report_schema(schema, system.privacy.retention.get(schema.name)) for schema in system.schemas]
    return rows


def _report_table(table: Table, period: Period | None) -> Iterator[RetentionEntry]:
    """Yield the items of each entity, then the stream, recovery and backups.

    `period` is from `Privacy.retention`.
    """
    for entity in table.entities:
        yield _report_guarantee_record(table, entity, period) or _report_items(
            table, get_declaration(entity), period
        )
    if not table.entities:
        yield RetentionEntry("tables", table.name, "items", None, "", problem="It has no entity.")
    if table.stream is not None:
        yield RetentionEntry(
            "tables", table.name, "stream: images of changed items", STREAM_RETENTION_S, "after the change"
        )
    if table.point_in_time_recovery:
        days = MAX_RECOVERY_DAYS * DAY_S
        yield RetentionEntry("tables", table.name, "recovery: every former state", days, "after the change")
        yield RetentionEntry(
            "tables", table.name, "backup of the table if it is deleted", days, "after its deletion"
        )
    yield RetentionEntry(
        "tables",
        table.name,
        "backups on demand",
        None,
        "until they are deleted",
        why="Taken by an operator; an erasure lists the existing ones.",
    )


def _report_guarantee_record(table: Table, entity: type[Any], period: Period | None) -> RetentionEntry | None:
    """Return the entry of a guarantee's record, whose end the guarantee declares (`guarantees/lifetimes.py`).

    Return None for other entities, and if `Privacy.retention` declares a period for the table.
    """
    why = getattr(entity, "__kept_why__", None)
    if why is None or period is not None:
        return None
    seconds = getattr(entity, "__kept_s__", None)
    until = "" if seconds is None else "after its last change"
    label = getattr(entity, "__kept_label__", entity.__name__)
    return RetentionEntry("tables", table.name, f"items: {label}", seconds, until, why)


def _report_items(table: Table, declaration: Declaration, period: Period | None) -> RetentionEntry:
    """Return the entry of an entity's items: by its lifetime, by its expiry attribute, or endless."""
    name = f"items: {declaration.entity.__name__}"
    lifetime = declaration.lifetime
    if lifetime is not None and lifetime.after.total_seconds() > 0:
        problem = ""
        if lifetime.attribute.is_optional:
            problem = f"An item without {lifetime.attribute.name} has no end."
        return RetentionEntry(
            "tables",
            table.name,
            name,
            lifetime.after.total_seconds(),
            f"after {lifetime.attribute.name}",
            why=period.why if period else "",
            problem=problem,
        )
    end = lifetime.attribute if lifetime else declaration.by_stored_name.get(table.ttl or "")
    if end is None:
        return _report_endless(table, name, period)
    problem = f"An item without {end.name} has no end." if end.is_optional else ""
    if period is None:
        problem = f"{end.name} ends it after an unknown time: declare Privacy(retention=…)."
    seconds = period.seconds if period else None
    return RetentionEntry(
        "tables", table.name, name, seconds, f"until {end.name}", period.why if period else "", problem
    )


def _report_endless(table: Table, name: str, period: Period | None) -> RetentionEntry:
    """Return the entry of items without an expiry attribute: a problem, unless the system declares them as
    endless.
    """
    if period is None:
        problem = "It has no lifetime: add a table ttl and an entity Lifetime, or declare why it is kept."
        return RetentionEntry("tables", table.name, name, None, "for good", problem=problem)
    problem = (
        ""
        if period.seconds is None
        else f"{format_period(period.seconds)} are declared, but no attribute expires it."
    )
    return RetentionEntry("tables", table.name, name, period.seconds, "for good", period.why, problem)


def _report_queue(queue: Queue[Any]) -> Iterator[RetentionEntry]:
    """Yield the messages of the queue, and its dead letters if it has any."""
    yield RetentionEntry(
        "queues", queue.name, "messages", queue.retention_s, "after they were sent, unless processed before"
    )
    if queue.max_receives is not None:
        yield RetentionEntry(
            "queues", queue.name, "dead letters", queue.dead_retention_s, "after they were sent"
        )


def _report_bucket(bucket: Bucket, period: Period | None) -> Iterator[RetentionEntry]:
    """Yield each kind of object, and objects under a legal hold."""
    for shelf in bucket.object_kinds:
        days = shelf.lifetime_days
        if days is not None:
            yield RetentionEntry("objects", bucket.name, shelf.template, days * DAY_S, "after it was put")
        elif period is not None and period.seconds is None:
            yield RetentionEntry("objects", bucket.name, shelf.template, None, "for good", period.why)
        else:
            problem = "It has no lifetime: add lifetime_days to the object kind, or declare why it is kept."
            yield RetentionEntry("objects", bucket.name, shelf.template, None, "for good", problem=problem)
    if bucket.legal_holds:
        yield RetentionEntry(
            "objects", bucket.name, "objects under a legal hold", None, "until the hold is lifted",
            why="A legal hold forbids deletion.",
        )  # fmt: skip


def _report_schema(schema: Schema, period: Period | None) -> RetentionEntry:
    """Return the entry of a schema. Rows do not expire: the system removes them, and declares when."""
    if period is None:
        problem = "The removal of its rows is not declared: declare Privacy(retention=…)."
        return RetentionEntry("sql", schema.name, "rows", None, "for good", problem=problem)
    until = "for good" if period.seconds is None else "until the system removes them"
    return RetentionEntry("sql", schema.name, "rows", period.seconds, until, period.why)
