"""A sandbox for an Outlook inbox in Microsoft Graph over real HTTP: delta pages, links, sign-in, removals.

The log lists what happened to the inbox; a delta link is a position in it. A round returns each message once,
in its state when the page is requested. `/sandbox/expire` invalidates every issued link.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidRequest
from holdfast.core.rng import make_hex_token
from holdfast.web.sandbox_faults import ERROR_HANDLERS, Faults, apply_faults, read_object
from holdfast_demo.agenticpm.sandbox.controls import SandboxControls
from holdfast_demo.agenticpm.sandbox.ledger import Entry

Json = dict[str, Any]

DEFAULT_PAGE_SIZE: Final = 10
TOKEN_S: Final = 3599
PAGE_SIZE_PREFERENCE: Final = "odata.maxpagesize="
MAX_PAGE_SIZE: Final = 1000
MAILBOX: Final = "pm@example.com"
SEED: Final[tuple[Json, ...]] = (
    {
        "subject": "Crossing refunds",
        "from": "ines@example.com",
        "bodyPreview": "MCU-3 waits for the bank's keys.",
    },
    {"subject": "Lunch", "from": "bo@example.com", "bodyPreview": "Noodles at noon?"},
    {
        "subject": "Pilot date",
        "from": "ines@example.com",
        "bodyPreview": "Can the pilot hold the end of April?",
    },
)


@dataclass
class OutlookSandbox(SandboxControls):
    """The sandbox. `secret` signs an app in (any tenant and client id); `access_token` is valid at once.

    Without either, every caller may read.
    """

    clock: Clock = SYSTEM_CLOCK
    mailbox: str = MAILBOX
    secret: str = ""
    access_token: str = ""
    faults: Faults = field(default_factory=Faults)
    with_sample: bool = True

    def __post_init__(self) -> None:
        self._numbers = count(1)
        self.expire()
        self._log: list[str] = []
        self._issued: dict[str, float] = {}
        self.messages: dict[str, Json] = {}
        self.sign_in_count = 0
        if self.with_sample:
            for each in SEED:
                self.receive(**each)

    @property
    def ledger(self) -> list[Entry]:
        """Always empty: the mailbox is read only."""
        return []

    # --- edits ----------------------------------------------------------------------------------------------

    def receive(self, /, **values: Any) -> str:
        """Add a message to the inbox by Graph's field names, and return its id.

        Raise `InvalidRequest` for an `id`, which the sandbox makes, and for a sender that is not a text.
        """
        sender = values.pop("from", None)
        if "id" in values or not isinstance(sender, str | None):
            raise InvalidRequest("Invalid message: expected no `id`, and an address in `from`.")
        id = f"AAMk{next(self._numbers):06}="
        self.messages[id] = {
            "id": id,
            "@odata.etag": f'W/"{len(self._log)}"',
            "subject": "",
            "bodyPreview": "",
            "receivedDateTime": datetime.fromtimestamp(self.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "from": {"emailAddress": {"name": sender, "address": sender}} if sender else None,
            **values,
        }
        self._log.append(id)
        return id

    def edit(self, id: str, /, **values: Any) -> None:
        """Change fields of a message, which makes it part of the next delta.

        Raise `InvalidRequest` for another `id`.
        """
        if values.get("id", id) != id:
            raise InvalidRequest("Invalid message: its `id` cannot be changed.")
        self.messages[id].update(values)
        self._log.append(id)

    def remove(self, id: str) -> None:
        """Remove a message if it exists, which makes the removal part of the next delta."""
        if self.messages.pop(id, None) is not None:
            self._log.append(id)

    def expire(self) -> None:
        """Invalidate every link. Links of an earlier process are invalid from the start."""
        self._generation = make_hex_token(4)

    # --- Graph's API ----------------------------------------------------------------------------------------

    async def get_inbox(self, request: Request) -> Response:
        if request.path_params["mailbox"] != self.mailbox:
            return _build_error(404, "ErrorInvalidUser", "The requested user is invalid.")
        return JSONResponse({"id": "inbox-1", "displayName": "Inbox"})

    async def get_delta(self, request: Request) -> Response:
        """Return a page of a round: the log from the last round's end to its end when this round began.

        A forgotten link is answered with 410.
        """
        if request.path_params["mailbox"] != self.mailbox:
            return _build_error(404, "ErrorInvalidUser", "The requested user is invalid.")
        query = request.query_params
        token = query.get("$skiptoken") or query.get("$deltatoken")
        try:
            place = self._parse_token(token) if token else (0, len(self._log), query.get("$select", ""))
        except ValueError:
            return _build_error(410, "SyncStateNotFound", "The sync state generation is not found.")
        begin, end, select = place
        if "$deltatoken" in query:
            end = len(self._log)
        ids = list(dict.fromkeys(self._log[begin:end]))
        size = _get_page_size(request)
        page = ids[:size]
        body: Json = {
            "value": [
                message for id in page if (message := self._to_api_message(id, select, is_first=begin == 0))
            ]
        }
        if len(ids) > size:
            # The next page begins at its first message in the log; earlier ones were already returned.
            place_of_next = self._log.index(ids[size], begin)
            body["@odata.nextLink"] = self._make_link(request, "$skiptoken", place_of_next, end, select)
        else:
            body["@odata.deltaLink"] = self._make_link(request, "$deltatoken", end, end, select)
        return JSONResponse(body)

    async def sign_in(self, request: Request) -> Response:
        """Issue an access token for the app's secret, valid for an hour."""
        form = {
            name: values[0]
            for name, values in parse_qs((await request.body()).decode(errors="replace")).items()
        }
        if form.get("grant_type") != "client_credentials" or not form.get("scope", "").endswith("/.default"):
            return JSONResponse({"error": "invalid_request"}, status_code=400)
        if not hmac.compare_digest(form.get("client_secret", "").encode(), self.secret.encode()):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        self.sign_in_count += 1
        token = f"eyJ.{self.sign_in_count}"
        self._issued[token] = self.clock.now() + TOKEN_S
        return JSONResponse({"token_type": "Bearer", "expires_in": TOKEN_S, "access_token": token})

    def _to_api_message(self, id: str, select: str, *, is_first: bool) -> Json | None:
        """Return a message with the selected fields; a removed one as removed, or None in the first round."""
        message = self.messages.get(id)
        if message is None:
            return None if is_first else {"id": id, "@removed": {"reason": "deleted"}}
        names = {"id", "@odata.etag", *filter(None, select.split(","))}
        return {name: value for name, value in message.items() if not select or name in names}

    def _make_link(self, request: Request, kind: str, begin: int, end: int, select: str) -> str:
        """Make a next or delta link for the positions `begin` and `end` in the log."""
        token = f"{self._generation}.{begin}.{end}.{select}".encode().hex()
        url = request.url.replace(query="")
        return f"{url}?{quote(kind, safe='$')}={token}"

    def _parse_token(self, token: str) -> tuple[int, int, str]:
        """Return begin, end and selected fields. Raise ValueError if the link is invalid or was forgotten."""
        age, begin, end, select = bytes.fromhex(token).decode().split(".", 3)
        if age != self._generation:
            raise ValueError("forgotten")
        return int(begin), int(end), select

    # --- controls -------------------------------------------------------------------------------------------

    async def do_receive(self, request: Request) -> Response:
        return JSONResponse({"id": self.receive(**await read_object(request))})

    async def do_edit(self, request: Request) -> Response:
        if request.path_params["id"] not in self.messages:
            return _build_error(404, "ErrorItemNotFound", "Message not found.")
        self.edit(request.path_params["id"], **await read_object(request))
        return JSONResponse({})

    async def do_remove(self, request: Request) -> Response:
        self.remove(request.path_params["id"])
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
            if not self._is_authorized(request.headers.get("authorization", "").removeprefix("Bearer ")):
                return _build_error(
                    401, "InvalidAuthenticationToken", "Access token has expired or is not yet valid."
                )
            return await apply_faults(self.faults, self.clock.now(), False, lambda: endpoint(request))

        return respond

    def _is_authorized(self, token: str) -> bool:
        """Return whether the token is the fixed one or a valid issued one; True if none is required."""
        if not self.secret and not self.access_token:
            return True
        is_given = bool(self.access_token) and hmac.compare_digest(token.encode(), self.access_token.encode())
        return is_given or self._issued.get(token, 0.0) > self.clock.now()


