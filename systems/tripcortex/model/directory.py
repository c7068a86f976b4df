"""The directory of employees in SQL: its row, and access patterns E1 to E14.

An employee has a manager, a level, a department, roles, and a delegate for a time. Approvals resolve the
approvers that a policy names by it (`tripcortex.directory.approvers`). A manager cycle cannot be written: the
checks in `tripcortex.directory` run in one transaction that holds `lock_directory`. E6 also ends at a cycle,
in case other programs write the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import Field

from holdfast import Pattern, Rate, pattern
from holdfast.model.sql import SqlChange, SqlOne, SqlReturning, SqlRow, SqlRows
from tripcortex.model.policies.schema import tripcortex

APPROVAL: Final = Rate(per="approval")
DIRECTORY_CHANGE: Final = Rate(per="change of the directory")

MAX_ID_CHARS: Final = 128
# Employee ids become part of keys, so they contain no character that is special there.
EMPLOYEE_FORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]{0,127}")
MAX_TEXT_CHARS: Final = 255
MAX_LEVEL_CHARS: Final = 64
# A longer management chain is an error in the data.
MAX_CHAIN: Final = 30
MAX_LIST: Final = 200
MAX_EMPLOYEES: Final = 100_000
# The key of the advisory lock that directory changes hold.
_LOCK_KEY: Final = 7_302_117_455_001

_NOW: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)

Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]


class EmployeeFields(SqlRow):
    """What the directory knows of an employee."""

    id: str = Field(min_length=1, max_length=MAX_ID_CHARS)
    user_name: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)
    external_id: Text | None = None
    email: Text | None = None
    display_name: Text | None = None
    manager_id: str | None = None
    level: str | None = Field(default=None, max_length=MAX_LEVEL_CHARS)
    department: Text | None = None
    # Lower case, words separated by spaces: "finance", "travel desk".
    roles: tuple[str, ...] = ()
    delegate_id: str | None = None
    delegate_from: datetime | None = None
    delegate_until: datetime | None = None
    active: bool = True


class EmployeeRow(EmployeeFields):
    """An employee as stored."""

    created_at: datetime
    updated_at: datetime
    version: int

    def has_delegate_at(self, now: datetime) -> bool:
        """Return whether the delegate acts for the employee at this time; both ends are inclusive."""
        if self.delegate_id is None:
            return False
        is_begun = self.delegate_from is None or self.delegate_from <= now
        return is_begun and (self.delegate_until is None or now <= self.delegate_until)


class EmployeeCount(SqlRow):
    """The number of employees that a search finds."""

    total: int


class DirectoryLock(SqlRow):
    """The result of taking the lock."""

    is_locked: bool


# --- reads --------------------------------------------------------------------------------------------------


@pattern("E1", "Get an employee", rate=APPROVAL, example=("emp-42",))
def employee(employee_id: str) -> SqlOne[EmployeeRow]:
    return tripcortex.one(
        EmployeeRow, "SELECT {columns} FROM tripcortex.employees WHERE id = %(id)s", id=employee_id
    )


@pattern("E2", "Get several employees", rate=APPROVAL, example=(("emp-42", "emp-7"),))
def employees_by_id(ids: Sequence[str]) -> SqlRows[EmployeeRow]:
    return tripcortex.rows(
        EmployeeRow,
        "SELECT {columns} FROM tripcortex.employees WHERE id = ANY(%(ids)s::text[]) ORDER BY id",
        ids=tuple(ids),
    )


@pattern("E3", "List employees, or find one by user name or external id", rate=DIRECTORY_CHANGE, example=())
def employees(
    *,
    user_name: str | None = None,
    external_id: str | None = None,
    employee_id: str | None = None,
    is_active: bool | None = None,
    limit: int = MAX_LIST,
    offset: int = 0,
) -> SqlRows[EmployeeRow]:
    """Return the employees that match every given value, by id. User names are compared without case."""
    return tripcortex.rows(
        EmployeeRow,
        """SELECT {columns} FROM tripcortex.employees
           WHERE (%(user_name)s::text IS NULL OR lower(user_name) = lower(%(user_name)s::text))
               AND (%(external_id)s::text IS NULL OR external_id = %(external_id)s::text)
               AND (%(id)s::text IS NULL OR id = %(id)s::text)
               AND (%(is_active)s::boolean IS NULL OR active = %(is_active)s::boolean)
           ORDER BY id LIMIT %(limit)s OFFSET %(offset)s""",
        user_name=user_name,
        external_id=external_id,
        id=employee_id,
        is_active=is_active,
        limit=limit,
        offset=offset,
    )


@pattern("E4", "Count the employees that a search finds", rate=DIRECTORY_CHANGE, example=())
def employee_count(
    *,
    user_name: str | None = None,
    external_id: str | None = None,
    employee_id: str | None = None,
    is_active: bool | None = None,
) -> SqlOne[EmployeeCount]:
    return tripcortex.one(
        EmployeeCount,
        """SELECT count(*)::int AS total FROM tripcortex.employees
           WHERE (%(user_name)s::text IS NULL OR lower(user_name) = lower(%(user_name)s::text))
               AND (%(external_id)s::text IS NULL OR external_id = %(external_id)s::text)
               AND (%(id)s::text IS NULL OR id = %(id)s::text)
               AND (%(is_active)s::boolean IS NULL OR active = %(is_active)s::boolean)""",
        user_name=user_name,
        external_id=external_id,
        id=employee_id,
        is_active=is_active,
    )


@pattern("E5", "Read the whole directory, for an import", rate=DIRECTORY_CHANGE, example=())
def whole_directory(limit: int = MAX_EMPLOYEES) -> SqlRows[EmployeeRow]:
    return tripcortex.rows(
        EmployeeRow,
        "SELECT {columns} FROM tripcortex.employees ORDER BY id LIMIT %(limit)s",
        limit=limit,
    )


@pattern("E6", "List an employee's managers, from the direct one up", rate=APPROVAL, example=("emp-42",))
def management_chain(employee_id: str) -> SqlRows[EmployeeRow]:
    """Return the managers, active or not; the walk ends at a cycle, and after `MAX_CHAIN`."""
    return tripcortex.rows(
        EmployeeRow,
        """WITH RECURSIVE chain AS (
               SELECT manager_id, 1 AS step, ARRAY[id]::text[] AS seen FROM tripcortex.employees
               WHERE id = %(id)s
               UNION ALL
               SELECT above.manager_id, step + 1, seen || above.id::text
               FROM chain JOIN tripcortex.employees AS above ON above.id = chain.manager_id
               WHERE step < %(most)s AND NOT above.id::text = ANY(seen)
           )
           SELECT {columns} FROM tripcortex.employees
               JOIN (SELECT manager_id AS above_id, min(step) AS step FROM chain
                   WHERE NOT manager_id::text = ANY(seen) GROUP BY manager_id) AS line ON above_id = id
           ORDER BY step""",
        id=employee_id,
        most=MAX_CHAIN,
    )


@pattern("E7", "Find the active employees with a role", rate=APPROVAL, example=(("finance",),))
def role_holders(roles: Sequence[str]) -> SqlRows[EmployeeRow]:
    """Return the employees with at least one of the roles, by id."""
    return tripcortex.rows(
        EmployeeRow,
        """SELECT {columns} FROM tripcortex.employees
           WHERE active AND roles && %(roles)s::text[] ORDER BY id""",
        roles=tuple(roles),
    )


@pattern("E8", "Find the employees for whom a delegate acts", rate=APPROVAL, example=("emp-8", _NOW))
def principals(delegate_id: str, now: datetime) -> SqlRows[EmployeeRow]:
    return tripcortex.rows(
        EmployeeRow,
        """SELECT {columns} FROM tripcortex.employees
           WHERE delegate_id = %(delegate_id)s AND active
               AND (delegate_from IS NULL OR delegate_from <= %(now)s)
               AND (delegate_until IS NULL OR %(now)s <= delegate_until)
           ORDER BY id""",
        delegate_id=delegate_id,
        now=now,
    )


@pattern("E9", "Lock the directory for a change", rate=DIRECTORY_CHANGE, example=())
def lock_directory() -> SqlOne[DirectoryLock]:
    """Wait until other transactions that hold the lock have ended; it is released with the transaction."""
    return tripcortex.one(
        DirectoryLock,
        "SELECT pg_advisory_xact_lock(%(key)s::bigint) IS NOT NULL AS is_locked",
        key=_LOCK_KEY,
    )


# --- writes -------------------------------------------------------------------------------------------------


def _build_example() -> tuple[EmployeeFields, datetime]:
    """Return the arguments of a pattern's example."""
    return EmployeeFields(id="emp-42", user_name="ada@northwind.example", roles=("finance",)), _NOW


