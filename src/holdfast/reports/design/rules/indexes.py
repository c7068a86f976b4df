"""Rules about indexes: they are read, project only what readers need, and have enough keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from holdfast.core.limits import MAX_GLOBAL_INDEXES, MAX_LOCAL_INDEXES
from holdfast.model.entities.entity import get_declaration
from holdfast.model.entities.key_templates import Template
from holdfast.model.entities.reads import BaseQuery, CountQuery, PagedRead, Query
from holdfast.model.entities.writes import Put
from holdfast.model.tables import Index
from holdfast.operations.expressions.condition_paths import find_root_attributes
from holdfast.operations.values import Item, item_size
from holdfast.reports.design.rules.base import Design, Finding, format_pattern, join_words
from holdfast.reports.design.rules.partitions import MAX_WRITE_UNITS
from holdfast.reports.measurement.pattern_measures import Target

# Bytes that DynamoDB adds to each index item (Developer Guide: Item sizes).
INDEX_ITEM_OVERHEAD_BYTES = 100


def find_unused_indexes(design: Design) -> Iterator[Finding]:
    """Find indexes that no pattern reads: every write pays for them."""
    used = {part.index for _, part in design.find_parts(PagedRead)}  # type: ignore[type-abstract]
    for index in design.system.indexes:
        if index in used:
            continue
        if index.default:
            yield design.warning(
                repr(index),
                "No pattern reads it, but writes to its table pay for it.",
                "Remove it, or declare the pattern that needs it.",
            )
        else:
            yield design.info(
                repr(index),
                "No pattern reads it. It is optional and created only on request.",
                "Create it with the first pattern that needs it.",
            )


def find_too_many_indexes(design: Design) -> Iterator[Finding]:
    """Find tables with more indexes than DynamoDB allows."""
    for table in design.system.tables:
        for kind, indexes, most in (
            ("global", table.global_indexes, MAX_GLOBAL_INDEXES),
            ("local", table.local_indexes, MAX_LOCAL_INDEXES),
        ):
            if len(indexes) > most:
                yield design.error(
                    table.name,
                    f"It declares {len(indexes)} {kind} indexes; DynamoDB allows {most}.",
                    "Share one index between several entities, each with its own key template, or split the "
                    "table.",
                )


def find_wide_projections(design: Design) -> Iterator[Finding]:
    """Find indexes that project all attributes although their readers need only a few, or only count."""
    for index in design.system.indexes:
        needs = _list_needed_attributes(design, index)
        if index.projection.kind != "ALL" or not needs or any(need is None for need in needs):
            continue
        attributes = sorted({name for need in needs for name in need or ()} - _get_key_names(index))
        smaller = f"include({', '.join(map(repr, attributes))})" if attributes else "KEYS_ONLY"
        yield design.warning(
            repr(index),
            "It projects all attributes; its readers need "
            f"{join_words(attributes) if attributes else 'only keys'}"
            f"{_format_saving(design, index, attributes)}.",
            f"Declare it with projection={smaller}: it stores less, and changes of other attributes do not "
            "write to it.",
        )


def find_narrow_projections(design: Design) -> Iterator[Finding]:
    """Find queries for whole entities on an index that lacks attributes: they are refused at run time."""
    for pattern, query in design.find_parts(Query):
        index = query.index
        if index is None or index.projection.kind == "ALL" or _is_only_counted(design, query):
            continue
        stored = [attribute.stored_name for attribute in query.declaration.attributes.values()]
        if missing := [name for name in stored if not index.has_attribute(name)]:
            yield design.error(
                format_pattern(pattern),
                f"It reads whole items from {index!r}, which does not project {join_words(missing)}.",
                "Select the projected attributes with select(…), or widen the projection.",
            )


def find_few_partition_keys(design: Design) -> Iterator[Finding]:
    """Find global indexes whose partition key has a bounded number of values, so that few partitions take the
    load.

    The finding is an error if the declared peak exceeds what a partition serves, otherwise an info.
    """
    for index in design.system.indexes:
        values = _count_key_values(index)
        if index.scope == "local" or values is None:
            continue
        rate = _compute_peak_write_units(design, index) / values
        message = f"Its partition key {index.partition} has {_format_value_count(values)}"
        if rate:
            message += (
                f"; at the declared peak each takes {rate:,.1f} write units per second of {MAX_WRITE_UNITS:,}"
            )
        build_finding = design.error if rate > MAX_WRITE_UNITS else design.info
        yield build_finding(
            repr(index),
            f"{message}.",
            "Add a part that varies to the key (a day, a customer, a shard number) and query each value; "
            "or leave it if the table stays small.",
        )


def _list_needed_attributes(design: Design, index: Index) -> list[frozenset[str] | None]:
    """Return the attributes that each reader of the index needs; None for a reader that needs whole items."""
    found: list[frozenset[str] | None] = []
    for example in design.examples:
        is_count = isinstance(example.operation, CountQuery)
        for part in example.parts:
            if not isinstance(part, PagedRead) or part.index is not index:
                continue
            filtered = frozenset(() if part.filter is None else find_root_attributes(part.filter))
            if is_count or part.selected:
                found.append(filtered | frozenset(part.selected))
            else:
                found.append(None)
    return found


def _is_only_counted(design: Design, query: BaseQuery[Any, Any]) -> bool:
    """Return True if a pattern only counts the items of this query."""
    operations = (example.operation for example in design.examples)
    return any(isinstance(each, CountQuery) and each.query is query for each in operations)


def _get_key_names(index: Index) -> set[str]:
    """Return the key attributes of the index and of its table."""
    names = (index.partition, index.sort, index.table.partition, index.table.sort)
    return {name for name in names if name is not None}


def _format_saving(design: Design, index: Index, attributes: Iterable[str]) -> str:
    """Describe how much smaller the index would be, estimated from an item that a pattern's example puts."""
    kept = {*attributes, *_get_key_names(index)}
    for item in _build_example_items(design, index):
        whole = item_size(item) + INDEX_ITEM_OVERHEAD_BYTES
        part = item_size({name: value for name, value in item.items() if name in kept})
        saved = 1 - (part + INDEX_ITEM_OVERHEAD_BYTES) / whole
        return f"; estimated from the example of a put, it would be {saved:.0%} smaller"
    return ""


