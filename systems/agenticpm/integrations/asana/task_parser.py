"""Asana response schemas and parsers: tasks become tickets or milestones, stories become field changes.

Asana has no statuses: the section of a task is its status, and the section's name gives the stage. Points,
priority, sprint, milestone and blockers are custom fields, found by name. A milestone is a task with its own
subtype. Optional values may be missing or null. A value of another type than declared fails the whole
response and names its task: a skipped task would look deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import Field, StrictBool, ValidationInfo, field_validator

from agenticpm.domain.reading.criteria import has_criteria
from agenticpm.domain.tickets import FieldChange, Milestone, Priority, Ticket, TicketStage
from agenticpm.integrations.response_models import ResponseModel, ResponseTime

MAX_TEXT_CHARS: Final = 8000
TASK_FIELDS: Final = (
    "name,notes,resource_subtype,completed,completed_at,created_at,modified_at,due_on,due_at,assignee.name,"
    "tags.name,permalink_url,memberships.project.gid,memberships.section.gid,memberships.section.name,"
    "custom_fields.name,custom_fields.display_value,custom_fields.number_value"
)
STORY_FIELDS: Final = (
    "type,resource_subtype,created_at,created_by.name,text,old_section.name,new_section.name,"
    "old_name,new_name,"
    "old_dates.due_on,old_dates.due_at,new_dates.due_on,new_dates.due_at,assignee.name,dependency.name,"
    "custom_field.name,old_number_value,new_number_value,old_text_value,new_text_value,old_enum_value.name,"
    "new_enum_value.name"
)
NO_SECTION: Final = "Untitled section"
MILESTONE: Final = "milestone"
# Names of custom fields in lower case, and the field name under which changes are reported.
CUSTOM_FIELD_NAMES: Final = {
    **dict.fromkeys(("points", "story points", "estimate", "estimated points"), "points"),
    **dict.fromkeys(("blocked", "flagged", "impediment"), "blocked"),
    **dict.fromkeys(("blocked reason", "blocked by", "blocker"), "blocked_reason"),
    **{name: name for name in ("priority", "sprint", "milestone")},
}
PRIORITIES: Final = {
    **dict.fromkeys(("highest", "blocker", "critical", "urgent", "p0", "p1"), Priority.critical),
    **dict.fromkeys(("high", "major", "p2"), Priority.high),
    **dict.fromkeys(("low", "lowest", "minor", "trivial", "p4", "p5"), Priority.low),
}
# Whole words in a section's name; the first match counts. Without a match, work has not begun.
SECTION_STAGES: Final = (
    (
        re.compile(r"\b(not (started|done)|to[ -]?do|backlog|ready|next|planned)\b", re.IGNORECASE),
        TicketStage.to_do,
    ),
    (
        re.compile(r"\b(done|complete|completed|closed|shipped|released|finished)\b", re.IGNORECASE),
        TicketStage.done,
    ),
    (
        re.compile(
            r"\b(doing|in[ -]progress|started|active|wip|review|testing|qa|blocked|on hold|waiting)\b",
            re.IGNORECASE,
        ),
        TicketStage.in_progress,
    ),
)
BLOCKED_WORDS: Final = re.compile(r"\b(blocked|on hold)\b", re.IGNORECASE)
NOT_BLOCKED_VALUES: Final = frozenset({"", "no", "false", "0", "none", "not blocked", "unblocked"})


class NamedResource(ResponseModel):
    """Another resource: a person, section, tag or project. Its name may be hidden from us."""

    gid: str = Field(min_length=1)
    name: str | None = None


class Membership(ResponseModel):
    project: NamedResource | None = None
    section: NamedResource | None = None


class CustomField(ResponseModel):
    name: str | None = None
    display_value: str | None = None
    number_value: Decimal | None = Field(default=None, allow_inf_nan=False)


class Dates(ResponseModel):
    due_on: date | None = None
    due_at: ResponseTime | None = None


class Task(ResponseModel):
    gid: str = Field(min_length=1)
    name: str
    notes: str = ""
    resource_subtype: str = "default_task"
    completed: StrictBool
    completed_at: ResponseTime | None = None
    created_at: ResponseTime
    modified_at: ResponseTime
    due_on: date | None = None
    due_at: ResponseTime | None = None
    assignee: NamedResource | None = None
    tags: tuple[NamedResource, ...] = ()
    permalink_url: str | None = None
    memberships: list[Membership]
    custom_fields: tuple[CustomField, ...] = ()

    @field_validator("notes", "resource_subtype", "tags", "custom_fields", mode="before")
    @classmethod
    def _use_default(cls, value: Any, info: ValidationInfo) -> Any:
        """Replace null by the field's default."""
        return cls.model_fields[info.field_name or ""].default if value is None else value

    def get_section(self, project: str) -> NamedResource | None:
        """Return the task's section in a project (by gid); None if the task is not in that project."""
        for each in self.memberships:
            if each.project is not None and each.project.gid == project:
                return each.section or NamedResource(gid=project, name=NO_SECTION)
        return None

    def find_custom_field(self, wanted: str) -> CustomField | None:
        """Return the first custom field with this canonical name that has a value, else None."""
        for each in self.custom_fields:
            if CUSTOM_FIELD_NAMES.get((each.name or "").strip().casefold()) == wanted and _get_text(each):
                return each
        return None