@pattern("E10", "Add an employee", rate=DIRECTORY_CHANGE, example=_build_example)
def create_employee(new: EmployeeFields, at: datetime) -> SqlReturning[EmployeeRow]:
    """Of two employees with one id or user name, the second fails with `RowAlreadyExists`."""
    return tripcortex.returning(
        EmployeeRow,
        """INSERT INTO tripcortex.employees (id, user_name, external_id, email, display_name, manager_id, level,
               department, roles, delegate_id, delegate_from, delegate_until, active, created_at, updated_at)
           VALUES (%(id)s, %(user_name)s, %(external_id)s, %(email)s, %(display_name)s, %(manager_id)s,
               %(level)s, %(department)s, %(roles)s::text[], %(delegate_id)s, %(delegate_from)s,
               %(delegate_until)s, %(active)s, %(at)s, %(at)s)
           RETURNING {columns}""",  # noqa: E501
        **new.model_dump(include=set(EmployeeFields.model_fields)),
        at=at,
    ).expect_rows(1)


@pattern(
    "E11",
    "Change an employee if the version is unchanged",
    rate=DIRECTORY_CHANGE,
    example=lambda: (_build_example()[0], 1, _NOW),
)
def replace_employee(new: EmployeeFields, seen: int, at: datetime) -> SqlReturning[EmployeeRow]:
    """Compare and set: another version fails with `ConditionFailed`."""
    return tripcortex.returning(
        EmployeeRow,
        """UPDATE tripcortex.employees
           SET user_name = %(user_name)s, external_id = %(external_id)s, email = %(email)s,
               display_name = %(display_name)s, manager_id = %(manager_id)s, level = %(level)s,
               department = %(department)s, roles = %(roles)s::text[], delegate_id = %(delegate_id)s,
               delegate_from = %(delegate_from)s, delegate_until = %(delegate_until)s, active = %(active)s,
               updated_at = %(at)s, version = version + 1
           WHERE id = %(id)s AND version = %(seen)s
           RETURNING {columns}""",
        **new.model_dump(include=set(EmployeeFields.model_fields)),
        seen=seen,
        at=at,
    ).expect_rows(1)


