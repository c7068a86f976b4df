"""The scopes of an agent's token, and what they permit.

    skymarshal.read     the tools of SkyMarshal that read, its resources and its prompts
    skymarshal.write    its tools that write, if its component `agent` declares any

A caller without a token of an issuer (over standard input and output, on this machine, or with the shared
token) has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

SCOPES_STATE: Final = "agent_scopes"
"""The attribute of an HTTP request's state that has the caller's scopes."""


@dataclass(frozen=True)
class Scopes:
    """The scopes of a caller; None stands for all."""

    granted: frozenset[str] | None = None

    def has(self, scope: str) -> bool:
        return self.granted is None or scope in self.granted


EVERY_SCOPE: Final = Scopes()


def name_read_scope(system: str) -> str:
    return f"{system}.read"


def name_write_scope(system: str) -> str:
    return f"{system}.write"


def list_scopes(systems: Iterable[str], *, writes: Iterable[str] = ()) -> list[str]:
    """Return the scopes of the systems: to read each, and to write to those in `writes`."""
    return [*map(name_read_scope, systems), *map(name_write_scope, writes)]


def get_scopes(request: Any) -> Scopes:
    """Return the scopes of the caller of a request of the protocol."""
    call = request.request
    # A request over HTTP without scopes was not authenticated.
    return EVERY_SCOPE if call is None else getattr(call.state, SCOPES_STATE, Scopes(frozenset()))
