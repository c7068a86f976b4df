"""What the routes of the work pages share: the stores of a system that the user sees, and its masker."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from holdfast.console.access import require_sight
from holdfast.console.context import Console
from holdfast.console.masking import Masker
from holdfast.console.reveal import is_revealed
from holdfast.console.users import OPERATOR, PERSONAL, User
from holdfast.core.distribution import explain_missing
from holdfast.model.system import System
from holdfast.runtime.stores import Stores

with explain_missing(__name__, "console"):
    from starlette.requests import Request

__all__ = ["WorkPage", "build_topic_name", "hash_key", "open_page"]

HASH_CHARS: Final = 16


@dataclass(frozen=True)
class WorkPage:
    """One request about the work of a system."""

    stores: Stores
    system: System
    masker: Masker
    is_revealed: bool
    can_reveal: bool
    can_operate: bool

    @property
    def title(self) -> str:
        return self.system.title or self.system.name

    @property
    def topic(self) -> str:
        """The live topic that changes when the work of the system does."""
        return build_topic_name(self.system.name)


def open_page(request: Request, console: Console, user: User, system: str) -> WorkPage:
    """Return the page's context. Raise `NotFound` for a system that the user does not see."""
    require_sight(user, system)
    stores, declared = console.get_stores(system), console.get_system(system)
    revealed = is_revealed(request, user, system)
    return WorkPage(
        stores,
        declared,
        Masker.for_system(declared, is_revealed=revealed),
        revealed,
        user.has_role(PERSONAL, system),
        user.has_role(OPERATOR, system),
    )


def build_topic_name(system: str) -> str:
    """Return the name of the live topic of a system's work."""
    return f"work-{system}"


def hash_key(key: str) -> str:
    """Return a short hash of a key for the audit: the same key has the same, and it is not readable."""
    return hashlib.sha256(key.encode()).hexdigest()[:HASH_CHARS]