@pattern(
    "E12",
    "Add or change many employees in one statement",
    rate=DIRECTORY_CHANGE,
    example=lambda: ((_build_example()[0],), _NOW),
)
def put_employees(new: Sequence[EmployeeFields], at: datetime) -> SqlChange:
    """One statement, because the rows may name each other as managers.

    Roles contain no commas, so each row's are sent as one text.
    """
    columns: dict[str, tuple[Any, ...]] = {
        f"{name}s": tuple(getattr(each, name) for each in new)
        for name in EmployeeFields.model_fields
        if name != "roles"
    }
    return tripcortex.change(
        """INSERT INTO tripcortex.employees (id, user_name, external_id, email, display_name, manager_id, level,
               department, roles, delegate_id, delegate_from, delegate_until, active, created_at, updated_at)
           SELECT id, user_name, external_id, email, display_name, manager_id, level, department,
               string_to_array(roles, ','), delegate_id, delegate_from, delegate_until, active, %(at)s, %(at)s
           FROM unnest(%(ids)s::text[], %(user_names)s::text[], %(external_ids)s::text[], %(emails)s::text[],
               %(display_names)s::text[], %(manager_ids)s::text[], %(levels)s::text[],
               %(departments)s::text[], %(roles)s::text[], %(delegate_ids)s::text[],
               %(delegate_froms)s::timestamptz[], %(delegate_untils)s::timestamptz[], %(actives)s::boolean[])
               AS new (id, user_name, external_id, email, display_name, manager_id, level, department, roles,
                   delegate_id, delegate_from, delegate_until, active)
           ON CONFLICT (id) DO UPDATE SET user_name = excluded.user_name,
               external_id = excluded.external_id, email = excluded.email,
               display_name = excluded.display_name, manager_id = excluded.manager_id,
               level = excluded.level, department = excluded.department, roles = excluded.roles,
               delegate_id = excluded.delegate_id, delegate_from = excluded.delegate_from,
               delegate_until = excluded.delegate_until, active = excluded.active,
               updated_at = excluded.updated_at, version = employees.version + 1""",  # noqa: E501
        **columns,
        roles=tuple(",".join(each.roles) for each in new),
        at=at,
    )


@pattern(
    "E13", "Deactivate employees who have left", rate=DIRECTORY_CHANGE, example=lambda: (("emp-42",), _NOW)
)
def deactivate_employees(ids: Sequence[str], at: datetime) -> SqlChange:
    return tripcortex.change(
        """UPDATE tripcortex.employees SET active = false, updated_at = %(at)s, version = version + 1
           WHERE id = ANY(%(ids)s::text[]) AND active""",
        ids=tuple(ids),
        at=at,
    )


@pattern(
    "E14",
    "Delete an employee and everything that is known of them",
    rate=DIRECTORY_CHANGE,
    example=("emp-42",),
)
def delete_employee(employee_id: str, seen: int | None = None) -> SqlChange:
    """Employees whose manager or delegate it was lose the reference. With `seen`, only that version."""
    return tripcortex.change(
        """DELETE FROM tripcortex.employees
           WHERE id = %(id)s AND (%(seen)s::int IS NULL OR version = %(seen)s::int)""",
        id=employee_id,
        seen=seen,
    )


# To find out who approves.
APPROVER_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    employee,
    employees_by_id,
    management_chain,
    role_holders,
    principals,
)
READ_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    *APPROVER_PATTERNS,
    employees,
    employee_count,
    whole_directory,
)
WRITE_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    lock_directory,
    create_employee,
    replace_employee,
    put_employees,
    deactivate_employees,
    delete_employee,
)
PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (*READ_PATTERNS, *WRITE_PATTERNS)
