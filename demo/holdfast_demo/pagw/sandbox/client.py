"""Sandbox of a client's server: receives callbacks, and notifications of its subscriptions (rest-hook).

    POST /callbacks/{name}         the callback URL of a request
    POST /notifications/{name}     the endpoint of a subscription, handshakes included

`name` is anything, for example a tenant or a test. A call must be signed (`holdfast.web.sign`) and, unless it
is a handshake, have an id, which stays the same on repeats. The ledger records each call before it is
answered, with ids and hashes and without patient data; `received` counts the calls per id. The endpoints
under `/sandbox/…` make the server fail (500, no answer, slow, 429) or be gone for good (410).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import CallerRefused
from holdfast.web import verify
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import ERROR_HANDLERS, ControlBody, Faults, FaultsBody, apply_faults

# The headers that the gateway documents for its clients.
SIGNATURE_HEADER: Final = "x-pagw-signature"
DELIVERY_HEADER: Final = "x-pagw-delivery-id"
SECRET: Final = "sandbox-client-secret-for-demos"
LEDGER_FILE: Final = "client.jsonl"
GONE: Final = 410
HEADERS: Final = {"x-sandbox": "holdfast-pagw-client"}
PAGW_ID: Final = re.compile(rb"PAGW-[0-9A-HJKMNP-TV-Z]{26}")
ANSWERED_KINDS: Final = ("handshake", "heartbeat")

Kind = Literal["callback", "notification", "handshake", "heartbeat"]
Entry = dict[str, Any]


@dataclass
class Behaviour:
    """Simulated faults. `slow_s` delays every answer; `is_gone` answers 410 to everything."""

    faults: Faults = field(default_factory=Faults)
    slow_s: float = 0.0
    is_gone: bool = False
    refuses_handshakes: bool = False


class BehaviourBody(ControlBody):
    """The body of `POST /sandbox/behaviour`."""

    faults: FaultsBody = Field(default_factory=FaultsBody)
    slow_s: float = Field(default=0.0, ge=0, le=600)
    is_gone: bool = False
    refuses_handshakes: bool = False


@dataclass(frozen=True)
class ReceivedCall:
    """The calls under one id. `bodies` counts different bodies: more than one is the sender's mistake."""

    id: str
    kind: Kind
    pagw_id: str
    name: str
    times: int
    bodies: int


