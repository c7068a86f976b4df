"""Parsers of Jira responses: issues become tickets, changelog entries field changes, versions milestones.

Fields that Jira users may leave empty are optional. A missing or invalid required field raises
`ExternalServiceFailed` with its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pydantic import ValidationError

from agenticpm.domain.reading.criteria import has_criteria
from agenticpm.domain.tickets import FieldChange, Milestone, Priority, Sprint, Ticket, TicketStage
from agenticpm.integrations.jira.adf import to_plain_text
from agenticpm.integrations.jira.read_position import from_milliseconds, to_milliseconds
from holdfast.core.errors import ExternalServiceFailed
from holdfast.web.external_client import read_field

JIRA: Final = "Jira"
MAX_TEXT_CHARS: Final = 8000
STANDARD_FIELDS: Final = (
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
STAGES: Final = {"new": TicketStage.to_do, "indeterminate": TicketStage.in_progress, "done": TicketStage.done}
# "undefined" is the category of a status without one.
NO_CATEGORY: Final = "undefined"
PRIORITIES: Final = {
    **dict.fromkeys(("highest", "blocker", "critical", "urgent", "p0", "p1"), Priority.critical),
    **dict.fromkeys(("high", "major", "p2"), Priority.high),
    **dict.fromkeys(("low", "lowest", "minor", "trivial", "p4", "p5"), Priority.low),
}
POINTS_NAMES: Final = ("story points", "story point estimate")
SPRINT_SCHEMA: Final = "com.pyxis.greenhopper.jira:gh-sprint"
# Server and Data Center send a sprint as the text of a Java object.
SPRINT_PATTERN: Final = re.compile(r"\bstate=(?P<state>\w+).*?\bname=(?P<name>.*?),(?=\w+=)")
SPRINT_STATES: Final = ("active", "future", "closed")
SECONDS_BELOW: Final = 10**11
# Jira's ids are numbers. Any id goes into a path, a request and a checkpoint, so it is restricted.
ID: Final = re.compile(r"[A-Za-z0-9_\-]{1,32}")
FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 9998


@dataclass(frozen=True)
class CustomFields:
    """The ids of the custom fields that we read; they differ on each Jira site."""

    points: tuple[str, ...] = ()
    sprint: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()

    @property
    def requested(self) -> list[str]:
        """The ids of all fields to request: the standard ones and these."""
        return [*STANDARD_FIELDS, *self.points, *self.sprint, *self.flagged, *self.criteria]


@dataclass(frozen=True)
class ChangelogEntry:
    """One entry of a changelog.

    `items` are its changed fields as Jira sends them, `at` is in milliseconds.
    """

    id: str
    at: int
    by: str | None
    items: tuple[Mapping[str, Any], ...]


def parse_fields(body: Any) -> CustomFields:
    """Find the custom fields that we read by name, and the sprint field by its schema too."""
    found: dict[str, list[str]] = {"points": [], "sprint": [], "flagged": [], "criteria": []}
    for each in read_objects(body, "fields"):
        id, name = read_field(each, "id", str, JIRA), read_field(each, "name", str, JIRA).casefold()
        if name in POINTS_NAMES:
            found["points"].append(id)
        elif name == "sprint" or _read_object(each, "schema").get("custom") == SPRINT_SCHEMA:
            found["sprint"].append(id)
        elif name == "flagged":
            found["flagged"].append(id)
        elif name == "acceptance criteria":
            found["criteria"].append(id)
    return CustomFields(**{name: tuple(ids) for name, ids in found.items()})


def parse_stages(body: Any) -> dict[str, TicketStage]:
    """Return the stage of every status by status id."""
    return {read_field(each, "id", str, JIRA): parse_stage(each) for each in read_objects(body, "statuses")}


def get_id(issue: Any) -> str:
    """Return the issue's id. Raise ExternalServiceFailed if it could not be put into a path."""
    id = read_field(issue, "id", str, JIRA)
    if not ID.fullmatch(id):
        raise _build_invalid_response(f"expected id as a number, got {id[:40]!r}")
    return id


