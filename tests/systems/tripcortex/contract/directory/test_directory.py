"""Tests of the directory in PostgreSQL: imports, single changes, and concurrent ones."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.errors import HoldfastError, InvalidRequest, NotFound
from holdfast.runtime import check_statements
from tripcortex.directory.changes import (
    EmployeeChanged,
    EmployeeExists,
    create_employee,
    delete_employee,
    load_employee,
    replace_employee,
)
from tripcortex.directory.csv_import import import_csv
from tripcortex.model import directory
from tripcortex.model.directory import PATTERNS, EmployeeFields

NOW = datetime(2026, 3, 10, 9, tzinfo=UTC)
COMPANY = b"""id,user_name,manager_id,level,department,roles
emp-1,ceo,,C-level,,board
emp-3,vp,emp-1,VP,Sales,
emp-7,boss,emp-3,manager,Sales,
emp-42,ada,emp-7,,Sales,
emp-9,fin,emp-1,manager,Finance,finance
"""


def make_employee(id: str, **more: Any) -> EmployeeFields:
    return EmployeeFields(**{"id": id, "user_name": id, **more})


async def list_chain(stores: Stores, id: str) -> list[str]:
    return [each.id for each in await stores.run(directory.management_chain(id))]


async def test_every_statement_returns_its_rows_fields(stores: Stores) -> None:
    assert await check_statements(stores, PATTERNS) == []


async def test_import_writes_everything_or_nothing(stores: Stores) -> None:
    dry = await import_csv(stores, COMPANY, dry_run=True)
    assert len(dry.added) == 5 and await stores.run(directory.employees()) == ()
    await import_csv(stores, COMPANY)
    assert await list_chain(stores, "emp-42") == ["emp-7", "emp-3", "emp-1"]
    before = await stores.run(directory.whole_directory())
    with pytest.raises(InvalidRequest, match="line 3: unknown manager"):
        await import_csv(stores, b"id,manager_id\nemp-50,\nemp-51,emp-99\n")
    assert await stores.run(directory.whole_directory()) == before
    again = await import_csv(stores, COMPANY)
    assert (again.added, again.changed, again.removed, again.unchanged) == ((), (), (), 5)
    assert await stores.run(directory.whole_directory()) == before


async def test_import_deactivates_leavers_and_bumps_versions(stores: Stores) -> None:
    await import_csv(stores, COMPANY)
    rest = b"".join(line + b"\n" for line in COMPANY.splitlines() if not line.startswith(b"emp-9"))
    assert (await import_csv(stores, rest)).removed == ("emp-9",)
    left = await load_employee(stores, "emp-9")
    assert (left.active, left.version, left.roles) == (False, 2, ("finance",))
    assert await stores.run(directory.role_holders(("finance",))) == ()
    # The file names them again: they are active again.
    assert (await import_csv(stores, COMPANY)).changed == ("emp-9",)
    assert (await load_employee(stores, "emp-9")).active


async def test_large_import_is_compared_quickly_and_named_by_user_name(stores: Stores) -> None:
    rows = [
        f"emp-{number},user-{number},{'' if number == 0 else f'USER-{number // 10}'}"
        for number in range(2_000)
    ]
    report = await import_csv(stores, "\n".join(["id,user_name,manager", *rows]).encode())
    assert len(report.added) == 2_000
    assert await list_chain(stores, "emp-1999") == ["emp-199", "emp-19", "emp-1", "emp-0"]


async def test_changes_are_checked_and_versioned(stores: Stores) -> None:
    await import_csv(stores, COMPANY)
    row = await load_employee(stores, "emp-42")
    changed = await replace_employee(stores, make_employee("emp-42", level="L2"), NOW, seen=row.version)
    assert (changed.level, changed.manager_id, changed.version) == ("L2", None, 2)
    with pytest.raises(EmployeeChanged, match="at version 2, not 1"):
        await replace_employee(stores, make_employee("emp-42"), NOW, seen=1)
    with pytest.raises(EmployeeExists, match="user name 'BOSS'"):
        await replace_employee(stores, make_employee("emp-42", user_name="BOSS"), NOW)
    with pytest.raises(EmployeeExists, match="already an employee emp-42"):
        await create_employee(stores, make_employee("emp-42"), NOW)
    with pytest.raises(InvalidRequest, match="cycle .emp-3 → emp-7 → emp-3."):
        await replace_employee(stores, make_employee("emp-3", manager_id="emp-7"), NOW)
    with pytest.raises(InvalidRequest, match="Add the delegate first"):
        await create_employee(stores, make_employee("emp-50", delegate_id="emp-51"), NOW)
    with pytest.raises(NotFound):
        await replace_employee(stores, make_employee("emp-50"), NOW)


async def test_two_changes_at_once_cannot_form_a_cycle(stores: Stores) -> None:
    for id in ("emp-1", "emp-2"):
        await create_employee(stores, make_employee(id), NOW)
    results = await asyncio.gather(
        replace_employee(stores, make_employee("emp-1", manager_id="emp-2"), NOW),
        replace_employee(stores, make_employee("emp-2", manager_id="emp-1"), NOW),
        return_exceptions=True,
    )
    [refused] = [each for each in results if isinstance(each, HoldfastError)]
    assert "cycle" in refused.message


async def test_deleted_employee_leaves_no_trace(stores: Stores) -> None:
    await import_csv(stores, COMPANY)
    await delete_employee(stores, "emp-7")
    with pytest.raises(NotFound):
        await load_employee(stores, "emp-7")
    assert await list_chain(stores, "emp-42") == []
    with pytest.raises(NotFound):
        await delete_employee(stores, "emp-7")


async def test_chain_ends_at_a_cycle_that_another_program_wrote(stores: Stores) -> None:
    await import_csv(stores, COMPANY)
    await stores.run(directory.put_employees([make_employee("emp-1", manager_id="emp-7")], NOW))
    assert await list_chain(stores, "emp-42") == ["emp-7", "emp-3", "emp-1"]
    assert await list_chain(stores, "emp-7") == ["emp-3", "emp-1"]


async def test_delegate_acts_within_the_stated_time(stores: Stores) -> None:
    await import_csv(stores, COMPANY)
    absent = make_employee(
        "emp-7", delegate_id="emp-9", delegate_from=NOW, delegate_until=NOW + timedelta(days=1)
    )
    row = await replace_employee(stores, absent, NOW)
    for hours, is_acting in ((-1, False), (0, True), (24, True), (25, False)):
        at = NOW + timedelta(hours=hours)
        assert row.has_delegate_at(at) is is_acting
        found = await stores.run(directory.principals("emp-9", at))
        assert [each.id for each in found] == (["emp-7"] if is_acting else [])
