"""Render the queues and buckets of a system: message fields, delivery, object keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from pydantic.fields import FieldInfo

from holdfast.model.objects import Bucket, ObjectKind
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.reports.docs.declaration_text import format_duration, format_type
from holdfast.reports.docs.markdown import Row, format_table
from holdfast.reports.iac.infrastructure import build_name_template

DAY_S: Final = 86_400
MEMBER_COLUMNS: Final = ("member", "stored as", "type", "optional")


def render_queues(system: System) -> Iterator[str]:
    """Yield the Markdown sections of all queues."""
    if system.queues:
        yield "## Queues"
    for queue in system.queues:
        yield f"### {queue.name}"
        if queue.purpose:
            yield queue.purpose
        yield format_table(("property", "value"), build_queue_rows(queue))
        yield f"A message is a {queue.message_type.__name__}:"
        yield format_table(MEMBER_COLUMNS, map(build_member_row, queue.message_type.model_fields.items()))


def render_buckets(system: System) -> Iterator[str]:
    """Yield the Markdown sections of all buckets."""
    if system.buckets:
        yield "## Buckets"
    for bucket in system.buckets:
        yield f"### {bucket.name}"
        if bucket.purpose:
            yield bucket.purpose
        yield format_table(("property", "value"), build_bucket_rows(system, bucket))
        if bucket.object_kinds:
            yield format_table(
                ("object key", "content", "lifetime"), map(build_object_kind_row, bucket.object_kinds)
            )


def build_member_row(member: tuple[str, FieldInfo]) -> Row:
    """Return the table row of one field of a document or message."""
    name, info = member
    return (
        f"`{name}`",
        f"`{info.serialization_alias or info.alias or name}`",
        f"`{format_type(info.annotation)}`",
        "" if info.is_required() else "yes",
    )


def build_queue_rows(queue: Queue[Any]) -> Iterator[Row]:
    """Yield the properties of a queue: order, duplicates, times, dead letters and physical name."""
    yield "order", "first in, first out within a group" if queue.fifo else "none"
    yield "duplicates", "dropped by deduplication id" if queue.fifo else "possible"
    yield "visibility timeout", format_seconds(queue.visibility_s)
    yield "delay", format_seconds(queue.delay_s) if queue.delay_s else "none"
    yield "retention", format_seconds(queue.retention_s)
    yield "dead letters", _format_dead_letters(queue)
    yield "name in an environment", f"`{queue.physical_name('{environment}')}`"


def _format_dead_letters(queue: Queue[Any]) -> str:
    if queue.max_receives is None:
        return "none: a message is retried until it expires"
    name = queue.physical_name("{environment}", dead_letter=True)
    return f"after {queue.max_receives} attempts, in `{name}`, kept {format_seconds(queue.dead_retention_s)}"


def build_bucket_rows(system: System, bucket: Bucket) -> Iterator[Row]:
    """Yield the properties of a bucket: encryption, legal holds, former versions and physical names."""
    key = f" with the key `{bucket.kms_key}`" if bucket.kms_key else ""
    yield (
        "encryption at rest",
        f"by the key service{key}" if bucket.encryption == "kms" else "by the object store",
    )
    yield "legal holds", "yes, with versions" if bucket.legal_holds else "none"
    former = bucket.definition("").noncurrent_version_days
    if bucket.versions and former is not None:
        yield "former versions", f"kept {format_seconds(former * DAY_S)}"
    yield "name in an environment", _format_names(system, bucket)


def _format_names(system: System, bucket: Bucket) -> str:
    """Return the bucket's name in an environment, or its names in all declared environments."""
    if bucket.physical is None or not system.deployment.environments:
        return f"`{build_name_template(bucket, '{environment}')}`"
    return ", ".join(f"`{bucket.physical_name(each)}`" for each in system.deployment.environments)


def build_object_kind_row(object_kind: ObjectKind) -> Row:
    days = object_kind.lifetime_days
    end = "none" if days is None else f"{format_duration(timedelta(days=days))} after it was put"
    return f"`{object_kind.template}`", object_kind.content_type, end


def format_seconds(seconds: int) -> str:
    """Format seconds: below two minutes as seconds, otherwise as days and a time."""
    return f"{seconds} s" if seconds < 120 else format_duration(timedelta(seconds=seconds))
