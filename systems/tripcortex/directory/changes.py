"""Changes of single directory entries: create, replace and delete, each in one transaction with its checks.

Every change holds the directory's lock, so two changes at once cannot form a cycle of managers together.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest, NotFound, RowAlreadyExists
from tripcortex.directory.checks import find_faults, format_cycle
from tripcortex.model import directory
from tripcortex.model.directory import EmployeeFields, EmployeeRow


class Work(Protocol):
    """An open SQL transaction."""

    async def run(self, operation: Any, /) -> Any: ...


class EmployeeExists(Conflict, label="EmployeeExists"):
    """The employee id or the user name belongs to another entry."""


class EmployeeChanged(Conflict, label="EmployeeChanged"):
    """The entry has another version than the one that the client read."""


async def load_employee(stores: Stores, employee_id: str) -> EmployeeRow:
    """Return the employee. Raise `NotFound` if the directory does not have the id."""
    found = await stores.run(directory.employee(employee_id))
    if found is None:
        raise NotFound(f"There is no employee {employee_id!r:.60} in the directory.")
    return found


async def create_employee(stores: Stores, new: EmployeeFields, now: datetime) -> EmployeeRow:
    """Add an employee. Raise `InvalidRequest` for an invalid entry, `EmployeeExists` if there is one."""
    _require_valid(new)
    try:
        async with stores.sql_transaction() as work:
            await work.run(directory.lock_directory())
            await _check_references(work, new)
            [row] = await work.run(directory.create_employee(new, now))
            return row
    except RowAlreadyExists as error:
        raise _build_exists(new, error) from error


async def replace_employee(
    stores: Stores, new: EmployeeFields, now: datetime, *, seen: int | None = None
) -> EmployeeRow:
    """Replace an entry; with `seen` only that version.

    Raise `NotFound`, `EmployeeChanged`, `EmployeeExists` for a user name that is taken, or `InvalidRequest`.
    """
    _require_valid(new)
    try:
        async with stores.sql_transaction() as work:
            await work.run(directory.lock_directory())
            current = await work.run(directory.employee(new.id))
            _check_version(new.id, current, seen)
            assert current is not None
            await _check_references(work, new)
            [row] = await work.run(directory.replace_employee(new, current.version, now))
            return row
    except RowAlreadyExists as error:
        raise _build_exists(new, error) from error


async def delete_employee(stores: Stores, employee_id: str, *, seen: int | None = None) -> None:
    """Delete an entry; with `seen` only that version. Raise `NotFound` or `EmployeeChanged`."""
    async with stores.sql_transaction() as work:
        await work.run(directory.lock_directory())
        current = await work.run(directory.employee(employee_id))
        _check_version(employee_id, current, seen)
        await work.run(directory.delete_employee(employee_id))


def _check_version(employee_id: str, current: EmployeeRow | None, seen: int | None) -> None:
    """Raise `NotFound` without an entry, `EmployeeChanged` if its version is not the one seen."""
    if current is None:
        raise NotFound(f"There is no employee {employee_id!r:.60} in the directory.")
    if seen is not None and current.version != seen:
        raise EmployeeChanged(
            f"Employee {employee_id} is at version {current.version}, not {seen}: read the entry again."
        )


def _require_valid(new: EmployeeFields) -> None:
    """Raise `InvalidRequest` with the first fault of the entry."""
    if fault := next(find_faults(new), None):
        raise InvalidRequest(fault)


async def _check_references(work: Work, new: EmployeeFields) -> None:
    """Raise `InvalidRequest` for an unknown manager or delegate, or a cycle of managers."""
    for name, wanted in (("manager", new.manager_id), ("delegate", new.delegate_id)):
        if wanted is not None and await work.run(directory.employee(wanted)) is None:
            raise InvalidRequest(
                f"Invalid {name} {wanted!r:.60} of {new.id}: expected the id of an employee in the "
                f"directory. Add the {name} first."
            )
    if new.manager_id is None:
        return
    above = [each.id for each in await work.run(directory.management_chain(new.manager_id))]
    line = (new.manager_id, *above)
    if new.id in line:
        cycle = (new.id, *line[: line.index(new.id) + 1])
        raise InvalidRequest(
            f"Invalid manager {new.manager_id} of {new.id}: the managers would form a cycle "
            f"({format_cycle(cycle)})."
        )


def _build_exists(new: EmployeeFields, error: RowAlreadyExists) -> EmployeeExists:
    """Return the error for a key that is taken."""
    if error.constraint == "uq_employees_user_name":
        return EmployeeExists(f"The user name {new.user_name!r:.60} belongs to another employee.")
    return EmployeeExists(f"There is already an employee {new.id}: replace the entry.")
