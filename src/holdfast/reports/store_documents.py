"""Queues and buckets in a system's documentation: what a message holds, how it is delivered, how a key is made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from pydantic.fields import FieldInfo

from holdfast.model.objects import Bucket, Shelf
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.reports.infrastructure import in_environment
from holdfast.reports.markdown import Row, markdown_table
from holdfast.reports.spelling import duration_text, type_name

DAY_S: Final = 86_400
MEMBER_COLUMNS: Final = ("member", "stored as", "type", "optional")


def queue_sections(system: System) -> Iterator[str]:
    if system.queues:
        yield "## Queues"
    for queue in system.queues:
        yield f"### {queue.name}"
        if queue.purpose:
            yield queue.purpose
        yield markdown_table(("property", "value"), _queue_rows(queue))
        yield f"A message is a {queue.message.__name__}:"
        yield markdown_table(MEMBER_COLUMNS, map(member_row, queue.message.model_fields.items()))


def bucket_sections(system: System) -> Iterator[str]:
    if system.buckets:
        yield "## Buckets"
    for bucket in system.buckets:
        yield f"### {bucket.name}"
        if bucket.purpose:
            yield bucket.purpose
        yield markdown_table(("property", "value"), _bucket_rows(system, bucket))
        if bucket.shelves:
            yield markdown_table(
                ("objects under the key", "content", "end of life"), map(_shelf_row, bucket.shelves)
            )


def member_row(member: tuple[str, FieldInfo]) -> Row:
    """One member of a document or message."""
    name, info = member
    return (
        f"`{name}`",
        f"`{info.serialization_alias or info.alias or name}`",
        f"`{type_name(info.annotation)}`",
        "" if info.is_required() else "yes",
    )


def _queue_rows(queue: Queue[Any]) -> Iterator[Row]:
    yield "order", "first in, first out within a group" if queue.fifo else "none"
    yield "copies", "told by an id and dropped" if queue.fifo else "possible"
    yield "hidden while it is worked on", _duration(queue.visibility_s)
    yield "delay", _duration(queue.delay_s) if queue.delay_s else "none"
    yield "kept", _duration(queue.retention_s)
    yield "dead letters", _dead_letters(queue)
    yield "name in an environment", f"`{queue.physical_name('{environment}')}`"


def _dead_letters(queue: Queue[Any]) -> str:
    if queue.receives_max is None:
        return "none: a message is tried until it ends"
    name = queue.physical_name("{environment}", dead=True)
    return f"after {queue.receives_max} attempts, in `{name}`, kept {_duration(queue.dead_retention_s)}"


def _bucket_rows(system: System, bucket: Bucket) -> Iterator[Row]:
    key = f" with the key `{bucket.kms_key}`" if bucket.kms_key else ""
    yield (
        "encryption at rest",
        f"by the key service{key}" if bucket.encryption == "kms" else "by the object store",
    )
    yield "legal holds", "yes, with versions" if bucket.holds else "none"
    former = bucket.definition("").former_version_days
    if bucket.versions and former is not None:
        yield "former versions", f"kept {_duration(former * DAY_S)}"
    yield "name in an environment", _names(system, bucket)


def _names(system: System, bucket: Bucket) -> str:
    """By its rule; where that is its own, of each environment that the system is meant for."""
    if bucket.physical is None or not system.environments:
        return f"`{in_environment(bucket, '{environment}')}`"
    return ", ".join(f"`{bucket.physical_name(each)}`" for each in system.environments)


def _shelf_row(shelf: Shelf) -> Row:
    days = shelf.lifetime_days
    end = "none" if days is None else f"{duration_text(timedelta(days=days))} after it was put"
    return f"`{shelf.template}`", shelf.content_type, end


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else duration_text(timedelta(seconds=seconds))
