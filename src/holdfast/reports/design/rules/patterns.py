"""Rules about patterns: they can be called, query by key, have a volume, and belong to a component."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.model.entities.reads import BaseQuery, Scan
from holdfast.model.patterns import Pattern
from holdfast.reports.design.rules.base import Design, Finding, format_pattern, join_words
from holdfast.reports.examples import Example

# Patterns named in a finding about several.
MAX_NAMES_SHOWN: Final = 3


def find_uncallable_examples(design: Design) -> Iterator[Finding]:
    """Find patterns that fail when called with their example, or that take arguments and declare no example.

    The call also detects a mistake that type checkers miss: a condition used as a truth value.
    """
    for example in design.examples:
        if example.error is None:
            continue
        pattern = example.pattern
        if _lacks_example(pattern):
            yield design.error(
                format_pattern(pattern),
                f"It takes {', '.join(pattern.signature.parameters)} and declares no example.",
                "Give it example=(…): the reports, the policies and the cost are derived from that call.",
            )
        else:
            yield design.error(
                format_pattern(pattern),
                f"The call with its example fails: {example.error}",
                "Fix the example or the pattern. Combine conditions with & | ~, each in parentheses.",
            )


def find_unlisted_tables(design: Design) -> Iterator[Finding]:
    """Find tables that patterns use and the system does not list, so that nothing creates them."""
    users: dict[str, list[str]] = {}
    for example in design.examples:
        for name in _list_unlisted_tables(design, example):
            users.setdefault(name, []).append(format_pattern(example.pattern))
    for name, patterns in users.items():
        yield design.error(
            name,
            f"{join_words(patterns[:MAX_NAMES_SHOWN])} use this table, which the system does not list.",
            "Add it to tables=(…) of the System.",
        )


def find_failing_examples(design: Design) -> Iterator[Finding]:
    """Find patterns whose example builds an operation that the store refuses on the sample data.

    Without a sample the patterns run on empty tables; a refusal there is a warning unless it is only a failed
    condition.
    """
    for example in design.examples:
        measure = design.measures.get(example.pattern.id)
        if example.error is not None or _list_unlisted_tables(design, example):
            continue
        if measure is not None and measure.has_failed:
            build_finding, data = (
                (design.error, "the sample data") if design.has_data else (design.warning, "empty tables")
            )
            yield build_finding(
                format_pattern(example.pattern),
                f"Run with its example on {data}, it fails: {measure.reason}",
                "Choose an example that is in the sample data, or fix the pattern.",
            )


def find_missing_sample(design: Design) -> Iterator[Finding]:
    """Report a system without sample data: its patterns ran on empty tables, so their units are unknown.

    Warn about the patterns whose conditions failed there.
    """
    if design.has_data or not design.measures:
        return
    yield design.info(
        design.system.name,
        "It has no sample data, so nothing was measured: a read counts with the minimum units.",
        "Install the system's demo, or declare System(demo=Demo(sample=…)), a function that writes "
        "realistic data.",
    )
    refused = [
        format_pattern(each.pattern)
        for each in design.measures.values()
        if each.reason and not each.has_failed
    ]
    if refused:
        yield design.warning(
            design.system.name,
            f"On empty tables the conditions of {join_words(refused)} fail, so these patterns were never "
            "run.",
            "Declare System(demo=Demo(sample=…)) with the items that their examples refer to.",
        )


def find_invalid_quantities(design: Design) -> Iterator[Finding]:
    """Find invalid rates, volumes, shares and key counts: every computed figure depends on them."""
    load = design.load
    wrong = [
        (format_pattern(each), f"times={each.rate.times:g}")
        for each in design.system.patterns
        if not 0 <= each.rate.times < math.inf
    ]
    for name, volume in load.volumes.items():
        if not 0 <= volume.per_month < math.inf:
            wrong.append((name, f"per_month={volume.per_month:g}"))
        if volume.distinct_keys < 1:
            wrong.append((name, f"distinct_keys={volume.distinct_keys}"))
        if volume.hottest is not None and not 0 < volume.hottest <= 1:
            wrong.append((name, f"hottest={volume.hottest:g}"))
    wrong += [(name, f"distinct_keys={keys}") for name, keys in load.distinct_keys.items() if keys < 1]
    wrong += [(id, f"item_bytes={size}") for id, size in load.item_bytes.items() if size < 1]
    if not 0 < load.peak_factor < math.inf:
        wrong.append((design.system.name, f"peak_factor={load.peak_factor:g}"))
    for subject, value in wrong:
        yield design.error(
            subject,
            f"It is declared with the invalid value {value}.",
            "Rates and volumes are at least 0, a share is above 0 and at most 1, a number of keys or bytes "
            "is at least 1.",
        )


def find_scans(design: Design) -> Iterator[Finding]:
    """Find patterns that scan a table: an error, or an info if the scan states its reason."""
    for pattern, scan in design.find_parts(Scan):
        if scan.reason.strip():
            yield design.info(
                format_pattern(pattern),
                f"It scans {scan.table.name}, because: {scan.reason.strip()}",
                "Its cost grows with the table: run it rarely, and not while a user waits.",
            )
        else:
            yield design.error(
                format_pattern(pattern),
                f"It scans {scan.table.name} without giving a reason.",
                "Declare an index with the key that it needs, or give the reason: scan(reason='…').",
            )


def find_queries_without_key(design: Design) -> Iterator[Finding]:
    """Find queries without a value for the partition key of their table or index."""
    for pattern, query in design.find_parts(BaseQuery):
        place = query.index or query.table
        tests = [(test.attribute, test.operator) for test in query.key_condition]
        if (place.partition, "=") not in tests:
            yield design.error(
                format_pattern(pattern),
                f"It queries {place.name} without a value for the partition key {place.partition}.",
                "Build it from a key, such as Booking.of(…).query(), or declare an index on an attribute "
                "that it knows.",
            )


def find_rates_without_volume(design: Design) -> Iterator[Finding]:
    """Find rates whose volume the system does not declare, so that no load or cost can be computed.

    There is one finding per volume name: one declaration fixes all of its patterns.
    """
    known = design.load.volumes
    lacking: dict[str, list[Pattern[..., Any]]] = {}
    for pattern in design.system.patterns:
        if pattern.rate.per not in known:
            lacking.setdefault(pattern.rate.per, []).append(pattern)
    for name, several in lacking.items():
        yield design.error(
            name,
            f"The rate of {_format_first_patterns(several)} is per {name}, and the system has no volume of "
            "that name.",
            f"Add Load(volumes={{{name!r}: Volume(per_month=…)}}), or use a declared one: "
            f"{', '.join(known) or 'none yet'}.",
        )


def _format_first_patterns(patterns: Sequence[Pattern[..., Any]]) -> str:
    """List the first patterns: `S4 place, S5 pay and 21 others`."""
    shown = [format_pattern(pattern) for pattern in patterns[:MAX_NAMES_SHOWN]]
    if more := len(patterns) - len(shown):
        shown.append(f"{more} other" + ("s" if more > 1 else ""))
    return join_words(shown)


def find_unused_patterns(design: Design) -> Iterator[Finding]:
    """Find patterns that no component declares: unused, or run by code that the policies do not cover.

    Operators run patterns of an outbox with `holdfast outbox`; those are not reported.
    """
    if not design.system.components:
        yield design.info(
            design.system.name,
            "It declares no component, so no call is checked in process and no policy can be derived.",
            "Declare Component('worker', uses=(…)) for each part that runs patterns.",
        )
        return
    by_operators = _list_operator_pattern_ids(design)
    for pattern in design.system.patterns:
        if pattern.id not in by_operators and not design.system.find_components(pattern):
            yield design.warning(
                format_pattern(pattern),
                "No component runs it.",
                "Add it to the component that needs it, or remove it.",
            )


def _list_operator_pattern_ids(design: Design) -> set[str]:
    """Return the ids of the patterns of outboxes that neither a publisher nor a relay runs."""
    return {
        pattern.id
        for outbox in design.system.outboxes
        for pattern in outbox.patterns
        if pattern not in (*outbox.publisher.patterns, *outbox.relay.patterns)
    }


def _lacks_example(pattern: Pattern[..., Any]) -> bool:
    """Return True if the pattern takes arguments and declares no example."""
    try:
        return bool(pattern.signature.parameters) and pattern.example_arguments in ((), {})
    except Exception:  # the function that builds the example failed: the caller reports that error
        return False


def _list_unlisted_tables(design: Design, example: Example) -> list[str]:
    """List the tables of an example's operation that the system does not list."""
    listed = {table.name for table in design.system.tables}
    return [name for name in example.tables if name not in listed]
