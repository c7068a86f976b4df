"""Asana behind the port of trackers: events since a sync token, everything anew when the token is too old.

The checkpoint is a JSON of ours: the sync token, and where reading everything anew stands. Asana promises that the current
token can be asked again and gives the same events; tasks are read as they are then, so the same checkpoint twice gives
the same tickets unless somebody has changed them, and nothing is skipped. A new token is taken before everything is
read anew, so that what changes meanwhile is told after it. Which tasks an event is about is all we take from it.

Asana keeps no reference with an effect, and its `external` data is no place for one: it takes OAuth, there is one per
task, and setting it is a second write. So a comment carries its reference as its last line, and is looked up among our
own comments. A move is announced first, by a comment with the section and the reference; then the task is moved. It counts
as ours and done if after the announcement a story tells that we moved it there, or if it stands there now. What is
left: a task that somebody puts back within the very moment between our move and its story may be moved once more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool, ValidationError

from agenticpm.connectors.asana_tasks import (
    MILESTONE,
    STORY_FIELDS,
    TASK_FIELDS,
    Named,
    Story,
    Task,
    changes_of,
    milestone_of,
    stage_of,
    ticket_of,
)
from agenticpm.connectors.shapes import Moment, Shape, shaped
from agenticpm.tickets import FieldChange, Health, Milestone, Plan, Stage, SyncPage, Ticket
from holdfast.errors import HoldfastError, InvalidRequest, NotFound, PartyFailed, PartyRefused
from holdfast.web.parties import Party, refusing_what_is_gone

NAME: Final = "Asana"
API: Final = "/api/1.0"
PAGE_MAX: Final = 100
# Of everything anew: each task that has begun costs a request more for its stories.
LISTED_MAX: Final = 50
# Pages of one list that we follow, before it is nonsense that never ends.
PAGES_MAX: Final = 1000
# Pages in a row that tell nothing and that there is more; and offsets in a row that Asana gives and then does not know.
FRUITLESS_MAX: Final = 20
LAPSES_MAX: Final = 3
FORBIDDEN: Final = 403
TOO_OLD: Final = 412
# A story may be stamped a little before the event that tells of it.
STAMPED_APART: Final = timedelta(seconds=2)
REFERENCE_LINE: Final = "ref: "
SECTION_LINE: Final = "section: "
ANNOUNCED: Final = "The comment that announces the move stands."


class Offset(Shape):
    offset: str = Field(min_length=1)


class TaskList(Shape):
    data: list[Task]
    next_page: Offset | None = None


class StoryList(Shape):
    data: list[Story]
    next_page: Offset | None = None


class SectionList(Shape):
    data: list[Named]
    next_page: Offset | None = None


class OneTask(Shape):
    data: Task


class One(Shape):
    data: Named


class EventResource(Shape):
    gid: str = Field(min_length=1)
    resource_type: str


class Event(Shape):
    action: str
    resource: EventResource | None = None
    parent: EventResource | None = None
    created_at: Moment


class FreshToken(Shape):
    """What comes with a 412, for a token that is too old or none at all."""

    sync: str = Field(min_length=1)


class EventList(Shape):
    data: list[Event]
    sync: str = Field(min_length=1)
    has_more: StrictBool = False


S = TypeVar("S", bound=Shape)
L = TypeVar("L", TaskList, StoryList, SectionList)


class Place(BaseModel):
    """How far a project was read. `offset` stands while everything is read anew; `since` is from when on changes are news."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: str
    sync: str | None = None
    offset: str | None = None
    since: AwareDatetime | None = None
    seen_at: AwareDatetime | None = None

    @classmethod
    def read(cls, project: str, checkpoint: str | None) -> Place:
        """One that cannot be read, or is of another project, is none: everything is read anew."""
        try:
            found = cls.model_validate_json(checkpoint or "")
        except ValidationError:
            return cls(project=project)
        return found if found.project == project else cls(project=project)

    def renewed(self, sync: str) -> Place:
        return Place(project=self.project, sync=sync, since=self.seen_at, seen_at=self.seen_at)

    def text(self) -> str:
        return self.model_dump_json(exclude_none=True)


@dataclass(frozen=True)
class _Announced:
    """Our comment that a move was to be made, and what came after it."""

    section: str
    later: Sequence[Story]


