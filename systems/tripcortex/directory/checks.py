"""Checks of directory entries: ids, managers, delegates, and cycles of managers. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tripcortex.model.directory import EMPLOYEE_FORM, EmployeeFields

MAX_ROLES: Final = 50
MAX_ROLE_CHARS: Final = 64
_SEPARATORS: Final = re.compile(r"[\s_/-]+")


def normalize_role(role: str) -> str:
    """Return the role in lower case with single spaces: `Travel-Desk` and `travel desk` are one role."""
    return _SEPARATORS.sub(" ", role).strip().casefold()


def normalize_roles(roles: Iterable[str]) -> tuple[str, ...]:
    """Return the roles normalized, each once, without empty ones."""
    return tuple(dict.fromkeys(filter(None, map(normalize_role, roles))))


def find_faults(new: EmployeeFields) -> Iterator[str]:
    """Yield what is invalid in one entry by itself."""
    if not EMPLOYEE_FORM.fullmatch(new.id):
        yield (
            f"Invalid employee id {new.id!r:.60}: expected 1 to 128 letters, digits and _.@:-, starting with "
            "a letter or digit."
        )
    if new.manager_id == new.id:
        yield f"Invalid manager of {new.id}: an employee cannot be their own manager."
    if new.delegate_id == new.id:
        yield f"Invalid delegate of {new.id}: an employee cannot be their own delegate."
    if new.delegate_from and new.delegate_until and new.delegate_until < new.delegate_from:
        yield f"Invalid delegation of {new.id}: it ends before it begins."
    if len(new.roles) > MAX_ROLES:
        yield f"Invalid roles of {new.id}: expected at most {MAX_ROLES}, got {len(new.roles)}."
    if long := [each for each in new.roles if len(each) > MAX_ROLE_CHARS or "," in each]:
        yield (f"Invalid role {long[0]!r:.60} of {new.id}: expected at most {MAX_ROLE_CHARS} characters.")


def find_cycle(employee_id: str, managers: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the cycle of managers that the employee is in, from the employee to the employee; else empty.

    `managers` maps employees to their managers.
    """
    seen = [employee_id]
    above = managers.get(employee_id)
    while above is not None and above not in seen:
        seen.append(above)
        above = managers.get(above)
    return (*seen, employee_id) if above == employee_id else ()


def format_cycle(cycle: tuple[str, ...]) -> str:
    """Format a cycle for an error message; a long one is shortened."""
    names = cycle if len(cycle) <= 6 else (*cycle[:5], "…", cycle[-1])
    return " → ".join(names)
