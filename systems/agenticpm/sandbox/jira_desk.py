"""What the Jira sandbox holds: projects, issues in the shape that Jira tells them, changelogs, comments, boards, versions.

`create`, `edit`, `link` and `delete` do what people do there. Each writes the changelog and `updated`, by the clock; two
changes of one issue are never of the same millisecond.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from agenticpm.connectors.adf import document, plain_text
from agenticpm.sandbox.jira_jql import Jql, JqlRefused
from holdfast.clock import Clock

Issue = dict[str, Any]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
POINTS: Final = "customfield_10016"
SPRINT: Final = "customfield_10020"
FLAGGED: Final = "customfield_10021"
CRITERIA: Final = "customfield_10031"
FIELDS: Final[tuple[dict[str, Any], ...]] = (
    *(
        {"id": each, "key": each, "name": each.capitalize(), "custom": False, "schema": {"type": "string"}}
        for each in (
            "summary",
            "description",
            "status",
            "priority",
            "labels",
            "assignee",
            "duedate",
            "updated",
        )
    ),
    {
        "id": POINTS,
        "key": POINTS,
        "name": "Story point estimate",
        "custom": True,
        "schema": {"type": "number"},
    },
    {
        "id": SPRINT,
        "key": SPRINT,
        "name": "Sprint",
        "custom": True,
        "schema": {"type": "array", "custom": "com.pyxis.greenhopper.jira:gh-sprint"},
    },
    {"id": FLAGGED, "key": FLAGGED, "name": "Flagged", "custom": True, "schema": {"type": "array"}},
    {
        "id": CRITERIA,
        "key": CRITERIA,
        "name": "Acceptance Criteria",
        "custom": True,
        "schema": {"type": "string"},
    },
)
CATEGORIES: Final = {"new": (2, "To Do"), "indeterminate": (4, "In Progress"), "done": (3, "Done")}
STATUSES: Final = (
    ("10000", "To Do", "new"),
    ("10001", "In Progress", "indeterminate"),
    ("10002", "In Review", "indeterminate"),
    ("10003", "Blocked", "indeterminate"),
    ("10004", "Done", "done"),
)
PRIORITIES: Final = {"Highest": "1", "High": "2", "Medium": "3", "Low": "4", "Lowest": "5"}
BLOCKS: Final = {"id": "10000", "name": "Blocks", "inward": "is blocked by", "outward": "blocks"}


class JiraDesk:
    """The state of a site. `people` are known by their display names."""

    def __init__(self, clock: Clock, zone: str) -> None:
        self.clock, self.zone = clock, ZoneInfo(zone)
        self.projects: dict[str, dict[str, Any]] = {}
        self.statuses: list[dict[str, Any]] = [_status(*each) for each in STATUSES]
        self.fields: list[dict[str, Any]] = [dict(each) for each in FIELDS]
        self.issues: dict[str, Issue] = {}
        self.histories: dict[str, list[dict[str, Any]]] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.properties: dict[str, dict[str, Any]] = {}
        self.boards: list[dict[str, Any]] = []
        self.sprints: dict[int, dict[str, Any]] = {}
        self.versions: dict[str, list[dict[str, Any]]] = {}
        self._links: list[tuple[str, str]] = []
        self._number = 10000

    # --- what is asked --------------------------------------------------------------------------------------

    def issue(self, id_or_key: str) -> Issue | None:
        found = self.issues.get(id_or_key)
        return found or next((each for each in self.issues.values() if each["key"] == id_or_key), None)

    def found(self, jql: Jql) -> list[Issue]:
        """In the order of `updated`, then of the key. What does not exist is refused, as Jira does."""
        if jql.project is not None and jql.project not in self.projects:
            raise JqlRefused(f"The value '{jql.project}' does not exist for the field 'project'.")
        for key in jql.keys or ():
            if self.issue(key) is None:
                raise JqlRefused(f"An issue with key '{key}' does not exist for field 'key'.")
        fitting = [each for each in self.issues.values() if jql.fits(each, updated_of(each))]
        return sorted(fitting, key=place_of)

    def told(self, issue: Issue, names: list[str] | None = None) -> Issue:
        """An issue as it is answered: its links are told with the other side as it is now."""
        fields = {
            **issue["fields"],
            "issuelinks": self._linked(issue) or issue["fields"].get("issuelinks", []),
        }
        if names is not None and "*all" not in names:
            fields = {name: value for name, value in fields.items() if name in names}
        return copy.deepcopy(
            {"expand": "changelog", "id": issue["id"], "key": issue["key"], "fields": fields}
        )

    # --- what people do -------------------------------------------------------------------------------------

    def add_project(self, key: str, name: str) -> None:
        self.projects[key] = {"id": self._next_id(), "key": key, "name": name}
        self.versions.setdefault(key, [])
        board = {"id": len(self.boards) + 1, "name": f"{key} board", "type": "scrum", "project": key}
        self.boards.append(board)

    def add_sprint(
        self, name: str, state: str, starts: datetime | None, ends: datetime | None, goal: str = ""
    ) -> int:
        id = len(self.sprints) + 1
        sprint: dict[str, Any] = {"id": id, "name": name, "state": state, "goal": goal, "originBoardId": 1}
        if starts and ends:
            sprint |= {"startDate": _utc(starts), "endDate": _utc(ends)}
        if state == "closed" and ends:
            sprint["completeDate"] = _utc(ends)
        self.sprints[id] = sprint
        return id

    def change_sprint(self, name: str, **changes: Any) -> dict[str, Any]:
        """As Jira tells it: `state`, `endDate`, `completeDate`, `goal`."""
        sprint = next(each for each in self.sprints.values() if each["name"] == name)
        sprint.update(changes)
        return sprint

    def put_version(self, project: str, name: str, **told: Any) -> dict[str, Any]:
        """A version anew, or changed: `releaseDate`, `released`, `description`, `archived`."""
        versions = self.versions[project]
        found = next((each for each in versions if each["name"] == name), None)
        if found is None:
            found = {"id": self._next_id(), "name": name, "released": False, "archived": False}
            versions.append(found)
        found.update(told)
        return found

    def create(self, project: str, summary: str, *, number: int | None = None, **fields: Any) -> Issue:
        """`number` is that of the key; without one, the next."""
        taken = [
            int(each["key"].rpartition("-")[2]) for each in self.issues.values() if _is_of(each, project)
        ]
        key = f"{project}-{number or max(taken, default=0) + 1}"
        now = self._told(self._now())
        plain: dict[str, Any] = {
            "summary": summary,
            "description": None,
            "status": self.status("To Do"),
            "priority": _priority("Medium"),
            "labels": [],
            "assignee": None,
            "created": now,
            "updated": now,
            "resolution": None,
            "resolutiondate": None,
            "duedate": None,
            "fixVersions": [],
            "project": self.projects[project],
            "issuetype": {"id": "10001", "name": "Story", "subtask": False},
            **dict.fromkeys((POINTS, SPRINT, FLAGGED, CRITERIA)),
        }
        issue: Issue = {"id": self._next_id(), "key": key, "fields": plain}
        for name, value in fields.items():
            self._set(issue, name, value)
        self.issues[issue["id"]] = issue
        return issue

    def edit(self, key: str, *, by: str = "Sandbox", **changes: Any) -> Issue:
        """Fields by short names: summary, description, status, priority, labels, assignee, points, sprint, flagged,
        criteria, version, due. One entry in the changelog."""
        issue = self._there(key)
        items = [item for name, value in changes.items() for item in self._set(issue, name, value)]
        if items:
            self._record(issue, items, by)
        return issue

    def link(self, blocker: str, blocked: str, by: str = "Sandbox") -> None:
        first, second = self._there(blocker), self._there(blocked)
        self._links.append((first["id"], second["id"]))
        self._record(first, [_item("Link", None, f"This issue blocks {blocked}")], by)
        self._record(second, [_item("Link", None, f"This issue is blocked by {blocker}")], by)

    def delete(self, key: str) -> None:
        id = self._there(key)["id"]
        for kept in (self.issues, self.histories, self.comments, self.properties):
            kept.pop(id, None)
        self._links = [each for each in self._links if id not in each]

    def comment(
        self, issue: Issue, body: Any, properties: list[dict[str, Any]], author: dict[str, Any]
    ) -> dict[str, Any]:
        told = self._touch(issue)
        comment = {
            "id": self._next_id(),
            "author": author,
            "body": body,
            "created": told,
            "updated": told,
            "properties": properties,
        }
        self.comments.setdefault(issue["id"], []).append(comment)
        return comment

    def status(self, name_or_id: str) -> dict[str, Any]:
        found = [each for each in self.statuses if name_or_id in (each["name"], each["id"])]
        if not found:
            raise KeyError(f"no status {name_or_id!r}")
        return found[0]

    # --- fields ---------------------------------------------------------------------------------------------

    def _set(self, issue: Issue, name: str, value: Any) -> list[dict[str, Any]]:
        """Set a field by its short name; the items of the changelog, none where nothing differs."""
        makers: dict[str, tuple[str, Callable[[Any], Any]]] = {
            "summary": ("summary", str),
            "description": ("description", lambda text: document(text) if isinstance(text, str) else text),
            "status": ("status", self.status),
            "priority": ("priority", _priority),
            "labels": ("labels", list),
            "assignee": ("assignee", _person),
            "points": (POINTS, lambda points: points),
            "sprint": (SPRINT, self._sprints),
            "flagged": (FLAGGED, lambda is_so: [{"value": "Impediment", "id": "10019"}] if is_so else None),
            "criteria": (CRITERIA, lambda text: document(text) if isinstance(text, str) else text),
            "version": ("fixVersions", lambda version: self._versions(issue, version)),
            "due": ("duedate", lambda day: day),
        }
        id, make = makers[name]
        before, after = issue["fields"].get(id), make(value)
        if before == after:
            return []
        issue["fields"][id] = after
        items = [_item(_field_name(self.fields, id), before, after, field_id=id)]
        return items + self._resolution(issue, after) if name == "status" else items

    def _resolution(self, issue: Issue, status: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Done sets a resolution, and anything else takes it away."""
        fields = issue["fields"]
        before = fields["resolution"]
        after = {"id": "10000", "name": "Done"} if status["statusCategory"]["key"] == "done" else None
        if before == after:
            return []
        fields["resolution"] = after
        fields["resolutiondate"] = self._told(self._now()) if after else None
        return [_item("resolution", before, after)]

    def _sprints(self, name: str | None) -> list[dict[str, Any]] | None:
        return [each for each in self.sprints.values() if each["name"] == name] or None

    def _versions(self, issue: Issue, name: str | None) -> list[dict[str, Any]]:
        project = issue["key"].rpartition("-")[0]
        return [each for each in self.versions[project] if each["name"] == name]

    def _linked(self, issue: Issue) -> list[dict[str, Any]]:
        links = []
        for number, (blocker, blocked) in enumerate(self._links, 1):
            if issue["id"] == blocked:
                links.append({"id": str(number), "type": BLOCKS, "inwardIssue": self._in_short(blocker)})
            if issue["id"] == blocker:
                links.append({"id": str(number), "type": BLOCKS, "outwardIssue": self._in_short(blocked)})
        return links

    def _in_short(self, id: str) -> Issue:
        issue = self.issues[id]
        fields = {name: issue["fields"][name] for name in ("summary", "status", "priority")}
        return {"id": id, "key": issue["key"], "fields": fields}

    # --- the changelog --------------------------------------------------------------------------------------

    def _record(self, issue: Issue, items: list[dict[str, Any]], by: str) -> None:
        entry = {"id": self._next_id(), "author": _person(by), "created": self._touch(issue), "items": items}
        self.histories.setdefault(issue["id"], []).append(entry)

    def _touch(self, issue: Issue) -> str:
        later = milliseconds(updated_of(issue)) + 1
        told = self._told(max(self._now(), later))
        issue["fields"]["updated"] = told
        return told

    def _there(self, key: str) -> Issue:
        issue = self.issue(key)
        if issue is None:
            raise KeyError(f"no issue {key}")
        return issue

    def _now(self) -> int:
        return int(self.clock.now() * 1000)

    def _told(self, at: int) -> str:
        local = (EPOCH + timedelta(milliseconds=at)).astimezone(self.zone)
        return f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond // 1000:03}{local:%z}"

    def _next_id(self) -> str:
        self._number += 1
        return str(self._number)