class AsanaTracker:
    """The port of a tracker. The client knows the address of Asana and the token."""

    def __init__(self, http: httpx2.AsyncClient, *, page_size: int = LISTED_MAX) -> None:
        self._party = Party(http, NAME)
        self._page_size = page_size
        self._me: str | None = None
        self._lapses: dict[str, int] = {}

    async def health(self) -> Health:
        try:
            found = await self._get(One, "/users/me", {"opt_fields": "name"})
        except HoldfastError as error:
            return Health(is_ok=False, detail=error.message)
        return Health(is_ok=True, detail=f"Signed in as {found.data.name or found.data.gid}.")

    # --- what changed ----------------------------------------------------------------------------------------

    async def changes(self, project_key: str, checkpoint: str | None) -> SyncPage:
        place = Place.read(project_key, checkpoint)
        if place.offset is None:
            return await self._events(place)
        try:
            page = await self._anew(place, is_reset=False)
        except PartyRefused as error:
            # Offsets lapse too, and Asana says so with a 400: from the beginning, then.
            if error.code != "400":
                raise
            self._lapsed(project_key)
            return await self._events(Place(project=project_key, seen_at=place.since))
        self._lapses.pop(project_key, None)
        return page

    def _lapsed(self, project: str) -> None:
        """Counted in a row: who knows none of its own offsets would be read from the beginning for ever."""
        self._lapses[project] = self._lapses.get(project, 0) + 1
        if self._lapses[project] > LAPSES_MAX:
            # The next to ask begins with a new count.
            del self._lapses[project]
            raise _endless("it knows none of the offsets that it gives")

    async def _events(self, place: Place) -> SyncPage:
        """What was told since the token. Pages that are about nothing of ours are passed over, but not for ever."""
        sync, told = place.sync, list[Event]()
        for _ in range(FRUITLESS_MAX):
            params = {"resource": place.project} | ({"sync": sync} if sync else {})
            answer = await self._party.ask("GET", f"{API}/events", params=params, passes=frozenset({TOO_OLD}))
            if answer.status == TOO_OLD:
                fresh = shaped(FreshToken, answer.body, NAME).sync
                return await self._anew(place.renewed(fresh), is_reset=True)
            page = shaped(EventList, answer.body, NAME)
            told += page.data
            # A section that was renamed is a new status of every task in it.
            if place.sync is None or any(map(_is_of_section, page.data)):
                return await self._anew(place.renewed(page.sync), is_reset=True)
            if _tasks_of(page.data) or not page.has_more:
                return await self._touched(place.renewed(page.sync), told, has_more=page.has_more)
            sync = page.sync
        raise _endless("its events tell that there is more, and nothing of it")

    async def _touched(self, place: Place, told: Sequence[Event], *, has_more: bool) -> SyncPage:
        """The tasks that events are about, as they are now."""
        tickets: list[Ticket] = []
        changes: list[FieldChange] = []
        gone: list[str] = []
        for gid, at in _tasks_of(told).items():
            task = await self._task(gid)
            stories = None if task is None else await self._stories(gid)
            section = None if task is None else task.section_in(place.project)
            if task is None or stories is None or section is None or task.resource_subtype == MILESTONE:
                gone.append(gid)
                continue
            tickets.append(ticket_of(task, section, stories))
            changes += changes_of(gid, stories, at - STAMPED_APART)
        seen_at = _latest(place.seen_at, [each.created_at for each in told], tickets)
        after = Place(project=place.project, sync=place.sync, seen_at=seen_at)
        return _page(tickets, changes, after, gone=gone, has_more=has_more)

    async def _anew(self, place: Place, *, is_reset: bool) -> SyncPage:
        """A page of everything; with the last, the token that was taken before the first counts."""
        listed = await self._listed(place)
        tickets: list[Ticket] = []
        changes: list[FieldChange] = []
        for task in listed.data:
            section = task.section_in(place.project)
            if section is None or task.resource_subtype == MILESTONE:
                continue
            stories = await self._stories_wanted(task, section, place.since)
            tickets.append(ticket_of(task, section, stories))
            if place.since is not None:
                changes += changes_of(task.gid, stories, place.since)
        offset = listed.next_page.offset if listed.next_page else None
        seen_at = _latest(place.seen_at, [], tickets)
        after = Place(
            project=place.project,
            sync=place.sync,
            offset=offset,
            since=place.since if offset else None,
            seen_at=seen_at,
        )
        return _page(tickets, changes, after, has_more=offset is not None, is_reset=is_reset)

    async def _listed(self, place: Place) -> TaskList:
        """The next page that has a task. Empty ones are passed over, but not for ever."""
        params = {"opt_fields": TASK_FIELDS, "limit": self._page_size}
        offset = place.offset
        for _ in range(FRUITLESS_MAX):
            asked = params | ({"offset": offset} if offset else {})
            try:
                listed = await self._get(TaskList, f"/projects/{_part(place.project)}/tasks", asked)
            except PartyRefused as error:
                if offset == place.offset or error.code != "400":
                    raise
                raise _endless("it does not know the offset that it gave just now") from error
            if listed.data or listed.next_page is None:
                return listed
            offset = listed.next_page.offset
        raise _endless("its list of tasks tells that there is more, and nothing of it")

    async def _stories_wanted(self, task: Task, section: Named, since: datetime | None) -> Sequence[Story]:
        """Stories tell when work began and what changed since; of a task without either they are not read."""
        has_begun = task.completed or stage_of(section.name or "") is not Stage.to_do
        if has_begun or (since is not None and task.modified_at >= since):
            return await self._stories(task.gid) or ()
        return ()

    # --- what is planned -------------------------------------------------------------------------------------

    async def plan(self, project_key: str) -> Plan:
        """The milestones. Asana has no sprints: the name of one is a custom field of its tasks."""
        milestones: list[Milestone] = []
        path = f"/projects/{_part(project_key)}/tasks"
        async for page in self._pages(TaskList, path, {"opt_fields": TASK_FIELDS}):
            milestones += [
                milestone_of(task, section)
                for task in page.data
                if task.resource_subtype == MILESTONE
                and (section := task.section_in(project_key)) is not None
            ]
        return Plan(milestones=tuple(milestones))

    # --- what we do ------------------------------------------------------------------------------------------

    async def comment(self, ticket: str, text: str, reference: str) -> dict[str, Any]:
        story = await self._post_story(ticket, f"{text}\n\n{_reference_line(reference)}")
        return {"id": story, "ticket": ticket}

    async def commented(self, ticket: str, reference: str) -> dict[str, Any] | None:
        found, _ = await self._ours(ticket, reference)
        return None if found is None else {"id": found.gid, "ticket": ticket}

    async def move(self, ticket: str, status: str, reference: str) -> dict[str, Any]:
        """Puts a task into a section of a project it is in, announced by a comment with the reference."""
        with refusing_what_is_gone():
            task = await self._task(ticket)
            if task is None:
                raise NotFound(f"{NAME} knows no task {ticket}, or does not show it to us.")
            section = await self._section(task, status)
        outcome = {"ticket": ticket, "status": section.name or status, "section": section.gid}
        if _stands_in(task, section.gid):
            return outcome
        if await self._announced(ticket, reference) is None:
            text = f"Moving this task to {section.name}.\n\n{SECTION_LINE}{section.gid}\n"
            await self._post_story(ticket, text + _reference_line(reference))
        await self._add_to(section, ticket)
        return outcome

    async def _add_to(self, section: Named, ticket: str) -> None:
        """The second half of a move: from the announcement on, something is done, whatever becomes of this."""
        path = f"{API}/sections/{_part(section.gid)}/addTask"
        try:
            await self._party.ask("POST", path, json={"data": {"task": ticket}})
        except PartyFailed as failed:
            text = f"{failed.message} {ANNOUNCED}"
            raise PartyFailed(text, may_be_done=True, retry_after_s=failed.retry_after_s) from failed
        except PartyRefused as refused:
            raise PartyRefused(refused.code, f"{refused.message} {ANNOUNCED}") from refused

    async def moved(self, ticket: str, reference: str) -> dict[str, Any] | None:
        announced = await self._announced(ticket, reference)
        if announced is None:
            return None
        outcome = {"ticket": ticket, "section": announced.section}
        me = await self._myself()
        for story in announced.later:
            to = story.new_section if story.resource_subtype == "section_changed" else None
            if (
                to is not None
                and to.gid == announced.section
                and story.created_by
                and story.created_by.gid == me
            ):
                return {**outcome, "status": to.name or to.gid}
        task = await self._task(ticket)
        if task is None or not _stands_in(task, announced.section):
            return None
        return {**outcome, "status": _section_name(task, announced.section)}

    async def _announced(self, ticket: str, reference: str) -> _Announced | None:
        found, later = await self._ours(ticket, reference)
        lines = (found.text or "").rstrip().splitlines() if found is not None else []
        if len(lines) < 2 or not lines[-2].startswith(SECTION_LINE):
            return None
        return _Announced(lines[-2].removeprefix(SECTION_LINE).strip(), later)

    async def _ours(self, ticket: str, reference: str) -> tuple[Story | None, Sequence[Story]]:
        """Our own comment under a reference, and the stories after it. Others may quote the line: theirs do not count."""
        stories, me, line = (
            await self._stories(ticket) or (),
            await self._myself(),
            _reference_line(reference),
        )
        for place, each in enumerate(stories):
            is_ours = each.type == "comment" and each.created_by is not None and each.created_by.gid == me
            if is_ours and (each.text or "").rstrip().splitlines()[-1:] == [line]:
                return each, stories[place + 1 :]
        return None, ()

    async def _section(self, task: Task, status: str) -> Named:
        """The section that is called so, of the projects a task is in; in two of them, nobody can know which."""
        projects = [each.project.gid for each in task.memberships if each.project]
        known: list[Named] = []
        for project in projects:
            async for page in self._pages(SectionList, f"/projects/{_part(project)}/sections", {}):
                known += page.data
        wanted = [each for each in known if (each.name or "").strip().casefold() == status.strip().casefold()]
        if len(wanted) == 1:
            return wanted[0]
        names = ", ".join(each.name or each.gid for each in known) or "none"
        why = "no section" if not wanted else "more than one section"
        raise PartyRefused("section", f"{NAME} has {why} {status!r} for the task {task.gid}; it has {names}.")

    # --- asking ----------------------------------------------------------------------------------------------

    async def _myself(self) -> str:
        if self._me is None:
            self._me = (await self._get(One, "/users/me", {"opt_fields": "name"})).data.gid
        return self._me

    async def _task(self, gid: str) -> Task | None:
        """None where it is gone, or where it went we may not look."""
        try:
            answer = await self._party.ask(
                "GET",
                f"{API}/tasks/{_part(gid)}",
                params={"opt_fields": TASK_FIELDS},
                passes=frozenset({FORBIDDEN}),
            )
        except NotFound:
            return None
        return None if answer.status == FORBIDDEN else shaped(OneTask, answer.body, NAME).data

    async def _stories(self, gid: str) -> list[Story] | None:
        """Oldest first; None where the task is gone."""
        found: list[Story] = []
        try:
            async for page in self._pages(
                StoryList, f"/tasks/{_part(gid)}/stories", {"opt_fields": STORY_FIELDS}
            ):
                found += page.data
        except NotFound:
            return None
        return found

    async def _post_story(self, ticket: str, text: str) -> str:
        with refusing_what_is_gone():
            path = f"{API}/tasks/{_part(ticket)}/stories"
        answer = await self._party.ask("POST", path, json={"data": {"text": text}})
        return shaped(One, answer.body, NAME, may_be_done=True).data.gid

    async def _get(self, kind: type[S], path: str, params: Mapping[str, Any]) -> S:
        answer = await self._party.ask("GET", f"{API}{path}", params=params)
        return shaped(kind, answer.body, NAME)

    async def _pages(self, kind: type[L], path: str, params: Mapping[str, Any]) -> AsyncIterator[L]:
        offset: str | None = None
        for _ in range(PAGES_MAX):
            asked = {**params, "limit": PAGE_MAX} | ({"offset": offset} if offset else {})
            page = await self._get(kind, path, asked)
            yield page
            if page.next_page is None:
                return
            offset = page.next_page.offset
        raise _endless(f"the list {path} does not end")


