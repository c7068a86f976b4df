"""The circuits of a breaker: which external services are not called, since when, and until the next probe."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast.console.work.declared import build_url
from holdfast.console.work.dedicated_tables import has_own_table
from holdfast.guarantees import Breaker, CircuitRecord
from holdfast.model.entities import get_declaration
from holdfast.model.entities.key_texts import format_key_text
from holdfast.runtime.stores import Stores

__all__ = ["CircuitView", "build_view", "read_circuits"]

MAX_CIRCUITS: Final = 200
# Attributes that the page shows in words, or that say nothing to a person.
_HIDDEN: Final = frozenset({"version"})


@dataclass(frozen=True)
class CircuitView:
    """One circuit. `since` is when it opened, or its last probe failed or began, by the declared times."""

    system: str
    breaker: str
    service: str
    state: str
    url: str
    since: datetime | None = None
    next_probe: datetime | None = None
    # The record's own attributes, such as its counts of failures.
    attributes: tuple[tuple[str, str], ...] = field(default=(), compare=False)


async def read_circuits(stores: Stores, breaker: Breaker[Any]) -> list[CircuitView]:
    """Return the stored circuits, at most `MAX_CIRCUITS`.

    Those that share a table with other items are not listed: no key finds them.
    """
    if not has_own_table(breaker.entity):
        return []
    scan = breaker.entity.scan(reason="an operator looks at all circuits").page(MAX_CIRCUITS)
    return [build_view(stores, breaker, each) for each in await stores.run(scan)]


def build_view(stores: Stores, breaker: Breaker[Any], circuit: CircuitRecord) -> CircuitView:
    """Return a circuit as the page shows it."""
    assert stores.system is not None
    now, limits = stores.now(), breaker.limits
    end = None if circuit.has_expired(now) else circuit.get_refusal_end()
    lasts = limits.lease_s if circuit.probe else limits.recovery_s
    declaration = get_declaration(type(circuit))
    stored = declaration.to_item(circuit)
    key = declaration.extract_key(stored)
    shown = {name: value for name, value in stored.items() if name not in key and name not in _HIDDEN}
    state = "closed" if end is None else "half open" if circuit.probe else "open"
    return CircuitView(
        stores.system.name,
        breaker.name,
        format_key_text(key),
        state,
        build_url("breakers", stores.system.name),
        None if end is None else end - timedelta(seconds=lasts),
        end,
        tuple((name, _format(value)) for name, value in shown.items()),
    )


def _format(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
