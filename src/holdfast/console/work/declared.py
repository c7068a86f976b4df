"""What a system declares that has work of its own, found by name, and the addresses of its pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from holdfast.core.errors import NotFound
from holdfast.flows import Flow
from holdfast.guarantees import Breaker, DelayedActions, Lease
from holdfast.guarantees.messaging.declaration import BaseOutbox
from holdfast.model.queues import Queue
from holdfast.model.system import System

__all__ = [
    "build_url",
    "find_actions",
    "find_flow",
    "find_outbox",
    "find_queue",
    "list_actions",
    "list_breakers",
    "list_leases",
]

T = TypeVar("T")
# In an address, a key's `#` and `/` must not end the path or begin another part.
SAFE: Final = ":@,=+$!*'()"


def list_actions(system: System) -> list[DelayedActions[Any]]:
    """Return the delayed actions of a system."""
    return [each for each in system.guarantees if isinstance(each, DelayedActions)]


def list_breakers(system: System) -> list[Breaker[Any]]:
    """Return the breakers of a system."""
    return [each for each in system.guarantees if isinstance(each, Breaker)]


def list_leases(system: System) -> list[Lease[Any]]:
    """Return the leases of a system."""
    return [each for each in system.guarantees if isinstance(each, Lease)]


def find_queue(system: System, name: str) -> Queue[Any]:
    """Return a queue by its declared name. Raise `NotFound` if there is none."""
    return system.get_queue(name)


def find_outbox(system: System, name: str) -> BaseOutbox:
    """Return an outbox by name. Raise `NotFound` if there is none."""
    outboxes: Sequence[BaseOutbox] = system.outboxes
    return _find(system, "outbox", name, outboxes)


def find_flow(system: System, name: str) -> Flow[Any]:
    """Return a flow by name. Raise `NotFound` if there is none."""
    flows: Sequence[Flow[Any]] = system.flows
    return _find(system, "flow", name, flows)


def find_actions(system: System, name: str) -> DelayedActions[Any]:
    """Return delayed actions by the name of their entity. Raise `NotFound` if there are none."""
    return _find(system, "delayed actions named", name, list_actions(system))


def build_url(*parts: str) -> str:
    """Return the path of a page: each part is escaped, also its slashes."""
    return "/" + "/".join(quote(part, safe=SAFE) for part in parts)


def _find(system: System, what: str, name: str, declared: Iterable[T]) -> T:
    by_name = {getattr(each, "name", ""): each for each in declared}
    if name not in by_name:
        raise NotFound(f"{system.name} has no {what} {name!r}: it has {', '.join(by_name) or 'none'}.")
    return by_name[name]
