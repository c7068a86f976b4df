"""Parse a Jira search result, exported to a file, into the records of a review.

Exports differ by site, version and by what was expanded, so that only `issues` with keys and fields are
required. Anything else that is absent or unreadable is left out, as if it had no value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from agenticpm.domain.reading.sentences import remove_quotes
from agenticpm.domain.review.records import Blocker, Change, Comment, Person, Version, WorkItem
from agenticpm.domain.tickets import Sprint, TicketStage
from agenticpm.integrations.jira.adf import to_plain_text
from agenticpm.integrations.jira.export_fields import ExportFields, find_fields
from agenticpm.integrations.jira.issue_parser import STAGES
from holdfast.core.errors import InvalidRequest

_BOT_NAME: Final = re.compile(
    r"\b(?:bot|automation|automatisierung|automatisation|connector|jenkins|github|gitlab|bitbucket"
    r"|pagerduty|opsgenie"
    r"|sonar\w*|dependabot|renovate|slack|jira cloud|workflow|service account|system|scriptrunner|webhook"
    r"|holdfast"
    r"|agenticpm|zapier|sentry|datadog|statuspage|ci|integration)\b|\[bot\]|bot$",
    re.IGNORECASE,
)
_JAVA_VALUE: Final = r"\b{}=(?P<value>.*?)(?:,\w+=|\]$|$)"
_OFFSET: Final = re.compile(r"([+-]\d\d)(\d\d)$")
# Quotes, code and struck text in a document say nothing about now.
_SKIPPED_NODES: Final = ("blockquote", "codeBlock")
_CHECKLIST_NODES: Final = ("taskList", "taskItem")
_DONE_NAMES: Final = re.compile(
    r"^(?:done|closed|resolved|completed?|released|live|cancelled|accepted|shipped|fertig|erledigt"
    r"|abgeschlossen"
    r"|geschlossen|terminée?|fermée?|terminad[oa]|cerrad[oa]|hecho|chiuso|concluíd[oa]|gereed|won'?t (?:do"
    r"|fix))\b",
    re.IGNORECASE,
)
_TO_DO_NAMES: Final = re.compile(
    r"^(?:to ?do|open|new|backlog|offen|neu|à faire|ouvert|por hacer|abierto|ready|prêt|bereit|icebox"
    r"|reopened)\b",
    re.IGNORECASE,
)


def parse_search_result(body: Any, name: str) -> tuple[list[WorkItem], dict[str, TicketStage]]:
    """Return the tickets of a search result, and the stage of each status by its name in lower case.

    `name` is the file's, for messages. Raise InvalidRequest if it is no search result.
    """
    issues = _get_issues(body, name)
    names = body.get("names") if isinstance(body, dict) else None
    fields = find_fields(issues, names if isinstance(names, dict) else {})
    stages = _agree_on_stages(issues)
    return [_parse_issue(each, fields, stages) for each in issues], stages


def parse_sprints(body: Any, name: str) -> list[Sprint]:
    """Return the sprints of a list, or of a response with `values`. Raise InvalidRequest if it is neither."""
    listed = body.get("values", body.get("sprints")) if isinstance(body, dict) else body
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InvalidRequest(
            f'Invalid {name}: expected a list of Agile sprints or {{"values": [...]}}. '
            "Export /rest/agile/1.0/board/BOARD/sprint."
        )
    return [found for each in listed if (found := _parse_sprint(each)) is not None]


def collect_sprints(body: Any) -> list[Sprint]:
    """Return the sprints that the tickets of a search result name: for an export without a list of them."""
    issues = body["issues"] if isinstance(body, dict) else body
    fields = find_fields(issues, {})
    values = (
        value
        for issue in issues
        for id in fields.sprint
        for value in _as_list((issue["fields"] or {}).get(id))
    )
    found = [_parse_sprint(_read_sprint_value(each)) for each in values]
    return list({each.id: each for each in found if each is not None}.values())


def _get_issues(body: Any, name: str) -> list[dict[str, Any]]:
    """Return the issues of a search result, or of a bare list of issues."""
    issues = body.get("issues") if isinstance(body, dict) else body
    if not isinstance(issues, list):
        raise InvalidRequest(
            f'Invalid {name}: expected a Jira search result such as {{"issues": [...]}}. '
            "Export /rest/api/3/search with expand=changelog and fields=*all."
        )
    for number, each in enumerate(issues):
        fields = each.get("fields") if isinstance(each, dict) else None
        if not isinstance(fields, dict) or not isinstance(each.get("key"), str):
            raise InvalidRequest(
                f"Invalid {name}: issue {number} has no key or no fields. Export the issues with fields=*all."
            )
    return issues


def _agree_on_stages(issues: Sequence[Mapping[str, Any]]) -> dict[str, TicketStage]:
    """Return the stage of each status by its name in lower case.

    A changed workflow can leave one name with several categories: the one of most tickets counts.
    """
    counted: dict[str, Counter[TicketStage]] = {}
    for each in issues:
        status = _as_object(each["fields"].get("status"))
        stage = _read_stage(status, each["fields"])
        counted.setdefault(_read_name(status).casefold(), Counter())[stage] += 1
    return {name: stages.most_common(1)[0][0] for name, stages in counted.items()}


# --- issues -------------------------------------------------------------------------------------------------


def _parse_issue(issue: Mapping[str, Any], ids: ExportFields, stages: Mapping[str, TicketStage]) -> WorkItem:
    fields = issue["fields"]
    status, kind = _as_object(fields.get("status")), _as_object(fields.get("issuetype"))
    changes = tuple(sorted(_parse_changes(issue, ids), key=lambda each: each.at))
    comments = tuple(sorted(_parse_comments(fields), key=lambda each: each.at))
    created = _read_moment(fields.get("created")) or (changes[0].at if changes else datetime.now(UTC))
    stage = stages[_read_name(status).casefold()]
    return WorkItem(
        key=issue["key"],
        title=str(fields.get("summary") or ""),
        type=_read_name(kind),
        status=_read_name(status),
        stage=stage,
        created_at=created,
        updated_at=_read_moment(fields.get("updated")) or created,
        priority=_read_name(fields.get("priority")),
        assignee=_read_person(fields.get("assignee")),
        resolved_at=_find_resolution(fields, stage, changes),
        due=_read_day(fields.get("duedate")),
        labels=tuple(str(each) for each in _as_list(fields.get("labels"))),
        points=_read_points(fields, ids),
        sprints=tuple(_list_sprint_names(fields, ids)),
        versions=tuple(_parse_versions(fields)),
        parent=_read_parent(fields, ids),
        blockers=tuple(_parse_blockers(fields)),
        is_flagged=any(_as_list(fields.get(id)) for id in ids.flagged),
        is_epic=_read_name(kind).casefold() in ("epic", "epos", "épopée", "épica", "epica", "initiative")
        or kind.get("hierarchyLevel", 0) not in (0, -1, None),
        is_subtask=kind.get("subtask") is True or kind.get("hierarchyLevel") == -1,
        has_checklist=_has_node(fields.get("description"), _CHECKLIST_NODES)
        or any(to_plain_text(fields.get(id)) for id in ids.criteria),
        environment=to_plain_text(fields.get("environment")),
        status_note=str(status.get("description") or ""),
        description=_read_text(fields.get("description")),
        comments=comments,
        changes=changes,
    )


def _read_stage(status: Mapping[str, Any], fields: Mapping[str, Any]) -> TicketStage:
    """Return the stage by the status category, or else by the status name and the resolution."""
    key = _as_object(status.get("statusCategory")).get("key")
    if key in STAGES:
        return STAGES[key]
    name = _read_name(status)
    if _as_object(fields.get("resolution")) or _DONE_NAMES.match(name):
        return TicketStage.done
    return TicketStage.to_do if not name or _TO_DO_NAMES.match(name) else TicketStage.in_progress


def _find_resolution(
    fields: Mapping[str, Any], stage: TicketStage, changes: Sequence[Change]
) -> datetime | None:
    """Return when a done ticket was resolved, or else last changed its status or anything."""
    if stage is not TicketStage.done:
        return None
    moved = [each.at for each in changes if each.field == "status"]
    resolved = _read_moment(fields.get("resolutiondate")) or (moved[-1] if moved else None)
    return resolved or _read_moment(fields.get("updated"))


def _read_points(fields: Mapping[str, Any], ids: ExportFields) -> Decimal | None:
    for id in ids.points:
        try:
            value = Decimal(str(fields.get(id)))
        except InvalidOperation:
            continue
        if value.is_finite():
            return value
    return None


def _list_sprint_names(fields: Mapping[str, Any], ids: ExportFields) -> Iterator[str]:
    """Yield the ids and names of the sprints of a ticket."""
    for id in ids.sprint:
        for each in _as_list(fields.get(id)):
            sprint = _read_sprint_value(each)
            yield from (str(sprint[name]) for name in ("id", "name") if sprint.get(name) is not None)


def _read_sprint_value(value: Any) -> dict[str, Any]:
    """Return a ticket's sprint as an object: older servers send the text of a Java object."""
    if isinstance(value, dict):
        return value
    names = ("id", "name", "state", "startDate", "endDate", "completeDate")
    found = {name: re.search(_JAVA_VALUE.format(name), str(value)) for name in names}
    return {name: match["value"] for name, match in found.items() if match and match["value"] != "<null>"}


