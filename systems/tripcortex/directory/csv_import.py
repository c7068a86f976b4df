"""Import of the directory from a CSV file: read the rows, compare them, write the difference.

The file is the whole directory: employees whom it leaves out are deactivated, unless the import is partial. A
file with any invalid row changes nothing, and every fault is reported with its line. A byte order mark,
semicolons, tabs and quoted fields are accepted, and so are the column names of usual exports (`COLUMNS`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from holdfast import Stores
from holdfast.core.errors import InvalidRequest, RowAlreadyExists
from tripcortex.directory.checks import find_cycle, find_faults, format_cycle, normalize_roles
from tripcortex.model import directory
from tripcortex.model.directory import MAX_EMPLOYEES, EmployeeFields, EmployeeRow

MAX_BYTES: Final = 20_000_000
MAX_FAULTS: Final = 20
DELIMITERS: Final = (",", ";", "\t", "|")
# The names under which a column is recognized, without case, spaces and punctuation.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("employeeid", "id", "employeenumber", "personnelnumber", "workerid"),
    "user_name": ("username", "login", "upn", "userprincipalname"),
    "external_id": ("externalid",),
    "email": ("email", "emailaddress", "mail", "workemail"),
    "display_name": ("displayname", "name", "fullname", "employeename"),
    "manager_id": ("managerid", "manager", "manageremail", "managernumber", "reportsto", "supervisor"),
    "level": ("level", "grade", "band", "joblevel"),
    "department": ("department", "dept", "costcenter", "costcentre"),
    "roles": ("roles", "role"),
    "delegate_id": ("delegateid", "delegate"),
    "delegate_from": ("delegatefrom",),
    "delegate_until": ("delegateuntil", "delegateto"),
    "active": ("active", "isactive", "enabled", "status"),
}
REQUIRED: Final = ("id",)
TRUE_WORDS: Final = frozenset({"", "true", "yes", "y", "1", "active", "enabled"})
FALSE_WORDS: Final = frozenset({"false", "no", "n", "0", "inactive", "disabled", "terminated", "left"})
_PUNCTUATION: Final = re.compile(r"[^a-z0-9]+")
_ROLE_SEPARATORS: Final = re.compile(r"[|;,]")


class Fault(NamedTuple):
    """A fault of the file: its line, and what is wrong."""

    line: int
    text: str


@dataclass(frozen=True)
class ParsedRow:
    """One row of the file: its line, and the employee."""

    line: int
    employee: EmployeeFields


@dataclass(frozen=True)
class ParsedFile:
    """The rows of a file, the fields that it has columns for, and the faults with their lines."""

    rows: tuple[ParsedRow, ...]
    fields: frozenset[str]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class ImportReport:
    """The difference between a file and the directory. `is_dry_run`: nothing was written."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    is_dry_run: bool = False


@dataclass(frozen=True)
class ImportPlan:
    """The writes of an import and its report."""

    puts: tuple[EmployeeFields, ...]
    leavers: tuple[str, ...]
    report: ImportReport = field(default_factory=ImportReport)


async def import_csv(
    stores: Stores, content: bytes, *, dry_run: bool = False, partial: bool = False
) -> ImportReport:
    """Import a CSV file in one transaction, or only report the difference.

    A `partial` file leaves the employees alone whom it does not name. Raise `InvalidRequest` with all faults.
    """
    parsed = parse_csv(content)
    try:
        async with stores.sql_transaction() as work:
            await work.run(directory.lock_directory())
            plan = build_plan(parsed, await work.run(directory.whole_directory()), partial, dry_run)
            if dry_run:
                return plan.report
            now = datetime.fromtimestamp(int(stores.clock.now()), UTC)
            if plan.puts:
                await work.run(directory.put_employees(plan.puts, now))
            if plan.leavers:
                await work.run(directory.deactivate_employees(plan.leavers, now))
            return plan.report
    except RowAlreadyExists as error:
        raise InvalidRequest(
            "Invalid CSV file: two employees exchange their user names, which one import cannot do. Import "
            "one of them with another user name first."
        ) from error


def parse_csv(content: bytes) -> ParsedFile:
    """Parse the file. Raise `InvalidRequest` if it is not a CSV file with the required columns."""
    text = _decode(content)
    delimiter = _find_delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[ParsedRow] = []
    faults: list[Fault] = []
    try:
        columns = _parse_header(next(reader, []))
        start = reader.line_num + 1
        for cells in reader:
            line, start = start, reader.line_num + 1
            if any(each.strip() for each in cells):
                rows += _parse_row(line, cells, columns, faults)
    except csv.Error as error:
        raise InvalidRequest(f"Invalid CSV file: line {reader.line_num}: {error}.") from error
    if len(rows) > MAX_EMPLOYEES:
        raise InvalidRequest(f"Invalid CSV file: {len(rows)} employees, expected at most {MAX_EMPLOYEES}.")
    if not rows and not faults:
        raise InvalidRequest("Invalid CSV file: it has a header and no employees.")
    return ParsedFile(tuple(rows), frozenset(filter(None, columns)), tuple(faults))