def get_updated(issue: Any) -> int:
    """Return when the issue was last updated, in milliseconds since 1970."""
    return to_milliseconds(_read_time(read_field(issue, "fields", dict, JIRA), "updated"))


def list_blocked_keys(issue: Any) -> list[str]:
    """Return the keys of the issues that an issue blocks."""
    links = _read_list(read_field(issue, "fields", dict, JIRA).get("issuelinks"))
    blocking = [
        each for each in links if "blocks" in str(_read_object(each, "type").get("outward", "")).casefold()
    ]
    return [key for each in blocking if isinstance(key := _read_object(each, "outwardIssue").get("key"), str)]


def build_ticket(
    issue: Any,
    fields: CustomFields,
    history: Sequence[ChangelogEntry],
    stages: Mapping[str, TicketStage],
    site: str,
) -> Ticket:
    """Build the ticket of an issue from its fields and changelog. `stages` are by status id."""
    key, issue_fields = read_field(issue, "key", str, JIRA), read_field(issue, "fields", dict, JIRA)
    status = read_field(issue_fields, "status", dict, JIRA)
    stage, text = parse_stage(status), to_plain_text(issue_fields.get("description"))
    reason = (
        None
        if stage is TicketStage.done
        else _find_blocked_reason(issue_fields, fields, read_field(status, "name", str, JIRA))
    )
    try:
        return Ticket(
            id=get_id(issue),
            key=key,
            title=read_field(issue_fields, "summary", str, JIRA),
            description=text[:MAX_TEXT_CHARS],
            status=read_field(status, "name", str, JIRA),
            stage=stage,
            is_blocked=reason is not None,
            blocked_reason=reason,
            priority=PRIORITIES.get(_read_name(issue_fields.get("priority")).casefold(), Priority.medium),
            points=_parse_points(issue_fields, fields),
            assignee=_read_person(issue_fields.get("assignee")),
            sprint=_choose_sprint(issue_fields, fields),
            milestone=_choose_milestone(issue_fields.get("fixVersions")),
            labels=tuple(each for each in _read_list(issue_fields.get("labels")) if isinstance(each, str)),
            has_criteria=_has_criteria(issue_fields, fields, text),
            created_at=_read_time(issue_fields, "created"),
            updated_at=_read_time(issue_fields, "updated"),
            started_at=_find_start_time(stage, history, stages),
            resolved_at=_find_resolution_time(issue_fields, stage, history, stages),
            due_at=read_optional_time(issue_fields, "duedate"),
            url=f"{site}/browse/{key}",
        )
    except ValidationError as error:
        raise _build_invalid_response(f"{key} is not a valid ticket ({error.errors()[0]['loc']})") from error


def parse_changelog(body: Any, name: str) -> list[ChangelogEntry]:
    """Parse the changelog entries in the list `name` of a response."""
    return [
        ChangelogEntry(
            id=read_field(each, "id", str, JIRA),
            at=to_milliseconds(_read_time(each, "created")),
            by=_read_person(each.get("author")),
            items=tuple(read_objects(read_field(each, "items", list, JIRA), "items")),
        )
        for each in read_objects(read_field(body, name, list, JIRA), name)
    ]


def build_changes(key: str, history: Iterable[ChangelogEntry], start: int | None) -> list[FieldChange]:
    """Return the field changes since `start` (milliseconds); none if `start` is None."""
    return [
        FieldChange(
            id=entry.id,
            ticket=key,
            field=read_field(item, "field", str, JIRA),
            before=_read_text(item, "fromString"),
            after=_read_text(item, "toString"),
            at=from_milliseconds(entry.at),
            by=entry.by,
        )
        for entry in history
        if start is not None and entry.at >= start
        for item in entry.items
    ]


