"""A stand-in for Asana: projects, sections, tasks, stories and events of our own making, in Asana's shapes over real HTTP.

Sync tokens and offsets are opaque, last a day by the sandbox's clock, and are forgotten at once by `/sandbox/expire`. A
comment asked for twice is there twice. The ledger keeps comments and moves; on a file, they are done again at the start.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agenticpm.sandbox.asana_data import ME, SEED, AsanaData, Json, chosen
from agenticpm.sandbox.driving import Driven
from agenticpm.sandbox.ledger import Entry, Ledger
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import Faults, faulted

API: Final = "/api/1.0"
TOKEN_S: Final = 86_400
LIMIT_MAX: Final = 100
EVENTS_MAX: Final = 100
REFERENCE: Final = "ref: "


@dataclass
class AsanaSandbox(Driven):
    """`token` is what callers must send; empty asks for none. `events_max` is how many events come at once."""

    clock: Clock = SYSTEM_CLOCK
    token: str = ""
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None
    events_max: int = EVENTS_MAX
    seeds: bool = True

    def __post_init__(self) -> None:
        self.data = AsanaData(self._now)
        self.expire()
        self._ledger = Ledger(self.folder, "asana", self._now)
        if self.seeds:
            self.data.seed(SEED)
            self._redo()

    @property
    def ledger(self) -> list[Entry]:
        """Every comment (`ticket`, `text`, `reference`) and every move (`ticket`, `section`), with `at`."""
        return self._ledger.entries

    def expire(self) -> None:
        """Forgets every token and offset; those of a former process are forgotten from the start."""
        self._age = token_hex(4)

    def _redo(self) -> None:
        for entry in self.ledger:
            if entry["ticket"] not in self.data.tasks:
                continue
            if entry["what"] == "comment":
                self.data.comment(entry["ticket"], entry["text"])
            else:
                self.data.edit(entry["ticket"], {"section": entry["section"]}, ME)

    # --- as the party: reads ---------------------------------------------------------------------------------

    async def me(self, request: Request) -> Response:
        return _data(chosen(ME, request))

    async def project(self, request: Request) -> Response:
        found = self.data.projects.get(request.path_params["gid"])
        return (
            _missing("project") if found is None else _data(chosen(self.data.shown_project(found), request))
        )

    async def sections(self, request: Request) -> Response:
        found = self.data.projects.get(request.path_params["gid"])
        return _missing("project") if found is None else self._listed(found["sections"], request)

    async def tasks(self, request: Request) -> Response:
        gid = request.path_params["gid"]
        if gid not in self.data.projects:
            return _missing("project")
        mine = [each for each in self.data.tasks.values() if each["project"] == gid]
        return self._listed([self.data.shown(each) for each in mine], request)

    async def task(self, request: Request) -> Response:
        found = self.data.tasks.get(request.path_params["gid"])
        return _missing("task") if found is None else _data(chosen(self.data.shown(found), request))

    async def stories(self, request: Request) -> Response:
        found = self.data.tasks.get(request.path_params["gid"])
        return _missing("task") if found is None else self._listed(found["stories"], request)

    async def events(self, request: Request) -> Response:
        project, sync = request.query_params.get("resource", ""), request.query_params.get("sync", "")
        if project not in self.data.projects:
            return _missing("resource")
        all_events = self.data.events[project]
        place = self._place(sync, project)
        if place is None:
            fresh = self._token(project, len(all_events))
            message = "Sync token invalid or too old. If you are attempting to keep resources in sync, fetch them anew."
            return JSONResponse({"sync": fresh, "errors": [{"message": message}]}, status_code=412)
        told = all_events[place : place + self.events_max]
        end = place + len(told)
        body = {"data": told, "sync": self._token(project, end), "has_more": end < len(all_events)}
        return JSONResponse(body)

    def _listed(self, items: list[Json], request: Request) -> Response:
        """A page of a list, from after the item that the offset names."""
        limit = request.query_params.get("limit", "")
        if limit and not (limit.isdecimal() and 1 <= int(limit) <= LIMIT_MAX):
            return _refused(400, f"limit: Must be between 1 and {LIMIT_MAX}.")
        offset = request.query_params.get("offset")
        if offset is not None:
            after = self._place(offset, request.url.path)
            if after is None:
                return _refused(400, "offset: Your pagination token has expired.")
            items = [each for each in items if int(each["gid"]) > after]
        page = items[: int(limit)] if limit else items
        body: Json = {"data": [chosen(each, request) for each in page]}
        if limit:
            is_last = len(page) == len(items)
            more = None if is_last else {"offset": self._token(request.url.path, int(page[-1]["gid"]))}
            body["next_page"] = more
        return JSONResponse(body)

    def _token(self, of: str, place: int) -> str:
        return f"{self._age}:{int(self.clock.now())}:{place}:{of}".encode().hex()

    def _place(self, token: str, of: str) -> int | None:
        try:
            age, at, place, whose = bytes.fromhex(token).decode().split(":", 3)
            is_good = age == self._age and whose == of and self.clock.now() - int(at) < TOKEN_S
            return int(place) if is_good else None
        except ValueError:
            return None

    # --- as the party: changes -------------------------------------------------------------------------------

    async def post_story(self, request: Request) -> Response:
        gid, body = request.path_params["gid"], await request.json()
        text = body.get("data", {}).get("text")
        if gid not in self.data.tasks:
            return _missing("task")
        if not isinstance(text, str) or not text:
            return _refused(400, "text: Missing input")
        last = text.splitlines()[-1]
        reference = last.removeprefix(REFERENCE) if last.startswith(REFERENCE) else ""
        self._ledger.add("comment", ticket=gid, text=text, reference=reference)
        return _data(self.data.comment(gid, text), 201)

    async def add_task(self, request: Request) -> Response:
        section, body = request.path_params["gid"], await request.json()
        gid = body.get("data", {}).get("task")
        home = self.data.project_of_section(section)
        if gid not in self.data.tasks or home is None or self.data.tasks[gid]["project"] != home:
            return _missing("section")
        self._ledger.add("move", ticket=gid, section=section, reference="")
        self.data.edit(gid, {"section": section}, ME)
        return _data({})

    # --- how it is driven ------------------------------------------------------------------------------------

    async def do_seed(self, request: Request) -> Response:
        self.data.seed(await request.json())
        return JSONResponse({})

    async def do_create(self, request: Request) -> Response:
        return JSONResponse({"gid": self.data.create(**await request.json())})

    async def do_edit(self, request: Request) -> Response:
        gid = request.path_params["gid"]
        if gid not in self.data.tasks:
            return _missing("task")
        self.data.edit(gid, await request.json())
        return JSONResponse({})

    async def do_delete(self, request: Request) -> Response:
        self.data.delete(request.path_params["gid"])
        return JSONResponse({})

    async def do_expire(self, request: Request) -> Response:
        self.expire()
        return JSONResponse({})

    # --- who may, and what goes wrong ------------------------------------------------------------------------

    def party(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if self.token and not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
                return _refused(401, "Not Authorized")
            changes = request.method != "GET"
            return await faulted(self.faults, self.clock.now(), changes, lambda: endpoint(request))

        return answered

    def _now(self) -> str:
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def asana_app(sandbox: AsanaSandbox) -> Starlette:
    party = sandbox.party
    return Starlette(
        routes=[
            Route(f"{API}/users/me", party(sandbox.me)),
            Route(f"{API}/events", party(sandbox.events)),
            Route(f"{API}/projects/{{gid}}", party(sandbox.project)),
            Route(f"{API}/projects/{{gid}}/sections", party(sandbox.sections)),
            Route(f"{API}/projects/{{gid}}/tasks", party(sandbox.tasks)),
            Route(f"{API}/tasks/{{gid}}", party(sandbox.task)),
            Route(f"{API}/tasks/{{gid}}/stories", party(sandbox.stories)),
            Route(f"{API}/tasks/{{gid}}/stories", party(sandbox.post_story), methods=["POST"]),
            Route(f"{API}/sections/{{gid}}/addTask", party(sandbox.add_task), methods=["POST"]),
            Route("/sandbox/seed", sandbox.do_seed, methods=["POST"]),
            Route("/sandbox/tasks", sandbox.do_create, methods=["POST"]),
            Route("/sandbox/tasks/{gid}", sandbox.do_edit, methods=["POST"]),
            Route("/sandbox/tasks/{gid}", sandbox.do_delete, methods=["DELETE"]),
            Route("/sandbox/expire", sandbox.do_expire, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ]
    )


def _data(body: Any, status: int = 200) -> Response:
    return JSONResponse({"data": body}, status_code=status)


def _missing(what: str) -> Response:
    return _refused(404, f"{what}: Unknown object")


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"errors": [{"message": message}]}, status_code=status)