def _parse_sprint(body: Mapping[str, Any]) -> Sprint | None:
    if body.get("id") is None and not body.get("name"):
        return None
    return Sprint(
        id=str(body.get("id") if body.get("id") is not None else body["name"]),
        name=str(body.get("name") or body["id"]),
        state=str(body.get("state") or "future").casefold(),
        starts_at=_read_moment(body.get("startDate")),
        ends_at=_read_moment(body.get("endDate")),
        completed_at=_read_moment(body.get("completeDate")),
        goal=str(body.get("goal") or ""),
    )


def _parse_versions(fields: Mapping[str, Any]) -> Iterator[Version]:
    for each in _as_list(fields.get("fixVersions")):
        if name := _read_name(each):
            is_released = each.get("released") is True or each.get("archived") is True
            yield Version(name, _read_day(each.get("releaseDate")), is_released)


def _read_parent(fields: Mapping[str, Any], ids: ExportFields) -> str | None:
    key = _as_object(fields.get("parent")).get("key")
    if isinstance(key, str):
        return key
    return next((fields[id] for id in ids.epic if isinstance(fields.get(id), str)), None)


def _parse_blockers(fields: Mapping[str, Any]) -> Iterator[Blocker]:
    """Yield the tickets behind links such as "is blocked by" and "depends on"."""
    for link in _as_list(fields.get("issuelinks")):
        link = _as_object(link)
        kind = _as_object(link.get("type"))
        for side, end in (("inward", "inwardIssue"), ("outward", "outwardIssue")):
            other = _as_object(link.get(end))
            if other.get("key") and _is_blocking(str(kind.get(side) or kind.get("name") or "")):
                its = _as_object(other.get("fields"))
                is_done = _read_stage(_as_object(its.get("status")), its) is TicketStage.done
                yield Blocker(str(other["key"]), is_done, str(its.get("summary") or ""))


