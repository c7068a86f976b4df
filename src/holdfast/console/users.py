"""The users of the console: their names and roles.

A role is a word such as `operator`, for every system, or `agenticpm:operator`, for one. A user sees the
systems for which they have any role.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = [
    "ADMIN",
    "EDITOR",
    "OPERATOR",
    "PERSONAL",
    "ROLES",
    "VIEWER",
    "HeldRole",
    "User",
    "describe_roles",
    "is_role",
]

VIEWER: Final = "viewer"
"""Sees everything, with personal data masked."""
OPERATOR: Final = "operator"
"""Acts on work: decides, redrives, cancels."""
EDITOR: Final = "editor"
"""Changes items."""
PERSONAL: Final = "personal"
"""Reveals personal data."""
ADMIN: Final = "admin"
"""Manages the sign-ins of others."""

ROLES: Final = {
    VIEWER: "sees everything, with personal data masked",
    OPERATOR: "acts on work: redrives, approves, cancels, resumes",
    EDITOR: "changes and deletes items in the data browser, and runs patterns that write",
    PERSONAL: "reveals personal data; each time is recorded",
    ADMIN: "ends the sign-ins of other users and reads the audit",
}
"""The roles of the console itself. A system's pages may use further ones, always with the system's name."""

_SYSTEM_ROLE: Final = re.compile(r"[a-z][a-z0-9_]*:[a-z][a-z0-9-]*")


def is_role(text: str) -> bool:
    """Return whether the text is a role of the console, or has the form of one for a system.

    Identity providers put words of their own into the claim with the roles. Without a system, only the
    console's own roles count: any other word would let its user see every system.
    """
    return text in ROLES or _SYSTEM_ROLE.fullmatch(text) is not None


@dataclass(frozen=True)
class User:
    """A signed-in user."""

    name: str
    roles: frozenset[str] = frozenset()

    def has_role(self, role: str, system: str | None = None) -> bool:
        """Return whether the user has the role for every system, or for this one."""
        return role in self.roles or (system is not None and f"{system}:{role}" in self.roles)

    def can_see(self, system: str) -> bool:
        """Return whether the user has any role for the system."""
        return any(role in ROLES or role.startswith(f"{system}:") for role in self.roles)


@dataclass(frozen=True)
class HeldRole:
    """A role of a user in words; `system` is None for every system."""

    role: str
    system: str | None
    meaning: str


def describe_roles(user: User) -> list[HeldRole]:
    """Return the roles of a user in words: those for every system first, in the order of `ROLES`."""
    order = {role: number for number, role in enumerate(ROLES)}
    parts = [each.rpartition(":") for each in user.roles]
    held = [
        HeldRole(role, system or None, ROLES.get(role, "is a role of the system's own pages"))
        for system, _, role in parts
    ]
    return sorted(held, key=lambda each: (each.system or "", order.get(each.role, len(order)), each.role))