def _build_example_items(design: Design, index: Index) -> Iterator[Item]:
    """Yield the items that the examples put into the index's table."""
    for _, put in design.find_parts(Put):
        if put.table is index.table:
            yield put.build_item()


def _count_key_values(index: Index) -> int | None:
    """Count the possible values of the partition key over all entities; None if the number is not bounded."""
    total = 0
    for entity in index.table.entities:
        for key in get_declaration(entity).indexes:
            if key.index is index:
                values = _count_template_values(key.partition)
                if values is None:
                    return None
                total += values
    return total or None


def _count_template_values(template: Template) -> int | None:
    """Count the values that a key template can build; None if the number is not bounded."""
    total = 1
    for slot in template.slots:
        kinds = [] if slot.function else [_count_type_values(slot.attribute.annotation)]
        if not kinds or kinds[0] is None:
            return None
        total *= kinds[0]
    return total


def _count_type_values(annotation: Any) -> int | None:
    """Count the values of an enum, a literal or bool; None for any other type."""
    if get_origin(annotation) is Literal:
        return len(get_args(annotation))
    choices = [each for each in get_args(annotation) if each is not type(None)]
    if len(choices) == 1:
        return _count_type_values(choices[0])
    if annotation is bool:
        return 2
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return len(annotation)
    return None


def _compute_peak_write_units(design: Design, index: Index) -> float:
    """Return the write units per second that the index consumes at the declared peak."""
    target = Target(index.table.name, index.name)
    return sum(
        units.write * design.compute_peak_rate(measure.pattern)
        for measure in design.measures.values()
        for used, units in measure.units_by_target
        if used == target
    )


def _format_value_count(count: int) -> str:
    return "one value only" if count == 1 else f"{count} values only"
