"""Rules about patterns: that they can be called, reach their items by key, have a volume and somebody who runs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.guarantees import SqlOutbox
from holdfast.model.patterns import Pattern
from holdfast.model.reads import AnyQuery, Scan
from holdfast.reports.checks.design import Design, Finding, listed, named

# Of patterns that lack the same, so many are named.
NAMED_MAX: Final = 3


def examples_that_fail(design: Design) -> Iterator[Finding]:
    """A pattern that cannot be called with its example, or has none though it takes arguments.

    Calling it also brings to light what no type checker sees: a condition used as a truth value.
    """
    for example in design.examples:
        if example.error is None:
            continue
        pattern = example.pattern
        if _declares_none(pattern):
            yield design.error(
                named(pattern),
                f"It takes {', '.join(pattern.signature.parameters)} and declares no example.",
                "Give it example=(…): the reports, the policies and the cost are read from that call.",
            )
        else:
            yield design.error(
                named(pattern),
                f"It cannot be called with its example: {example.error}",
                "Mend the example or the pattern. Conditions are combined with & | ~, each in parentheses.",
            )


def examples_that_do_not_run(design: Design) -> Iterator[Finding]:
    """A pattern whose example makes an operation that the store refuses, on the sample data.

    Without a sample they run on empty tables. What the store refuses there for another reason than that nothing is
    there is a warning.
    """
    for example in design.examples:
        measure = design.measures.get(example.pattern.id)
        if example.error is None and measure is not None and measure.failed:
            tell, place = (
                (design.error, "the sample data") if design.has_data else (design.warning, "empty tables")
            )
            yield tell(
                named(example.pattern),
                f"Run with its example on {place}, it fails: {measure.reason}",
                "Choose an example that the sample data has, or mend the pattern.",
            )


def nothing_measured(design: Design) -> Iterator[Finding]:
    """A system without sample data: its patterns ran on empty tables, so that their weight is not known."""
    if design.has_data or not design.measures:
        return
    yield design.info(
        design.system.name,
        "It has no sample data, so that nothing was measured: a read counts as the least that one can use.",
        "Declare System(sample=…), a function that writes data like the real one.",
    )
    refused = [named(each.pattern) for each in design.measures.values() if each.reason and not each.failed]
    if refused:
        yield design.warning(
            design.system.name,
            f"On empty tables the conditions of {listed(refused)} do not hold, so that nobody has seen them run.",
            "Declare System(sample=…) with the items that their examples name.",
        )


def quantities_below_zero(design: Design) -> Iterator[Finding]:
    """A rate, a volume, a share or a number of keys that cannot be: every figure would follow it."""
    load = design.system.load
    wrong = [
        (named(each), f"times={each.rate.times:g}")
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
    for subject, told in wrong:
        yield design.error(
            subject,
            f"It is declared with {told}, which cannot be.",
            "Rates and volumes are 0 or more, a share is above 0 and at most 1, a number of keys or bytes is 1 or more.",
        )


def scans(design: Design) -> Iterator[Finding]:
    """A pattern that reads a whole table: an error, or where it says why, something to know."""
    for pattern, scan in design.parts(Scan):
        if scan.reason.strip():
            yield design.info(
                named(pattern),
                f"It scans {scan.table.name}, because: {scan.reason.strip()}",
                "Its cost grows with the table: keep it rare, and away from what a person waits for.",
            )
        else:
            yield design.error(
                named(pattern),
                f"It scans {scan.table.name} and does not say why no key will do.",
                "Declare an index with the key that it asks by, or scan(reason='…').",
            )


def queries_without_a_key(design: Design) -> Iterator[Finding]:
    """A query that does not name one partition: no key of the table and no index answers it."""
    for pattern, query in design.parts(AnyQuery):
        place = query.index or query.table
        tests = [(test.attribute, test.operator) for test in query.key_condition]
        if (place.partition, "=") not in tests:
            yield design.error(
                named(pattern),
                f"It queries {place.name} without a value for the partition key {place.partition}.",
                "Build it from a key, as Booking.of(…).query(), or declare an index whose partition key it has.",
            )


def rates_without_a_volume(design: Design) -> Iterator[Finding]:
    """Something that rates refer to and the system gives no volume for, so that nothing can be computed of them.

    Told once of each name: one line mends it for all of its patterns.
    """
    known = design.system.load.volumes
    lacking: dict[str, list[Pattern[..., Any]]] = {}
    for pattern in design.system.patterns:
        if pattern.rate.per not in known:
            lacking.setdefault(pattern.rate.per, []).append(pattern)
    for name, several in lacking.items():
        yield design.error(
            name,
            f"The rate of {_first_of(several)} is per {name}, and the system has no volume of that name.",
            f"Add Load(volumes={{{name!r}: Volume(per_month=…)}}), or use one there is: "
            f"{', '.join(known) or 'there is none yet'}.",
        )


def _first_of(several: Sequence[Pattern[..., Any]]) -> str:
    """`S4 place, S5 pay and 21 others`."""
    shown = [named(pattern) for pattern in several[:NAMED_MAX]]
    if more := len(several) - len(shown):
        shown.append(f"{more} other" + ("s" if more > 1 else ""))
    return listed(shown)


def patterns_nobody_runs(design: Design) -> Iterator[Finding]:
    """A pattern that no component declares: dead, or run by somebody the policies do not know.

    What an outbox offers beside appending and relaying is for operators, who run it by `holdfast outbox`.
    """
    if not design.system.components:
        yield design.info(
            design.system.name,
            "It declares no component, so that nothing is refused in process and no policy can be derived.",
            "Declare Component('worker', reads=(…), writes=(…)) for each part that runs patterns.",
        )
        return
    by_operators = _run_by_operators(design)
    for pattern in design.system.patterns:
        if pattern.id not in by_operators and not design.system.components_of(pattern):
            yield design.warning(
                named(pattern),
                "No component runs it.",
                "Add it to the component that needs it, or take it away.",
            )


def reads_and_writes_mixed_up(design: Design) -> Iterator[Finding]:
    """A write that a component declares among its reads, or the other way round."""
    writes = {example.pattern.id: example.writes for example in design.examples if example.operation}
    for component in design.system.components:
        for pattern in component.reads:
            if writes.get(pattern.id, False):
                yield design.error(
                    named(pattern),
                    f"The component {component.name} declares it as a read, and it writes.",
                    "Move it to writes=(…), so that nobody overlooks it.",
                )
        for pattern in component.writes:
            if not writes.get(pattern.id, True):
                yield design.error(
                    named(pattern),
                    f"The component {component.name} declares it as a write, and it only reads.",
                    "Move it to reads=(…): the component's policy would allow more than it needs.",
                )


def _run_by_operators(design: Design) -> set[str]:
    return {pattern.id for outbox in design.system.outboxes for pattern in _for_operators(outbox)}


def _for_operators(outbox: Any) -> Iterator[Pattern[..., Any]]:
    if isinstance(outbox, SqlOutbox):
        yield from (*outbox.reads, *outbox.tending)
    else:
        used = (outbox.append, *outbox.relaying)
        yield from (pattern for pattern in outbox.patterns if pattern not in used)


def _declares_none(pattern: Pattern[..., Any]) -> bool:
    try:
        return bool(pattern.signature.parameters) and pattern.example_arguments in ((), {})
    except Exception:  # an example that is made by a function, which fails: that is told as it is
        return False