class Story(ResponseModel):
    """An event in the life of a task: a comment, or a change identified by its subtype."""

    gid: str = Field(min_length=1)
    type: Literal["comment", "system"]
    resource_subtype: str
    created_at: ResponseTime
    created_by: NamedResource | None = None
    text: str | None = None
    old_section: NamedResource | None = None
    new_section: NamedResource | None = None
    old_name: str | None = None
    new_name: str | None = None
    old_dates: Dates | None = None
    new_dates: Dates | None = None
    assignee: NamedResource | None = None
    dependency: NamedResource | None = None
    custom_field: NamedResource | None = None
    old_number_value: Decimal | None = None
    new_number_value: Decimal | None = None
    old_text_value: str | None = None
    new_text_value: str | None = None
    old_enum_value: NamedResource | None = None
    new_enum_value: NamedResource | None = None


# --- tickets ------------------------------------------------------------------------------------------------


def build_ticket(task: Task, section: NamedResource, stories: Sequence[Story]) -> Ticket:
    """Build the ticket of a task. `section` is its section in the project, `stories` its known stories."""
    status = section.name or NO_SECTION
    stage = TicketStage.done if task.completed else parse_stage(status)
    reason = None if stage is TicketStage.done else _find_blocked_reason(task, status)
    points, priority = task.find_custom_field("points"), task.find_custom_field("priority")
    return Ticket(
        id=task.gid,
        key=task.gid,
        title=task.name,
        description=task.notes[:MAX_TEXT_CHARS],
        status=status,
        stage=stage,
        is_blocked=reason is not None,
        blocked_reason=reason,
        priority=PRIORITIES.get(_get_text(priority).casefold(), Priority.medium),
        points=None if points is None else points.number_value,
        assignee=task.assignee.name if task.assignee else None,
        sprint=_get_text(task.find_custom_field("sprint")) or None,
        milestone=_get_text(task.find_custom_field("milestone")) or None,
        labels=tuple(each.name for each in task.tags if each.name),
        has_criteria=has_criteria(task.notes),
        created_at=task.created_at,
        updated_at=task.modified_at,
        started_at=_find_start_time(task, stage, status, stories),
        resolved_at=_find_resolution_time(task, stage, stories),
        due_at=get_due_time(task),
        url=task.permalink_url if (task.permalink_url or "").startswith("https://") else None,
    )


def build_milestone(task: Task, section: NamedResource) -> Milestone:
    """Build the milestone of a task with the subtype milestone. A section of done tasks makes it done too."""
    is_done = task.completed or parse_stage(section.name or "") is TicketStage.done
    return Milestone(
        name=task.name, due_at=get_due_time(task), is_done=is_done, notes=task.notes[:MAX_TEXT_CHARS]
    )


def parse_stage(section: str) -> TicketStage:
    """Return the stage that a section's name says; `to_do` if it says none."""
    for words, stage in SECTION_STAGES:
        if words.search(section):
            return stage
    return TicketStage.to_do


def get_due_time(dates: Task | Dates) -> datetime | None:
    """Return the due time. A date without a time is midnight UTC, as for every tracker."""
    if dates.due_at is not None or dates.due_on is None:
        return dates.due_at
    return datetime.combine(dates.due_on, time(), UTC)


def _find_blocked_reason(task: Task, status: str) -> str | None:
    """Return why a task is blocked, from a custom field, its section or a tag; None if it is not."""
    blocked = _get_text(task.find_custom_field("blocked"))
    reason = _get_text(task.find_custom_field("blocked_reason"))
    if blocked.casefold() not in NOT_BLOCKED_VALUES:
        return reason or f"Marked as blocked: {blocked}"
    if BLOCKED_WORDS.search(status):
        return reason or f"Its section is {status}"
    tags = [each.name for each in task.tags if each.name and BLOCKED_WORDS.search(each.name)]
    return (reason or f"Tagged {tags[0]}") if tags else None