def _endless(why: str) -> PartyFailed:
    return PartyFailed(f"{NAME} answers nonsense: {why}.", may_be_done=False)


# --- pages -------------------------------------------------------------------------------------------------------


def _page(
    tickets: Sequence[Ticket],
    changes: Sequence[FieldChange],
    after: Place,
    *,
    gone: Sequence[str] = (),
    has_more: bool,
    is_reset: bool = False,
) -> SyncPage:
    return SyncPage(
        tickets=tuple(sorted(tickets, key=lambda each: (each.updated_at, each.key))),
        changes=tuple(sorted(changes, key=lambda each: (each.at, each.id))),
        gone=tuple(gone),
        checkpoint=after.text(),
        has_more=has_more,
        is_reset=is_reset,
    )


def _tasks_of(events: Sequence[Event]) -> dict[str, datetime]:
    """The tasks that events are about, each with the first of its events: their own, and of what hangs on them."""
    found: dict[str, datetime] = {}
    for event in events:
        for about in (event.resource, event.parent):
            if about is not None and about.resource_type == "task":
                found[about.gid] = min(found.get(about.gid, event.created_at), event.created_at)
    return found


def _is_of_section(event: Event) -> bool:
    about = event.resource
    return about is not None and about.resource_type == "section" and event.action != "added"


def _latest(
    seen_at: datetime | None, moments: Sequence[datetime], tickets: Sequence[Ticket]
) -> datetime | None:
    known = [*moments, *(each.updated_at for each in tickets), *([seen_at] if seen_at else [])]
    return max(known) if known else None


# --- lines and paths ---------------------------------------------------------------------------------------------


def _stands_in(task: Task, section: str) -> bool:
    return any(each.section is not None and each.section.gid == section for each in task.memberships)


def _section_name(task: Task, section: str) -> str:
    named = [each.section.name for each in task.memberships if each.section and each.section.gid == section]
    return next((name for name in named if name), section)


def _reference_line(reference: str) -> str:
    if not reference.strip() or len(reference.splitlines()) != 1:
        raise InvalidRequest("A reference is one line of text: it is kept as the last line of a comment.")
    return f"{REFERENCE_LINE}{reference.strip()}"


def _part(gid: str) -> str:
    if gid in ("", ".", ".."):
        raise NotFound(f"{gid!r} is no gid: in an address it would be another place.")
    return quote(gid, safe="")
