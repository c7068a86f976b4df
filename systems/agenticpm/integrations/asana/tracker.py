"""The Asana tracker: read tasks changed since a sync token, read milestones, comment, and move tasks.

The checkpoint is JSON: the sync token, and the position of a full read. Everything is read again if the token
has expired. Asana returns the same events for the current token again, and tasks are read in their current
state. So reading a checkpoint twice gives the same tickets unless someone changed them, and nothing is
skipped. A new token is taken before a full read, so that later changes are reported afterwards. From an event
only the tasks it concerns are used.

Asana stores no reference with a comment or a move. Its `external` data is unsuitable: it needs OAuth, there
is one per task, and setting it is a second write. So a comment carries its reference as its last line and is
found among our own comments. A move is announced first, by a comment with the section and the reference; then
the task is moved. The move counts as done if a later story says that we moved the task there, or if the task
is there now. Remaining gap: a task that a person moves back in the moment between our move and its story may
be moved a second time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool, ValidationError

from agenticpm.domain.tickets import FieldChange, Health, Milestone, Plan, SyncPage, Ticket, TicketStage
from agenticpm.integrations.asana.task_parser import (
    MILESTONE,
    STORY_FIELDS,
    TASK_FIELDS,
    NamedResource,
    Story,
    Task,
    build_changes,
    build_milestone,
    build_ticket,
    parse_stage,
)
from agenticpm.integrations.response_models import ResponseModel, ResponseTime, parse_response
from holdfast.core.errors import (
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    InvalidRequest,
    NotFound,
)
from holdfast.web.external_client import ExternalClient, refuse_missing

NAME: Final = "Asana"
API: Final = "/api/1.0"
MAX_PAGE: Final = 100
# Page size of a full read. Each task with begun work costs one more request, for its stories.
TASK_PAGE_SIZE: Final = 50
# Pages of one list that are read before the response counts as endless.
MAX_PAGES: Final = 1000
# Empty pages in a row that announce more; and offsets in a row that Asana issues and then rejects.
MAX_EMPTY_PAGES: Final = 20
MAX_EXPIRED_OFFSETS: Final = 3
FORBIDDEN: Final = 403
TOKEN_EXPIRED: Final = 412
# The time of a story may be slightly before that of its event.
STORY_TIME_SKEW: Final = timedelta(seconds=2)
REFERENCE_PREFIX: Final = "ref: "
SECTION_PREFIX: Final = "section: "
ANNOUNCEMENT_NOTE: Final = "The comment that announces the move was already posted."


class Offset(ResponseModel):
    offset: str = Field(min_length=1)


class TaskList(ResponseModel):
    data: list[Task]
    next_page: Offset | None = None


class StoryList(ResponseModel):
    data: list[Story]
    next_page: Offset | None = None


class SectionList(ResponseModel):
    data: list[NamedResource]
    next_page: Offset | None = None


class TaskResponse(ResponseModel):
    data: Task


class NamedResponse(ResponseModel):
    data: NamedResource


class EventResource(ResponseModel):
    gid: str = Field(min_length=1)
    resource_type: str


class Event(ResponseModel):
    action: str
    resource: EventResource | None = None
    parent: EventResource | None = None
    created_at: ResponseTime


class FreshToken(ResponseModel):
    """The new sync token in a 412 response: the request had an expired token or none."""

    sync: str = Field(min_length=1)


class EventList(ResponseModel):
    data: list[Event]
    sync: str = Field(min_length=1)
    has_more: StrictBool = False


S = TypeVar("S", bound=ResponseModel)
L = TypeVar("L", TaskList, StoryList, SectionList)


class ReadPosition(BaseModel):
    """How far a project was read, stored as the checkpoint.

    `offset` is set during a full read. `since` is the time from which changes are new, `seen_at` the latest
    time seen.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: str
    sync: str | None = None
    offset: str | None = None
    since: AwareDatetime | None = None
    seen_at: AwareDatetime | None = None

    @classmethod
    def parse(cls, project: str, checkpoint: str | None) -> ReadPosition:
        """Parse a checkpoint. None, an invalid one, or one of another project starts a full read."""
        try:
            found = cls.model_validate_json(checkpoint or "")
        except ValidationError:
            return cls(project=project)
        return found if found.project == project else cls(project=project)

    def with_token(self, sync: str) -> ReadPosition:
        """Return the position with a new sync token; changes after `seen_at` are new."""
        return ReadPosition(project=self.project, sync=sync, since=self.seen_at, seen_at=self.seen_at)

    def to_text(self) -> str:
        """Return the position as the text of a checkpoint."""
        return self.model_dump_json(exclude_none=True)