def updated_of(issue: Issue) -> datetime:
    return datetime.fromisoformat(issue["fields"]["updated"])


def milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def place_of(issue: Issue) -> tuple[int, str, int]:
    """Where an issue stands in a search."""
    project, _, number = issue["key"].rpartition("-")
    return milliseconds(updated_of(issue)), project, int(number)


def _status(id: str, name: str, category: str) -> dict[str, Any]:
    number, category_name = CATEGORIES[category]
    return {
        "id": id,
        "name": name,
        "description": "",
        "statusCategory": {"id": number, "key": category, "name": category_name},
    }


def _priority(name: str) -> dict[str, Any]:
    return {"id": PRIORITIES[name], "name": name}


def _person(name: str | None) -> dict[str, Any] | None:
    if name is None:
        return None
    account = f"sandbox:{name.casefold().replace(' ', '-')}"
    return {"accountId": account, "displayName": name, "active": True, "accountType": "atlassian"}


def _item(field: str, before: Any, after: Any, *, field_id: str | None = None) -> dict[str, Any]:
    return {
        "field": field,
        "fieldtype": "custom" if (field_id or "").startswith("customfield") else "jira",
        "fieldId": field_id or field.casefold(),
        "from": _id_of(before),
        "fromString": _words(before),
        "to": _id_of(after),
        "toString": _words(after),
    }


def _id_of(value: Any) -> str | None:
    if isinstance(value, list):
        return ", ".join(str(each.get("id", "")) if isinstance(each, dict) else str(each) for each in value)
    found = value.get("id", value.get("accountId")) if isinstance(value, dict) else None
    return None if found is None else str(found)


def _words(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        return ", ".join(_words(each) or "" for each in value)
    if isinstance(value, dict):
        named = (value.get(name) for name in ("name", "displayName", "value"))
        return next((str(each) for each in named if each), None) or plain_text(value)
    return str(value)


def _field_name(fields: list[dict[str, Any]], id: str) -> str:
    """Jira tells its own fields by id and custom ones by name."""
    if not id.startswith("customfield"):
        return "Fix Version" if id == "fixVersions" else id
    return next((str(each["name"]) for each in fields if each["id"] == id), id)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _is_of(issue: Issue, project: str) -> bool:
    return bool(issue["key"].rpartition("-")[0] == project)
