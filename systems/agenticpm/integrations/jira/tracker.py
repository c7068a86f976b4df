"""The Jira tracker: read changed issues and the plan, comment, and move issues, by REST v3 and Agile 1.0.

It supports Cloud, and Server and Data Center where they offer the same API.

    fetch_changes:  search from the checkpoint → first page with unseen issues → changelogs → tickets
    comment:        a comment with the property `holdfast`, by which it is found again
    move:           a transition to the wanted status, with an issue property by which it is found again

A search resumes from a page token (`search`). Other long lists are paged by `startAt`. The client tries each
optional endpoint to learn whether the server has it, and tries again once per cycle.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

import httpx2

from agenticpm.domain.tickets import (
    FieldChange,
    Health,
    Milestone,
    Plan,
    Sprint,
    SyncPage,
    Ticket,
    TicketStage,
)
from agenticpm.integrations.jira import issue_parser
from agenticpm.integrations.jira.adf import build_document
from agenticpm.integrations.jira.issue_parser import JIRA, ChangelogEntry, CustomFields, read_objects
from agenticpm.integrations.jira.read_position import ReadPosition, format_jql_time, parse_position
from agenticpm.integrations.jira.search import MAX_PAGES, JiraSearch, build_endless_error, is_unsupported
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotFound, RequestRefused
from holdfast.web.external_client import ExternalClient, ExternalResponse, read_field, refuse_missing

API: Final = "/rest/api/3"
AGILE: Final = "/rest/agile/1.0"
TICKET_PAGE_SIZE: Final = 50
PAGE_SIZE: Final = 100
# Page tokens in a row that Jira issues and then rejects, while only tokens make progress.
MAX_EXPIRED_TOKENS: Final = 3
TOKEN_EXPIRED_CODE: Final = "400"
PROPERTY_KEY: Final = "holdfast"
SAFE_REFERENCE: Final = re.compile(r"[A-Za-z0-9_.\-]{1,200}")
PROJECT_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
TICKET_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*-[0-9]+|[0-9]+")
NO_SPRINTS_STATUSES: Final = frozenset({400})


@dataclass(frozen=True)
class Site:
    """Facts about the site, fetched once per cycle: account, time zone of JQL, custom fields, statuses."""

    account: str | None
    zone: ZoneInfo
    fields: CustomFields
    stages: Mapping[str, TicketStage]


@dataclass(frozen=True)
class UnseenPage:
    """The first search page with unseen issues.

    `seen` has the `updated` of all issues read so far by id; `answered_at` is Jira's time.
    """

    issues: list[dict[str, Any]]
    seen: Mapping[str, int]
    page_token: str | None
    is_last: bool
    answered_at: float


class JiraTracker:
    """A `Tracker` for Jira. The HTTP client has the address and the credentials (e-mail and API token)."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        api: str = API,
        agile: str = AGILE,
        page_size: int = TICKET_PAGE_SIZE,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = ExternalClient(http, JIRA, clock)
        self._search = JiraSearch(self._client, api, page_size)
        self._api, self._agile, self._ticket_page_size = api, agile, page_size
        self._address = str(http.base_url).rstrip("/")
        self._site: Site | None = None
        self._has_bulk_changelogs = True
        self._expired_tokens: dict[str, int] = {}

    async def check_health(self) -> Health:
        """Return whether the credentials are valid, by reading our own user.

        A failed request is not raised.
        """
        try:
            body = (await self._get(f"{self._api}/myself")).body
            return Health(is_ok=True, detail=f"Signed in as {read_field(body, 'displayName', str, JIRA)}")
        except (ExternalServiceFailed, RequestRefused, NotFound) as error:
            return Health(is_ok=False, detail=error.message)

    # --- changes --------------------------------------------------------------------------------------------

    async def fetch_changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        """Return the next page of unseen issues with their changes, and of the issues that they block."""
        site = await self._load_site()
        position = parse_position(project_key, checkpoint)
        position, unseen = await self._find_unseen(
            _build_jql(project_key, position, site.zone), site.fields, position
        )
        issues = [*unseen.issues, *await self._fetch_blocked_issues(unseen.issues, site.fields, project_key)]
        histories = await self._fetch_changelogs(issues)
        tickets: list[Ticket] = []
        news: list[FieldChange] = []
        for issue in issues:
            id = issue_parser.get_id(issue)
            history = histories.get(id, [])
            ticket = issue_parser.build_ticket(issue, site.fields, history, site.stages, self._address)
            tickets.append(ticket)
            news += issue_parser.build_changes(ticket.key, history, position.get_changes_start(id))
        after, is_whole = position.advance(
            unseen.seen,
            site.zone,
            is_last=unseen.is_last,
            page_token=unseen.page_token,
            now=int(unseen.answered_at * 1000),
        )
        return SyncPage(
            tickets=tuple(tickets),
            changes=tuple(news),
            checkpoint=after.to_text(),
            has_more=not is_whole,
            is_reset=position.start is None,
        )

    async def _find_unseen(
        self, jql: str, fields: CustomFields, position: ReadPosition
    ) -> tuple[ReadPosition, UnseenPage]:
        """Search from the position's page token, or from its start if Jira has forgotten the token.

        Return the position that was used too.
        """
        try:
            unseen = await self._find_unseen_from(jql, fields, position)
        except RequestRefused as error:
            if position.page_token is None or error.code != TOKEN_EXPIRED_CODE:
                raise
            self._count_expired_token(position)
            position = replace(position, page_token=None)
            return position, await self._find_unseen_from(jql, fields, position)
        if position.page_token is not None:
            self._expired_tokens.pop(position.project, None)
        return position, unseen

    def _count_expired_token(self, position: ReadPosition) -> None:
        """Count an expired page token. Raise ExternalServiceFailed if too many, for a truncated position.

        A complete position makes progress without a token, only slower. A truncated one would report the same
        issues forever.
        """
        self._expired_tokens[position.project] = self._expired_tokens.get(position.project, 0) + 1
        if position.is_truncated and self._expired_tokens[position.project] > MAX_EXPIRED_TOKENS:
            del self._expired_tokens[position.project]
            raise ExternalServiceFailed(
                f"Invalid response from {JIRA}: it rejects every page token that it issues.",
                may_be_done=False,
            )

    async def _find_unseen_from(self, jql: str, fields: CustomFields, position: ReadPosition) -> UnseenPage:
        """Return the first page with unseen issues, or the last page if there are none.

        The next page is fetched only if a page was seen completely: the pages of a search shift while tickets
        change.
        """
        seen: dict[str, int] = {}
        async for found in self._search.iterate_pages(jql, fields.requested, position.page_token):
            unseen: list[dict[str, Any]] = []
            for issue in found.issues:
                id, updated = issue_parser.get_id(issue), issue_parser.get_updated(issue)
                if not position.is_seen(id, updated):
                    unseen.append(issue)
                seen[id] = updated
                if len(unseen) == self._ticket_page_size and issue is not found.issues[-1]:
                    return UnseenPage(unseen, seen, None, False, found.answered_at)
            if unseen or found.next_token is None:
                return UnseenPage(unseen, seen, found.next_token, found.next_token is None, found.answered_at)
        raise build_endless_error("the search")

    async def _fetch_blocked_issues(
        self, issues: Sequence[dict[str, Any]], fields: CustomFields, project_key: str
    ) -> list[dict[str, Any]]:
        """Fetch the other issues of the project that the changed issues block.

        Their blocked state may have changed too, and Jira does not count that as an update of theirs.
        """
        reported = {read_field(issue, "key", str, JIRA) for issue in issues}
        waiting = {key for issue in issues for key in issue_parser.list_blocked_keys(issue)}
        keys = sorted(
            key
            for key in waiting - reported
            if TICKET_KEY.fullmatch(key) and _is_in_project(key, project_key)
        )
        found: list[dict[str, Any]] = []
        for begin in range(0, len(keys), self._ticket_page_size):
            found += await self._fetch_by_keys(
                keys[begin : begin + self._ticket_page_size], fields, project_key
            )
        return found

    async def _fetch_by_keys(
        self, keys: Sequence[str], fields: CustomFields, project_key: str
    ) -> list[dict[str, Any]]:
        """Fetch issues by key, without those that are deleted or hidden from us.

        Jira refuses the whole query for one such issue, so the keys are halved until that one is left out.
        """
        listed = ", ".join(f'"{key}"' for key in keys)
        jql = f'project = "{project_key}" AND key in ({listed}) ORDER BY updated ASC, key ASC'
        try:
            return [
                issue
                async for found in self._search.iterate_pages(jql, fields.requested)
                for issue in found.issues
            ]
        except RequestRefused:
            if len(keys) == 1:
                return []
            half = len(keys) // 2
            first = await self._fetch_by_keys(keys[:half], fields, project_key)
            return first + await self._fetch_by_keys(keys[half:], fields, project_key)

    async def _fetch_changelogs(self, issues: Sequence[Mapping[str, Any]]) -> dict[str, list[ChangelogEntry]]:
        """Return the changelogs of issues by id, oldest entry first."""
        ids = [issue_parser.get_id(issue) for issue in issues]
        if ids and self._has_bulk_changelogs:
            try:
                return await self._fetch_changelogs_in_bulk(ids)
            except (NotFound, RequestRefused) as error:
                # Server has no bulk endpoint. An endpoint that refuses these ids may accept the next ones.
                self._has_bulk_changelogs = not is_unsupported(error)
        return {id: await self._fetch_changelog(id) for id in ids}

    async def _fetch_changelogs_in_bulk(self, ids: list[str]) -> dict[str, list[ChangelogEntry]]:
        """Return the changelogs by issue id from the bulk endpoint, which only Cloud has."""
        histories: dict[str, list[ChangelogEntry]] = {}
        query: dict[str, Any] = {"issueIdsOrKeys": ids, "maxResults": 1000}
        for _ in range(MAX_PAGES):
            path = f"{self._api}/changelog/bulkfetch"
            body = (await self._client.request("POST", path, json=query, has_effect=False)).body
            for each in read_objects(read_field(body, "issueChangeLogs", list, JIRA), "issueChangeLogs"):
                entries = issue_parser.parse_changelog(each, "changeHistories")
                histories.setdefault(read_field(each, "issueId", str, JIRA), []).extend(entries)
            if not (next_token := body.get("nextPageToken")):
                return histories
            query["nextPageToken"] = next_token
        raise build_endless_error("the changelog")

    async def _fetch_changelog(self, id: str) -> list[ChangelogEntry]:
        """Return the changelog of one issue, oldest entry first."""
        try:
            pages = await self._fetch_all(f"{self._api}/issue/{_quote_segment(id)}/changelog")
            return issue_parser.parse_changelog({"values": pages}, "values")
        except NotFound:
            # Server returns the changelog only as a part of the issue.
            issue = (await self._get(f"{self._api}/issue/{_quote_segment(id)}", {"expand": "changelog"})).body
            return issue_parser.parse_changelog(read_field(issue, "changelog", dict, JIRA), "histories")

    # --- the plan -------------------------------------------------------------------------------------------

    async def fetch_plan(self, project_key: str) -> Plan:
        # Once per cycle, the facts about the site and its endpoints are fetched again.
        """Return the sprints of the project's boards and its versions as milestones.

        Also forget the facts about the site, so that they are fetched again once per cycle.
        """
        self._site, self._has_bulk_changelogs = None, True
        self._search.reset()
        sprints: dict[str, Sprint] = {}
        for board in await self._fetch_boards(_check_project_key(project_key)):
            for each in await self._fetch_sprints(board):
                sprint = issue_parser.parse_sprint(each)
                sprints[sprint.id] = sprint
        return Plan(
            sprints=tuple(sprints.values()), milestones=tuple(await self._fetch_milestones(project_key))
        )

    async def _fetch_boards(self, project_key: str) -> list[dict[str, Any]]:
        """Return the boards of a project; none if this Jira has no boards."""
        try:
            return await self._fetch_all(f"{self._agile}/board", {"projectKeyOrId": project_key})
        except NotFound:
            return []  # A Jira without boards.

    async def _fetch_sprints(self, board: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the sprints of a board; none for a Kanban board."""
        path = f"{self._agile}/board/{read_field(board, 'id', int, JIRA)}/sprint"
        return await self._fetch_all(path, passes=NO_SPRINTS_STATUSES)

    async def _fetch_milestones(self, project_key: str) -> list[Milestone]:
        """Return the project's versions that are not archived."""
        path = f"{self._api}/project/{_quote_segment(project_key)}"
        try:
            versions = await self._fetch_all(f"{path}/version")
        except NotFound:
            versions = read_objects((await self._get(f"{path}/versions")).body, "versions")
        return [issue_parser.parse_milestone(each) for each in versions if each.get("archived") is not True]

    # --- actions --------------------------------------------------------------------------------------------

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        """Add a comment and return its id and time.

        The reference is a property of the comment, which readers of the ticket do not see.
        """
        properties = [{"key": PROPERTY_KEY, "value": {"reference": reference}}]
        body = {"body": build_document(text), "properties": properties}
        answer = (
            await self._client.request("POST", f"{self._build_issue_path(ticket)}/comment", json=body)
        ).body
        return _build_comment_outcome(answer, may_be_done=True)

    async def find_comment(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """Return our comment with this reference, or None.

        For a deleted ticket it is None too: the comment itself will be refused.
        """
        query = {"orderBy": "-created", "expand": "properties"}
        try:
            comments = await self._fetch_all(
                f"{self._build_issue_path(ticket)}/comment", query, name="comments"
            )
        except NotFound:
            return None
        for each in comments:
            if await self._fetch_reference(each) == reference:
                return _build_comment_outcome(each)
        return None

    async def _fetch_reference(self, comment: Mapping[str, Any]) -> Any:
        """Return the reference of a comment, or None.

        If the response has no properties, they are fetched for our own comments only.
        """
        if "properties" in comment:
            properties = read_objects(comment["properties"], "properties")
            value = next((each.get("value") for each in properties if each.get("key") == PROPERTY_KEY), None)
        elif _get_account(comment.get("author")) == (await self._load_site()).account:
            id = _quote_segment(read_field(comment, "id", str, JIRA))
            value = await self._fetch_property(f"{self._api}/comment/{id}/properties/{PROPERTY_KEY}")
        else:
            return None
        return value.get("reference") if isinstance(value, dict) else None

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        """Move a ticket to `status`, a status name or a stage. A ticket that is already there stays.

        Raise ExternalServiceRefused if no transition leads there.
        """
        with refuse_missing():
            found = (await self._get(f"{self._build_issue_path(ticket)}/transitions")).body
        offered = read_objects(read_field(found, "transitions", list, JIRA), "transitions")
        chosen = _find_transition(status, offered)
        if chosen is None:
            return await self._check_already_there(ticket, status, offered)
        moved = {"status": _get_target(chosen)[0], "transition": read_field(chosen, "id", str, JIRA)}
        properties = [{"key": _build_property_key(reference), "value": {**moved, "reference": reference}}]
        body = {"transition": {"id": moved["transition"]}, "properties": properties}
        await self._client.request("POST", f"{self._build_issue_path(ticket)}/transitions", json=body)
        return moved

    async def find_move(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """Return the outcome that the move with this reference stored, or None."""
        value = await self._fetch_property(
            f"{self._build_issue_path(ticket)}/properties/{_quote_segment(_build_property_key(reference))}"
        )
        if not isinstance(value, dict) or value.get("reference") != reference:
            return None
        return {name: value.get(name) for name in ("status", "transition")}

    async def _check_already_there(
        self, ticket: str, wanted: str, offered: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the outcome if the ticket has the wanted status, else raise ExternalServiceRefused."""
        with refuse_missing():
            issue = (await self._get(self._build_issue_path(ticket), {"fields": "status"})).body
        status = read_field(read_field(issue, "fields", dict, JIRA), "status", dict, JIRA)
        if _find_transition(wanted, [{"to": status}]) is not None:
            return {"status": read_field(status, "name", str, JIRA), "transition": None}
        names = ", ".join(_get_target(each)[0] for each in offered) or "none"
        raise ExternalServiceRefused(
            "no_transition",
            f"No transition of {ticket} leads to {wanted}. Available target statuses: {names}.",
        )

    async def _fetch_property(self, path: str) -> Any:
        """Return the value of a property, or None if there is none."""
        try:
            return read_field((await self._get(path)).body, "value", object, JIRA)
        except NotFound:
            return None

    # --- requests -------------------------------------------------------------------------------------------

    async def _load_site(self) -> Site:
        """Return the facts about the site, fetched if they are not known."""
        if self._site is None:
            me = (await self._get(f"{self._api}/myself")).body
            fields = (await self._get(f"{self._api}/field")).body
            statuses = (await self._get(f"{self._api}/status")).body
            zone = _parse_zone(read_field(me, "timeZone", str, JIRA))
            found, stages = issue_parser.parse_fields(fields), issue_parser.parse_stages(statuses)
            self._site = Site(_get_account(me), zone, found, stages)
        return self._site

    async def _fetch_all(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        name: str = "values",
        passes: frozenset[int] = frozenset(),
    ) -> list[dict[str, Any]]:
        """Return all items of a list paged by `startAt`; none for a response with a status in `passes`.

        `name` is the field with the items. The list ends with `isLast`, `total` or an empty page.
        """
        items: list[dict[str, Any]] = []
        for _ in range(MAX_PAGES):
            query = {**(params or {}), "startAt": len(items), "maxResults": PAGE_SIZE}
            answer = await self._client.request("GET", path, params=query, accepted_statuses=passes)
            if answer.status in passes:
                return []
            page = read_objects(read_field(answer.body, name, list, JIRA), name)
            items += page
            total = answer.body.get("total")
            is_whole = isinstance(total, int) and len(items) >= total
            if not page or is_whole or answer.body.get("isLast") is True:
                return items
        raise build_endless_error(path)

    async def _get(self, path: str, params: Mapping[str, Any] | None = None) -> ExternalResponse:
        return await self._client.request("GET", path, params=params)

    def _build_issue_path(self, ticket: str) -> str:
        """Return the path of an issue. Raise ExternalServiceRefused if the key is invalid."""
        if not TICKET_KEY.fullmatch(ticket):
            raise ExternalServiceRefused(
                "no_ticket", f"Invalid ticket key {ticket[:40]!r}: expected one like MCU-142."
            )
        return f"{self._api}/issue/{ticket}"


def _build_jql(project_key: str, position: ReadPosition, zone: ZoneInfo) -> str:
    """Build the query for the project's issues since the position, oldest update first."""
    where = f'project = "{_check_project_key(project_key)}"'
    if position.start is not None:
        where += f' AND updated >= "{format_jql_time(position.start, zone)}"'
    return f"{where} ORDER BY updated ASC, key ASC"


def _check_project_key(key: str) -> str:
    """Return the key. Raise ExternalServiceRefused if it is invalid."""
    if not PROJECT_KEY.fullmatch(key):
        raise ExternalServiceRefused(
            "no_project", f"Invalid project key {key[:40]!r}: expected one like MCU."
        )
    return key


def _is_in_project(ticket: str, project_key: str) -> bool:
    """Return whether the key of a ticket is one of this project."""
    return ticket.rpartition("-")[0] == project_key


def _find_transition(wanted: str, transitions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the transition to a status, found by name, else by stage, else None."""
    name = wanted.strip().casefold()
    by_name = [each for each in transitions if _get_target(each)[0].casefold() == name]
    by_stage = [each for each in transitions if _get_target(each)[1].value == name.replace(" ", "_")]
    return next(iter([*by_name, *by_stage]), None)


def _get_target(transition: Mapping[str, Any]) -> tuple[str, TicketStage]:
    """Return the name and the stage of the status that a transition leads to."""
    to = read_field(transition, "to", dict, JIRA)
    return read_field(to, "name", str, JIRA), issue_parser.parse_stage(to)


def _build_comment_outcome(comment: Any, *, may_be_done: bool = False) -> dict[str, Any]:
    return {
        "comment": read_field(comment, "id", str, JIRA, may_be_done=may_be_done),
        "at": read_field(comment, "created", str, JIRA, may_be_done=may_be_done),
    }


def _get_account(user: Any) -> str | None:
    """Return the account id (Cloud) or the user name (Server)."""
    found = (user.get("accountId") or user.get("name")) if isinstance(user, dict) else None
    return found if isinstance(found, str) else None


def _build_property_key(reference: str) -> str:
    """Return the property key of a reference.

    Each move has a property of its own, so a later move keeps the trace of an earlier one.
    """
    plain = SAFE_REFERENCE.fullmatch(reference) is not None
    return f"{PROPERTY_KEY}.{reference if plain else hashlib.sha256(reference.encode()).hexdigest()}"


def _parse_zone(name: str) -> ZoneInfo:
    """Return the time zone. Raise ExternalServiceFailed if it is unknown."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ExternalServiceFailed(
            f"Invalid response from {JIRA}: unknown time zone {name[:40]!r}.", may_be_done=False
        ) from error


def _quote_segment(text: str) -> str:
    return quote(text, safe="")
