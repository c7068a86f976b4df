"""What tells the items of a claim apart: their sequence, and their trace number where two share a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pagw.fhir.outcomes import Issue, error, warning
from pagw.fhir.references import extension
from pagw.fhir.urls import ITEM_TRACE_NUMBER


def trace_number(item: Mapping[str, Any]) -> str | None:
    """The number by which the sender follows one item, with its system."""
    found = extension(item, ITEM_TRACE_NUMBER)
    identifier = found.get("valueIdentifier") if found is not None else None
    if not isinstance(identifier, dict) or not isinstance(identifier.get("value"), str):
        return None
    return f"{identifier.get('system', '')}|{identifier['value']}"


def sequence_issues(items: Sequence[Mapping[str, Any]], path: str, name: str) -> Iterator[Issue]:
    """Sequences are positive and unique. Published examples repeat one among items of several trace numbers, by which
    they are still told apart: that is a warning."""
    counts = Counter(item.get(name) for item in items)
    traces = Counter((item.get(name), trace_number(item)) for item in items)
    for place, item in enumerate(items):
        where = f"{path}[{place}].{name}"
        number = item.get(name)
        if not isinstance(number, int) or number < 1:
            yield error("value", f"{where}: a sequence is a positive number.", where)
        elif counts[number] > 1:
            trace = trace_number(item)
            if trace is None or traces[number, trace] > 1:
                yield error("duplicate", f"{where}: the sequence is used twice.", where)
            else:
                yield warning(
                    "duplicate", f"{where}: it is used twice; the items differ in their trace number.", where
                )
