"""Tests of the CSV import without a database: what a file says, and every fault with its line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from tests.cases import all_cases
from tripcortex.directory.csv_import import ImportPlan, build_plan, parse_csv
from tripcortex.model.directory import EmployeeRow

NOW = datetime(2026, 3, 10, 9, tzinfo=UTC)
HEADER = "id,user_name,display_name,manager_id,level,department,roles,active"


def make_row(id: str, **more: Any) -> EmployeeRow:
    fields = {"user_name": f"{id}@northwind.example", **more}
    return EmployeeRow(id=id, **fields, created_at=NOW, updated_at=NOW, version=1)


def plan(text: str | bytes, *current: EmployeeRow, partial: bool = False) -> ImportPlan:
    return build_plan(parse_csv(text.encode() if isinstance(text, str) else text), current, partial)


def list_faults(text: str, *current: EmployeeRow, partial: bool = False) -> list[str]:
    """Return the faults of an import, without the introduction."""
    with pytest.raises(InvalidRequest) as refused:
        plan(text, *current, partial=partial)
    intro, *faults = refused.value.message.splitlines()
    assert intro == "Invalid CSV file, nothing was imported:"
    return faults


def test_reads_a_spreadsheets_file_with_a_mark_semicolons_and_quotes() -> None:
    text = (
        "\ufeffEmployee ID;Name;E-Mail;Manager;Grade;Department;Roles\r\n"
        '7;"Li, Wei; Dr.";wei@northwind.example;;VP;Sales;Finance | Travel-Desk\r\n'
        '42;"Ada ""Countess""\r\nLovelace";ada@northwind.example;WEI@northwind.example;L2;Sales;\r\n'
    )
    for content in (text.encode(), text.removeprefix("\ufeff").encode("utf-16")):
        boss, ada = plan(content).puts
        assert (boss.id, boss.display_name, boss.level) == ("7", "Li, Wei; Dr.", "VP")
        assert (boss.user_name, boss.roles) == ("wei@northwind.example", ("finance", "travel desk"))
        assert (ada.display_name, ada.manager_id) == ('Ada "Countess"\r\nLovelace', "7")


def test_reports_what_is_added_changed_removed_and_unchanged() -> None:
    current = (
        make_row("emp-1"),
        make_row("emp-2", level="L1"),
        make_row("emp-3"),
        make_row("emp-4", active=False),
    )
    text = "id,level,manager_id\nemp-1,,\nemp-2,L2,emp-1\nemp-5,,emp-2\n"
    found = plan(text, *current)
    report = found.report
    assert (report.added, report.changed, report.removed) == (("emp-5",), ("emp-2",), ("emp-3",))
    assert (report.unchanged, found.leavers) == (1, ("emp-3",))
    assert [each.id for each in found.puts] == ["emp-5", "emp-2"]
    assert plan(text, *current, partial=True).leavers == ()


def test_keeps_what_the_file_has_no_column_for() -> None:
    stored = make_row("emp-1", roles=("finance",), department="Sales", active=False)
    [changed] = plan("id,department\nemp-1,\n", stored).puts
    assert (changed.roles, changed.department) == (("finance",), None)
    # Who is listed works here again, unless the file says otherwise.
    assert changed.active
    assert plan("id,active\nemp-1,no\n", stored).puts == ()
    assert changed.user_name == stored.user_name


def test_reports_every_fault_with_its_line() -> None:
    rows = [
        "emp-1,one,,emp-9,,,,",
        '"emp-2",two,"a name\nin two lines",,,,,',
        "emp-1,other,,,,,,",
        "emp-3,ONE,,,,,,",
        "emp 4,four,,,,,,",
        "emp-5,five,,emp-5,,,,",
        "emp-6,six,,,,,,perhaps",
        "emp-7,seven,,,,,,,unquoted",
        ",eight,,,,,,",
    ]
    faults = list_faults("\n".join([HEADER, *rows]))
    starts = [each.partition(": ")[0].removeprefix("line ") for each in faults]
    assert starts == ["2", "5", "6", "7", "8", "9", "10", "11"]
    assert "unknown manager 'emp-9'" in faults[0]
    assert "employee emp-1 is already on line 2" in faults[1]
    assert "user name 'ONE' is already on line 2" in faults[2]
    assert "own manager" in faults[4]


def test_reports_each_cycle_of_managers_once() -> None:
    text = "id,manager_id\nemp-1,emp-2\nemp-2,emp-3\nemp-3,emp-1\nemp-4,emp-1\nemp-5,emp-6\nemp-6,emp-5\n"
    assert list_faults(text) == [
        "line 2: the managers form a cycle: emp-1 → emp-2 → emp-3 → emp-1",
        "line 6: the managers form a cycle: emp-5 → emp-6 → emp-5",
    ]


def test_partial_file_is_checked_together_with_the_directory() -> None:
    boss, ada = make_row("emp-7", manager_id="emp-42"), make_row("emp-42")
    text = "id,manager_id\nemp-42,emp-7\n"
    assert "form a cycle" in list_faults(text, boss, ada, partial=True)[0]
    # In a complete file a manager who is left out is a leaver.
    assert "unknown manager 'emp-7'" in list_faults(text, boss, ada)[0]
    taken = "id,user_name\nemp-9,EMP-7@northwind.example\n"
    assert "belongs to employee emp-7" in list_faults(taken, boss, partial=True)[0]


def test_shows_the_first_faults_and_counts_the_rest() -> None:
    rows = "\n".join(f"emp-{number},nobody" for number in range(30))
    faults = list_faults(f"id,manager_id\n{rows}\n")
    assert len(faults) == 21 and faults[-1] == "… and 10 more"


def test_dates_of_a_delegation_include_both_days() -> None:
    header = "id,delegate_id,delegate_from,delegate_until"
    [_, ada] = plan(f"{header}\nemp-8,,,\nemp-42,emp-8,2026-03-10,2026-03-12\n").puts
    assert ada.delegate_from == datetime(2026, 3, 10, tzinfo=UTC)
    assert ada.delegate_until == datetime(2026, 3, 12, 23, 59, 59, tzinfo=UTC)
    faults = list_faults(f"{header}\nemp-8,,,\nemp-42,emp-8,12.3.2026,\nemp-7,emp-8,2026-03-10,2026-03-09\n")
    assert "invalid time '12.3.2026'" in faults[0] and "ends before it begins" in faults[1]


@all_cases(
    ("content", "reason"),
    [
        (b"", "no column 'id'"),
        (b"name,level\nAda,L1\n", "no column 'id'"),
        (b"id,level\n", "no employees"),
        (b"id,name,full name\nemp-1,a,b\n", "two columns for 'display_name'"),
        ("id,name\nemp-1,Zoë\n".encode("latin-1"), "not UTF-8"),
        (b"id,name\nemp-1,\x00\n", "null characters"),
        (b'id,name\nemp-1,"a"b\n', "line 2"),
    ],
)
def test_rejects_what_is_not_a_directory(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        parse_csv(content)
