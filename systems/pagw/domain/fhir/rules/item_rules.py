"""Identity of a claim's items: trace numbers, and the check that sequences are positive and unique."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pagw.domain.fhir.outcomes import Issue, build_error, build_warning
from pagw.domain.fhir.references import find_extension
from pagw.domain.fhir.urls import ITEM_TRACE_NUMBER


def get_trace_number(item: Mapping[str, Any]) -> str | None:
    """Return the item's trace number with its system, or None."""
    found = find_extension(item, ITEM_TRACE_NUMBER)
    identifier = found.get("valueIdentifier") if found is not None else None
    if not isinstance(identifier, dict) or not isinstance(identifier.get("value"), str):
        return None
    return f"{identifier.get('system', '')}|{identifier['value']}"


def check_sequences(items: Sequence[Mapping[str, Any]], path: str, name: str) -> Iterator[Issue]:
    """Check that sequences are positive and unique. `name` is the element of an item that holds its sequence.

    Published examples repeat a sequence among items with different trace numbers, which still identify them:
    that is a warning.
    """
    counts = Counter(item.get(name) for item in items)
    traces = Counter((item.get(name), get_trace_number(item)) for item in items)
    for place, item in enumerate(items):
        where = f"{path}[{place}].{name}"
        number = item.get(name)
        if not isinstance(number, int) or number < 1:
            yield build_error("value", f"{where}: expected a positive integer.", where)
        elif counts[number] > 1:
            trace = get_trace_number(item)
            if trace is None or traces[number, trace] > 1:
                yield build_error("duplicate", f"{where}: another item has the same sequence.", where)
            else:
                yield build_warning(
                    "duplicate",
                    f"{where}: another item has the same sequence and a different trace number.",
                    where,
                )