def _find_start_time(
    task: Task, stage: TicketStage, status: str, stories: Sequence[Story]
) -> datetime | None:
    """Return when work first began, or None if that is unknown or the task is in to-do.

    A task created in progress began when it was created.
    """
    if stage is TicketStage.to_do:
        return None
    moves = _list_moves(stories)
    begun = [at for at, to in moves if to is TicketStage.in_progress]
    was_born_so = not moves and parse_stage(status) is TicketStage.in_progress
    return min(begun) if begun else (task.created_at if was_born_so else None)


def _find_resolution_time(task: Task, stage: TicketStage, stories: Sequence[Story]) -> datetime | None:
    """Return when a done task was completed, or last moved to a done section, or None."""
    if stage is not TicketStage.done:
        return None
    ended = [at for at, to in _list_moves(stories) if to is TicketStage.done]
    return task.completed_at or (max(ended) if ended else None)


def _list_moves(stories: Sequence[Story]) -> list[tuple[datetime, TicketStage]]:
    """Return the time and the new stage of every section change."""
    return [
        (each.created_at, parse_stage(each.new_section.name or ""))
        for each in stories
        if each.resource_subtype == "section_changed" and each.new_section is not None
    ]


def _get_text(custom: CustomField | None) -> str:
    """Return the displayed value of a custom field, or an empty text."""
    return (custom.display_value or "").strip() if custom else ""


# --- changes ------------------------------------------------------------------------------------------------


def build_changes(ticket: str, stories: Iterable[Story], since: datetime) -> list[FieldChange]:
    """Return the field changes in the stories since a time. Comments and other stories are skipped."""
    return [
        FieldChange(
            id=each.gid,
            ticket=ticket,
            field=change[0],
            before=_truncate(change[1]),
            after=_truncate(change[2]),
            at=each.created_at,
            by=each.created_by.name if each.created_by else None,
        )
        for each in stories
        if each.created_at >= since and (change := _parse_change(each)) is not None
    ]


def _parse_change(story: Story) -> tuple[str, Any, Any] | None:
    """Return the field, its value before and its value after; None if the story changes no field."""
    parse = _CHANGE_PARSERS.get(story.resource_subtype)
    return parse(story) if parse else None


def _get_field_name(story: Story) -> str:
    """Return the canonical name of the story's custom field, or its own name."""
    name = (_get_name(story.custom_field) or "custom field").strip()
    return CUSTOM_FIELD_NAMES.get(name.casefold(), name)


def _get_name(named: NamedResource | None) -> str | None:
    return None if named is None else named.name


def _format_due(dates: Dates | None) -> str | None:
    """Format the due date, or the due time if there is no date; None if there is neither."""
    if dates is None or (due := get_due_time(dates)) is None:
        return None
    return (dates.due_on or due).isoformat()


def _truncate(value: Any) -> str | None:
    return None if value is None else str(value)[:MAX_TEXT_CHARS]


# By subtype. For assignees Asana sends one side only, and for notes only that they changed.
_CHANGE_PARSERS: Final[Mapping[str, Callable[[Story], tuple[str, Any, Any]]]] = {
    "section_changed": lambda story: ("status", _get_name(story.old_section), _get_name(story.new_section)),
    "due_date_changed": lambda story: ("due", _format_due(story.old_dates), _format_due(story.new_dates)),
    "assigned": lambda story: ("assignee", None, _get_name(story.assignee)),
    "unassigned": lambda story: ("assignee", _get_name(story.assignee), None),
    "name_changed": lambda story: ("title", story.old_name, story.new_name),
    "notes_changed": lambda _: ("description", None, None),
    "marked_complete": lambda _: ("completed", "false", "true"),
    "marked_incomplete": lambda _: ("completed", "true", "false"),
    "dependency_added": lambda story: ("dependency", None, _get_name(story.dependency)),
    "dependency_removed": lambda story: ("dependency", _get_name(story.dependency), None),
    "enum_custom_field_changed": lambda story: (
        _get_field_name(story),
        _get_name(story.old_enum_value),
        _get_name(story.new_enum_value),
    ),
    "number_custom_field_changed": lambda story: (
        _get_field_name(story),
        story.old_number_value,
        story.new_number_value,
    ),
    "text_custom_field_changed": lambda story: (
        _get_field_name(story),
        story.old_text_value,
        story.new_text_value,
    ),
}
