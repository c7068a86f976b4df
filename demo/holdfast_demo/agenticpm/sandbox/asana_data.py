"""The data of the Asana sandbox in memory: tasks, and the stories and events that each edit creates.

Edits use the names that people use (`section`, `due_on`, `assignee`, `Story points` …). The seed is a small
invented project.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

from pydantic import ConfigDict, Field
from starlette.requests import Request

from holdfast.core.errors import InvalidRequest
from holdfast.web.sandbox_faults import ControlBody

Json = dict[str, Any]

ME: Final[Json] = {"gid": "7001", "resource_type": "user", "name": "The agent"}
PERSON: Final[Json] = {"gid": "7002", "resource_type": "user", "name": "Ines Okafor"}
PROJECT: Final = "1200"
CUSTOM_KINDS: Final = {
    "Story points": "number",
    "Priority": "enum",
    "Blocked": "enum",
    "Blocker": "text",
    "Sprint": "enum",
}
PLAIN_FIELDS: Final = ("name", "notes", "due_on", "completed", "resource_subtype")

SEED: Final[Json] = {
    "project": PROJECT,
    "name": "Harbour ferry tickets",
    "sections": ["To do", "In progress", "Blocked", "Done"],
    "tasks": [
        {
            "name": "Sell a day pass at the pier",
            "notes": "A guest buys at the machine.\n\nAcceptance criteria: a receipt is printed.",
            "section": "To do",
            "Story points": 3,
            "Priority": "High",
            "Sprint": "Sprint 1",
        },
        {
            "name": "Show delays on the board",
            "section": "In progress",
            "assignee": "Ines Okafor",
            "due_on": "2026-03-20",
            "Story points": 5,
            "Sprint": "Sprint 1",
        },
        {
            "name": "Refund a cancelled crossing",
            "section": "Blocked",
            "Blocker": "The bank has not sent its keys",
            "Priority": "Critical",
            "Story points": 8,
        },
        {"name": "Print the timetable", "section": "Done", "completed": True, "Story points": 1},
        {"name": "Pilot at the north pier", "resource_subtype": "milestone", "due_on": "2026-04-30"},
    ],
}


class TaskValues(ControlBody):
    """Values of a task by the names that people use. Only those that are given are set."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)

    name: str = ""
    notes: str = ""
    section: str = ""
    due_on: str | None = None
    completed: bool = False
    resource_subtype: str = "default_task"
    assignee: str | None = None
    tags: list[str] = Field(default_factory=list)
    story_points: float | None = Field(default=None, alias="Story points")
    priority: str | None = Field(default=None, alias="Priority")
    blocked: str | None = Field(default=None, alias="Blocked")
    blocker: str | None = Field(default=None, alias="Blocker")
    sprint: str | None = Field(default=None, alias="Sprint")

    def to_values(self) -> Json:
        """Return the given values by these names."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class EditBody(TaskValues):
    """Changed values of a task. With the project None it leaves its project."""

    project: None = None


class TaskBody(TaskValues):
    """A new task of a project."""

    project: str


class SeedBody(ControlBody):
    """A new project with its sections and tasks."""

    project: str = Field(min_length=1)
    name: str
    sections: list[str] = Field(min_length=1)
    tasks: list[TaskValues] = Field(default_factory=list)


class AsanaData:
    """The data, in memory. `now` returns the time in Asana's format."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        self._gids = count(50_001)
        self.projects: dict[str, Json] = {}
        self.tasks: dict[str, Json] = {}
        self.events: dict[str, list[Json]] = defaultdict(list)

    # --- edits ----------------------------------------------------------------------------------------------

    def seed(self, seed: Json) -> list[str]:
        """Create a project with its sections and tasks. Return the gids of the tasks."""
        gid = seed["project"]
        sections = [self._make_resource("section", name) for name in seed["sections"]]
        self.projects[gid] = {"gid": gid, "name": seed["name"], "sections": sections}
        return [self.create(gid, **task) for task in seed.get("tasks", ())]

    def create(self, project: str, **values: Any) -> str:
        """Create a task in the project's first section, with an event, and return its gid."""
        if project not in self.projects:
            raise InvalidRequest(f"Invalid project {project!r}: expected one of {', '.join(self.projects)}.")
        self._check_section(project, values)
        gid, now = self._next_gid(), self._now()
        self.tasks[gid] = {
            "gid": gid,
            "project": project,
            "section": self.projects[project]["sections"][0]["gid"],
            "name": "",
            "notes": "",
            "resource_subtype": "default_task",
            "completed": False,
            "completed_at": None,
            "created_at": now,
            "modified_at": now,
            "due_on": None,
            "assignee": None,
            "tags": [],
            "custom": {},
            "stories": [],
        }
        self._apply_values(gid, values)
        self._add_event(project, "added", "task", gid)
        return gid

    def edit(self, gid: str, values: Json, by: Json = PERSON) -> None:
        """Change values of a task, each with its story, and add an event. Equal values change nothing."""
        task = self.tasks[gid]
        self._check_section(values.get("project", task["project"]), values)
        before = {**task, "custom": dict(task["custom"])}
        self._apply_values(gid, values)
        stories = [each for name in values if (each := self._build_story(before, task, name)) is not None]
        if before == {**task, "custom": dict(task["custom"])}:
            return
        task["modified_at"] = self._now()
        for story in stories:
            self._add_story(gid, {"type": "system", "created_by": by, **story})
        home = task["project"] or before["project"]
        self._add_event(home, "changed" if task["project"] else "removed", "task", gid)

    def add_comment(self, gid: str, text: str, by: Json = ME) -> Json:
        """Add a comment by a user and return its story."""
        values = {"type": "comment", "resource_subtype": "comment_added", "text": text, "created_by": by}
        self.tasks[gid]["modified_at"] = self._now()
        return self._add_story(gid, values)

    def delete(self, gid: str) -> None:
        """Delete a task, with an event, if it exists."""
        gone = self.tasks.pop(gid, None)
        if gone is not None and gone["project"]:
            self._add_event(gone["project"], "deleted", "task", gid)

    def rename_section(self, project: str, before: str, after: str) -> None:
        """Rename a section of the project, with an event."""
        for section in self.projects[project]["sections"]:
            if section["name"] == before:
                section["name"] = after
                self._add_event(project, "changed", "section", section["gid"])

    def find_project_of_section(self, section: str) -> str | None:
        """Return the gid of the project that has the section, or None."""
        for gid, project in self.projects.items():
            if any(each["gid"] == section for each in project["sections"]):
                return gid
        return None

    # --- API objects ----------------------------------------------------------------------------------------

    def to_api_task(self, task: Json) -> Json:
        """Return a task as the API does, with memberships and custom fields."""
        custom = [self._build_custom_field(name, task["custom"].get(name)) for name in CUSTOM_KINDS]
        home = task["project"]
        memberships = (
            [
                {
                    "project": {"gid": home, "resource_type": "project"},
                    "section": self._get_section(home, task["section"]),
                }
            ]
            if home
            else []
        )
        return {
            **{
                name: value
                for name, value in task.items()
                if name not in ("custom", "stories", "project", "section")
            },
            "resource_type": "task",
            "due_at": None,
            "memberships": memberships,
            "custom_fields": custom,
            "permalink_url": f"https://app.asana.com/0/{home or 0}/{task['gid']}",
        }

    def to_api_project(self, project: Json) -> Json:
        return {"gid": project["gid"], "resource_type": "project", "name": project["name"]}

    # --- parts ----------------------------------------------------------------------------------------------

    def _check_section(self, project: str | None, values: Json) -> None:
        """Raise `InvalidRequest` for a section that the project does not have."""
        sections = self.projects[project]["sections"] if project else []
        known = [text for each in sections for text in (each["gid"], each["name"])]
        if "section" in values and values["section"] not in known:
            raise InvalidRequest(
                f"Invalid section {values['section']!r}: expected one of {', '.join(known) or 'none'}."
            )

    def _apply_values(self, gid: str, values: Json) -> None:
        """Set values of a task without stories or events. Raise KeyError for an unknown name."""
        task = self.tasks[gid]
        for name, value in values.items():
            if name in CUSTOM_KINDS:
                task["custom"][name] = value
            elif name == "section":
                task["section"] = self._get_section(task["project"], value)["gid"]
            elif name == "assignee":
                task["assignee"] = None if value is None else {**PERSON, "name": value}
            elif name == "tags":
                task["tags"] = [
                    {"gid": f"tag-{each}", "resource_type": "tag", "name": each} for each in value
                ]
            elif name == "project":
                task["project"] = value
            elif name in PLAIN_FIELDS:
                task[name] = value
            else:
                raise KeyError(name)
        if "completed" in values:
            task["completed_at"] = self._now() if task["completed"] else None

    def _build_story(self, before: Json, after: Json, name: str) -> Json | None:
        """Build the story of one changed value, or None if it did not change or Asana has no story for it."""
        if name in CUSTOM_KINDS:
            return self._build_custom_field_story(name, before["custom"].get(name), after["custom"].get(name))
        if before[name] == after[name]:
            return None
        if name == "section":
            old, new = (self._get_section(after["project"], each["section"]) for each in (before, after))
            return {"resource_subtype": "section_changed", "old_section": old, "new_section": new}
        if name == "due_on":
            dates = [{"due_on": each["due_on"]} if each["due_on"] else None for each in (before, after)]
            return {"resource_subtype": "due_date_changed", "old_dates": dates[0], "new_dates": dates[1]}
        if name == "assignee":
            subtype = "assigned" if after["assignee"] else "unassigned"
            return {"resource_subtype": subtype, "assignee": after["assignee"] or before["assignee"]}
        if name == "completed":
            return {"resource_subtype": "marked_complete" if after["completed"] else "marked_incomplete"}
        if name == "name":
            return {"resource_subtype": "name_changed", "old_name": before["name"], "new_name": after["name"]}
        return {"resource_subtype": "notes_changed"} if name == "notes" else None

    def _build_custom_field_story(self, name: str, old: Any, new: Any) -> Json | None:
        """Build the story of a changed custom field, or None if it did not change."""
        if old == new:
            return None
        kind = CUSTOM_KINDS[name]
        values = [_build_option(each) if kind == "enum" else each for each in (old, new)]
        field = {"gid": f"field-{name}", "resource_type": "custom_field", "name": name}
        return {
            "resource_subtype": f"{kind}_custom_field_changed",
            "custom_field": field,
            f"old_{kind}_value": values[0],
            f"new_{kind}_value": values[1],
        }

    def _build_custom_field(self, name: str, value: Any) -> Json:
        """Return a custom field of a task as the API does."""
        kind = CUSTOM_KINDS[name]
        return {
            "gid": f"field-{name}",
            "resource_type": "custom_field",
            "resource_subtype": kind,
            "name": name,
            "display_value": None if value is None else str(value),
            f"{kind}_value": _build_option(value) if kind == "enum" else value,
        }

    def _get_section(self, project: str, wanted: str) -> Json:
        """Return a section of the project by its gid or name. Raise KeyError if there is none."""
        for section in self.projects.get(project, {"sections": []})["sections"]:
            if wanted in (section["gid"], section["name"]):
                return dict(section)
        raise KeyError(wanted)

    def _add_story(self, gid: str, values: Json) -> Json:
        """Add a story to a task, with an event, and return it."""
        story = {
            "gid": self._next_gid(),
            "resource_type": "story",
            "created_at": self._now(),
            "text": "",
            **values,
        }
        self.tasks[gid]["stories"].append(story)
        if home := self.tasks[gid]["project"]:
            self._add_event(home, "added", "story", story["gid"], parent=gid)
        return story

    def _add_event(self, project: str, action: str, kind: str, gid: str, parent: str | None = None) -> None:
        """Add an event about a task, story or section; its parent is a task or the project."""
        above = (
            {"gid": parent, "resource_type": "task"}
            if parent
            else {"gid": project, "resource_type": "project"}
        )
        event = {
            "action": action,
            "type": kind,
            "resource": {"gid": gid, "resource_type": kind},
            "parent": above,
        }
        self.events[project].append({**event, "user": PERSON, "created_at": self._now()})

    def _make_resource(self, kind: str, name: str) -> Json:
        return {"gid": self._next_gid(), "resource_type": kind, "name": name}

    def _next_gid(self) -> str:
        return str(next(self._gids))


def select_fields(item: Json, request: Request) -> Json:
    """Return the fields that `opt_fields` requests, and those always present.

    Without `opt_fields`, return the compact form: gid, type and name.
    """
    asked = request.query_params.get("opt_fields", "name")
    found: Json = _select_paths(item, [each.split(".") for each in asked.split(",")])
    return found


def _select_paths(value: Any, paths: Iterable[list[str]]) -> Any:
    """Return the parts of a value on these paths, with gid and type at every level."""
    if isinstance(value, list):
        return [_select_paths(each, paths) for each in value]
    if not isinstance(value, dict):
        return value
    below: dict[str, list[list[str]]] = {"gid": [], "resource_type": []}
    for head, *rest in paths:
        below.setdefault(head, []).extend([rest] if rest else [])
    return {name: _select_paths(value[name], rest) for name, rest in below.items() if name in value}


def _build_option(value: Any) -> Json | None:
    return (
        None if value is None else {"gid": f"option-{value}", "resource_type": "enum_option", "name": value}
    )
