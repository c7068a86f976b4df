"""The data of the Jira sandbox in memory: projects, issues, changelogs, comments, boards, sprints, versions.

`create`, `edit`, `link` and `delete` act as users of Jira do. Each writes the changelog and `updated`, by the
clock; two changes of one issue never have the same millisecond.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from agenticpm.integrations.jira.adf import build_document, to_plain_text
from holdfast.core.clock import Clock
from holdfast.core.errors import InvalidRequest
from holdfast.web.sandbox_faults import ControlBody, FiniteJson
from holdfast_demo.agenticpm.sandbox.jira_jql import InvalidJql, Jql

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


Text = Annotated[str, Field(min_length=1)]


class IssueFields(ControlBody):
    """Fields of an issue by short names. Only those that are given are set."""

    summary: str = ""
    description: str | dict[str, FiniteJson] | None = None
    status: str = Field(default="To Do", pattern=f"^({'|'.join(name for _, name, _ in STATUSES)})$")
    priority: str = Field(default="Medium", pattern=f"^({'|'.join(PRIORITIES)})$")
    labels: list[str] = Field(default_factory=list)
    assignee: str | None = None
    points: float | None = None
    sprint: str | None = None
    flagged: bool = False
    criteria: str | dict[str, FiniteJson] | None = None
    version: str = ""
    due: str | None = None


class IssueBody(IssueFields):
    """A new issue."""

    project: Text
    summary: str
    number: int | None = Field(default=None, ge=1, le=1_000_000)


class IssueEditBody(IssueFields):
    """Changed fields of an issue, and the person who changed them."""

    key: Text
    by: str = "Sandbox"


class LinkBody(ControlBody):
    """Two issues by key: the first blocks the second."""

    blocker: Text
    blocked: Text


class VersionBody(ControlBody):
    """A version by Jira's names."""

    project: Text
    name: Text
    releaseDate: str | None = None  # noqa: N815
    released: bool = False
    description: str = ""
    archived: bool = False


class SprintBody(ControlBody):
    """Changes of a sprint by Jira's names."""

    name: Text
    state: Literal["future", "active", "closed"] = "future"
    startDate: str | None = None  # noqa: N815
    endDate: str | None = None  # noqa: N815
    completeDate: str | None = None  # noqa: N815
    goal: str = ""