def parse_sprint(body: Mapping[str, Any]) -> Sprint:
    """Return the sprint of a board. Raise ExternalServiceFailed if a field is invalid."""
    id = body.get("id")
    if not isinstance(id, int | str) or isinstance(id, bool):
        raise _build_invalid_response("a sprint has no id")
    return Sprint(
        id=str(id),
        name=read_field(body, "name", str, JIRA),
        state=read_field(body, "state", str, JIRA).casefold(),
        starts_at=read_optional_time(body, "startDate"),
        ends_at=read_optional_time(body, "endDate"),
        completed_at=read_optional_time(body, "completeDate"),
        goal=str(body.get("goal") or ""),
    )


def parse_milestone(body: Mapping[str, Any]) -> Milestone:
    """Return the milestone of a version of the project."""
    return Milestone(
        name=read_field(body, "name", str, JIRA),
        due_at=read_optional_time(body, "releaseDate"),
        is_done=body.get("released") is True,
        notes=str(body.get("description") or ""),
    )


def read_objects(body: Any, what: str) -> list[dict[str, Any]]:
    """Return the list if all its entries are objects, else raise ExternalServiceFailed; `what` names it."""
    if not isinstance(body, list) or not all(isinstance(each, dict) for each in body):
        raise _build_invalid_response(f"expected {what} as a list of objects")
    return body


def read_optional_time(body: Mapping[str, Any], name: str) -> datetime | None:
    """Return the time in the named field, or None if it is absent or empty."""
    return None if body.get(name) in (None, "") else _read_time(body, name)


# --- parts of an issue --------------------------------------------------------------------------------------


def parse_stage(status: Mapping[str, Any]) -> TicketStage:
    """Return the stage of a status by its category; `to_do` without a category."""
    key = read_field(read_field(status, "statusCategory", dict, JIRA), "key", str, JIRA)
    if key != NO_CATEGORY and key not in STAGES:
        raise _build_invalid_response(f"unknown status category {key!r}")
    return STAGES.get(key, TicketStage.to_do)


def _find_blocked_reason(issue_fields: Mapping[str, Any], fields: CustomFields, status: str) -> str | None:
    """Return why a ticket is blocked, or None if it is not.

    The reason is a flag, its status, or a linked issue that is not done.
    """
    for id in fields.flagged:
        if flags := [_read_name(each, "value") or "Impediment" for each in _read_list(issue_fields.get(id))]:
            return f"Flagged: {', '.join(flags)}"
    if "blocked" in status.casefold():
        return f"Its status is {status}"
    waits = [each for link in _read_list(issue_fields.get("issuelinks")) if (each := _find_blocker(link))]
    return f"Blocked by {', '.join(waits)}" if waits else None


def _find_blocker(link: Any) -> str | None:
    """Return the key of the other issue of an "is blocked by" link while that issue is not done."""
    other = _read_object(link, "inwardIssue")
    if not other or "blocked by" not in str(_read_object(link, "type").get("inward", "")).casefold():
        return None
    category = _read_object(_read_object(_read_object(other, "fields"), "status"), "statusCategory")
    return None if category.get("key") == "done" else str(other.get("key") or "another ticket")


def _parse_points(issue_fields: Mapping[str, Any], fields: CustomFields) -> Decimal | None:
    """Return the value of the first points field that has one, or None."""
    for id in fields.points:
        value = issue_fields.get(id)
        if value is None:
            continue
        try:
            points = Decimal(str(value))
        except InvalidOperation as error:
            raise _build_invalid_response(f"expected {id} as a number") from error
        if isinstance(value, bool) or not points.is_finite():
            raise _build_invalid_response(f"expected {id} as a number")
        return points
    return None


def _choose_sprint(issue_fields: Mapping[str, Any], fields: CustomFields) -> str | None:
    """Return the name of the ticket's sprint: an active one, else a future one, else the last closed one."""
    sprints = [
        _parse_ticket_sprint(each) for id in fields.sprint for each in _read_list(issue_fields.get(id))
    ]
    for state in SPRINT_STATES:
        if names := [name for name, its_state in sprints if its_state == state]:
            return names[-1]
    return None


