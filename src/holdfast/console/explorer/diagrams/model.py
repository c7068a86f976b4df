"""The model of a system as a diagram: a box for each table, queue, bucket and SQL schema, and for the cache.

A table's box has its keys, its indexes, its lifetime and the entities that it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.console.explorer.accesses import list_sql_tables
from holdfast.console.explorer.diagrams.drawing import Box, Drawing, Group, Section, Text, fit
from holdfast.console.explorer.navigation import SystemUrls
from holdfast.model.entities.declaration import Declaration
from holdfast.model.entities.entity import get_declaration
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.reports.docs.declaration_text import format_template
from holdfast.reports.docs.queues_and_buckets import format_seconds
from holdfast.reports.docs.sql_and_cache import format_period, list_cache_kinds

BOX_WIDTH: Final = 332
GAP: Final = 14
HEAD: Final = 34
ROW: Final = 21
PAD: Final = 12
TAG: Final = 44
# Further SQL tables and cache keys are counted, not drawn.
MAX_ROWS: Final = 14


@dataclass(frozen=True)
class _Row:
    """A line of a box: a short tag and a text."""

    tag: str
    text: str
    url: str = ""
    label: str = ""


@dataclass(frozen=True)
class _Part:
    """A box before it has a place: its title, its rows, and the parts inside it."""

    kind: str
    title: str
    url: str
    rows: Sequence[_Row]
    entities: Sequence[tuple[str, str, str, str]] = ()


def draw_model(system: System, width: int) -> Drawing:
    """Return the diagram at this width, in as many columns as fit."""
    count = max(1, (width + GAP) // (BOX_WIDTH + GAP))
    box_width = (width - GAP * (count - 1)) / count
    bottoms = [0.0] * count
    boxes = []
    for part in _list_parts(system):
        column = bottoms.index(min(bottoms))
        box = _draw_part(part, column * (box_width + GAP), bottoms[column], box_width)
        boxes.append(box)
        bottoms[column] += box.height + GAP
    return Drawing(
        width,
        max(1.0, max(bottoms) - GAP),
        f"The model of {system.title or system.name}",
        _describe(system),
        [Group(boxes=boxes)],
    )


def _describe(system: System) -> str:
    """Return the diagram in words."""
    counts = (
        (len(system.tables), "table"),
        (len(system.indexes), "index"),
        (sum(len(each.entities) for each in system.tables), "entity"),
        (len(system.queues), "queue"),
        (len(system.buckets), "bucket"),
        (len(system.schemas), "SQL schema"),
    )
    plurals = {"index": "indexes", "entity": "entities"}
    texts = [f"{n} {name if n == 1 else plurals.get(name, f'{name}s')}" for n, name in counts if n]
    return f"It has {', '.join(texts) or 'nothing yet'}. Each box is a link to its details."


# --- parts --------------------------------------------------------------------------------------------------


def _list_parts(system: System) -> Iterator[_Part]:
    urls = SystemUrls(system)
    for table in system.tables:
        yield _build_table(table, urls)
    for queue in system.queues:
        yield _Part("queue", queue.name, urls.find_resource(queue), _list_queue_rows(queue))
    for bucket in system.buckets:
        yield _Part("bucket", bucket.name, urls.find_resource(bucket), _list_bucket_rows(bucket))
    for schema in system.schemas:
        yield _build_schema(system, schema, urls)
    if kinds := list_cache_kinds(system):
        rows = [_Row("KEY", each.template) for each in kinds]
        yield _Part("cache", "Cache", f"{urls.system}#cache", _shorten(rows, "keys"))


def _build_table(table: Table, urls: SystemUrls) -> _Part:
    url = urls.get_table(table.name)
    declarations = [get_declaration(each) for each in table.entities]
    rows = [
        _Row("PK", f"{table.partition} ({table.partition_type})"),
        *([_Row("SK", f"{table.sort} ({table.sort_type})")] if table.sort else ()),
        *(_build_index_row(each, declarations, url) for each in table.indexes),
        *([_Row("TTL", table.ttl)] if table.ttl else ()),
        *([_Row("LOG", f"stream {table.stream}")] if table.stream else ()),
    ]
    entities = [
        (
            each.entity.__name__,
            " ".join(format_template(template) for _, template in each.primary.templates),
            _describe_lifetime(each),
            f"{url}#entity-{each.entity.__name__}",
        )
        for each in declarations
    ]
    return _Part("table", table.name, url, rows, entities)


def _build_index_row(index: Index, declarations: Sequence[Declaration], url: str) -> _Row:
    keys = ", ".join(filter(None, (index.partition, index.sort)))
    marks = " (sparse)" if is_sparse(index, declarations) else ""
    kind = "GSI" if index.scope == "global" else "LSI"
    label = f"{index.scope} index {index.name} by {keys}{marks}"
    return _Row(kind, f"{index.name}{marks}", f"{url}#index-{index.name}", label)


def is_sparse(index: Index, declarations: Sequence[Declaration]) -> bool:
    """Return whether some items of the table may not be in the index."""
    keys = [
        (each, key)
        for each in declarations
        for key in each.indexes
        if key.index is not None and key.index.name == index.name
    ]
    return len({id(each) for each, _ in keys}) < len(declarations) or any(
        key.only is not None or any(each.attributes[name].is_optional for name in key.attribute_names)
        for each, key in keys
    )


def _describe_lifetime(declaration: Declaration) -> str:
    life = declaration.lifetime
    if life is None:
        return ""
    after = f"{format_period(life.after.total_seconds())} after" if life.after else "at"
    return f"removed {after} {life.attribute.name}"


def _list_queue_rows(queue: Queue[Any]) -> list[_Row]:
    dead = "none" if queue.max_receives is None else f"after {queue.max_receives} attempts"
    return [
        _Row("MSG", queue.message_type.__name__),
        *([_Row("FIFO", "in order within a group")] if queue.fifo else ()),
        _Row("DLQ", dead),
        _Row("KEPT", format_seconds(queue.retention_s)),
    ]


def _list_bucket_rows(bucket: Bucket) -> list[_Row]:
    rows = [
        _Row("KEY", f"{each.template}{f', {each.lifetime_days} days' if each.lifetime_days else ''}")
        for each in bucket.object_kinds
    ]
    return _shorten(rows, "kinds of objects")


def _build_schema(system: System, schema: Schema, urls: SystemUrls) -> _Part:
    names = [each for each in list_sql_tables(system) if each.partition(".")[0] == schema.name]
    rows = [_Row("SQL", each.partition(".")[2]) for each in names]
    return _Part("schema", schema.name, f"{urls.system}#schema-{schema.name}", _shorten(rows, "tables"))


def _shorten(rows: list[_Row], what: str) -> list[_Row]:
    """Return the rows, and the number of those that are left out."""
    left = len(rows) - MAX_ROWS
    return rows if left <= 1 else [*rows[:MAX_ROWS], _Row("", f"and {left} more {what}")]


# --- places -------------------------------------------------------------------------------------------------


def _draw_part(part: _Part, x: float, y: float, width: float) -> Box:
    """Return the box of a part, with its upper left corner here."""
    sections = [_draw_head(part, x, y, width)]
    bottom = y + HEAD + 4
    for row in part.rows:
        sections.append(_draw_row(row, x, bottom, width))
        bottom += ROW
    bottom += 6
    for name, key, life, url in part.entities:
        section = _draw_entity(name, key, life, url, x, bottom, width)
        sections.append(section)
        bottom += section.height
    return Box(x, y, width, bottom - y, part.kind, sections)


def _draw_head(part: _Part, x: float, y: float, width: float) -> Section:
    kind = {"schema": "SQL schema", "cache": ""}.get(part.kind, part.kind)
    name = fit(part.title, width - 2 * PAD - len(kind) * 7 - 10, "name")
    texts = [Text(x + PAD, y + 22, name, "name"), Text(x + width - PAD, y + 22, kind, "quiet", is_end=True)]
    return Section(y, HEAD, texts, part.url, f"{kind} {part.title}".strip(), "head")


def _draw_row(row: _Row, x: float, y: float, width: float) -> Section:
    text = fit(row.text, width - 2 * PAD - TAG)
    texts = [Text(x + PAD, y + 15, row.tag, "tag"), Text(x + PAD + TAG, y + 15, text)]
    return Section(y, ROW, texts, row.url, row.label)


def _draw_entity(name: str, key: str, life: str, url: str, x: float, y: float, width: float) -> Section:
    room = width - 2 * PAD
    lines = [Text(x + PAD, y + 19, fit(name, room, "name"), "name")]
    lines.append(Text(x + PAD, y + 37, fit(key, room, "quiet"), "quiet"))
    if life:
        lines.append(Text(x + PAD, y + 54, fit(life, room, "quiet"), "quiet"))
    label = f"entity {name}, key {key}{f', {life}' if life else ''}"
    return Section(y, 64 if life else 47, lines, url, label, "entity")
