"""Issues of Jira as tickets, and entries of their changelogs as changes of fields.

What Jira's people may leave out is left out; what an issue must have and has not, or has of another kind, is nonsense
and raises `PartyFailed` by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pydantic import ValidationError

from agenticpm.connectors.adf import plain_text
from agenticpm.connectors.jira_marks import milliseconds_of, moment_of
from agenticpm.tickets import FieldChange, Milestone, Priority, Sprint, Stage, Ticket
from holdfast.errors import PartyFailed
from holdfast.web.parties import member

JIRA: Final = "Jira"
TEXT_CHARS_MAX: Final = 8000
STANDARD: Final = (
    "summary",
    "description",
    "status",
    "priority",
    "labels",
    "assignee",
    "created",
    "updated",
    "resolutiondate",
    "duedate",
    "fixVersions",
    "issuelinks",
)
STAGES: Final = {"new": Stage.to_do, "indeterminate": Stage.in_progress, "done": Stage.done}
# "undefined" is the category of a status that nobody has put into one.
NO_CATEGORY: Final = "undefined"
PRIORITIES: Final = {
    **dict.fromkeys(("highest", "blocker", "critical", "urgent", "p0", "p1"), Priority.critical),
    **dict.fromkeys(("high", "major", "p2"), Priority.high),
    **dict.fromkeys(("low", "lowest", "minor", "trivial", "p4", "p5"), Priority.low),
}
POINTS: Final = ("story points", "story point estimate")
SPRINT_KIND: Final = "com.pyxis.greenhopper.jira:gh-sprint"
CRITERIA: Final = re.compile(r"^\W*acceptance criteria\b", re.IGNORECASE | re.MULTILINE)
# Of Server and Data Center: a sprint as the text of a Java object.
SPRINT_TEXT: Final = re.compile(r"\bstate=(?P<state>\w+).*?\bname=(?P<name>.*?),(?=\w+=)")
SPRINT_STATES: Final = ("active", "future", "closed")
SECONDS_BELOW: Final = 10**11
# Jira's are numbers; whatever another one has, it goes into a path, a request and a checkpoint.
ID: Final = re.compile(r"[A-Za-z0-9_\-]{1,32}")
FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 9998


@dataclass(frozen=True)
class Fields:
    """Which custom fields hold what: each Jira has its own numbers for them."""

    points: tuple[str, ...] = ()
    sprint: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()

    @property
    def asked(self) -> list[str]:
        return [*STANDARD, *self.points, *self.sprint, *self.flagged, *self.criteria]


@dataclass(frozen=True)
class Entry:
    """One entry of a changelog. `items` are its fields, as Jira tells them."""

    id: str
    at: int
    by: str | None
    items: tuple[Mapping[str, Any], ...]


def fields_of(body: Any) -> Fields:
    """Found by name, and the sprint by its kind too."""
    found: dict[str, list[str]] = {"points": [], "sprint": [], "flagged": [], "criteria": []}
    for each in mappings(body, "fields"):
        id, name = member(each, "id", str, JIRA), member(each, "name", str, JIRA).casefold()
        if name in POINTS:
            found["points"].append(id)
        elif name == "sprint" or _inner(each, "schema").get("custom") == SPRINT_KIND:
            found["sprint"].append(id)
        elif name == "flagged":
            found["flagged"].append(id)
        elif name == "acceptance criteria":
            found["criteria"].append(id)
    return Fields(**{name: tuple(ids) for name, ids in found.items()})


def stages_of(body: Any) -> dict[str, Stage]:
    """Every status by its id, and where it stands."""
    return {member(each, "id", str, JIRA): stage_of(each) for each in mappings(body, "statuses")}


def id_of(issue: Any) -> str:
    id = member(issue, "id", str, JIRA)
    if not ID.fullmatch(id):
        raise _nonsense(f"id should be a number, and is {id[:40]!r}")
    return id


def updated_of(issue: Any) -> int:
    return milliseconds_of(_time(member(issue, "fields", dict, JIRA), "updated"))


def blocked_by(issue: Any) -> list[str]:
    """The keys of those that wait for an issue."""
    links = _list(member(issue, "fields", dict, JIRA).get("issuelinks"))
    blocking = [each for each in links if "blocks" in str(_inner(each, "type").get("outward", "")).casefold()]
    return [key for each in blocking if isinstance(key := _inner(each, "outwardIssue").get("key"), str)]


def ticket_of(
    issue: Any, fields: Fields, history: Sequence[Entry], stages: Mapping[str, Stage], site: str
) -> Ticket:
    key, told = member(issue, "key", str, JIRA), member(issue, "fields", dict, JIRA)
    status = member(told, "status", dict, JIRA)
    stage, text = stage_of(status), plain_text(told.get("description"))
    reason = None if stage is Stage.done else _blocked_reason(told, fields, member(status, "name", str, JIRA))
    try:
        return Ticket(
            id=id_of(issue),
            key=key,
            title=member(told, "summary", str, JIRA),
            description=text[:TEXT_CHARS_MAX],
            status=member(status, "name", str, JIRA),
            stage=stage,
            is_blocked=reason is not None,
            blocked_reason=reason,
            priority=PRIORITIES.get(_name(told.get("priority")).casefold(), Priority.medium),
            points=_points(told, fields),
            assignee=_person(told.get("assignee")),
            sprint=_sprint(told, fields),
            milestone=_milestone(told.get("fixVersions")),
            labels=tuple(each for each in _list(told.get("labels")) if isinstance(each, str)),
            has_criteria=_has_criteria(told, fields, text),
            created_at=_time(told, "created"),
            updated_at=_time(told, "updated"),
            started_at=_started(stage, history, stages),
            resolved_at=_resolved(told, stage, history, stages),
            due_at=optional_time(told, "duedate"),
            url=f"{site}/browse/{key}",
        )
    except ValidationError as error:
        raise _nonsense(f"{key} cannot be a ticket ({error.errors()[0]['loc']})") from error


def entries_of(body: Any, name: str) -> list[Entry]:
    """The entries of a changelog under a member of an answer."""
    return [
        Entry(
            id=member(each, "id", str, JIRA),
            at=milliseconds_of(_time(each, "created")),
            by=_person(each.get("author")),
            items=tuple(mappings(member(each, "items", list, JIRA), "items")),
        )
        for each in mappings(member(body, name, list, JIRA), name)
    ]


def changes_of(key: str, history: Iterable[Entry], told_after: int | None) -> list[FieldChange]:
    """What of a changelog is news."""
    return [
        FieldChange(
            id=entry.id,
            ticket=key,
            field=member(item, "field", str, JIRA),
            before=_shown(item, "fromString"),
            after=_shown(item, "toString"),
            at=moment_of(entry.at),
            by=entry.by,
        )
        for entry in history
        if told_after is not None and entry.at >= told_after
        for item in entry.items
    ]


def sprint_of(body: Mapping[str, Any]) -> Sprint:
    id = body.get("id")
    if not isinstance(id, int | str) or isinstance(id, bool):
        raise _nonsense("a sprint has no id")
    return Sprint(
        id=str(id),
        name=member(body, "name", str, JIRA),
        state=member(body, "state", str, JIRA).casefold(),
        starts_at=optional_time(body, "startDate"),
        ends_at=optional_time(body, "endDate"),
        completed_at=optional_time(body, "completeDate"),
        goal=str(body.get("goal") or ""),
    )


def milestone_of(body: Mapping[str, Any]) -> Milestone:
    return Milestone(
        name=member(body, "name", str, JIRA),
        due_at=optional_time(body, "releaseDate"),
        is_done=body.get("released") is True,
        notes=str(body.get("description") or ""),
    )


def mappings(body: Any, what: str) -> list[dict[str, Any]]:
    """A list of objects, and nothing else."""
    if not isinstance(body, list) or not all(isinstance(each, dict) for each in body):
        raise _nonsense(f"{what} should be a list of objects")
    return body


def optional_time(body: Mapping[str, Any], name: str) -> datetime | None:
    return None if body.get(name) in (None, "") else _time(body, name)


# --- parts of an issue --------------------------------------------------------------------------------------


def stage_of(status: Mapping[str, Any]) -> Stage:
    key = member(member(status, "statusCategory", dict, JIRA), "key", str, JIRA)
    if key != NO_CATEGORY and key not in STAGES:
        raise _nonsense(f"a status has the category {key!r}")
    return STAGES.get(key, Stage.to_do)


def _blocked_reason(told: Mapping[str, Any], fields: Fields, status: str) -> str | None:
    """Why a ticket is blocked: a flag, its status, or another that is not done."""
    for id in fields.flagged:
        if flags := [_name(each, "value") or "Impediment" for each in _list(told.get(id))]:
            return f"Flagged: {', '.join(flags)}"
    if "blocked" in status.casefold():
        return f"Its status is {status}"
    waits = [each for link in _list(told.get("issuelinks")) if (each := _blocker(link))]
    return f"Blocked by {', '.join(waits)}" if waits else None


def _blocker(link: Any) -> str | None:
    """The other issue of a link that says "is blocked by", while it is not done."""
    other = _inner(link, "inwardIssue")
    if not other or "blocked by" not in str(_inner(link, "type").get("inward", "")).casefold():
        return None
    category = _inner(_inner(_inner(other, "fields"), "status"), "statusCategory")
    return None if category.get("key") == "done" else str(other.get("key") or "another ticket")


def _points(told: Mapping[str, Any], fields: Fields) -> Decimal | None:
    for id in fields.points:
        value = told.get(id)
        if value is None:
            continue
        try:
            points = Decimal(str(value))
        except InvalidOperation as error:
            raise _nonsense(f"{id} should be a number") from error
        if isinstance(value, bool) or not points.is_finite():
            raise _nonsense(f"{id} should be a number")
        return points
    return None


def _sprint(told: Mapping[str, Any], fields: Fields) -> str | None:
    """The sprint a ticket is in: the active one, else one to come, else the last one it was in."""
    sprints = [_sprint_named(each) for id in fields.sprint for each in _list(told.get(id))]
    for state in SPRINT_STATES:
        if names := [name for name, its_state in sprints if its_state == state]:
            return names[-1]
    return None


def _sprint_named(value: Any) -> tuple[str, str]:
    if isinstance(value, str) and (found := SPRINT_TEXT.search(value)):
        return found["name"], found["state"].casefold()
    if not isinstance(value, dict):
        raise _nonsense("a sprint of an issue should be an object")
    return member(value, "name", str, JIRA), member(value, "state", str, JIRA).casefold()


def _milestone(versions: Any) -> str | None:
    """The version that a ticket is for; of several, the first to come out that is not out."""
    named = [each for each in _list(versions) if _name(each)]
    open_ones = [each for each in named if each.get("released") is not True] or named
    ordered = sorted(open_ones, key=lambda each: str(each.get("releaseDate") or "9999"))
    return _name(ordered[0]) if ordered else None


def _has_criteria(told: Mapping[str, Any], fields: Fields, text: str) -> bool:
    return any(plain_text(told.get(id)) for id in fields.criteria) or CRITERIA.search(text) is not None


def _started(stage: Stage, history: Sequence[Entry], stages: Mapping[str, Stage]) -> datetime | None:
    """When work began first; a ticket that was put back has not begun."""
    begun = [at for at, to in _moves(history, stages) if to is Stage.in_progress]
    return moment_of(min(begun)) if begun and stage is not Stage.to_do else None


def _resolved(
    told: Mapping[str, Any], stage: Stage, history: Sequence[Entry], stages: Mapping[str, Stage]
) -> datetime | None:
    if stage is not Stage.done:
        return None
    # A project whose workflow sets no resolution has the move to its last status only.
    ended = [at for at, to in _moves(history, stages) if to is Stage.done]
    return optional_time(told, "resolutiondate") or (moment_of(max(ended)) if ended else None)


def _moves(history: Sequence[Entry], stages: Mapping[str, Stage]) -> list[tuple[int, Stage]]:
    return [
        (entry.at, stage)
        for entry in history
        for item in entry.items
        if item.get("field") == "status" and (stage := stages.get(str(item.get("to"))))
    ]


# --- values -------------------------------------------------------------------------------------------------


def _time(body: Mapping[str, Any], name: str) -> datetime:
    """A moment with its offset; a day alone is its midnight in UTC; a number is since 1970, as bulk answers have it."""
    value = body.get(name)
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return moment_of(value * 1000 if value < SECONDS_BELOW else value)
        told = datetime.fromisoformat(value)  # type: ignore[arg-type]
        if told.tzinfo is None and len(str(value)) > len("2026-02-04"):
            raise ValueError("no offset")
        if not FIRST_YEAR <= told.year <= LAST_YEAR:
            raise ValueError("no time of ours")
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise _nonsense(f"{name} should be a time, and is {str(value)[:40]!r}") from error


def _person(value: Any) -> str | None:
    return _name(value, "displayName") or _name(value) or None


def _name(value: Any, member_name: str = "name") -> str:
    found = value.get(member_name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _shown(item: Mapping[str, Any], name: str) -> str | None:
    value = item.get(name)
    return None if value is None else str(value)[:TEXT_CHARS_MAX]


def _inner(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _nonsense(why: str) -> PartyFailed:
    return PartyFailed(f"{JIRA} answers nonsense: {why}.", may_be_done=False)