def _parse_ticket_sprint(value: Any) -> tuple[str, str]:
    """Return the name and state of a sprint in an issue, which is an object or the text of a Java object."""
    if isinstance(value, str) and (found := SPRINT_PATTERN.search(value)):
        return found["name"], found["state"].casefold()
    if not isinstance(value, dict):
        raise _build_invalid_response("expected a sprint of an issue as an object")
    return read_field(value, "name", str, JIRA), read_field(value, "state", str, JIRA).casefold()


def _choose_milestone(versions: Any) -> str | None:
    """Return the name of the ticket's version; of several, the unreleased one that is due first."""
    named = [each for each in _read_list(versions) if _read_name(each)]
    open_ones = [each for each in named if each.get("released") is not True] or named
    ordered = sorted(open_ones, key=lambda each: str(each.get("releaseDate") or "9999"))
    return _read_name(ordered[0]) if ordered else None


def _has_criteria(issue_fields: Mapping[str, Any], fields: CustomFields, text: str) -> bool:
    """Return whether a criteria field has text, or the description states criteria."""
    return any(to_plain_text(issue_fields.get(id)) for id in fields.criteria) or has_criteria(text)


def _find_start_time(
    stage: TicketStage, history: Sequence[ChangelogEntry], stages: Mapping[str, TicketStage]
) -> datetime | None:
    """Return when work first began; None if it never did or the ticket is in to-do."""
    begun = [at for at, to in _list_moves(history, stages) if to is TicketStage.in_progress]
    return from_milliseconds(min(begun)) if begun and stage is not TicketStage.to_do else None


def _find_resolution_time(
    issue_fields: Mapping[str, Any],
    stage: TicketStage,
    history: Sequence[ChangelogEntry],
    stages: Mapping[str, TicketStage],
) -> datetime | None:
    """Return when a done ticket was resolved, or else last moved to a done status."""
    if stage is not TicketStage.done:
        return None
    # Without a resolution in the workflow, only the move to the last status shows the time.
    ended = [at for at, to in _list_moves(history, stages) if to is TicketStage.done]
    return read_optional_time(issue_fields, "resolutiondate") or (
        from_milliseconds(max(ended)) if ended else None
    )


def _list_moves(
    history: Sequence[ChangelogEntry], stages: Mapping[str, TicketStage]
) -> list[tuple[int, TicketStage]]:
    """Return the time (milliseconds) and the new stage of every status change."""
    return [
        (entry.at, stage)
        for entry in history
        for item in entry.items
        if item.get("field") == "status" and (stage := stages.get(str(item.get("to"))))
    ]


# --- values -------------------------------------------------------------------------------------------------


def _read_time(body: Mapping[str, Any], name: str) -> datetime:
    """Parse a time with its offset. Raise ExternalServiceFailed if it is invalid.

    A date alone is midnight UTC; a number is the time since 1970, as in bulk responses.
    """
    value = body.get(name)
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return from_milliseconds(value * 1000 if value < SECONDS_BELOW else value)
        parsed = datetime.fromisoformat(value)  # type: ignore[arg-type]
        if parsed.tzinfo is None and len(str(value)) > len("2026-02-04"):
            raise ValueError("no offset")
        if not FIRST_YEAR <= parsed.year <= LAST_YEAR:
            raise ValueError("year out of range")
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise _build_invalid_response(f"expected {name} as a time, got {str(value)[:40]!r}") from error


def _read_person(value: Any) -> str | None:
    """Return the display name or the name of a user object, or None."""
    return _read_name(value, "displayName") or _read_name(value) or None


def _read_name(value: Any, member_name: str = "name") -> str:
    """Return the named text of an object, or an empty text."""
    found = value.get(member_name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _read_text(item: Mapping[str, Any], name: str) -> str | None:
    """Return the named value as text, truncated, or None."""
    value = item.get(name)
    return None if value is None else str(value)[:MAX_TEXT_CHARS]


def _read_object(value: Any, name: str) -> dict[str, Any]:
    """Return the named object, or an empty one if there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _read_list(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def _build_invalid_response(why: str) -> ExternalServiceFailed:
    return ExternalServiceFailed(f"Invalid response from {JIRA}: {why}.", may_be_done=False)