@dataclass
class ClientSandbox:
    """The client's server. A call may be signed with any of `secrets`. With a folder, the ledger survives the
    process.
    """

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    secrets: tuple[str, ...] = (SECRET,)
    behaviour: Behaviour = field(default_factory=Behaviour)

    def __post_init__(self) -> None:
        self.refused = 0
        self._path = None if self.folder is None else self.folder / LEDGER_FILE
        self.ledger: list[Entry] = [] if self._path is None else _load_ledger(self._path)

    @property
    def received(self) -> dict[str, ReceivedCall]:
        """Return the calls by id, in the order of each id's first call."""
        calls: dict[str, list[Entry]] = {}
        for each in self.ledger:
            calls.setdefault(each["id"], []).append(each)
        return {
            id: ReceivedCall(
                id,
                came[0]["kind"],
                came[0]["pagwId"],
                came[0]["name"],
                len(came),
                len({each["sha256"] for each in came}),
            )
            for id, came in calls.items()
        }

    # --- the client's server --------------------------------------------------------------------------------

    async def handle_callback(self, request: Request) -> Response:
        """Handle a callback of a request."""
        return await self._answer(request, "callback", await request.body())

    async def handle_notification(self, request: Request) -> Response:
        """Handle a notification, handshake or heartbeat of a subscription. Answer 400 to any other body."""
        body = await request.body()
        kind = _parse_kind(body)
        return (
            _build_refusal(400, "no notification")
            if kind is None
            else await self._answer(request, kind, body)
        )

    async def _answer(self, request: Request, kind: Kind, body: bytes) -> Response:
        """Check the call, record it in the ledger and answer it, with the simulated faults."""
        await asyncio.sleep(self.behaviour.slow_s)
        refusal = self._check_call(request.headers, kind, body)
        if refusal is not None:
            self.refused += 1
            return refusal

        async def accept() -> Response:
            self._write(_build_entry(request, kind, body, self._get_now()))
            return JSONResponse({"received": True, "sandbox": True}, headers=HEADERS)

        return await apply_faults(self.behaviour.faults, self.clock.now(), True, accept)

    def _check_call(self, headers: Mapping[str, str], kind: Kind, body: bytes) -> Response | None:
        """Return the refusal of a call, or None if it is accepted."""
        if self.behaviour.is_gone:
            return _build_refusal(GONE, "gone")
        try:
            verify(headers.get(SIGNATURE_HEADER), body, self.secrets, now=self.clock.now())
        except CallerRefused as error:
            return _build_refusal(error.http_status, error.code)
        if kind == "handshake" and self.behaviour.refuses_handshakes:
            return _build_refusal(403, "no handshake")
        if kind not in ANSWERED_KINDS and not headers.get(DELIVERY_HEADER):
            return _build_refusal(400, f"{DELIVERY_HEADER} is missing")
        return None

    def _write(self, entry: Entry) -> None:
        """Write an entry to the ledger before the call is answered."""
        entry = {"number": len(self.ledger) + 1, **entry}
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        self.ledger.append(entry)

    def _get_now(self) -> str:
        return datetime.fromtimestamp(self.clock.now(), UTC).isoformat(timespec="milliseconds")

    # --- controls -------------------------------------------------------------------------------------------

    async def set_behaviour(self, request: Request) -> Response:
        """Set the faults: `{"faults": {"failed_after": 0.2}, "slow_s": 0, "is_gone": false,
        "refuses_handshakes": false}`
        """
        body = await JsonBody(BehaviourBody)(request)
        self.behaviour = Behaviour(
            body.faults.to_faults(), body.slow_s, body.is_gone, body.refuses_handshakes
        )
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        """Return the ledger and the number of refused calls."""
        return JSONResponse({"ledger": self.ledger, "refused": self.refused})

    async def get_received(self, request: Request) -> Response:
        """Return the calls by id."""
        return JSONResponse({"received": [asdict(each) for each in self.received.values()]})


def build_client_app(sandbox: ClientSandbox) -> Starlette:
    """Build the app."""
    return Starlette(
        routes=[
            Route("/callbacks/{name}", sandbox.handle_callback, methods=["POST"]),
            Route("/notifications/{name}", sandbox.handle_notification, methods=["POST"]),
            Route("/sandbox/behaviour", sandbox.set_behaviour, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
            Route("/sandbox/received", sandbox.get_received),
        ],
        exception_handlers=ERROR_HANDLERS,
    )


def _parse_kind(body: bytes) -> Kind | None:
    """Return the kind in the notification's first entry (Parameters in R4, SubscriptionStatus in R4B), or
    None if the body is not a notification.
    """
    try:
        status = json.loads(body)["entry"][0]["resource"]
        codes = {each["name"]: each.get("valueCode") for each in status.get("parameter", [])}
        type = status.get("type") or codes.get("type")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    kinds: dict[Any, Kind] = {
        "handshake": "handshake",
        "heartbeat": "heartbeat",
        "event-notification": "notification",
    }
    return kinds.get(type) if isinstance(type, str) else None


def _build_entry(request: Request, kind: Kind, body: bytes, at: str) -> Entry:
    """Build the ledger entry of a call: ids and the hash of its body, no patient data."""
    digest = hashlib.sha256(body).hexdigest()
    id = request.headers.get(DELIVERY_HEADER, "")
    # The id of a delivery begins with that of its request.
    found = PAGW_ID.search(id.encode("utf-8", "replace") + body)
    return {
        "at": at,
        "id": id or f"{kind}-{digest[:16]}",
        "kind": kind,
        "pagwId": found[0].decode() if found else "",
        "name": request.path_params["name"],
        "sha256": digest,
    }


def _build_refusal(status: int, error: str) -> Response:
    return JSONResponse({"error": error, "sandbox": True}, status_code=status, headers=HEADERS)


def _load_ledger(path: Path) -> list[Entry]:
    """Load the ledger of earlier processes. Remove a line that the end of a process cut off: it was not
    answered.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return []
    whole, end, rest = path.read_bytes().rpartition(b"\n")
    if rest:
        os.truncate(path, len(whole) + len(end))
    return [json.loads(line) for line in whole.splitlines() if line]