def _is_blocking(name: str) -> bool:
    """Return whether the words of a link's side say that the other ticket blocks this one."""
    return bool(
        re.search(
            r"(?:blocked|impeded) by|depends (?:up)?on|^requires|blockiert (?:von|durch)|wird blockiert"
            r"|hängt ab"
            r"|bloqué(?:e)? par|dépend de|bloquead[oa] por|depende de|bloccat[oa] da",
            name,
            re.IGNORECASE,
        )
    )


def _parse_changes(issue: Mapping[str, Any], ids: ExportFields) -> Iterator[Change]:
    """Yield the changed fields; custom fields get one name each, whatever the site calls them."""
    changelog = _as_object(issue.get("changelog"))
    for each in _as_list(changelog.get("histories", changelog.get("values"))):
        at = _read_moment(_as_object(each).get("created"))
        for item in _as_list(_as_object(each).get("items")) if at else ():
            item = _as_object(item)
            name = _get_field_name(item, ids)
            before, after = (str(item.get(side) or "") for side in ("fromString", "toString"))
            yield Change(at, _read_person(each.get("author")), name, before, after)  # type: ignore[arg-type]


def _get_field_name(item: Mapping[str, Any], ids: ExportFields) -> str:
    id = item.get("fieldId")
    named = (("sprint", ids.sprint), ("points", ids.points), ("flagged", ids.flagged))
    known = next((name for name, its in named if id in its), None)
    return (
        known
        or str(
            (id if id in ("status", "assignee", "resolution", "duedate") else item.get("field")) or ""
        ).casefold()
    )