class JiraData:
    """The data of a site. People are identified by their display names."""

    def __init__(self, clock: Clock, zone: str) -> None:
        self.clock, self.zone = clock, ZoneInfo(zone)
        self.projects: dict[str, dict[str, Any]] = {}
        self.statuses: list[dict[str, Any]] = [_build_status(*each) for each in STATUSES]
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

    # --- reads ----------------------------------------------------------------------------------------------

    def find_issue(self, id_or_key: str) -> Issue | None:
        found = self.issues.get(id_or_key)
        return found or next((each for each in self.issues.values() if each["key"] == id_or_key), None)

    def search(self, jql: Jql) -> list[Issue]:
        """Return the matching issues by `updated`, then key.

        Raise InvalidJql for an unknown project or key.
        """
        if jql.project is not None and jql.project not in self.projects:
            raise InvalidJql(f"The value '{jql.project}' does not exist for the field 'project'.")
        for key in jql.keys or ():
            if self.find_issue(key) is None:
                raise InvalidJql(f"An issue with key '{key}' does not exist for field 'key'.")
        fitting = [each for each in self.issues.values() if jql.matches(each, get_updated(each))]
        return sorted(fitting, key=get_sort_key)

    def to_api_issue(self, issue: Issue, names: list[str] | None = None) -> Issue:
        """Return a copy of an issue as the API does, with the current state of linked issues.

        `names` are the requested fields; None and `*all` mean all of them.
        """
        fields = {
            **issue["fields"],
            "issuelinks": self._build_links(issue) or issue["fields"].get("issuelinks", []),
        }
        if names is not None and "*all" not in names:
            fields = {name: value for name, value in fields.items() if name in names}
        return copy.deepcopy(
            {"expand": "changelog", "id": issue["id"], "key": issue["key"], "fields": fields}
        )

    # --- edits ----------------------------------------------------------------------------------------------

    def add_project(self, key: str, name: str) -> None:
        """Add a project with a scrum board."""
        self.projects[key] = {"id": self._next_id(), "key": key, "name": name}
        self.versions.setdefault(key, [])
        board = {"id": len(self.boards) + 1, "name": f"{key} board", "type": "scrum", "project": key}
        self.boards.append(board)

    def add_sprint(
        self, name: str, state: str, starts: datetime | None, ends: datetime | None, goal: str = ""
    ) -> int:
        """Add a sprint to the first board and return its id."""
        id = len(self.sprints) + 1
        sprint: dict[str, Any] = {"id": id, "name": name, "state": state, "goal": goal, "originBoardId": 1}
        if starts and ends:
            sprint |= {"startDate": _format_utc(starts), "endDate": _format_utc(ends)}
        if state == "closed" and ends:
            sprint["completeDate"] = _format_utc(ends)
        self.sprints[id] = sprint
        return id

    def change_sprint(self, name: str, **changes: Any) -> dict[str, Any]:
        """Change a sprint by Jira's names: `state`, `endDate`, `completeDate`, `goal`."""
        sprint = next((each for each in self.sprints.values() if each["name"] == name), None)
        if sprint is None:
            raise InvalidRequest(f"Invalid sprint {name!r}: expected the name of a sprint.")
        sprint.update(changes)
        return sprint

    def put_version(self, project: str, name: str, **values: Any) -> dict[str, Any]:
        """Create or change a version and return it: `releaseDate`, `released`, `description`, `archived`."""
        self._check_project(project)
        versions = self.versions[project]
        found = next((each for each in versions if each["name"] == name), None)
        if found is None:
            found = {"id": self._next_id(), "name": name, "released": False, "archived": False}
            versions.append(found)
        found.update(values)
        return found

    def create(self, project: str, summary: str, *, number: int | None = None, **fields: Any) -> Issue:
        """Create an issue without a changelog entry.

        `number` is that of its key; the default is the next one.
        """
        self._check_project(project)
        taken = [
            int(each["key"].rpartition("-")[2])
            for each in self.issues.values()
            if _is_in_project(each, project)
        ]
        key = f"{project}-{number or max(taken, default=0) + 1}"
        now = self._format_time(self._now_ms())
        plain: dict[str, Any] = {
            "summary": summary,
            "description": None,
            "status": self.get_status("To Do"),
            "priority": _build_priority("Medium"),
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
            self._set_field(issue, name, value)
        self.issues[issue["id"]] = issue
        return issue

    def edit(self, key: str, *, by: str = "Sandbox", **changes: Any) -> Issue:
        """Edit fields by short names, with one changelog entry. Equal values change nothing.

        The names are: summary, description, status, priority, labels, assignee, points, sprint, flagged,
        criteria, version, due.
        """
        issue = self._get_issue(key)
        items = [item for name, value in changes.items() for item in self._set_field(issue, name, value)]
        if items:
            self._record(issue, items, by)
        return issue

    def link(self, blocker: str, blocked: str, by: str = "Sandbox") -> None:
        """Link two issues by key: the first blocks the second. Both get a changelog entry."""
        first, second = self._get_issue(blocker), self._get_issue(blocked)
        self._links.append((first["id"], second["id"]))
        self._record(first, [_build_item("Link", None, f"This issue blocks {blocked}")], by)
        self._record(second, [_build_item("Link", None, f"This issue is blocked by {blocker}")], by)

    def delete(self, key: str) -> None:
        """Delete an issue with everything that belongs to it."""
        id = self._get_issue(key)["id"]
        for kept in (self.issues, self.histories, self.comments, self.properties):
            kept.pop(id, None)
        self._links = [each for each in self._links if id not in each]

    def add_comment(
        self, issue: Issue, body: Any, properties: list[dict[str, Any]], author: dict[str, Any]
    ) -> dict[str, Any]:
        """Add a comment, which counts as an update of the issue, and return it."""
        now = self._touch(issue)
        comment = {
            "id": self._next_id(),
            "author": author,
            "body": body,
            "created": now,
            "updated": now,
            "properties": properties,
        }
        self.comments.setdefault(issue["id"], []).append(comment)
        return comment

    def get_status(self, name_or_id: str) -> dict[str, Any]:
        """Return a status. Raise KeyError if there is none."""
        found = [each for each in self.statuses if name_or_id in (each["name"], each["id"])]
        if not found:
            raise KeyError(f"no status {name_or_id!r}")
        return found[0]

    # --- fields ---------------------------------------------------------------------------------------------

    def _set_field(self, issue: Issue, name: str, value: Any) -> list[dict[str, Any]]:
        """Set a field by its short name. Return the changelog items, none if nothing differs."""
        makers: dict[str, tuple[str, Callable[[Any], Any]]] = {
            "summary": ("summary", str),
            "description": (
                "description",
                lambda text: build_document(text) if isinstance(text, str) else text,
            ),
            "status": ("status", self.get_status),
            "priority": ("priority", _build_priority),
            "labels": ("labels", list),
            "assignee": ("assignee", _build_person),
            "points": (POINTS, lambda points: points),
            "sprint": (SPRINT, self._find_sprints),
            "flagged": (FLAGGED, lambda is_so: [{"value": "Impediment", "id": "10019"}] if is_so else None),
            "criteria": (CRITERIA, lambda text: build_document(text) if isinstance(text, str) else text),
            "version": ("fixVersions", lambda version: self._find_versions(issue, version)),
            "due": ("duedate", lambda day: day),
        }
        id, make = makers[name]
        before, after = issue["fields"].get(id), make(value)
        if before == after:
            return []
        issue["fields"][id] = after
        items = [_build_item(_get_field_name(self.fields, id), before, after, field_id=id)]
        return items + self._update_resolution(issue, after) if name == "status" else items

    def _update_resolution(self, issue: Issue, status: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Set a resolution for a done status, and clear it for any other."""
        fields = issue["fields"]
        before = fields["resolution"]
        after = {"id": "10000", "name": "Done"} if status["statusCategory"]["key"] == "done" else None
        if before == after:
            return []
        fields["resolution"] = after
        fields["resolutiondate"] = self._format_time(self._now_ms()) if after else None
        return [_build_item("resolution", before, after)]

    def _find_sprints(self, name: str | None) -> list[dict[str, Any]] | None:
        """Return the sprints with this name, or None."""
        return [each for each in self.sprints.values() if each["name"] == name] or None

    def _find_versions(self, issue: Issue, name: str | None) -> list[dict[str, Any]]:
        """Return the versions with this name in the issue's project."""
        project = issue["key"].rpartition("-")[0]
        return [each for each in self.versions[project] if each["name"] == name]

    def _build_links(self, issue: Issue) -> list[dict[str, Any]]:
        """Return the links of an issue as the API does, with the other issues in short form."""
        links = []
        for number, (blocker, blocked) in enumerate(self._links, 1):
            if issue["id"] == blocked:
                links.append(
                    {"id": str(number), "type": BLOCKS, "inwardIssue": self._to_linked_issue(blocker)}
                )
            if issue["id"] == blocker:
                links.append(
                    {"id": str(number), "type": BLOCKS, "outwardIssue": self._to_linked_issue(blocked)}
                )
        return links

    def _to_linked_issue(self, id: str) -> Issue:
        """Return an issue in the short form of a link."""
        issue = self.issues[id]
        fields = {name: issue["fields"][name] for name in ("summary", "status", "priority")}
        return {"id": id, "key": issue["key"], "fields": fields}

    # --- the changelog --------------------------------------------------------------------------------------

    def _record(self, issue: Issue, items: list[dict[str, Any]], by: str) -> None:
        """Add a changelog entry with these items."""
        entry = {
            "id": self._next_id(),
            "author": _build_person(by),
            "created": self._touch(issue),
            "items": items,
        }
        self.histories.setdefault(issue["id"], []).append(entry)

    def _touch(self, issue: Issue) -> str:
        """Set `updated` to now, but later than before, and return it."""
        later = to_milliseconds(get_updated(issue)) + 1
        updated = self._format_time(max(self._now_ms(), later))
        issue["fields"]["updated"] = updated
        return updated

    def _get_issue(self, key: str) -> Issue:
        """Return an issue. Raise `InvalidRequest` if there is none."""
        issue = self.find_issue(key)
        if issue is None:
            raise InvalidRequest(f"Invalid key {key!r}: expected the key of an issue.")
        return issue

    def _check_project(self, key: str) -> None:
        """Raise `InvalidRequest` if there is no such project."""
        if key not in self.projects:
            raise InvalidRequest(f"Invalid project {key!r}: expected one of {', '.join(self.projects)}.")

    def _now_ms(self) -> int:
        return int(self.clock.now() * 1000)

    def _format_time(self, at: int) -> str:
        """Format milliseconds as Jira does, in the site's time zone."""
        local = (EPOCH + timedelta(milliseconds=at)).astimezone(self.zone)
        return f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond // 1000:03}{local:%z}"

    def _next_id(self) -> str:
        self._number += 1
        return str(self._number)


def get_updated(issue: Issue) -> datetime:
    return datetime.fromisoformat(issue["fields"]["updated"])


def to_milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def get_sort_key(issue: Issue) -> tuple[int, str, int]:
    """Return the sort key of an issue in a search: `updated`, project, number."""
    project, _, number = issue["key"].rpartition("-")
    return to_milliseconds(get_updated(issue)), project, int(number)


def _build_status(id: str, name: str, category: str) -> dict[str, Any]:
    number, category_name = CATEGORIES[category]
    return {
        "id": id,
        "name": name,
        "description": "",
        "statusCategory": {"id": number, "key": category, "name": category_name},
    }


def _build_priority(name: str) -> dict[str, Any]:
    return {"id": PRIORITIES[name], "name": name}


def _build_person(name: str | None) -> dict[str, Any] | None:
    if name is None:
        return None
    account = f"sandbox:{name.casefold().replace(' ', '-')}"
    return {"accountId": account, "displayName": name, "active": True, "accountType": "atlassian"}


def _build_item(field: str, before: Any, after: Any, *, field_id: str | None = None) -> dict[str, Any]:
    """Build one item of a changelog entry from the values before and after."""
    return {
        "field": field,
        "fieldtype": "custom" if (field_id or "").startswith("customfield") else "jira",
        "fieldId": field_id or field.casefold(),
        "from": _get_id(before),
        "fromString": _to_text(before),
        "to": _get_id(after),
        "toString": _to_text(after),
    }


def _get_id(value: Any) -> str | None:
    """Return the id of a field value for the changelog, or None if it has none."""
    if isinstance(value, list):
        return ", ".join(str(each.get("id", "")) if isinstance(each, dict) else str(each) for each in value)
    found = value.get("id", value.get("accountId")) if isinstance(value, dict) else None
    return None if found is None else str(found)


def _to_text(value: Any) -> str | None:
    """Return the text of a field value for the changelog."""
    if value is None:
        return None
    if isinstance(value, list):
        return ", ".join(_to_text(each) or "" for each in value)
    if isinstance(value, dict):
        named = (value.get(name) for name in ("name", "displayName", "value"))
        return next((str(each) for each in named if each), None) or to_plain_text(value)
    return str(value)


def _get_field_name(fields: list[dict[str, Any]], id: str) -> str:
    """Return the changelog name of a field: the id of a standard field, the name of a custom one."""
    if not id.startswith("customfield"):
        return "Fix Version" if id == "fixVersions" else id
    return next((str(each["name"]) for each in fields if each["id"] == id), id)


def _format_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _is_in_project(issue: Issue, project: str) -> bool:
    return bool(issue["key"].rpartition("-")[0] == project)