@dataclass(frozen=True)
class _Announcement:
    """Our comment that announces a move: the gid of its section, and the stories after it."""

    section: str
    later_stories: Sequence[Story]


class AsanaTracker:
    """A `Tracker` for Asana. The HTTP client has Asana's address and the token."""

    def __init__(self, http: httpx2.AsyncClient, *, page_size: int = TASK_PAGE_SIZE) -> None:
        self._client = ExternalClient(http, NAME)
        self._page_size = page_size
        self._own_gid: str | None = None
        self._expired_offsets: dict[str, int] = {}

    async def check_health(self) -> Health:
        """Return whether the token is valid, by reading our own user. It never raises a HoldfastError."""
        try:
            found = await self._get(NamedResponse, "/users/me", {"opt_fields": "name"})
        except HoldfastError as error:
            return Health(is_ok=False, detail=error.message)
        return Health(is_ok=True, detail=f"Signed in as {found.data.name or found.data.gid}.")

    # --- changes --------------------------------------------------------------------------------------------

    async def fetch_changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        """Return the next page: tasks of new events, or the next page of a full read.

        An expired offset restarts the full read.
        """
        position = ReadPosition.parse(project_key, checkpoint)
        if position.offset is None:
            return await self._fetch_events(position)
        try:
            page = await self._fetch_full_page(position, is_reset=False)
        except ExternalServiceRefused as error:
            # Offsets expire too, reported with 400: start from the beginning.
            if error.code != "400":
                raise
            self._count_expired_offset(project_key)
            return await self._fetch_events(ReadPosition(project=project_key, seen_at=position.since))
        self._expired_offsets.pop(project_key, None)
        return page

    def _count_expired_offset(self, project: str) -> None:
        """Count expired offsets in a row; above the limit, raise ExternalServiceFailed.

        Otherwise a full read could restart forever.
        """
        self._expired_offsets[project] = self._expired_offsets.get(project, 0) + 1
        if self._expired_offsets[project] > MAX_EXPIRED_OFFSETS:
            # The next call starts a new count.
            del self._expired_offsets[project]
            raise _build_invalid_response("it rejects every offset that it issues")

    async def _fetch_events(self, position: ReadPosition) -> SyncPage:
        """Return the changes since the sync token, or the first page of a full read.

        A full read starts without a valid token, or if a section changed. At most `MAX_EMPTY_PAGES` pages
        without tasks are skipped.
        """
        sync, events = position.sync, list[Event]()
        for _ in range(MAX_EMPTY_PAGES):
            params = {"resource": position.project} | ({"sync": sync} if sync else {})
            answer = await self._client.request(
                "GET", f"{API}/events", params=params, accepted_statuses=frozenset({TOKEN_EXPIRED})
            )
            if answer.status == TOKEN_EXPIRED:
                fresh = parse_response(FreshToken, answer.body, NAME).sync
                return await self._fetch_full_page(position.with_token(fresh), is_reset=True)
            page = parse_response(EventList, answer.body, NAME)
            events += page.data
            # A renamed section changes the status of every task in it.
            if position.sync is None or any(map(_is_section_change, page.data)):
                return await self._fetch_full_page(position.with_token(page.sync), is_reset=True)
            if _find_touched_tasks(page.data) or not page.has_more:
                return await self._fetch_changed_tasks(
                    position.with_token(page.sync), events, has_more=page.has_more
                )
            sync = page.sync
        raise _build_invalid_response("event pages announce more events but are empty")

    async def _fetch_changed_tasks(
        self, position: ReadPosition, events: Sequence[Event], *, has_more: bool
    ) -> SyncPage:
        """Fetch the tasks that the events concern, in their current state; those not found are `gone`."""
        tickets: list[Ticket] = []
        changes: list[FieldChange] = []
        gone: list[str] = []
        for gid, at in _find_touched_tasks(events).items():
            task = await self._fetch_task(gid)
            stories = None if task is None else await self._fetch_stories(gid)
            section = None if task is None else task.get_section(position.project)
            if task is None or stories is None or section is None or task.resource_subtype == MILESTONE:
                gone.append(gid)
                continue
            tickets.append(build_ticket(task, section, stories))
            changes += build_changes(gid, stories, at - STORY_TIME_SKEW)
        seen_at = _get_latest(position.seen_at, [each.created_at for each in events], tickets)
        after = ReadPosition(project=position.project, sync=position.sync, seen_at=seen_at)
        return _build_page(tickets, changes, after, gone=gone, has_more=has_more)

    async def _fetch_full_page(self, position: ReadPosition, *, is_reset: bool) -> SyncPage:
        """Fetch one page of a full read. After the last page, reading continues from the sync token."""
        listed = await self._fetch_task_page(position)
        tickets: list[Ticket] = []
        changes: list[FieldChange] = []
        for task in listed.data:
            section = task.get_section(position.project)
            if section is None or task.resource_subtype == MILESTONE:
                continue
            stories = await self._fetch_needed_stories(task, section, position.since)
            tickets.append(build_ticket(task, section, stories))
            if position.since is not None:
                changes += build_changes(task.gid, stories, position.since)
        offset = listed.next_page.offset if listed.next_page else None
        seen_at = _get_latest(position.seen_at, [], tickets)
        after = ReadPosition(
            project=position.project,
            sync=position.sync,
            offset=offset,
            since=position.since if offset else None,
            seen_at=seen_at,
        )
        return _build_page(tickets, changes, after, has_more=offset is not None, is_reset=is_reset)

    async def _fetch_task_page(self, position: ReadPosition) -> TaskList:
        """Return the next page that has a task. Empty pages are skipped, up to `MAX_EMPTY_PAGES`."""
        params = {"opt_fields": TASK_FIELDS, "limit": self._page_size}
        offset = position.offset
        for _ in range(MAX_EMPTY_PAGES):
            query = params | ({"offset": offset} if offset else {})
            try:
                listed = await self._get(TaskList, f"/projects/{_quote_gid(position.project)}/tasks", query)
            except ExternalServiceRefused as error:
                if offset == position.offset or error.code != "400":
                    raise
                raise _build_invalid_response("it rejects the offset that it just issued") from error
            if listed.data or listed.next_page is None:
                return listed
            offset = listed.next_page.offset
        raise _build_invalid_response("task pages announce more tasks but are empty")

    async def _fetch_needed_stories(
        self, task: Task, section: NamedResource, since: datetime | None
    ) -> Sequence[Story]:
        """Fetch the stories of a task if work has begun or it changed after `since`; else return none."""
        has_begun = task.completed or parse_stage(section.name or "") is not TicketStage.to_do
        if has_begun or (since is not None and task.modified_at >= since):
            return await self._fetch_stories(task.gid) or ()
        return ()

    # --- the plan -------------------------------------------------------------------------------------------

    async def fetch_plan(self, project_key: str) -> Plan:
        """Return the milestones. Asana has no sprints: a sprint's name is a custom field of its tasks."""
        milestones: list[Milestone] = []
        path = f"/projects/{_quote_gid(project_key)}/tasks"
        async for page in self._iterate_pages(TaskList, path, {"opt_fields": TASK_FIELDS}):
            milestones += [
                build_milestone(task, section)
                for task in page.data
                if task.resource_subtype == MILESTONE
                and (section := task.get_section(project_key)) is not None
            ]
        return Plan(milestones=tuple(milestones))

    # --- actions --------------------------------------------------------------------------------------------

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        """Post a comment with the reference as its last line. Return its id and the ticket."""
        story = await self._post_story(ticket, f"{text}\n\n{_format_reference_line(reference)}")
        return {"id": story, "ticket": ticket}

    async def find_comment(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """Return the id and ticket of our comment with this reference, or None."""
        found, _ = await self._find_own_comment(ticket, reference)
        return None if found is None else {"id": found.gid, "ticket": ticket}

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        """Move a task to a section of one of its projects, announced by a comment with the reference.

        Do nothing if it is there already.
        """
        with refuse_missing():
            task = await self._fetch_task(ticket)
            if task is None:
                raise NotFound(f"{NAME} has no task {ticket}, or we have no permission to read it.")
            section = await self._find_section(task, status)
        outcome = {"ticket": ticket, "status": section.name or status, "section": section.gid}
        if _is_in_section(task, section.gid):
            return outcome
        if await self._find_announcement(ticket, reference) is None:
            text = f"Moving this task to {section.name}.\n\n{SECTION_PREFIX}{section.gid}\n"
            await self._post_story(ticket, text + _format_reference_line(reference))
        await self._add_to_section(section, ticket)
        return outcome

    async def _add_to_section(self, section: NamedResource, ticket: str) -> None:
        """Move the task into the section.

        The announcement exists by now, so a failure is raised as one that may have had an effect.
        """
        path = f"{API}/sections/{_quote_gid(section.gid)}/addTask"
        try:
            await self._client.request("POST", path, json={"data": {"task": ticket}})
        except ExternalServiceFailed as failed:
            text = f"{failed.message} {ANNOUNCEMENT_NOTE}"
            raise ExternalServiceFailed(
                text, may_be_done=True, retry_after_s=failed.retry_after_s
            ) from failed
        except ExternalServiceRefused as refused:
            raise ExternalServiceRefused(refused.code, f"{refused.message} {ANNOUNCEMENT_NOTE}") from refused

    async def find_move(self, ticket: str, reference: str) -> dict[str, Any] | None:
        """Return the outcome of the announced move if it was made, or None."""
        announced = await self._find_announcement(ticket, reference)
        if announced is None:
            return None
        outcome = {"ticket": ticket, "section": announced.section}
        me = await self._get_own_gid()
        for story in announced.later_stories:
            to = story.new_section if story.resource_subtype == "section_changed" else None
            if (
                to is not None
                and to.gid == announced.section
                and story.created_by
                and story.created_by.gid == me
            ):
                return {**outcome, "status": to.name or to.gid}
        task = await self._fetch_task(ticket)
        if task is None or not _is_in_section(task, announced.section):
            return None
        return {**outcome, "status": _get_section_name(task, announced.section)}

    async def _find_announcement(self, ticket: str, reference: str) -> _Announcement | None:
        """Return our announcement of the move with this reference, or None."""
        found, later = await self._find_own_comment(ticket, reference)
        lines = (found.text or "").rstrip().splitlines() if found is not None else []
        if len(lines) < 2 or not lines[-2].startswith(SECTION_PREFIX):
            return None
        return _Announcement(lines[-2].removeprefix(SECTION_PREFIX).strip(), later)

    async def _find_own_comment(self, ticket: str, reference: str) -> tuple[Story | None, Sequence[Story]]:
        """Return our own comment with a reference, or None, and the stories after it.

        Comments of others do not count: they may quote the line.
        """
        stories, me, line = (
            await self._fetch_stories(ticket) or (),
            await self._get_own_gid(),
            _format_reference_line(reference),
        )
        for place, each in enumerate(stories):
            is_ours = each.type == "comment" and each.created_by is not None and each.created_by.gid == me
            if is_ours and (each.text or "").rstrip().splitlines()[-1:] == [line]:
                return each, stories[place + 1 :]
        return None, ()

    async def _find_section(self, task: Task, status: str) -> NamedResource:
        """Return the section with this name in the task's projects.

        Raise ExternalServiceRefused if there is none, or more than one.
        """
        projects = [each.project.gid for each in task.memberships if each.project]
        known: list[NamedResource] = []
        for project in projects:
            async for page in self._iterate_pages(
                SectionList, f"/projects/{_quote_gid(project)}/sections", {}
            ):
                known += page.data
        wanted = [each for each in known if (each.name or "").strip().casefold() == status.strip().casefold()]
        if len(wanted) == 1:
            return wanted[0]
        names = ", ".join(each.name or each.gid for each in known) or "none"
        why = "no section" if not wanted else "more than one section"
        raise ExternalServiceRefused(
            "section", f"{NAME} has {why} {status!r} for task {task.gid}. Its sections: {names}."
        )

    # --- requests -------------------------------------------------------------------------------------------

    async def _get_own_gid(self) -> str:
        """Return the gid of the token's user, which is read once."""
        if self._own_gid is None:
            self._own_gid = (await self._get(NamedResponse, "/users/me", {"opt_fields": "name"})).data.gid
        return self._own_gid

    async def _fetch_task(self, gid: str) -> Task | None:
        """Return a task; None if it was deleted or we may not read it."""
        try:
            answer = await self._client.request(
                "GET",
                f"{API}/tasks/{_quote_gid(gid)}",
                params={"opt_fields": TASK_FIELDS},
                accepted_statuses=frozenset({FORBIDDEN}),
            )
        except NotFound:
            return None
        return None if answer.status == FORBIDDEN else parse_response(TaskResponse, answer.body, NAME).data

    async def _fetch_stories(self, gid: str) -> list[Story] | None:
        """Return the stories of a task, oldest first; None if the task does not exist."""
        found: list[Story] = []
        try:
            async for page in self._iterate_pages(
                StoryList, f"/tasks/{_quote_gid(gid)}/stories", {"opt_fields": STORY_FIELDS}
            ):
                found += page.data
        except NotFound:
            return None
        return found

    async def _post_story(self, ticket: str, text: str) -> str:
        """Post a comment and return its gid."""
        with refuse_missing():
            path = f"{API}/tasks/{_quote_gid(ticket)}/stories"
        answer = await self._client.request("POST", path, json={"data": {"text": text}})
        return parse_response(NamedResponse, answer.body, NAME, may_be_done=True).data.gid

    async def _get(self, kind: type[S], path: str, params: Mapping[str, Any]) -> S:
        answer = await self._client.request("GET", f"{API}{path}", params=params)
        return parse_response(kind, answer.body, NAME)

    async def _iterate_pages(self, kind: type[L], path: str, params: Mapping[str, Any]) -> AsyncIterator[L]:
        """Yield the pages of a list. Raise ExternalServiceFailed after `MAX_PAGES` pages."""
        offset: str | None = None
        for _ in range(MAX_PAGES):
            query = {**params, "limit": MAX_PAGE} | ({"offset": offset} if offset else {})
            page = await self._get(kind, path, query)
            yield page
            if page.next_page is None:
                return
            offset = page.next_page.offset
        raise _build_invalid_response(f"the list {path} has no end")


def _build_invalid_response(why: str) -> ExternalServiceFailed:
    return ExternalServiceFailed(f"Invalid response from {NAME}: {why}.", may_be_done=False)


# --- pages --------------------------------------------------------------------------------------------------


def _build_page(
    tickets: Sequence[Ticket],
    changes: Sequence[FieldChange],
    after: ReadPosition,
    *,
    gone: Sequence[str] = (),
    has_more: bool,
    is_reset: bool = False,
) -> SyncPage:
    """Build the page with its tickets and changes by time; `after` becomes its checkpoint."""
    return SyncPage(
        tickets=tuple(sorted(tickets, key=lambda each: (each.updated_at, each.key))),
        changes=tuple(sorted(changes, key=lambda each: (each.at, each.id))),
        gone=tuple(gone),
        checkpoint=after.to_text(),
        has_more=has_more,
        is_reset=is_reset,
    )


def _find_touched_tasks(events: Sequence[Event]) -> dict[str, datetime]:
    """Return the tasks that events concern, directly or as parent, each with the time of its first event."""
    found: dict[str, datetime] = {}
    for event in events:
        for about in (event.resource, event.parent):
            if about is not None and about.resource_type == "task":
                found[about.gid] = min(found.get(about.gid, event.created_at), event.created_at)
    return found


def _is_section_change(event: Event) -> bool:
    """Return whether the event renames, removes or deletes a section (not if it only adds one)."""
    about = event.resource
    return about is not None and about.resource_type == "section" and event.action != "added"


def _get_latest(
    seen_at: datetime | None, moments: Sequence[datetime], tickets: Sequence[Ticket]
) -> datetime | None:
    """Return the latest of all these times, or None without any."""
    known = [*moments, *(each.updated_at for each in tickets), *([seen_at] if seen_at else [])]
    return max(known) if known else None


# --- lines and paths ----------------------------------------------------------------------------------------


def _is_in_section(task: Task, section: str) -> bool:
    return any(each.section is not None and each.section.gid == section for each in task.memberships)


def _get_section_name(task: Task, section: str) -> str:
    """Return the name of the task's section with this gid, or the gid."""
    named = [each.section.name for each in task.memberships if each.section and each.section.gid == section]
    return next((name for name in named if name), section)


def _format_reference_line(reference: str) -> str:
    """Format the last line of a comment. Raise InvalidRequest if the reference is not one line."""
    if not reference.strip() or len(reference.splitlines()) != 1:
        raise InvalidRequest(
            "Invalid reference: expected one line of text. It becomes the last line of a comment."
        )
    return f"{REFERENCE_PREFIX}{reference.strip()}"


def _quote_gid(gid: str) -> str:
    """Quote a gid for a URL path. Raise NotFound if it would change the path."""
    if gid in ("", ".", ".."):
        raise NotFound(f"Invalid gid {gid!r}: in a URL it would address another resource.")
    return quote(gid, safe="")
