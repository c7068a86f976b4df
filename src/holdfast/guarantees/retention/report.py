"""The retention report: every place where a system's data stays, for how long, and what has no end.

Nothing is asked of a store: it follows from the declarations of tables, entities, queues, buckets and schemas, and from
`System.retention`, which says what a declaration cannot: how far away the end is that the code writes into an item, and
when the rows of a schema are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DeclarationError
from holdfast.guarantees.retention.periods import DAY_S, Period, spoken
from holdfast.limits import RECOVERY_DAYS_MAX, STREAM_RETENTION_S
from holdfast.model.declaration import Declaration
from holdfast.model.entity import declaration_of
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema
from holdfast.model.system import System
from holdfast.model.tables import Table


@dataclass(frozen=True)
class Kept:
    """`name` is the table, queue, bucket or schema, `what` of it is kept. `problem` says what is missing, if anything is."""

    store: str
    name: str
    what: str
    seconds: float | None
    until: str
    why: str = ""
    problem: str = ""


def retention_report(system: System) -> list[Kept]:
    known = {each.name for each in (*system.tables, *system.queues, *system.buckets, *system.schemas)}
    if strangers := sorted(set(system.retention) - known):
        raise DeclarationError(
            f"{system.name} declares how long {', '.join(strangers)} is kept, and has no table, queue, bucket or schema "
            "of that name: correct the name in System(retention=…)."
        )
    rows = [kept for table in system.tables for kept in _of_table(table, system.retention.get(table.name))]
    rows += [kept for queue in system.queues for kept in _of_queue(queue)]
    rows += [
        kept for bucket in system.buckets for kept in _of_bucket(bucket, system.retention.get(bucket.name))
    ]
    rows += [_of_schema(schema, system.retention.get(schema.name)) for schema in system.schemas]
    return rows


def _of_table(table: Table, period: Period | None) -> Iterator[Kept]:
    for entity in table.entities:
        yield _by_guarantee(table, entity, period) or _items(table, declaration_of(entity), period)
    if not table.entities:
        yield Kept("tables", table.name, "items", None, "", problem="No entity is declared for it.")
    if table.stream is not None:
        yield Kept(
            "tables", table.name, "stream: images of changed items", STREAM_RETENTION_S, "after the change"
        )
    if table.recovery:
        days = RECOVERY_DAYS_MAX * DAY_S
        yield Kept("tables", table.name, "recovery: every former state", days, "after the change")
        yield Kept("tables", table.name, "backup of the table if it is deleted", days, "after its deletion")
    yield Kept(
        "tables",
        table.name,
        "backups on demand",
        None,
        "until they are deleted",
        why="Taken by hand; an erasure names those there are.",
    )


def _by_guarantee(table: Table, entity: type[Any], period: Period | None) -> Kept | None:
    """A record of a guarantee whose end the guarantee writes: it says so itself (`guarantees/lifetimes.py`)."""
    why = getattr(entity, "__kept_why__", None)
    if why is None or period is not None:
        return None
    seconds = getattr(entity, "__kept_s__", None)
    until = "" if seconds is None else "after its last change"
    return Kept("tables", table.name, f"items: {entity.__name__}", seconds, until, why)


def _items(table: Table, declaration: Declaration, period: Period | None) -> Kept:
    name = f"items: {declaration.entity.__name__}"
    lifetime = declaration.lifetime
    if lifetime is not None and lifetime.after.total_seconds() > 0:
        problem = ""
        if lifetime.attribute.is_optional:
            problem = f"An item without {lifetime.attribute.name} has no end."
        return Kept(
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
        return _without_end(table, name, period)
    problem = f"An item without {end.name} has no end." if end.is_optional else ""
    if period is None:
        problem = f"{end.name} ends it, but nothing says how far away that is: declare System(retention=…)."
    seconds = period.seconds if period else None
    return Kept(
        "tables", table.name, name, seconds, f"until {end.name}", period.why if period else "", problem
    )


def _without_end(table: Table, name: str, period: Period | None) -> Kept:
    if period is None:
        problem = "It has no lifetime: give its table a ttl and its entity a Lifetime, or say why it is kept."
        return Kept("tables", table.name, name, None, "for good", problem=problem)
    problem = (
        "" if period.seconds is None else f"{spoken(period.seconds)} are declared, but no attribute ends it."
    )
    return Kept("tables", table.name, name, period.seconds, "for good", period.why, problem)


def _of_queue(queue: Queue[Any]) -> Iterator[Kept]:
    yield Kept(
        "queues", queue.name, "messages", queue.retention_s, "after they were sent, unless worked off before"
    )
    if queue.receives_max is not None:
        yield Kept("queues", queue.name, "dead letters", queue.dead_retention_s, "after they were sent")


def _of_bucket(bucket: Bucket, period: Period | None) -> Iterator[Kept]:
    for shelf in bucket.shelves:
        days = shelf.lifetime_days
        if days is not None:
            yield Kept("objects", bucket.name, shelf.template, days * DAY_S, "after it was put")
        elif period is not None and period.seconds is None:
            yield Kept("objects", bucket.name, shelf.template, None, "for good", period.why)
        else:
            problem = "It has no lifetime: give the shelf lifetime_days, or say why it is kept."
            yield Kept("objects", bucket.name, shelf.template, None, "for good", problem=problem)
    if bucket.holds:
        yield Kept(
            "objects", bucket.name, "objects under a legal hold", None, "until the hold is lifted",
            why="Nobody may delete them before.",
        )  # fmt: skip


def _of_schema(schema: Schema, period: Period | None) -> Kept:
    """No row ends by itself: the system removes it, and says when."""
    if period is None:
        problem = "Nothing says when its rows are removed: declare System(retention=…)."
        return Kept("sql", schema.name, "rows", None, "for good", problem=problem)
    until = "for good" if period.seconds is None else "then the system removes them"
    return Kept("sql", schema.name, "rows", period.seconds, until, period.why)