def build_plan(
    parsed: ParsedFile, current: Sequence[EmployeeRow], partial: bool = False, dry_run: bool = False
) -> ImportPlan:
    """Compare the file with the directory. Raise `InvalidRequest` with every fault of the file."""
    known = {each.id: each for each in current}
    rows = _resolve_rows(parsed, known)
    if faults := sorted((*parsed.faults, *_find_faults(rows, known, partial))):
        raise InvalidRequest(_format_faults(faults))
    new = {each.employee.id: each.employee for each in rows}
    changed = tuple(
        id for id, each in new.items() if id in known and each != EmployeeFields(**_get_fields(known[id]))
    )
    added = tuple(id for id in new if id not in known)
    leavers = () if partial else tuple(id for id, each in known.items() if each.active and id not in new)
    report = ImportReport(added, changed, leavers, len(new) - len(added) - len(changed), dry_run)
    return ImportPlan(tuple(new[id] for id in (*added, *changed)), leavers, report)


def _format_faults(faults: Sequence[Fault]) -> str:
    """Format the first faults, one per line, and the number of the others."""
    lines = [f"line {each.line}: {each.text}" for each in faults[:MAX_FAULTS]]
    more = [f"… and {len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
    return "\n".join(["Invalid CSV file, nothing was imported:", *lines, *more])


# --- the file -----------------------------------------------------------------------------------------------


def _decode(content: bytes) -> str:
    """Return the text. Raise `InvalidRequest` if the file is too large, or not UTF-8 or UTF-16 text."""
    if len(content) > MAX_BYTES:
        raise InvalidRequest(f"Invalid CSV file: it is larger than the limit of {MAX_BYTES} bytes.")
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise InvalidRequest("Invalid CSV file: it is not UTF-8 text. Export it as “CSV UTF-8”.") from None
    if "\x00" in text:
        raise InvalidRequest("Invalid CSV file: it contains null characters. Export it as “CSV UTF-8”.")
    return text


def _find_delimiter(text: str) -> str:
    """Return the delimiter that occurs most often outside of quotes in the header."""
    header = re.sub(r'"[^"]*"', "", text.lstrip().partition("\n")[0])
    return max(DELIMITERS, key=header.count)


def _parse_header(cells: Sequence[str]) -> list[str | None]:
    """Return the field of each column, None for one to ignore. Raise `InvalidRequest` without an id."""
    names = {alias: name for name, aliases in COLUMNS.items() for alias in aliases}
    found = [names.get(_PUNCTUATION.sub("", each.strip().casefold())) for each in cells]
    if missing := [name for name in REQUIRED if name not in found]:
        raise InvalidRequest(
            f"Invalid CSV file: line 1 has no column {missing[0]!r}. Expected a header such as "
            "id,user_name,display_name,email,manager_id,level,department,roles."
        )
    twice = sorted({each for each in found if each is not None and found.count(each) > 1})
    if twice:
        raise InvalidRequest(f"Invalid CSV file: line 1 has two columns for {twice[0]!r}. Keep one.")
    return found


def _parse_row(
    line: int, cells: Sequence[str], columns: Sequence[str | None], faults: list[Fault]
) -> Iterator[ParsedRow]:
    """Yield the row, unless it is invalid: then add its faults."""
    if len(cells) > len(columns) and any(each.strip() for each in cells[len(columns) :]):
        wrong = f"{len(cells)} fields, expected {len(columns)}: quote fields with separators"
        faults.append(Fault(line, wrong))
        return
    given = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name is not None}
    try:
        employee = EmployeeFields(**_parse_fields(given))
    except ValidationError as error:
        faults += [
            Fault(line, f"{'.'.join(map(str, each['loc']))}: {each['msg']}")
            for each in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        return
    except ValueError as error:
        faults.append(Fault(line, str(error)))
        return
    if found := list(find_faults(employee)):
        faults += [Fault(line, each) for each in found]
        return
    yield ParsedRow(line, employee)


def _parse_fields(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed fields of a row. Raise `ValueError` for an invalid one."""
    fields: dict[str, Any] = {name: value or None for name, value in given.items()}
    fields["id"] = given.get("id", "")
    fields["user_name"] = given.get("user_name") or given.get("email") or fields["id"]
    fields["roles"] = normalize_roles(_ROLE_SEPARATORS.split(given.get("roles", "")))
    fields["active"] = _parse_active(given.get("active", ""))
    fields["delegate_from"] = _parse_time(given.get("delegate_from", ""), time.min)
    fields["delegate_until"] = _parse_time(given.get("delegate_until", ""), time(23, 59, 59))
    return fields


def _parse_active(given: str) -> bool:
    """Return whether the employee is active; an empty field means yes."""
    word = given.casefold()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(f"invalid active {given!r:.40}: expected true or false")
    return word in TRUE_WORDS


def _parse_time(given: str, of_day: time) -> datetime | None:
    """Return a time in UTC; a date means that time of the day."""
    if not given:
        return None
    try:
        if len(given) == len("2026-03-10"):
            return datetime.combine(date.fromisoformat(given), of_day, UTC)
        moment = datetime.fromisoformat(given)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except ValueError:
        raise ValueError(f"invalid time {given!r:.40}: expected 2026-03-10 or 2026-03-10T09:00:00Z") from None


# --- the comparison -----------------------------------------------------------------------------------------


def _resolve_rows(parsed: ParsedFile, known: Mapping[str, EmployeeRow]) -> list[ParsedRow]:
    """Complete the rows: what the file has no column for stays as stored; names of managers become ids."""
    rows = [ParsedRow(each.line, _keep_stored(each.employee, parsed.fields, known)) for each in parsed.rows]
    ids = _index_names([*known.values(), *(each.employee for each in rows)])
    return [ParsedRow(each.line, _replace_names(each.employee, ids)) for each in rows]


def _keep_stored(
    new: EmployeeFields, columns: frozenset[str], known: Mapping[str, EmployeeRow]
) -> EmployeeFields:
    """Return the entry with the stored value of each field that the file has no column for."""
    stored = known.get(new.id)
    if stored is None:
        return new
    # Without a column for it, who is listed works here.
    stated = columns | {"active"}
    return EmployeeFields(**{**_get_fields(stored), **{name: getattr(new, name) for name in stated}})


def _index_names(employees: Sequence[EmployeeFields]) -> dict[str, str]:
    """Return the id of each id, user name and e-mail address; an id wins over another employee's name."""
    ids: dict[str, str] = {}
    for each in employees:
        ids |= {name.casefold(): each.id for name in (each.email, each.user_name) if name}
    return ids | {each.id: each.id for each in employees}


def _replace_names(new: EmployeeFields, ids: Mapping[str, str]) -> EmployeeFields:
    """Return the entry with the ids of its manager and delegate, where the file has their names."""

    def get_id(name: str | None) -> str | None:
        return None if name is None else ids.get(name, ids.get(name.casefold(), name))

    changes = {"manager_id": get_id(new.manager_id), "delegate_id": get_id(new.delegate_id)}
    return new.model_copy(update=changes)


def _find_faults(
    rows: Sequence[ParsedRow], known: Mapping[str, EmployeeRow], partial: bool
) -> Iterator[Fault]:
    """Yield what is invalid in the file as a whole, with lines: duplicates, unknown managers, cycles."""
    yield from _find_duplicates(rows, known)
    new = {each.employee.id: each.employee for each in rows}
    valid: set[str] = {*new, *known} if partial else {*new}
    for row in rows:
        for name, wanted in (("manager", row.employee.manager_id), ("delegate", row.employee.delegate_id)):
            if wanted is not None and wanted not in valid:
                yield Fault(
                    row.line, f"unknown {name} {wanted!r:.60} of {row.employee.id}: add a row for them"
                )
            elif wanted == row.employee.id:
                yield Fault(row.line, f"{row.employee.id} cannot be their own {name}")
    yield from _find_cycles(rows, known, partial)


def _find_duplicates(rows: Sequence[ParsedRow], known: Mapping[str, EmployeeRow]) -> Iterator[Fault]:
    """Yield the ids and user names that occur twice, or that belong to an employee who is not in the file."""
    lines: dict[str, int] = {}
    names: dict[str, int] = {}
    own = {each.employee.id for each in rows}
    taken = {each.user_name.casefold(): each.id for each in known.values() if each.id not in own}
    for row in rows:
        id, name = row.employee.id, row.employee.user_name
        if id in lines:
            yield Fault(row.line, f"employee {id} is already on line {lines[id]}")
        elif name.casefold() in names:
            yield Fault(row.line, f"user name {name!r:.60} is already on line {names[name.casefold()]}")
        elif name.casefold() in taken:
            yield Fault(row.line, f"user name {name!r:.60} belongs to employee {taken[name.casefold()]}")
        lines.setdefault(id, row.line)
        names.setdefault(name.casefold(), row.line)


def _find_cycles(
    rows: Sequence[ParsedRow], known: Mapping[str, EmployeeRow], partial: bool
) -> Iterator[Fault]:
    """Yield each cycle of managers once, with the line of its first row."""
    managers = {id: each.manager_id for id, each in known.items()} if partial else {}
    managers |= {each.employee.id: each.employee.manager_id for each in rows}
    reported: set[str] = set()
    for row in rows:
        id = row.employee.id
        if row.employee.manager_id == id or id in reported:
            continue
        if cycle := find_cycle(id, managers):
            reported |= set(cycle)
            yield Fault(row.line, f"the managers form a cycle: {format_cycle(cycle)}")


def _get_fields(row: EmployeeFields) -> dict[str, Any]:
    """Return the fields of an entry without its times and version."""
    return {name: getattr(row, name) for name in EmployeeFields.model_fields}
