"""A sandbox for Jira (REST v3 and Agile 1.0) over real HTTP, with control endpoints for tests and demos.

It has Jira's response formats, paging and refusals, and no idempotency: a repeated comment is added twice.
`has_tokens=False` simulates Server: search by `startAt`, no bulk changelogs.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidRequest
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import ERROR_HANDLERS, Faults, apply_faults, read_object
from holdfast_demo.agenticpm.sandbox.controls import SandboxControls
from holdfast_demo.agenticpm.sandbox.jira_data import (
    Issue,
    IssueBody,
    IssueEditBody,
    JiraData,
    LinkBody,
    SprintBody,
    VersionBody,
    get_sort_key,
)
from holdfast_demo.agenticpm.sandbox.jira_jql import InvalidJql, parse_jql
from holdfast_demo.agenticpm.sandbox.jira_sample import add_sample
from holdfast_demo.agenticpm.sandbox.ledger import Entry, Ledger

API: Final = "/rest/api/3"
AGILE: Final = "/rest/agile/1.0"
# Reads that use POST because their bodies are long.
READ_PATHS: Final = frozenset({f"{API}/search/jql", f"{API}/changelog/bulkfetch"})
# A position in a search: the sort key of an issue.
_PLACE: Final = TypeAdapter(tuple[int, str, int])
ACCOUNT: Final = {"accountId": "sandbox:agent", "displayName": "AgenticPM", "active": True}


@dataclass
class JiraSandbox(SandboxControls):
    """The sandbox. Callers must send `email` and `api_token`; an empty token means none.

    `with_sample` creates the project MCU. `max_page_size` is the largest page, whatever the caller requests.
    `expands_properties=False` leaves comment properties out of lists. With a `folder`, the ledger is a file.
    """

    clock: Clock = SYSTEM_CLOCK
    email: str = ""
    api_token: str = ""
    zone: str = "Australia/Sydney"
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None
    with_sample: bool = True
    max_page_size: int = 100
    has_tokens: bool = True
    expands_properties: bool = True

    def __post_init__(self) -> None:
        self.data = JiraData(self.clock, self.zone)
        if self.with_sample:
            add_sample(self.data)
        self._ledger = Ledger(self.folder, "jira", self._format_now)
        for entry in self.ledger:
            self._restore(entry)

    @property
    def ledger(self) -> list[Entry]:
        """Every effect: `what` (comment, transition), `ticket`, `reference`, `at` and its content."""
        return self._ledger.entries

    def close(self) -> None:
        self._ledger.close()

    # --- the site -------------------------------------------------------------------------------------------

    async def get_myself(self, request: Request) -> Response:
        return JSONResponse({**ACCOUNT, "emailAddress": self.email, "timeZone": self.zone})

    async def get_fields(self, request: Request) -> Response:
        return JSONResponse(self.data.fields)

    async def get_statuses(self, request: Request) -> Response:
        return JSONResponse(self.data.statuses)

    async def get_versions(self, request: Request) -> Response:
        """Return the versions of a project: paged under `/version`, all under `/versions`."""
        versions = self.data.versions.get(request.path_params["key"])
        if versions is None:
            return _build_not_found("No project could be found with that key.")
        paged = request.url.path.endswith("/version")
        return self._build_page(request, versions) if paged else JSONResponse(versions)

    async def get_boards(self, request: Request) -> Response:
        wanted = request.query_params.get("projectKeyOrId")
        if wanted is not None and wanted not in self.data.projects:
            return _build_bad_request(f"No project could be found with key or id '{wanted}'.")
        boards = [each for each in self.data.boards if wanted in (None, each["project"])]
        return self._build_page(request, boards)

    async def get_sprints(self, request: Request) -> Response:
        """Return the sprints of a board; 400 for a board that is not scrum."""
        found = next(
            (each for each in self.data.boards if str(each["id"]) == request.path_params["board"]), None
        )
        if found is None:
            return _build_not_found("The requested board cannot be viewed.")
        if found["type"] != "scrum":
            return _build_bad_request("The board does not support sprints")
        sprints = [each for each in self.data.sprints.values() if each["originBoardId"] == found["id"]]
        return self._build_page(request, sprints)

    # --- issues ---------------------------------------------------------------------------------------------

    async def search(self, request: Request) -> Response:
        """Search page by page by token; 404 if `has_tokens` is False.

        The token is the position of the last returned issue, so that nothing is skipped while issues move.
        """
        if not self.has_tokens:
            return _build_not_found("null for uri")
        query = await read_object(request) if request.method == "POST" else _read_query(request)
        token = query.get("nextPageToken")
        try:
            jql = str(query.get("jql", ""))
            found = self._search_issues(jql, after=_parse_token(str(token), jql) if token else None)
        except (InvalidJql, ValueError) as refused:
            return _build_bad_request(str(refused))
        page = found[: self._get_page_size(query.get("maxResults"), 50)]
        names = _read_names(query.get("fields", []))
        issues = [self.data.to_api_issue(each, names) if names else {"id": each["id"]} for each in page]
        is_last = len(page) == len(found)
        following = {} if is_last else {"nextPageToken": _make_token(page[-1], jql)}
        return JSONResponse({"issues": issues, "isLast": is_last, **following})

    async def search_by_offset(self, request: Request) -> Response:
        """Search by `startAt` in the current result; 410 if `has_tokens` is True."""
        if self.has_tokens:
            return _build_error(
                410, "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API."
            )
        query = _read_query(request)
        try:
            found = self._search_issues(str(query.get("jql", "")))
        except InvalidJql as refused:
            return _build_bad_request(str(refused))
        start, most = _read_number(query.get("startAt")), self._get_page_size(query.get("maxResults"), 50)
        issues = [
            self.data.to_api_issue(each, query.get("fields") or None) for each in found[start : start + most]
        ]
        return JSONResponse({"startAt": start, "maxResults": most, "total": len(found), "issues": issues})

    async def get_issue(self, request: Request) -> Response:
        """Return an issue, with its changelog if `expand` asks for it."""
        issue = self._find_issue(request)
        if issue is None:
            return _build_issue_not_found()
        body = self.data.to_api_issue(issue, _read_query(request).get("fields"))
        if "changelog" in request.query_params.get("expand", ""):
            histories = self._get_history(issue)
            body["changelog"] = {"startAt": 0, "total": len(histories), "histories": histories}
        return JSONResponse(body)

    async def get_changelog(self, request: Request) -> Response:
        issue = self._find_issue(request)
        return (
            _build_issue_not_found() if issue is None else self._build_page(request, self._get_history(issue))
        )

    async def get_bulk_changelogs(self, request: Request) -> Response:
        """Return the entries of all requested issues, oldest first; 404 if `has_tokens` is False.

        The page size counts entries, and times are numbers.
        """
        if not self.has_tokens:
            return _build_not_found("null for uri")
        query = await read_object(request)
        ids = _read_names(query.get("issueIdsOrKeys", []))
        issues = [issue for id in ids if (issue := self.data.find_issue(id))]
        entries = [(issue["id"], entry) for issue in issues for entry in self._get_history(issue)]
        entries.sort(key=lambda each: (datetime.fromisoformat(each[1]["created"]), int(each[0])))
        start = _read_number(query.get("nextPageToken"))
        most = self._get_page_size(query.get("maxResults"), 1000)
        logs: dict[str, list[dict[str, Any]]] = {}
        for id, entry in entries[start : start + most]:
            at = int(datetime.fromisoformat(entry["created"]).timestamp() * 1000)
            logs.setdefault(id, []).append({**entry, "created": at})
        changelogs = [{"issueId": id, "changeHistories": entries} for id, entries in logs.items()]
        following = str(start + most) if start + most < len(entries) else None
        return JSONResponse({"issueChangeLogs": changelogs, "nextPageToken": following})

    # --- changes --------------------------------------------------------------------------------------------

    async def get_comments(self, request: Request) -> Response:
        """Return a page of an issue's comments; with properties if `expand` asks and they are enabled."""
        issue = self._find_issue(request)
        if issue is None:
            return _build_issue_not_found()
        comments = list(self.data.comments.get(issue["id"], []))
        if request.query_params.get("orderBy") == "-created":
            comments.reverse()
        shows = self.expands_properties and "properties" in request.query_params.get("expand", "")
        visible = [each if shows else _without(each, "properties") for each in comments]
        return self._build_page(request, visible, name="comments")

    async def get_comment_property(self, request: Request) -> Response:
        wanted, key = request.path_params["comment"], request.path_params["property"]
        comments = [each for every in self.data.comments.values() for each in every if each["id"] == wanted]
        found = [each for comment in comments for each in comment["properties"] if each["key"] == key]
        return JSONResponse(found[0]) if found else _build_not_found(f"The property {key} does not exist.")

    async def add_comment(self, request: Request) -> Response:
        """Add a comment by the agent's account, and add it to the ledger."""
        issue, body = self._find_issue(request), await read_object(request)
        if issue is None:
            return _build_issue_not_found()
        text = body.get("body")
        if not isinstance(text, dict) or text.get("type") != "doc" or not text.get("content"):
            return _build_bad_request("Comment body can not be empty!")
        properties = _read_properties(body)
        comment = self.data.add_comment(issue, text, properties, dict(ACCOUNT))
        reference = _find_reference(properties)
        entry = {"ticket": issue["key"], "reference": reference, "body": text, "properties": properties}
        self._ledger.add("comment", **entry)
        return JSONResponse(_without(comment, "properties"), status_code=201)

    async def get_transitions(self, request: Request) -> Response:
        issue = self._find_issue(request)
        if issue is None:
            return _build_issue_not_found()
        return JSONResponse({"expand": "transitions", "transitions": self._list_transitions(issue)})

    async def do_transition(self, request: Request) -> Response:
        """Move an issue by a transition, store its properties, and add the move to the ledger."""
        issue, body = self._find_issue(request), await read_object(request)
        if issue is None:
            return _build_issue_not_found()
        asked = body.get("transition")
        id = asked.get("id") if isinstance(asked, dict) else None
        chosen = next((each for each in self._list_transitions(issue) if each["id"] == id), None)
        if chosen is None:
            return _build_bad_request(f"Transition id '{id}' is not valid for this issue.")
        properties = _read_properties(body)
        status = chosen["to"]["name"]
        self._move(issue, status, properties)
        reference = _find_reference(properties)
        entry = {"ticket": issue["key"], "reference": reference, "status": status, "properties": properties}
        self._ledger.add("transition", **entry)
        return Response(status_code=204)

    async def get_property(self, request: Request) -> Response:
        issue, key = self._find_issue(request), request.path_params["property"]
        if issue is None:
            return _build_issue_not_found()
        found = self.data.properties.get(issue["id"], {})
        if key not in found:
            return _build_not_found(f"The property {key} does not exist.")
        return JSONResponse({"key": key, "value": found[key]})

    # --- controls -------------------------------------------------------------------------------------------

    async def put_issue(self, request: Request) -> Response:
        """Edit an issue if `key` is given, else create one from `project` and `summary`.

        Other fields have the short names of `JiraData.edit`.
        """
        given = await read_object(request)
        if "key" in given:
            issue = self.data.edit(**IssueEditBody.model_validate(given).model_dump(exclude_unset=True))
        else:
            issue = self.data.create(**IssueBody.model_validate(given).model_dump(exclude_unset=True))
        return JSONResponse(self.data.to_api_issue(issue))

    async def put_link(self, request: Request) -> Response:
        """Link the issues `blocker` and `blocked`."""
        body = await JsonBody(LinkBody)(request)
        self.data.link(body.blocker, body.blocked)
        return JSONResponse({})

    async def delete_issue(self, request: Request) -> Response:
        if self._find_issue(request) is None:
            return _build_issue_not_found()
        self.data.delete(request.path_params["key"])
        return JSONResponse({})

    async def put_version(self, request: Request) -> Response:
        body = await JsonBody(VersionBody)(request)
        return JSONResponse(self.data.put_version(**body.model_dump(exclude_unset=True)))

    async def put_sprint(self, request: Request) -> Response:
        """Change the sprint with the given name."""
        body = await JsonBody(SprintBody)(request)
        return JSONResponse(self.data.change_sprint(**body.model_dump(exclude_unset=True)))

    # --- authorization and faults ---------------------------------------------------------------------------

    def wrap_endpoint(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wrap an endpoint of the simulated API: check the credentials and apply the faults."""

        async def respond(request: Request) -> Response:
            if self.api_token and not self._is_authorized(request):
                return _build_error(401, "Client must be authenticated to access this resource.")
            changes = request.method != "GET" and request.url.path not in READ_PATHS
            return await apply_faults(self.faults, self.clock.now(), changes, lambda: endpoint(request))

        return respond

    def _is_authorized(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        try:
            credentials = base64.b64decode(given, validate=True)
        except binascii.Error:
            return False
        wanted = f"{self.email}:{self.api_token}".encode()
        return scheme.casefold() == "basic" and hmac.compare_digest(credentials, wanted)

    # --- parts ----------------------------------------------------------------------------------------------

    def _find_issue(self, request: Request) -> Issue | None:
        return self.data.find_issue(request.path_params["key"])

    def _search_issues(self, jql: str, after: tuple[int, str, int] | None = None) -> list[Issue]:
        """Return the issues that match the query, in search order, after a sort key."""
        found = self.data.search(parse_jql(jql, self.data.zone))
        return [each for each in found if after is None or get_sort_key(each) > after]

    def _get_history(self, issue: Issue) -> list[dict[str, Any]]:
        return self.data.histories.get(issue["id"], [])

    def _list_transitions(self, issue: Issue) -> list[dict[str, Any]]:
        """Return the transitions from the current status to every other one."""
        now = issue["fields"]["status"]["id"]
        return [
            {"id": str(10 * number + 1), "name": f"To {each['name']}", "to": each, "isGlobal": True}
            for number, each in enumerate(self.data.statuses, 1)
            if each["id"] != now
        ]

    def _move(self, issue: Issue, status: str, properties: list[dict[str, Any]]) -> None:
        """Set the status as the agent's account, and store the properties."""
        self.data.edit(issue["key"], by=str(ACCOUNT["displayName"]), status=status)
        kept = self.data.properties.setdefault(issue["id"], {})
        kept.update({each["key"]: each["value"] for each in properties})

    def _restore(self, entry: Entry) -> None:
        """Apply an effect of an earlier process, so that this process finds it too."""
        issue = self.data.find_issue(entry["ticket"])
        if issue is None:
            return
        if entry["what"] == "comment":
            self.data.add_comment(issue, entry["body"], entry["properties"], dict(ACCOUNT))
        else:
            self._move(issue, entry["status"], entry["properties"])

    def _build_page(
        self, request: Request, values: list[dict[str, Any]], *, name: str = "values"
    ) -> Response:
        """Return the page that `startAt` and `maxResults` request; `name` is the field of the items."""
        start = _read_number(request.query_params.get("startAt"))
        most = self._get_page_size(request.query_params.get("maxResults"), 50)
        page = values[start : start + most]
        body: dict[str, Any] = {"startAt": start, "maxResults": most, "total": len(values), name: page}
        if name == "values":
            body["isLast"] = start + len(page) >= len(values)
        return JSONResponse(body)

    def _get_page_size(self, asked: Any, usual: int) -> int:
        """Return the requested page size, or the usual one, within the limit."""
        return max(1, min(_read_number(asked) or usual, self.max_page_size))

    def _format_now(self) -> str:
        return datetime.fromtimestamp(self.clock.now(), UTC).isoformat(timespec="milliseconds")


def build_jira_app(sandbox: JiraSandbox) -> Starlette:
    """Build the ASGI app of the sandbox."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        sandbox.close()

    wrap, issue = sandbox.wrap_endpoint, f"{API}/issue/{{key}}"
    return Starlette(
        routes=[
            Route(f"{API}/myself", wrap(sandbox.get_myself)),
            Route(f"{API}/field", wrap(sandbox.get_fields)),
            Route(f"{API}/status", wrap(sandbox.get_statuses)),
            Route(f"{API}/search/jql", wrap(sandbox.search), methods=["GET", "POST"]),
            Route(f"{API}/search", wrap(sandbox.search_by_offset)),
            Route(f"{API}/changelog/bulkfetch", wrap(sandbox.get_bulk_changelogs), methods=["POST"]),
            Route(f"{API}/project/{{key}}/version", wrap(sandbox.get_versions)),
            Route(f"{API}/project/{{key}}/versions", wrap(sandbox.get_versions)),
            Route(issue, wrap(sandbox.get_issue)),
            Route(f"{issue}/changelog", wrap(sandbox.get_changelog)),
            Route(f"{issue}/comment", wrap(sandbox.get_comments)),
            Route(f"{issue}/comment", wrap(sandbox.add_comment), methods=["POST"]),
            Route(f"{issue}/transitions", wrap(sandbox.get_transitions)),
            Route(f"{issue}/transitions", wrap(sandbox.do_transition), methods=["POST"]),
            Route(f"{issue}/properties/{{property}}", wrap(sandbox.get_property)),
            Route(f"{API}/comment/{{comment}}/properties/{{property}}", wrap(sandbox.get_comment_property)),
            Route(f"{AGILE}/board", wrap(sandbox.get_boards)),
            Route(f"{AGILE}/board/{{board}}/sprint", wrap(sandbox.get_sprints)),
            Route("/sandbox/issues", sandbox.put_issue, methods=["POST"]),
            Route("/sandbox/issues/{key}", sandbox.delete_issue, methods=["DELETE"]),
            Route("/sandbox/links", sandbox.put_link, methods=["POST"]),
            Route("/sandbox/versions", sandbox.put_version, methods=["POST"]),
            Route("/sandbox/sprints", sandbox.put_sprint, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ],
        exception_handlers=ERROR_HANDLERS,
        lifespan=lifespan,
    )


def _read_query(request: Request) -> dict[str, Any]:
    """Return the query parameters, with `fields` as a list."""
    query: dict[str, Any] = dict(request.query_params)
    if "fields" in query:
        query["fields"] = query["fields"].split(",")
    return query


def _read_number(given: Any) -> int:
    """Return a number from a query or a body, 0 for none. Raise `InvalidRequest` for anything else."""
    text = str(given or 0)
    if not re.fullmatch("[0-9]{1,9}", text):
        raise InvalidRequest(f"Invalid number {text:.20}: expected an integer from 0 to 999999999.")
    return int(text)


def _read_names(given: Any) -> list[str]:
    """Return a list of texts from a body. Raise `InvalidRequest` for anything else."""
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidRequest("Invalid list: expected texts.")
    return given


def _read_properties(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the properties in a body. Raise `InvalidRequest` unless each has a key and a value."""
    found = body.get("properties") or []
    are_valid = isinstance(found, list) and all(
        isinstance(each, dict) and isinstance(each.get("key"), str) and "value" in each for each in found
    )
    if not are_valid:
        raise InvalidRequest(
            "Invalid properties: expected a list of objects with a text `key` and a `value`."
        )
    return list(found)


def _make_token(issue: Issue, jql: str) -> str:
    """Make the page token: the sort key of the last issue, and the query it is valid for."""
    return base64.urlsafe_b64encode(json.dumps([get_sort_key(issue), jql]).encode()).decode()


def _parse_token(token: str, jql: str) -> tuple[int, str, int]:
    """Return the sort key in a page token. Raise ValueError if it is invalid or of another query."""
    try:
        place, its_jql = from_json(base64.urlsafe_b64decode(token))
        if its_jql == jql:
            return _PLACE.validate_python(place)
    except (ValueError, TypeError):
        pass
    raise ValueError("The provided next page token is invalid or expired.")


def _find_reference(properties: list[dict[str, Any]]) -> str | None:
    """Return the reference in the properties, or None."""
    values = [each.get("value") for each in properties]
    return next((each.get("reference") for each in values if isinstance(each, dict)), None)


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping without one key."""
    return {key: value for key, value in values.items() if key != name}


def _build_bad_request(text: str) -> Response:
    return _build_error(400, text)


def _build_not_found(text: str) -> Response:
    return _build_error(404, text)


def _build_issue_not_found() -> Response:
    return _build_not_found("Issue does not exist or you do not have permission to see it.")


def _build_error(status: int, text: str) -> Response:
    return JSONResponse({"errorMessages": [text], "errors": {}}, status_code=status)
