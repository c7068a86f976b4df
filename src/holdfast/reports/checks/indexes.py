"""Rules about indexes: each one is read, holds what its readers need and no more, and spreads over its keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from holdfast.limits import GLOBAL_INDEXES_MAX, LOCAL_INDEXES_MAX
from holdfast.model.entity import declaration_of
from holdfast.model.reads import AnyQuery, CountOf, Paged, Query
from holdfast.model.tables import Index
from holdfast.model.templates import Template
from holdfast.model.writes import Put
from holdfast.operations.expressions.mentions import roots_of
from holdfast.operations.values import Item, item_size
from holdfast.reports.checks.design import Design, Finding, listed, named
from holdfast.reports.checks.partitions import WRITE_UNITS_MAX
from holdfast.reports.measuring import Target

# What the service adds to each item of an index (Developer Guide: Item sizes).
INDEX_ITEM_OVERHEAD_BYTES = 100


def unused_indexes(design: Design) -> Iterator[Finding]:
    """An index that no pattern reads: every write pays for it, nobody gains."""
    used = {part.index for _, part in design.parts(Paged)}  # type: ignore[type-abstract]
    for index in design.system.indexes:
        if index in used:
            continue
        if index.default:
            yield design.warning(
                repr(index),
                "No pattern reads it, and every write of its table pays for it.",
                "Take it away, or declare the pattern that needs it.",
            )
        else:
            yield design.info(
                repr(index),
                "No pattern reads it. It is optional and created only when it is asked for.",
                "Create it with the first pattern that needs it.",
            )


def too_many_indexes(design: Design) -> Iterator[Finding]:
    """More indexes than a table may have."""
    for table in design.system.tables:
        for kind, indexes, most in (
            ("global", table.global_indexes, GLOBAL_INDEXES_MAX),
            ("local", table.local_indexes, LOCAL_INDEXES_MAX),
        ):
            if len(indexes) > most:
                yield design.error(
                    table.name,
                    f"It declares {len(indexes)} {kind} indexes, and the service allows {most}.",
                    "Let one index serve several entities with key templates of their own, or split the table.",
                )


def projections_too_wide(design: Design) -> Iterator[Finding]:
    """An index that holds whole items, while its readers select a few attributes or only count."""
    for index in design.system.indexes:
        needs = _needs(design, index)
        if index.projection.kind != "ALL" or not needs or any(need is None for need in needs):
            continue
        attributes = sorted({name for need in needs for name in need or ()} - _key_names(index))
        smaller = f"include({', '.join(map(repr, attributes))})" if attributes else "KEYS_ONLY"
        yield design.warning(
            repr(index),
            f"It holds whole items, and its readers need {listed(attributes) if attributes else 'only keys'}"
            f"{_saving(design, index, attributes)}.",
            f"Declare it with projection={smaller}: less to store, and no write to it when another attribute changes.",
        )


def projections_too_narrow(design: Design) -> Iterator[Finding]:
    """An index read for whole entities, though it does not hold every attribute: when it runs, that is refused."""
    for pattern, query in design.parts(Query):
        index = query.index
        if index is None or index.projection.kind == "ALL" or _is_counted(design, query):
            continue
        stored = [attribute.stored for attribute in query.declaration.attributes.values()]
        if missing := [name for name in stored if not index.holds(name)]:
            yield design.error(
                named(pattern),
                f"It reads whole items from {index!r}, which does not hold {listed(missing)}.",
                "Read what is there with select(…), or widen the projection.",
            )


def few_partition_keys(design: Design) -> Iterator[Finding]:
    """An index whose partition key can have only a few values, so that its items crowd in a few partitions."""
    for index in design.system.indexes:
        values = _known_values(index)
        if index.scope == "local" or values is None:
            continue
        rate = _write_units_per_second(design, index) / values
        message = f"Its partition key {index.partition} has {_counted(values)}"
        if rate:
            message += (
                f"; at the declared peak each takes {rate:,.1f} write units per second of {WRITE_UNITS_MAX:,}"
            )
        tell = design.error if rate > WRITE_UNITS_MAX else design.info
        yield tell(
            repr(index),
            f"{message}.",
            "Put something that varies into the key (a day, a customer, a shard number of a few digits) and let the "
            "readers ask for each; or leave it, where the table stays small.",
        )


def _needs(design: Design, index: Index) -> list[frozenset[str] | None]:
    """For each reader the attributes it needs; None stands for whole items."""
    found: list[frozenset[str] | None] = []
    for example in design.examples:
        is_count = isinstance(example.operation, CountOf)
        for part in example.parts:
            if not isinstance(part, Paged) or part.index is not index:
                continue
            filtered = frozenset(() if part.filter is None else roots_of(part.filter))
            if is_count or part.selected:
                found.append(filtered | frozenset(part.selected))
            else:
                found.append(None)
    return found


def _is_counted(design: Design, query: AnyQuery[Any, Any]) -> bool:
    operations = (example.operation for example in design.examples)
    return any(isinstance(each, CountOf) and each.query is query for each in operations)


def _key_names(index: Index) -> set[str]:
    names = (index.partition, index.sort, index.table.partition, index.table.sort)
    return {name for name in names if name is not None}


def _saving(design: Design, index: Index, attributes: Iterable[str]) -> str:
    """How much smaller the index would be, judged by an item that a pattern's example puts."""
    kept = {*attributes, *_key_names(index)}
    for item in _example_items(design, index):
        whole = item_size(item) + INDEX_ITEM_OVERHEAD_BYTES
        part = item_size({name: value for name, value in item.items() if name in kept})
        saved = 1 - (part + INDEX_ITEM_OVERHEAD_BYTES) / whole
        return f"; by the example of a put, it would be {saved:.0%} smaller"
    return ""


def _example_items(design: Design, index: Index) -> Iterator[Item]:
    for _, put in design.parts(Put):
        if put.table is index.table:
            yield put.item()


def _known_values(index: Index) -> int | None:
    """How many values the partition key can have over all entities; None where that is open."""
    total = 0
    for entity in index.table.entities:
        for key in declaration_of(entity).indexes:
            if key.index is index:
                values = _values_of(key.partition)
                if values is None:
                    return None
                total += values
    return total or None


def _values_of(template: Template) -> int | None:
    total = 1
    for slot in template.slots:
        kinds = [] if slot.function else [_kinds(slot.attribute.annotation)]
        if not kinds or kinds[0] is None:
            return None
        total *= kinds[0]
    return total


def _kinds(annotation: Any) -> int | None:
    """How many values a type has: an enumeration's members, a literal's choices, true and false."""
    if get_origin(annotation) is Literal:
        return len(get_args(annotation))
    choices = [each for each in get_args(annotation) if each is not type(None)]
    if len(choices) == 1:
        return _kinds(choices[0])
    if annotation is bool:
        return 2
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return len(annotation)
    return None


def _write_units_per_second(design: Design, index: Index) -> float:
    target = Target(index.table.name, index.name)
    return sum(
        units.write * design.calls_per_second_at_peak(measure.pattern)
        for measure in design.measures.values()
        for used, units in measure.units_by_target
        if used == target
    )


def _counted(values: int) -> str:
    return "one value only" if values == 1 else f"{values} values only"
