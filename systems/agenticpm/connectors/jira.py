"""The tracker Jira: Cloud by REST v3 and Agile 1.0, Server and Data Center where they speak the same.

    changes:  search from the checkpoint → the first page that has something unseen → its changelogs → tickets
    comment:  a comment with the property `holdfast`, by which it is looked up
    move:     a transition that leads where it should, with an issue property of its own, by which it is looked up

A search goes on from a place (`jira_search`). Everything else that is long is paged by `startAt`. What a server has not is
found out by asking, and asked for anew once a cycle.
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

from agenticpm.connectors import jira_issues
from agenticpm.connectors.adf import document
from agenticpm.connectors.jira_issues import JIRA, Entry, Fields, mappings
from agenticpm.connectors.jira_marks import Reading, jql_time, reading_of
from agenticpm.connectors.jira_search import PAGES_MAX, JiraSearch, endless, is_absent
from agenticpm.tickets import FieldChange, Health, Milestone, Plan, Sprint, Stage, SyncPage, Ticket
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import NotFound, PartyFailed, PartyRefused, RequestRefused
from holdfast.web.parties import Answer, Party, member, refusing_what_is_gone

API: Final = "/rest/api/3"
AGILE: Final = "/rest/agile/1.0"
PAGE_TICKETS: Final = 50
PAGE_LONG: Final = 100
# Places in a row that Jira gives and then does not know, where nothing else leads on.
LAPSES_MAX: Final = 3
LAPSED: Final = "400"
PROPERTY: Final = "holdfast"
PLAIN: Final = re.compile(r"[A-Za-z0-9_.\-]{1,200}")
PROJECT_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
TICKET_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*-[0-9]+|[0-9]+")
NO_SPRINTS: Final = frozenset({400})


@dataclass(frozen=True)
class Site:
    """What is asked once: who we are, in which zone JQL tells times, which fields hold what, and the statuses."""

    account: str | None
    zone: ZoneInfo
    fields: Fields
    stages: Mapping[str, Stage]


@dataclass(frozen=True)
class Unseen:
    """The first page that has something unseen, what was seen on the way, where it goes on, and when it was told."""

    issues: list[dict[str, Any]]
    seen: Mapping[str, int]
    place: str | None
    is_last: bool
    at: float


class JiraTracker:
    """A `Tracker`. The client knows the address and the credentials (basic, e-mail and API token)."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        api: str = API,
        agile: str = AGILE,
        page_tickets: int = PAGE_TICKETS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._party = Party(http, JIRA, clock)
        self._search = JiraSearch(self._party, api, page_tickets)
        self._api, self._agile, self._page_tickets = api, agile, page_tickets
        self._address = str(http.base_url).rstrip("/")
        self._site: Site | None = None
        self._has_bulk = True
        self._lapses: dict[str, int] = {}

    async def health(self) -> Health:
        try:
            body = (await self._get(f"{self._api}/myself")).body
            return Health(is_ok=True, detail=f"signed in as {member(body, 'displayName', str, JIRA)}")
        except (PartyFailed, RequestRefused, NotFound) as error:
            return Health(is_ok=False, detail=error.message)

    # --- what changed ---------------------------------------------------------------------------------------

    async def changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        site = await self._known_site()
        reading = reading_of(project_key, checkpoint)
        reading, read = await self._unseen(_jql(project_key, reading, site.zone), site.fields, reading)
        issues = [*read.issues, *await self._waiting(read.issues, site.fields, project_key)]
        histories = await self._histories(issues)
        tickets: list[Ticket] = []
        news: list[FieldChange] = []
        for issue in issues:
            id = jira_issues.id_of(issue)
            history = histories.get(id, [])
            ticket = jira_issues.ticket_of(issue, site.fields, history, site.stages, self._address)
            tickets.append(ticket)
            news += jira_issues.changes_of(ticket.key, history, reading.told_after(id))
        after, is_whole = reading.after(
            read.seen, site.zone, is_last=read.is_last, place=read.place, now=int(read.at * 1000)
        )
        return SyncPage(
            tickets=tuple(tickets),
            changes=tuple(news),
            checkpoint=after.text(),
            has_more=not is_whole,
            is_reset=reading.start is None,
        )

    async def _unseen(self, jql: str, fields: Fields, reading: Reading) -> tuple[Reading, Unseen]:
        """From the place of the reading; from its start, where Jira has forgotten the place."""
        try:
            read = await self._unseen_from(jql, fields, reading)
        except RequestRefused as error:
            if reading.place is None or error.code != LAPSED:
                raise
            self._lapsed(reading)
            reading = replace(reading, place=None)
            return reading, await self._unseen_from(jql, fields, reading)
        if reading.place is not None:
            self._lapses.pop(reading.project, None)
        return reading, read

    def _lapsed(self, reading: Reading) -> None:
        """What is seen leads on without a place too, only slower; but where it is cut, the same would be told for ever."""
        self._lapses[reading.project] = self._lapses.get(reading.project, 0) + 1
        if reading.is_cut and self._lapses[reading.project] > LAPSES_MAX:
            del self._lapses[reading.project]
            raise PartyFailed(
                f"{JIRA} answers nonsense: it knows none of the places that it gives.", may_be_done=False
            )

    async def _unseen_from(self, jql: str, fields: Fields, reading: Reading) -> Unseen:
        """Only where a whole page was seen is the next one asked for: pages of a search move while tickets change."""
        seen: dict[str, int] = {}
        async for found in self._search.pages(jql, fields.asked, reading.place):
            unseen: list[dict[str, Any]] = []
            for issue in found.issues:
                id, updated = jira_issues.id_of(issue), jira_issues.updated_of(issue)
                if not reading.is_seen(id, updated):
                    unseen.append(issue)
                seen[id] = updated
                if len(unseen) == self._page_tickets and issue is not found.issues[-1]:
                    return Unseen(unseen, seen, None, False, found.at)
            if unseen or found.place is None:
                return Unseen(unseen, seen, found.place, found.place is None, found.at)
        raise endless("the search")

    async def _waiting(
        self, issues: Sequence[dict[str, Any]], fields: Fields, project_key: str
    ) -> list[dict[str, Any]]:
        """Issues that wait for those that changed: whether they are blocked may have changed with them, and Jira does
        not count that as a change of theirs."""
        told = {member(issue, "key", str, JIRA) for issue in issues}
        waiting = {key for issue in issues for key in jira_issues.blocked_by(issue)}
        keys = sorted(key for key in waiting - told if TICKET_KEY.fullmatch(key) and _is_of(key, project_key))
        found: list[dict[str, Any]] = []
        for begin in range(0, len(keys), self._page_tickets):
            found += await self._keyed(keys[begin : begin + self._page_tickets], fields, project_key)
        return found

    async def _keyed(self, keys: Sequence[str], fields: Fields, project_key: str) -> list[dict[str, Any]]:
        """Issues by their keys. One that is gone, or hidden from us, has Jira refuse them all: asked by halves, it is
        left out alone."""
        listed = ", ".join(f'"{key}"' for key in keys)
        jql = f'project = "{project_key}" AND key in ({listed}) ORDER BY updated ASC, key ASC'
        try:
            return [issue async for found in self._search.pages(jql, fields.asked) for issue in found.issues]
        except RequestRefused:
            if len(keys) == 1:
                return []
            half = len(keys) // 2
            first = await self._keyed(keys[:half], fields, project_key)
            return first + await self._keyed(keys[half:], fields, project_key)

    async def _histories(self, issues: Sequence[Mapping[str, Any]]) -> dict[str, list[Entry]]:
        """The changelogs of issues by id, oldest first."""
        ids = [jira_issues.id_of(issue) for issue in issues]
        if ids and self._has_bulk:
            try:
                return await self._in_bulk(ids)
            except (NotFound, RequestRefused) as error:
                # Server has none. What refuses these ids may take the next ones.
                self._has_bulk = not is_absent(error)
        return {id: await self._changelog(id) for id in ids}

    async def _in_bulk(self, ids: list[str]) -> dict[str, list[Entry]]:
        histories: dict[str, list[Entry]] = {}
        asked: dict[str, Any] = {"issueIdsOrKeys": ids, "maxResults": 1000}
        for _ in range(PAGES_MAX):
            path = f"{self._api}/changelog/bulkfetch"
            body = (await self._party.ask("POST", path, json=asked, changes=False)).body
            for each in mappings(member(body, "issueChangeLogs", list, JIRA), "issueChangeLogs"):
                entries = jira_issues.entries_of(each, "changeHistories")
                histories.setdefault(member(each, "issueId", str, JIRA), []).extend(entries)
            if not (following := body.get("nextPageToken")):
                return histories
            asked["nextPageToken"] = following
        raise endless("the changelog")

    async def _changelog(self, id: str) -> list[Entry]:
        try:
            pages = await self._long(f"{self._api}/issue/{_segment(id)}/changelog")
            return jira_issues.entries_of({"values": pages}, "values")
        except NotFound:
            # Server has it inside the issue only.
            issue = (await self._get(f"{self._api}/issue/{_segment(id)}", {"expand": "changelog"})).body
            return jira_issues.entries_of(member(issue, "changelog", dict, JIRA), "histories")

    # --- the plan -------------------------------------------------------------------------------------------

    async def plan(self, project_key: str) -> Plan:
        # Once a cycle: what the site is made of, and what it has, is asked anew then.
        self._site, self._has_bulk = None, True
        self._search.forget()
        sprints: dict[str, Sprint] = {}
        for board in await self._boards(_project(project_key)):
            for each in await self._sprints(board):
                sprint = jira_issues.sprint_of(each)
                sprints[sprint.id] = sprint
        return Plan(sprints=tuple(sprints.values()), milestones=tuple(await self._milestones(project_key)))

    async def _boards(self, project_key: str) -> list[dict[str, Any]]:
        try:
            return await self._long(f"{self._agile}/board", {"projectKeyOrId": project_key})
        except NotFound:
            return []  # A Jira without boards.

    async def _sprints(self, board: Mapping[str, Any]) -> list[dict[str, Any]]:
        """None of a board that knows none: Kanban."""
        path = f"{self._agile}/board/{member(board, 'id', int, JIRA)}/sprint"
        return await self._long(path, passes=NO_SPRINTS)

    async def _milestones(self, project_key: str) -> list[Milestone]:
        path = f"{self._api}/project/{_segment(project_key)}"
        try:
            versions = await self._long(f"{path}/version")
        except NotFound:
            versions = mappings((await self._get(f"{path}/versions")).body, "versions")
        return [jira_issues.milestone_of(each) for each in versions if each.get("archived") is not True]

    # --- what goes outward ----------------------------------------------------------------------------------

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        """The reference is a property of the comment: who reads the ticket does not see it."""
        properties = [{"key": PROPERTY, "value": {"reference": reference}}]
        body = {"body": document(text), "properties": properties}
        answer = (await self._party.ask("POST", f"{self._issue(ticket)}/comment", json=body)).body
        return _comment_outcome(answer, may_be_done=True)

    async def commented(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """None of a ticket that is gone, too: the comment itself will be refused."""
        asked = {"orderBy": "-created", "expand": "properties"}
        try:
            comments = await self._long(f"{self._issue(ticket)}/comment", asked, name="comments")
        except NotFound:
            return None
        for each in comments:
            if await self._reference_of(each) == reference:
                return _comment_outcome(each)
        return None

    async def _reference_of(self, comment: Mapping[str, Any]) -> Any:
        """Of a comment that came without its properties, they are asked for, if it is ours."""
        if "properties" in comment:
            told = mappings(comment["properties"], "properties")
            value = next((each.get("value") for each in told if each.get("key") == PROPERTY), None)
        elif _account_of(comment.get("author")) == (await self._known_site()).account:
            id = _segment(member(comment, "id", str, JIRA))
            value = await self._property(f"{self._api}/comment/{id}/properties/{PROPERTY}")
        else:
            return None
        return value.get("reference") if isinstance(value, dict) else None

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        """`status` is the name of one, or a stage. A ticket that is there already is left there."""
        with refusing_what_is_gone():
            found = (await self._get(f"{self._issue(ticket)}/transitions")).body
        offered = mappings(member(found, "transitions", list, JIRA), "transitions")
        chosen = _leading_to(status, offered)
        if chosen is None:
            return await self._stayed(ticket, status, offered)
        moved = {"status": _target(chosen)[0], "transition": member(chosen, "id", str, JIRA)}
        properties = [{"key": _property_key(reference), "value": {**moved, "reference": reference}}]
        body = {"transition": {"id": moved["transition"]}, "properties": properties}
        await self._party.ask("POST", f"{self._issue(ticket)}/transitions", json=body)
        return moved

    async def moved(self, ticket: str, reference: str) -> dict[str, Any] | None:
        value = await self._property(f"{self._issue(ticket)}/properties/{_segment(_property_key(reference))}")
        if not isinstance(value, dict) or value.get("reference") != reference:
            return None
        return {name: value.get(name) for name in ("status", "transition")}

    async def _stayed(self, ticket: str, wanted: str, offered: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        with refusing_what_is_gone():
            issue = (await self._get(self._issue(ticket), {"fields": "status"})).body
        status = member(member(issue, "fields", dict, JIRA), "status", dict, JIRA)
        if _leading_to(wanted, [{"to": status}]) is not None:
            return {"status": member(status, "name", str, JIRA), "transition": None}
        names = ", ".join(_target(each)[0] for each in offered) or "none"
        raise PartyRefused(
            "no_transition", f"No transition of {ticket} leads to {wanted}; those there are lead to: {names}."
        )

    async def _property(self, path: str) -> Any:
        try:
            return member((await self._get(path)).body, "value", object, JIRA)
        except NotFound:
            return None

    # --- how it is asked ------------------------------------------------------------------------------------

    async def _known_site(self) -> Site:
        if self._site is None:
            me = (await self._get(f"{self._api}/myself")).body
            fields = (await self._get(f"{self._api}/field")).body
            statuses = (await self._get(f"{self._api}/status")).body
            zone = _zone(member(me, "timeZone", str, JIRA))
            found, stages = jira_issues.fields_of(fields), jira_issues.stages_of(statuses)
            self._site = Site(_account_of(me), zone, found, stages)
        return self._site

    async def _long(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        name: str = "values",
        passes: frozenset[int] = frozenset(),
    ) -> list[dict[str, Any]]:
        """All of what is paged by `startAt`: the end is told by `isLast` or by `total`, else it is an empty page."""
        gathered: list[dict[str, Any]] = []
        for _ in range(PAGES_MAX):
            asked = {**(params or {}), "startAt": len(gathered), "maxResults": PAGE_LONG}
            answer = await self._party.ask("GET", path, params=asked, passes=passes)
            if answer.status in passes:
                return []
            page = mappings(member(answer.body, name, list, JIRA), name)
            gathered += page
            total = answer.body.get("total")
            is_whole = isinstance(total, int) and len(gathered) >= total
            if not page or is_whole or answer.body.get("isLast") is True:
                return gathered
        raise endless(path)

    async def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        return await self._party.ask("GET", path, params=params)

    def _issue(self, ticket: str) -> str:
        if not TICKET_KEY.fullmatch(ticket):
            raise PartyRefused("no_ticket", f"{ticket[:40]!r} is no key of a ticket: one looks like MCU-142.")
        return f"{self._api}/issue/{ticket}"


def _jql(project_key: str, reading: Reading, zone: ZoneInfo) -> str:
    where = f'project = "{_project(project_key)}"'
    if reading.start is not None:
        where += f' AND updated >= "{jql_time(reading.start, zone)}"'
    return f"{where} ORDER BY updated ASC, key ASC"


def _project(key: str) -> str:
    if not PROJECT_KEY.fullmatch(key):
        raise PartyRefused("no_project", f"{key[:40]!r} is no key of a project: one looks like MCU.")
    return key


def _is_of(ticket: str, project_key: str) -> bool:
    return ticket.rpartition("-")[0] == project_key


def _leading_to(wanted: str, transitions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """By the name of the status, else by its stage."""
    name = wanted.strip().casefold()
    by_name = [each for each in transitions if _target(each)[0].casefold() == name]
    by_stage = [each for each in transitions if _target(each)[1].value == name.replace(" ", "_")]
    return next(iter([*by_name, *by_stage]), None)


def _target(transition: Mapping[str, Any]) -> tuple[str, Stage]:
    to = member(transition, "to", dict, JIRA)
    return member(to, "name", str, JIRA), jira_issues.stage_of(to)


def _comment_outcome(comment: Any, *, may_be_done: bool = False) -> dict[str, Any]:
    return {
        "comment": member(comment, "id", str, JIRA, may_be_done=may_be_done),
        "at": member(comment, "created", str, JIRA, may_be_done=may_be_done),
    }


def _account_of(user: Any) -> str | None:
    """Cloud knows people by account, Server by name."""
    found = (user.get("accountId") or user.get("name")) if isinstance(user, dict) else None
    return found if isinstance(found, str) else None


def _property_key(reference: str) -> str:
    """One property per reference: a later move leaves the trace of an earlier one."""
    plain = PLAIN.fullmatch(reference) is not None
    return f"{PROPERTY}.{reference if plain else hashlib.sha256(reference.encode()).hexdigest()}"


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise PartyFailed(
            f"{JIRA} answers nonsense: {name[:40]!r} is no time zone.", may_be_done=False
        ) from error


def _segment(text: str) -> str:
    return quote(text, safe="")