def _parse_comments(fields: Mapping[str, Any]) -> Iterator[Comment]:
    body = fields.get("comment")
    for each in _as_list(body.get("comments") if isinstance(body, dict) else body):
        each = _as_object(each)
        if at := _read_moment(each.get("created")):
            yield Comment(at, _read_person(each.get("author")), _read_text(each.get("body")))


# --- values -------------------------------------------------------------------------------------------------


def _read_text(document: Any) -> str:
    """Return the own words of a document or text: without quotes, code and struck text."""
    return remove_quotes(to_plain_text(_strip_nodes(document)))


def _strip_nodes(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    children = node.get("content")
    if not isinstance(children, list):
        return node
    kept = [_strip_nodes(each) for each in children if not _is_skipped(each)]
    return {**node, "content": kept}


def _is_skipped(node: Any) -> bool:
    if not isinstance(node, dict):
        return True
    marks = {_as_object(each).get("type") for each in _as_list(node.get("marks"))}
    return node.get("type") in _SKIPPED_NODES or "strike" in marks


def _has_node(node: Any, kinds: Sequence[str]) -> bool:
    if not isinstance(node, dict):
        return False
    return node.get("type") in kinds or any(_has_node(each, kinds) for each in _as_list(node.get("content")))


def _read_person(value: Any) -> Person | None:
    body = _as_object(value)
    name = str(body.get("displayName") or body.get("name") or "")
    id = str(body.get("accountId") or body.get("key") or body.get("name") or name)
    if not id:
        return None
    return Person(id, name or id, body.get("accountType") == "app" or bool(_BOT_NAME.search(name)))


def _read_name(value: Any) -> str:
    return str(_as_object(value).get("name") or "").strip()


def _read_moment(value: Any) -> datetime | None:
    """Return a time in any format that Jira sends, in UTC if it has no zone, or None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = value / 1000 if value > 1e11 else value
        return datetime.fromtimestamp(value, UTC)
    if not isinstance(value, str) or not value.strip():
        return None
    text = _OFFSET.sub(r"\1:\2", value.strip().replace("Z", "+00:00"))
    for shape in (None, "%d/%b/%y %I:%M %p", "%d/%b/%y", "%Y/%m/%d %H:%M"):
        try:
            found = datetime.fromisoformat(text) if shape is None else datetime.strptime(text, shape)
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


def _read_day(value: Any) -> date | None:
    """Return a day: as it is written, whatever the zone."""
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value):
        try:
            return date.fromisoformat(value[:10])
        except ValueError:
            return None
    moment = _read_moment(value)
    return moment.date() if moment else None


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