def build_outlook_app(sandbox: OutlookSandbox) -> Starlette:
    """Build the ASGI app of the sandbox."""
    inbox = "/v1.0/users/{mailbox}/mailFolders/inbox"
    return Starlette(
        routes=[
            Route(inbox, sandbox.wrap_endpoint(sandbox.get_inbox)),
            Route(f"{inbox}/messages/delta", sandbox.wrap_endpoint(sandbox.get_delta)),
            Route("/{tenant}/oauth2/v2.0/token", sandbox.sign_in, methods=["POST"]),
            Route("/sandbox/messages", sandbox.do_receive, methods=["POST"]),
            Route("/sandbox/messages/{id}", sandbox.do_edit, methods=["POST"]),
            Route("/sandbox/messages/{id}", sandbox.do_remove, methods=["DELETE"]),
            Route("/sandbox/expire", sandbox.do_expire, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ],
        exception_handlers=ERROR_HANDLERS,
    )


def _get_page_size(request: Request) -> int:
    """Return the page size in the Prefer header, or the default."""
    for each in request.headers.get("prefer", "").split(","):
        wanted = each.strip().removeprefix(PAGE_SIZE_PREFERENCE)
        if each.strip().startswith(PAGE_SIZE_PREFERENCE) and re.fullmatch("0*[1-9][0-9]{0,3}", wanted):
            return min(int(wanted), MAX_PAGE_SIZE)
    return DEFAULT_PAGE_SIZE


def _build_error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status_code=status)
