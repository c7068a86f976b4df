"""A stand-in for Jira Cloud (REST v3 and Agile 1.0) over real HTTP, and the doors by which a test or a demo drives it.

It answers in the shapes and with the paging of the real one, refuses what that refuses, and knows no idempotency: asked
twice to comment, it comments twice. `has_tokens=False` makes it like Server: a search by `startAt`, no changelogs in bulk.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agenticpm.sandbox.driving import Driven
from agenticpm.sandbox.jira_desk import Issue, JiraDesk, place_of
from agenticpm.sandbox.jira_jql import JqlRefused, parsed
from agenticpm.sandbox.jira_sample import add_sample
from agenticpm.sandbox.ledger import Entry, Ledger
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import Faults, faulted

API: Final = "/rest/api/3"
AGILE: Final = "/rest/agile/1.0"
# Searches that come as POST, because they are long.
READS: Final = frozenset({f"{API}/search/jql", f"{API}/changelog/bulkfetch"})
ACCOUNT: Final = {"accountId": "sandbox:agent", "displayName": "AgenticPM", "active": True}


@dataclass
class JiraSandbox(Driven):
    """`email` and `api_token` are what callers must send; an empty token asks for none. `with_sample` fills in the
    project MCU. `page_most` is the largest page that it gives, whatever is asked for."""

    clock: Clock = SYSTEM_CLOCK
    email: str = ""
    api_token: str = ""
    zone: str = "Australia/Sydney"
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None
    with_sample: bool = True
    page_most: int = 100
    has_tokens: bool = True
    expands_properties: bool = True

    def __post_init__(self) -> None:
        self.desk = JiraDesk(self.clock, self.zone)
        if self.with_sample:
            add_sample(self.desk)
        self._ledger = Ledger(self.folder, "jira", self._now)
        for entry in self.ledger:
            self._restore(entry)

    @property
    def ledger(self) -> list[Entry]:
        """Every effect: `what` (comment, transition), `ticket`, `reference`, `at`, and what it was."""
        return self._ledger.entries

    def close(self) -> None:
        self._ledger.close()

    # --- the site -------------------------------------------------------------------------------------------

    async def myself(self, request: Request) -> Response:
        return JSONResponse({**ACCOUNT, "emailAddress": self.email, "timeZone": self.zone})

    async def get_fields(self, request: Request) -> Response:
        return JSONResponse(self.desk.fields)

    async def get_statuses(self, request: Request) -> Response:
        return JSONResponse(self.desk.statuses)

    async def get_versions(self, request: Request) -> Response:
        versions = self.desk.versions.get(request.path_params["key"])
        if versions is None:
            return _missing("No project could be found with that key.")
        paged = request.url.path.endswith("/version")
        return self._paged(request, versions) if paged else JSONResponse(versions)

    async def get_boards(self, request: Request) -> Response:
        wanted = request.query_params.get("projectKeyOrId")
        if wanted is not None and wanted not in self.desk.projects:
            return _refused(f"No project could be found with key or id '{wanted}'.")
        boards = [each for each in self.desk.boards if wanted in (None, each["project"])]
        return self._paged(request, boards)

    async def get_sprints(self, request: Request) -> Response:
        board = request.path_params["board"]
        found = next((each for each in self.desk.boards if each["id"] == board), None)
        if found is None:
            return _missing("The requested board cannot be viewed.")
        if found["type"] != "scrum":
            return _refused("The board does not support sprints")
        sprints = [each for each in self.desk.sprints.values() if each["originBoardId"] == board]
        return self._paged(request, sprints)

    # --- issues ---------------------------------------------------------------------------------------------

    async def search(self, request: Request) -> Response:
        """By token: the place of the last issue that was told, so that nothing slips through while issues move."""
        if not self.has_tokens:
            return _missing("null for uri")
        asked = await _json(request) if request.method == "POST" else _of_query(request)
        token = asked.get("nextPageToken")
        try:
            jql = str(asked.get("jql", ""))
            found = self._found(jql, after=_place(token, jql) if token else None)
        except (JqlRefused, ValueError) as refused:
            return _refused(str(refused))
        page = found[: self._most(asked.get("maxResults"), 50)]
        names = asked.get("fields", [])
        told = [self.desk.told(each, names) if names else {"id": each["id"]} for each in page]
        is_last = len(page) == len(found)
        following = {} if is_last else {"nextPageToken": _token(page[-1], jql)}
        return JSONResponse({"issues": told, "isLast": is_last, **following})

    async def old_search(self, request: Request) -> Response:
        """By `startAt`, in what is found now."""
        if self.has_tokens:
            return _errors(
                410, "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API."
            )
        asked = _of_query(request)
        try:
            found = self._found(str(asked.get("jql", "")))
        except JqlRefused as refused:
            return _refused(str(refused))
        start, most = int(asked.get("startAt", 0)), self._most(asked.get("maxResults"), 50)
        told = [self.desk.told(each, asked.get("fields") or None) for each in found[start : start + most]]
        return JSONResponse({"startAt": start, "maxResults": most, "total": len(found), "issues": told})

    async def get_issue(self, request: Request) -> Response:
        issue = self._issue(request)
        if issue is None:
            return _no_issue()
        told = self.desk.told(issue, _of_query(request).get("fields"))
        if "changelog" in request.query_params.get("expand", ""):
            histories = self._history(issue)
            told["changelog"] = {"startAt": 0, "total": len(histories), "histories": histories}
        return JSONResponse(told)

    async def get_changelog(self, request: Request) -> Response:
        issue = self._issue(request)
        return _no_issue() if issue is None else self._paged(request, self._history(issue))

    async def bulk_changelogs(self, request: Request) -> Response:
        """Oldest first over all the issues; here a page is so many entries, and times are numbers."""
        if not self.has_tokens:
            return _missing("null for uri")
        asked = await _json(request)
        issues = [issue for id in asked["issueIdsOrKeys"] if (issue := self.desk.issue(id))]
        entries = [(issue["id"], entry) for issue in issues for entry in self._history(issue)]
        entries.sort(key=lambda each: (datetime.fromisoformat(each[1]["created"]), int(each[0])))
        start, most = int(asked.get("nextPageToken") or 0), self._most(asked.get("maxResults"), 1000)
        logs: dict[str, list[dict[str, Any]]] = {}
        for id, entry in entries[start : start + most]:
            at = int(datetime.fromisoformat(entry["created"]).timestamp() * 1000)
            logs.setdefault(id, []).append({**entry, "created": at})
        told = [{"issueId": id, "changeHistories": entries} for id, entries in logs.items()]
        following = str(start + most) if start + most < len(entries) else None
        return JSONResponse({"issueChangeLogs": told, "nextPageToken": following})

    # --- what changes something -----------------------------------------------------------------------------

    async def get_comments(self, request: Request) -> Response:
        issue = self._issue(request)
        if issue is None:
            return _no_issue()
        comments = list(self.desk.comments.get(issue["id"], []))
        if request.query_params.get("orderBy") == "-created":
            comments.reverse()
        shows = self.expands_properties and "properties" in request.query_params.get("expand", "")
        told = [each if shows else _without(each, "properties") for each in comments]
        return self._paged(request, told, name="comments")

    async def get_comment_property(self, request: Request) -> Response:
        wanted, key = request.path_params["comment"], request.path_params["property"]
        comments = [each for every in self.desk.comments.values() for each in every if each["id"] == wanted]
        found = [each for comment in comments for each in comment["properties"] if each["key"] == key]
        return JSONResponse(found[0]) if found else _missing(f"The property {key} does not exist.")

    async def add_comment(self, request: Request) -> Response:
        issue, body = self._issue(request), await _json(request)
        if issue is None:
            return _no_issue()
        text = body.get("body")
        if not isinstance(text, dict) or text.get("type") != "doc" or not text.get("content"):
            return _refused("Comment body can not be empty!")
        properties = body.get("properties") or []
        comment = self.desk.comment(issue, text, properties, dict(ACCOUNT))
        reference = _reference(properties)
        told = {"ticket": issue["key"], "reference": reference, "body": text, "properties": properties}
        self._ledger.add("comment", **told)
        return JSONResponse(_without(comment, "properties"), status_code=201)

    async def get_transitions(self, request: Request) -> Response:
        issue = self._issue(request)
        if issue is None:
            return _no_issue()
        return JSONResponse({"expand": "transitions", "transitions": self._transitions(issue)})

    async def do_transition(self, request: Request) -> Response:
        issue, body = self._issue(request), await _json(request)
        if issue is None:
            return _no_issue()
        asked = body.get("transition")
        id = asked.get("id") if isinstance(asked, dict) else None
        chosen = next((each for each in self._transitions(issue) if each["id"] == id), None)
        if chosen is None:
            return _refused(f"Transition id '{id}' is not valid for this issue.")
        properties = body.get("properties") or []
        status = chosen["to"]["name"]
        self._move(issue, status, properties)
        reference = _reference(properties)
        told = {"ticket": issue["key"], "reference": reference, "status": status, "properties": properties}
        self._ledger.add("transition", **told)
        return Response(status_code=204)

    async def get_property(self, request: Request) -> Response:
        issue, key = self._issue(request), request.path_params["property"]
        if issue is None:
            return _no_issue()
        found = self.desk.properties.get(issue["id"], {})
        if key not in found:
            return _missing(f"The property {key} does not exist.")
        return JSONResponse({"key": key, "value": found[key]})

    # --- how it is driven -----------------------------------------------------------------------------------

    async def put_issue(self, request: Request) -> Response:
        """With `key`, an issue is edited; with `project` and `summary`, one is made. The rest are fields by short names."""
        body = await _json(request)
        try:
            issue = self.desk.edit(**body) if "key" in body else self.desk.create(**body)
        except (KeyError, TypeError) as error:
            return _refused(str(error))
        return JSONResponse(self.desk.told(issue))

    async def put_link(self, request: Request) -> Response:
        body = await _json(request)
        self.desk.link(body["blocker"], body["blocked"])
        return JSONResponse({})

    async def delete_issue(self, request: Request) -> Response:
        self.desk.delete(request.path_params["key"])
        return JSONResponse({})

    async def put_version(self, request: Request) -> Response:
        return JSONResponse(self.desk.put_version(**await _json(request)))

    async def put_sprint(self, request: Request) -> Response:
        return JSONResponse(self.desk.change_sprint(**await _json(request)))

    # --- who may, and what goes wrong -----------------------------------------------------------------------

    def party(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            if self.api_token and not self._is_known(request):
                return _errors(401, "Client must be authenticated to access this resource.")
            changes = request.method != "GET" and request.url.path not in READS
            return await faulted(self.faults, self.clock.now(), changes, lambda: endpoint(request))

        return answered

    def _is_known(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        try:
            told = base64.b64decode(given, validate=True)
        except binascii.Error:
            return False
        wanted = f"{self.email}:{self.api_token}".encode()
        return scheme.casefold() == "basic" and hmac.compare_digest(told, wanted)

    # --- parts ----------------------------------------------------------------------------------------------

    def _issue(self, request: Request) -> Issue | None:
        return self.desk.issue(request.path_params["key"])

    def _found(self, jql: str, after: tuple[int, str, int] | None = None) -> list[Issue]:
        found = self.desk.found(parsed(jql, self.desk.zone))
        return [each for each in found if after is None or place_of(each) > after]

    def _history(self, issue: Issue) -> list[dict[str, Any]]:
        return self.desk.histories.get(issue["id"], [])

    def _transitions(self, issue: Issue) -> list[dict[str, Any]]:
        """From any status to any other."""
        now = issue["fields"]["status"]["id"]
        return [
            {"id": str(10 * number + 1), "name": f"To {each['name']}", "to": each, "isGlobal": True}
            for number, each in enumerate(self.desk.statuses, 1)
            if each["id"] != now
        ]

    def _move(self, issue: Issue, status: str, properties: list[dict[str, Any]]) -> None:
        self.desk.edit(issue["key"], by=str(ACCOUNT["displayName"]), status=status)
        kept = self.desk.properties.setdefault(issue["id"], {})
        kept.update({each["key"]: each["value"] for each in properties})

    def _restore(self, entry: Entry) -> None:
        """An effect of a former process, so that it can be looked up in this one too."""
        issue = self.desk.issue(entry["ticket"])
        if issue is None:
            return
        if entry["what"] == "comment":
            self.desk.comment(issue, entry["body"], entry["properties"], dict(ACCOUNT))
        else:
            self._move(issue, entry["status"], entry["properties"])

    def _paged(self, request: Request, values: list[dict[str, Any]], *, name: str = "values") -> Response:
        start = int(request.query_params.get("startAt", 0))
        most = self._most(request.query_params.get("maxResults"), 50)
        page = values[start : start + most]
        told: dict[str, Any] = {"startAt": start, "maxResults": most, "total": len(values), name: page}
        if name == "values":
            told["isLast"] = start + len(page) >= len(values)
        return JSONResponse(told)

    def _most(self, asked: Any, usual: int) -> int:
        return max(1, min(int(asked or usual), self.page_most))

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock.now(), UTC).isoformat(timespec="milliseconds")


def jira_app(sandbox: JiraSandbox) -> Starlette:
    @asynccontextmanager
    async def closed(app: Starlette) -> AsyncIterator[None]:
        yield
        sandbox.close()

    party, issue = sandbox.party, f"{API}/issue/{{key}}"
    return Starlette(
        routes=[
            Route(f"{API}/myself", party(sandbox.myself)),
            Route(f"{API}/field", party(sandbox.get_fields)),
            Route(f"{API}/status", party(sandbox.get_statuses)),
            Route(f"{API}/search/jql", party(sandbox.search), methods=["GET", "POST"]),
            Route(f"{API}/search", party(sandbox.old_search)),
            Route(f"{API}/changelog/bulkfetch", party(sandbox.bulk_changelogs), methods=["POST"]),
            Route(f"{API}/project/{{key}}/version", party(sandbox.get_versions)),
            Route(f"{API}/project/{{key}}/versions", party(sandbox.get_versions)),
            Route(issue, party(sandbox.get_issue)),
            Route(f"{issue}/changelog", party(sandbox.get_changelog)),
            Route(f"{issue}/comment", party(sandbox.get_comments)),
            Route(f"{issue}/comment", party(sandbox.add_comment), methods=["POST"]),
            Route(f"{issue}/transitions", party(sandbox.get_transitions)),
            Route(f"{issue}/transitions", party(sandbox.do_transition), methods=["POST"]),
            Route(f"{issue}/properties/{{property}}", party(sandbox.get_property)),
            Route(f"{API}/comment/{{comment}}/properties/{{property}}", party(sandbox.get_comment_property)),
            Route(f"{AGILE}/board", party(sandbox.get_boards)),
            Route(f"{AGILE}/board/{{board:int}}/sprint", party(sandbox.get_sprints)),
            Route("/sandbox/issues", sandbox.put_issue, methods=["POST"]),
            Route("/sandbox/issues/{key}", sandbox.delete_issue, methods=["DELETE"]),
            Route("/sandbox/links", sandbox.put_link, methods=["POST"]),
            Route("/sandbox/versions", sandbox.put_version, methods=["POST"]),
            Route("/sandbox/sprints", sandbox.put_sprint, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ],
        lifespan=closed,
    )


async def _json(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except json.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}


def _of_query(request: Request) -> dict[str, Any]:
    asked: dict[str, Any] = dict(request.query_params)
    if "fields" in asked:
        asked["fields"] = asked["fields"].split(",")
    return asked


def _token(issue: Issue, jql: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([place_of(issue), jql]).encode()).decode()


def _place(token: str, jql: str) -> tuple[int, str, int]:
    """A token is good for the query that it was given with."""
    try:
        (at, project, number), its_jql = json.loads(base64.urlsafe_b64decode(token))
        if its_jql == jql:
            return at, project, number
    except (ValueError, TypeError):
        pass
    raise ValueError("The provided next page token is invalid or expired.")


def _reference(properties: list[dict[str, Any]]) -> str | None:
    values = [each.get("value") for each in properties]
    return next((each.get("reference") for each in values if isinstance(each, dict)), None)


def _without(told: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key != name}


def _refused(text: str) -> Response:
    return _errors(400, text)


def _missing(text: str) -> Response:
    return _errors(404, text)


def _no_issue() -> Response:
    return _missing("Issue does not exist or you do not have permission to see it.")


def _errors(status: int, text: str) -> Response:
    return JSONResponse({"errorMessages": [text], "errors": {}}, status_code=status)
