"""A stand-in for an inbox of Outlook by Microsoft Graph: delta pages, links, sign-in and what is removed, over real HTTP.

The log of the inbox is what happened to it; a delta link stands for a place in it. A round tells each message once, as it
is when its page is asked for. `/sandbox/expire` forgets every link that was given.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from secrets import token_hex
from typing import Any, Final
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agenticpm.sandbox.driving import Driven
from agenticpm.sandbox.ledger import Entry
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import Faults, faulted

Json = dict[str, Any]

PAGE_DEFAULT: Final = 10
TOKEN_S: Final = 3599
SIZE: Final = "odata.maxpagesize="
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
class OutlookSandbox(Driven):
    """`secret` is what an app signs in with (any tenant and client id), `access_token` one that is good at once.

    Without either, everybody may read.
    """

    clock: Clock = SYSTEM_CLOCK
    mailbox: str = MAILBOX
    secret: str = ""
    access_token: str = ""
    faults: Faults = field(default_factory=Faults)
    seeds: bool = True

    def __post_init__(self) -> None:
        self._numbers = count(1)
        self.expire()
        self._log: list[str] = []
        self._issued: dict[str, float] = {}
        self.messages: dict[str, Json] = {}
        self.signed_in = 0
        if self.seeds:
            for each in SEED:
                self.receive(**each)

    @property
    def ledger(self) -> list[Entry]:
        """Nothing ever has an effect here: the mailbox is read."""
        return []

    # --- edits -----------------------------------------------------------------------------------------------

    def receive(self, **values: Any) -> str:
        id = f"AAMk{next(self._numbers):06}="
        sender = values.pop("from", None)
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

    def edit(self, id: str, **values: Any) -> None:
        self.messages[id].update(values)
        self._log.append(id)

    def remove(self, id: str) -> None:
        if self.messages.pop(id, None) is not None:
            self._log.append(id)

    def expire(self) -> None:
        """Forgets every link; those of a former process are forgotten from the start."""
        self._age = token_hex(4)

    # --- as the party ----------------------------------------------------------------------------------------

    async def inbox(self, request: Request) -> Response:
        if request.path_params["mailbox"] != self.mailbox:
            return _refused(404, "ErrorInvalidUser", "The requested user is invalid.")
        return JSONResponse({"id": "inbox-1", "displayName": "Inbox"})

    async def delta(self, request: Request) -> Response:
        """A round goes over the log from where the last one ended to where it stood when the round began."""
        if request.path_params["mailbox"] != self.mailbox:
            return _refused(404, "ErrorInvalidUser", "The requested user is invalid.")
        query = request.query_params
        token = query.get("$skiptoken") or query.get("$deltatoken")
        try:
            place = self._place(token) if token else (0, len(self._log), query.get("$select", ""))
        except ValueError:
            return _refused(410, "SyncStateNotFound", "The sync state generation is not found.")
        begin, end, select = place
        if "$deltatoken" in query:
            end = len(self._log)
        ids = list(dict.fromkeys(self._log[begin:end]))
        size = _size(request)
        page = ids[:size]
        body: Json = {"value": [told for id in page if (told := self._told(id, select, is_first=begin == 0))]}
        if len(ids) > size:
            # The next page begins where its first message stands in the log; earlier ones are told already.
            place_of_next = self._log.index(ids[size], begin)
            body["@odata.nextLink"] = self._link(request, "$skiptoken", place_of_next, end, select)
        else:
            body["@odata.deltaLink"] = self._link(request, "$deltatoken", end, end, select)
        return JSONResponse(body)

    async def sign_in(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        if form.get("grant_type") != "client_credentials" or not form.get("scope", "").endswith("/.default"):
            return JSONResponse({"error": "invalid_request"}, status_code=400)
        if not hmac.compare_digest(form.get("client_secret", "").encode(), self.secret.encode()):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        self.signed_in += 1
        token = f"eyJ.{self.signed_in}"
        self._issued[token] = self.clock.now() + TOKEN_S
        return JSONResponse({"token_type": "Bearer", "expires_in": TOKEN_S, "access_token": token})

    def _told(self, id: str, select: str, *, is_first: bool) -> Json | None:
        message = self.messages.get(id)
        if message is None:
            return None if is_first else {"id": id, "@removed": {"reason": "deleted"}}
        names = {"id", "@odata.etag", *filter(None, select.split(","))}
        return {name: value for name, value in message.items() if not select or name in names}

    def _link(self, request: Request, kind: str, begin: int, end: int, select: str) -> str:
        token = f"{self._age}.{begin}.{end}.{select}".encode().hex()
        url = request.url.replace(query="")
        return f"{url}?{quote(kind, safe='$')}={token}"

    def _place(self, token: str) -> tuple[int, int, str]:
        age, begin, end, select = bytes.fromhex(token).decode().split(".", 3)
        if age != self._age:
            raise ValueError("forgotten")
        return int(begin), int(end), select

    # --- how it is driven ------------------------------------------------------------------------------------

    async def do_receive(self, request: Request) -> Response:
        return JSONResponse({"id": self.receive(**await request.json())})

    async def do_edit(self, request: Request) -> Response:
        if request.path_params["id"] not in self.messages:
            return _refused(404, "ErrorItemNotFound", "There is no such message.")
        self.edit(request.path_params["id"], **await request.json())
        return JSONResponse({})

    async def do_remove(self, request: Request) -> Response:
        self.remove(request.path_params["id"])
        return JSONResponse({})

    async def do_expire(self, request: Request) -> Response:
        self.expire()
        return JSONResponse({})

    # --- who may, and what goes wrong ------------------------------------------------------------------------

    def party(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            if not self._may(request.headers.get("authorization", "").removeprefix("Bearer ")):
                return _refused(
                    401, "InvalidAuthenticationToken", "Access token has expired or is not yet valid."
                )
            return await faulted(self.faults, self.clock.now(), False, lambda: endpoint(request))

        return answered

    def _may(self, token: str) -> bool:
        if not self.secret and not self.access_token:
            return True
        is_given = bool(self.access_token) and hmac.compare_digest(token.encode(), self.access_token.encode())
        return is_given or self._issued.get(token, 0.0) > self.clock.now()


def outlook_app(sandbox: OutlookSandbox) -> Starlette:
    inbox = "/v1.0/users/{mailbox}/mailFolders/inbox"
    return Starlette(
        routes=[
            Route(inbox, sandbox.party(sandbox.inbox)),
            Route(f"{inbox}/messages/delta", sandbox.party(sandbox.delta)),
            Route("/{tenant}/oauth2/v2.0/token", sandbox.sign_in, methods=["POST"]),
            Route("/sandbox/messages", sandbox.do_receive, methods=["POST"]),
            Route("/sandbox/messages/{id}", sandbox.do_edit, methods=["POST"]),
            Route("/sandbox/messages/{id}", sandbox.do_remove, methods=["DELETE"]),
            Route("/sandbox/expire", sandbox.do_expire, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ]
    )


def _size(request: Request) -> int:
    for each in request.headers.get("prefer", "").split(","):
        wanted = each.strip().removeprefix(SIZE)
        if each.strip().startswith(SIZE) and wanted.isdecimal() and int(wanted) > 0:
            return int(wanted)
    return PAGE_DEFAULT


def _refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status_code=status)
