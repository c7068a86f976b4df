"""A sandbox for Asana: projects, sections, tasks, stories and events in Asana's format over real HTTP.

Sync tokens and offsets are opaque, last a day by the sandbox's clock, and expire at once with
`/sandbox/expire`. A repeated comment is added twice. The ledger keeps comments and moves; with a file, they
are applied again at the start.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import AlreadyExists
from holdfast.core.rng import make_hex_token
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import ERROR_HANDLERS, Faults, apply_faults, read_object
from holdfast_demo.agenticpm.sandbox.asana_data import (
    ME,
    SEED,
    AsanaData,
    EditBody,
    Json,
    SeedBody,
    TaskBody,
    select_fields,
)
from holdfast_demo.agenticpm.sandbox.controls import SandboxControls
from holdfast_demo.agenticpm.sandbox.ledger import Entry, Ledger

API: Final = "/api/1.0"
TOKEN_S: Final = 86_400
MAX_LIMIT: Final = 100
MAX_EVENTS: Final = 100
REFERENCE_PREFIX: Final = "ref: "


@dataclass
class AsanaSandbox(SandboxControls):
    """The sandbox. `token` is the one that callers must send; empty means none.

    `max_events` limits one page of events. With a `folder`, the ledger is a file in it.
    """

    clock: Clock = SYSTEM_CLOCK
    token: str = ""
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None
    max_events: int = MAX_EVENTS
    with_sample: bool = True

    def __post_init__(self) -> None:
        self.data = AsanaData(self._format_now)
        self.expire()
        self._ledger = Ledger(self.folder, "asana", self._format_now)
        if self.with_sample:
            self.data.seed(SEED)
            self._restore()

    @property
    def ledger(self) -> list[Entry]:
        """Every comment (`ticket`, `text`, `reference`) and every move (`ticket`, `section`), with `at`."""
        return self._ledger.entries

    def expire(self) -> None:
        """Invalidate every token and offset. Those of an earlier process are invalid from the start."""
        self._generation = make_hex_token(4)

    def _restore(self) -> None:
        """Apply the effects of earlier processes again."""
        for entry in self.ledger:
            if entry["ticket"] not in self.data.tasks:
                continue
            if entry["what"] == "comment":
                self.data.add_comment(entry["ticket"], entry["text"])
            else:
                self.data.edit(entry["ticket"], {"section": entry["section"]}, ME)

    # --- Asana's API: reads ---------------------------------------------------------------------------------

    async def get_me(self, request: Request) -> Response:
        return _build_response(select_fields(ME, request))

    async def get_project(self, request: Request) -> Response:
        found = self.data.projects.get(request.path_params["gid"])
        return (
            _build_not_found("project")
            if found is None
            else _build_response(select_fields(self.data.to_api_project(found), request))
        )

    async def list_sections(self, request: Request) -> Response:
        found = self.data.projects.get(request.path_params["gid"])
        return _build_not_found("project") if found is None else self._build_page(found["sections"], request)

    async def list_tasks(self, request: Request) -> Response:
        gid = request.path_params["gid"]
        if gid not in self.data.projects:
            return _build_not_found("project")
        mine = [each for each in self.data.tasks.values() if each["project"] == gid]
        return self._build_page([self.data.to_api_task(each) for each in mine], request)

    async def get_task(self, request: Request) -> Response:
        found = self.data.tasks.get(request.path_params["gid"])
        return (
            _build_not_found("task")
            if found is None
            else _build_response(select_fields(self.data.to_api_task(found), request))
        )

    async def list_stories(self, request: Request) -> Response:
        found = self.data.tasks.get(request.path_params["gid"])
        return _build_not_found("task") if found is None else self._build_page(found["stories"], request)

    async def list_events(self, request: Request) -> Response:
        """Return the events after the sync token; 412 with a new token if it is missing or invalid."""
        project, sync = request.query_params.get("resource", ""), request.query_params.get("sync", "")
        if project not in self.data.projects:
            return _build_not_found("resource")
        all_events = self.data.events[project]
        place = self._parse_token(sync, project)
        if place is None:
            fresh = self._make_token(project, len(all_events))
            message = (
                "Sync token invalid or too old. If you are attempting to keep resources in sync, "
                "fetch them anew."
            )
            return JSONResponse({"sync": fresh, "errors": [{"message": message}]}, status_code=412)
        page = all_events[place : place + self.max_events]
        end = place + len(page)
        body = {"data": page, "sync": self._make_token(project, end), "has_more": end < len(all_events)}
        return JSONResponse(body)

    def _build_page(self, items: list[Json], request: Request) -> Response:
        """Return a page of a list, after the item that the offset names; 400 if the request is invalid."""
        limit = request.query_params.get("limit", "")
        if limit and not (re.fullmatch("0*[1-9][0-9]{0,2}", limit) and int(limit) <= MAX_LIMIT):
            return _build_error(400, f"limit: Must be between 1 and {MAX_LIMIT}.")
        offset = request.query_params.get("offset")
        if offset is not None:
            after = self._parse_token(offset, request.url.path)
            if after is None:
                return _build_error(400, "offset: Your pagination token has expired.")
            items = [each for each in items if int(each["gid"]) > after]
        page = items[: int(limit)] if limit else items
        body: Json = {"data": [select_fields(each, request) for each in page]}
        if limit:
            is_last = len(page) == len(items)
            more = None if is_last else {"offset": self._make_token(request.url.path, int(page[-1]["gid"]))}
            body["next_page"] = more
        return JSONResponse(body)

    def _make_token(self, of: str, place: int) -> str:
        """Make an opaque token for a position in `of`: a project, or the path of a list."""
        return f"{self._generation}:{int(self.clock.now())}:{place}:{of}".encode().hex()

    def _parse_token(self, token: str, of: str) -> int | None:
        """Return the position in a token of `of`, or None if it is invalid or expired."""
        try:
            age, at, place, whose = bytes.fromhex(token).decode().split(":", 3)
            is_good = age == self._generation and whose == of and self.clock.now() - int(at) < TOKEN_S
            return int(place) if is_good else None
        except (ValueError, OverflowError):
            return None

    # --- Asana's API: changes -------------------------------------------------------------------------------

    async def post_story(self, request: Request) -> Response:
        """Add a comment to a task and to the ledger, by the agent's user."""
        gid, data = request.path_params["gid"], await _read_data(request)
        text = data.get("text")
        if gid not in self.data.tasks:
            return _build_not_found("task")
        if not isinstance(text, str) or not text:
            return _build_error(400, "text: Missing input")
        last = text.splitlines()[-1]
        reference = last.removeprefix(REFERENCE_PREFIX) if last.startswith(REFERENCE_PREFIX) else ""
        self._ledger.add("comment", ticket=gid, text=text, reference=reference)
        return _build_response(self.data.add_comment(gid, text), 201)

    async def add_task(self, request: Request) -> Response:
        """Move a task into a section of its project, and add the move to the ledger."""
        section, data = request.path_params["gid"], await _read_data(request)
        gid = str(data.get("task"))
        home = self.data.find_project_of_section(section)
        if gid not in self.data.tasks or home is None or self.data.tasks[gid]["project"] != home:
            return _build_not_found("section")
        self._ledger.add("move", ticket=gid, section=section, reference="")
        self.data.edit(gid, {"section": section}, ME)
        return _build_response({})

    # --- controls -------------------------------------------------------------------------------------------

    async def do_seed(self, request: Request) -> Response:
        """Create a project with its sections and tasks from the body; 409 if it exists."""
        body = await JsonBody(SeedBody)(request)
        if body.project in self.data.projects:
            raise AlreadyExists(f"The project {body.project!r} exists. Seed another.")
        self.data.seed({**body.model_dump(), "tasks": [each.to_values() for each in body.tasks]})
        return JSONResponse({})

    async def do_create(self, request: Request) -> Response:
        """Create a task from the body and return its gid."""
        body = await JsonBody(TaskBody)(request)
        return JSONResponse({"gid": self.data.create(**body.to_values())})

    async def do_edit(self, request: Request) -> Response:
        """Change a task as a person does; 404 if it does not exist."""
        gid = request.path_params["gid"]
        if gid not in self.data.tasks:
            return _build_not_found("task")
        self.data.edit(gid, (await JsonBody(EditBody)(request)).to_values())
        return JSONResponse({})

    async def do_delete(self, request: Request) -> Response:
        self.data.delete(request.path_params["gid"])
        return JSONResponse({})

    async def do_expire(self, request: Request) -> Response:
        self.expire()
        return JSONResponse({})

    # --- authorization and faults ---------------------------------------------------------------------------

    def wrap_endpoint(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wrap an endpoint of the simulated API: check the token and apply the faults."""

        async def respond(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if self.token and not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
                return _build_error(401, "Not Authorized")
            changes = request.method != "GET"
            return await apply_faults(self.faults, self.clock.now(), changes, lambda: endpoint(request))

        return respond

    def _format_now(self) -> str:
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def build_asana_app(sandbox: AsanaSandbox) -> Starlette:
    """Build the ASGI app of the sandbox."""
    wrap = sandbox.wrap_endpoint
    return Starlette(
        routes=[
            Route(f"{API}/users/me", wrap(sandbox.get_me)),
            Route(f"{API}/events", wrap(sandbox.list_events)),
            Route(f"{API}/projects/{{gid}}", wrap(sandbox.get_project)),
            Route(f"{API}/projects/{{gid}}/sections", wrap(sandbox.list_sections)),
            Route(f"{API}/projects/{{gid}}/tasks", wrap(sandbox.list_tasks)),
            Route(f"{API}/tasks/{{gid}}", wrap(sandbox.get_task)),
            Route(f"{API}/tasks/{{gid}}/stories", wrap(sandbox.list_stories)),
            Route(f"{API}/tasks/{{gid}}/stories", wrap(sandbox.post_story), methods=["POST"]),
            Route(f"{API}/sections/{{gid}}/addTask", wrap(sandbox.add_task), methods=["POST"]),
            Route("/sandbox/seed", sandbox.do_seed, methods=["POST"]),
            Route("/sandbox/tasks", sandbox.do_create, methods=["POST"]),
            Route("/sandbox/tasks/{gid}", sandbox.do_edit, methods=["POST"]),
            Route("/sandbox/tasks/{gid}", sandbox.do_delete, methods=["DELETE"]),
            Route("/sandbox/expire", sandbox.do_expire, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ],
        exception_handlers=ERROR_HANDLERS,
    )


async def _read_data(request: Request) -> Json:
    """Return the member `data` of the body, or an empty object if it is missing or something else."""
    data = (await read_object(request)).get("data")
    return data if isinstance(data, dict) else {}


def _build_response(body: Any, status: int = 200) -> Response:
    return JSONResponse({"data": body}, status_code=status)


def _build_not_found(what: str) -> Response:
    return _build_error(404, f"{what}: Unknown object")


def _build_error(status: int, message: str) -> Response:
    return JSONResponse({"errors": [{"message": message}]}, status_code=status)
