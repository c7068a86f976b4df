"""Tasks of Asana as tickets, their stories as changes of fields, and what we ask for of both.

Asana has no statuses: the section of a task is its status, and the name of the section says where that stands. Points,
priority, sprint, milestone and what blocks a task are custom fields, known by their names. A milestone is a task of its
own kind. What may be absent in Asana is absent here, and null is absence. What is of another kind than declared is nonsense,
and is named with its task: a task that is left out would be one that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import Field, StrictBool, ValidationInfo, field_validator

from agenticpm.connectors.shapes import Moment, Shape
from agenticpm.tickets import FieldChange, Milestone, Priority, Stage, Ticket

TEXT_CHARS_MAX: Final = 8000
TASK_FIELDS: Final = (
    "name,notes,resource_subtype,completed,completed_at,created_at,modified_at,due_on,due_at,assignee.name,"
    "tags.name,permalink_url,memberships.project.gid,memberships.section.gid,memberships.section.name,"
    "custom_fields.name,custom_fields.display_value,custom_fields.number_value"
)
STORY_FIELDS: Final = (
    "type,resource_subtype,created_at,created_by.name,text,old_section.name,new_section.name,old_name,new_name,"
    "old_dates.due_on,old_dates.due_at,new_dates.due_on,new_dates.due_at,assignee.name,dependency.name,"
    "custom_field.name,old_number_value,new_number_value,old_text_value,new_text_value,old_enum_value.name,"
    "new_enum_value.name"
)
NO_SECTION: Final = "Untitled section"
MILESTONE: Final = "milestone"
CRITERIA: Final = re.compile(r"^\W*acceptance criteria\b", re.IGNORECASE | re.MULTILINE)
# What custom fields are called, in small letters; and by which name their changes are told.
CUSTOM_NAMES: Final = {
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
# Whole words in the name of a section; the first that fits. Whatever fits none has not been begun.
SECTION_STAGES: Final = (
    (
        re.compile(r"\b(not (started|done)|to[ -]?do|backlog|ready|next|planned)\b", re.IGNORECASE),
        Stage.to_do,
    ),
    (
        re.compile(r"\b(done|complete|completed|closed|shipped|released|finished)\b", re.IGNORECASE),
        Stage.done,
    ),
    (
        re.compile(
            r"\b(doing|in[ -]progress|started|active|wip|review|testing|qa|blocked|on hold|waiting)\b",
            re.IGNORECASE,
        ),
        Stage.in_progress,
    ),
)
IS_BLOCKED: Final = re.compile(r"\b(blocked|on hold)\b", re.IGNORECASE)
NO: Final = frozenset({"", "no", "false", "0", "none", "not blocked", "unblocked"})


class Named(Shape):
    """Another resource: a person, a section, a tag, a project. A name may be hidden from us."""

    gid: str = Field(min_length=1)
    name: str | None = None


class Membership(Shape):
    project: Named | None = None
    section: Named | None = None


class CustomField(Shape):
    name: str | None = None
    display_value: str | None = None
    number_value: Decimal | None = Field(default=None, allow_inf_nan=False)


class Dates(Shape):
    due_on: date | None = None
    due_at: Moment | None = None


class Task(Shape):
    gid: str = Field(min_length=1)
    name: str
    notes: str = ""
    resource_subtype: str = "default_task"
    completed: StrictBool
    completed_at: Moment | None = None
    created_at: Moment
    modified_at: Moment
    due_on: date | None = None
    due_at: Moment | None = None
    assignee: Named | None = None
    tags: tuple[Named, ...] = ()
    permalink_url: str | None = None
    memberships: list[Membership]
    custom_fields: tuple[CustomField, ...] = ()

    @field_validator("notes", "resource_subtype", "tags", "custom_fields", mode="before")
    @classmethod
    def _absent(cls, value: Any, info: ValidationInfo) -> Any:
        return cls.model_fields[info.field_name or ""].default if value is None else value

    def section_in(self, project: str) -> Named | None:
        """Where it stands in a project; None where it is not in it at all."""
        for each in self.memberships:
            if each.project is not None and each.project.gid == project:
                return each.section or Named(gid=project, name=NO_SECTION)
        return None

    def custom(self, wanted: str) -> CustomField | None:
        """The custom field that is called so, if it has a value."""
        for each in self.custom_fields:
            if CUSTOM_NAMES.get((each.name or "").strip().casefold()) == wanted and _shown(each):
                return each
        return None


class Story(Shape):
    """What happened to a task: a comment, or a change that Asana tells by its subtype."""

    gid: str = Field(min_length=1)
    type: Literal["comment", "system"]
    resource_subtype: str
    created_at: Moment
    created_by: Named | None = None
    text: str | None = None
    old_section: Named | None = None
    new_section: Named | None = None
    old_name: str | None = None
    new_name: str | None = None
    old_dates: Dates | None = None
    new_dates: Dates | None = None
    assignee: Named | None = None
    dependency: Named | None = None
    custom_field: Named | None = None
    old_number_value: Decimal | None = None
    new_number_value: Decimal | None = None
    old_text_value: str | None = None
    new_text_value: str | None = None
    old_enum_value: Named | None = None
    new_enum_value: Named | None = None


# --- tickets -----------------------------------------------------------------------------------------------------


def ticket_of(task: Task, section: Named, stories: Sequence[Story]) -> Ticket:
    status = section.name or NO_SECTION
    stage = Stage.done if task.completed else stage_of(status)
    reason = None if stage is Stage.done else _blocked_by(task, status)
    points, priority = task.custom("points"), task.custom("priority")
    return Ticket(
        id=task.gid,
        key=task.gid,
        title=task.name,
        description=task.notes[:TEXT_CHARS_MAX],
        status=status,
        stage=stage,
        is_blocked=reason is not None,
        blocked_reason=reason,
        priority=PRIORITIES.get(_shown(priority).casefold(), Priority.medium),
        points=None if points is None else points.number_value,
        assignee=task.assignee.name if task.assignee else None,
        sprint=_shown(task.custom("sprint")) or None,
        milestone=_shown(task.custom("milestone")) or None,
        labels=tuple(each.name for each in task.tags if each.name),
        has_criteria=CRITERIA.search(task.notes) is not None,
        created_at=task.created_at,
        updated_at=task.modified_at,
        started_at=_started(task, stage, status, stories),
        resolved_at=_resolved(task, stage, stories),
        due_at=due_of(task),
        url=task.permalink_url if (task.permalink_url or "").startswith("https://") else None,
    )


def milestone_of(task: Task, section: Named) -> Milestone:
    is_done = task.completed or stage_of(section.name or "") is Stage.done
    return Milestone(name=task.name, due_at=due_of(task), is_done=is_done, notes=task.notes[:TEXT_CHARS_MAX])


def stage_of(section: str) -> Stage:
    for words, stage in SECTION_STAGES:
        if words.search(section):
            return stage
    return Stage.to_do


def due_of(dates: Task | Dates) -> datetime | None:
    """A day alone is its midnight in UTC, as with every tracker."""
    if dates.due_at is not None or dates.due_on is None:
        return dates.due_at
    return datetime.combine(dates.due_on, time(), UTC)


def _blocked_by(task: Task, status: str) -> str | None:
    """Why a task is blocked: a custom field, its section, or a tag."""
    blocked = _shown(task.custom("blocked"))
    reason = _shown(task.custom("blocked_reason"))
    if blocked.casefold() not in NO:
        return reason or f"Marked as blocked: {blocked}"
    if IS_BLOCKED.search(status):
        return reason or f"Its section is {status}"
    tags = [each.name for each in task.tags if each.name and IS_BLOCKED.search(each.name)]
    return (reason or f"Tagged {tags[0]}") if tags else None


def _started(task: Task, stage: Stage, status: str, stories: Sequence[Story]) -> datetime | None:
    """When work began first; a task that was put back has not begun, one that was born in progress began with its life."""
    if stage is Stage.to_do:
        return None
    moves = _moves(stories)
    begun = [at for at, to in moves if to is Stage.in_progress]
    was_born_so = not moves and stage_of(status) is Stage.in_progress
    return min(begun) if begun else (task.created_at if was_born_so else None)


def _resolved(task: Task, stage: Stage, stories: Sequence[Story]) -> datetime | None:
    if stage is not Stage.done:
        return None
    ended = [at for at, to in _moves(stories) if to is Stage.done]
    return task.completed_at or (max(ended) if ended else None)


def _moves(stories: Sequence[Story]) -> list[tuple[datetime, Stage]]:
    return [
        (each.created_at, stage_of(each.new_section.name or ""))
        for each in stories
        if each.resource_subtype == "section_changed" and each.new_section is not None
    ]


def _shown(custom: CustomField | None) -> str:
    return (custom.display_value or "").strip() if custom else ""


# --- changes -----------------------------------------------------------------------------------------------------


def changes_of(ticket: str, stories: Iterable[Story], since: datetime) -> list[FieldChange]:
    """What stories from a moment on tell of fields; comments and what no field stands for are left out."""
    return [
        FieldChange(
            id=each.gid,
            ticket=ticket,
            field=told[0],
            before=_cut(told[1]),
            after=_cut(told[2]),
            at=each.created_at,
            by=each.created_by.name if each.created_by else None,
        )
        for each in stories
        if each.created_at >= since and (told := _told(each)) is not None
    ]


def _told(story: Story) -> tuple[str, Any, Any] | None:
    """The field, before and after."""
    tells = _TOLD.get(story.resource_subtype)
    return tells(story) if tells else None


def _field(story: Story) -> str:
    name = (_name(story.custom_field) or "custom field").strip()
    return CUSTOM_NAMES.get(name.casefold(), name)


def _name(named: Named | None) -> str | None:
    return None if named is None else named.name


def _due(dates: Dates | None) -> str | None:
    if dates is None or (due := due_of(dates)) is None:
        return None
    return (dates.due_on or due).isoformat()


def _cut(value: Any) -> str | None:
    return None if value is None else str(value)[:TEXT_CHARS_MAX]


# By subtype. Of people and notes Asana tells only to whom, or that they changed.
_TOLD: Final[Mapping[str, Callable[[Story], tuple[str, Any, Any]]]] = {
    "section_changed": lambda story: ("status", _name(story.old_section), _name(story.new_section)),
    "due_date_changed": lambda story: ("due", _due(story.old_dates), _due(story.new_dates)),
    "assigned": lambda story: ("assignee", None, _name(story.assignee)),
    "unassigned": lambda story: ("assignee", _name(story.assignee), None),
    "name_changed": lambda story: ("title", story.old_name, story.new_name),
    "notes_changed": lambda _: ("description", None, None),
    "marked_complete": lambda _: ("completed", "false", "true"),
    "marked_incomplete": lambda _: ("completed", "true", "false"),
    "dependency_added": lambda story: ("dependency", None, _name(story.dependency)),
    "dependency_removed": lambda story: ("dependency", _name(story.dependency), None),
    "enum_custom_field_changed": lambda story: (
        _field(story),
        _name(story.old_enum_value),
        _name(story.new_enum_value),
    ),
    "number_custom_field_changed": lambda story: (
        _field(story),
        story.old_number_value,
        story.new_number_value,
    ),
    "text_custom_field_changed": lambda story: (_field(story), story.old_text_value, story.new_text_value),
}
