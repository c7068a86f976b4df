"""A stand-in for a client's server (SANDBOX): it is called back, and told of decisions it has subscribed to (rest-hook).

    POST /callbacks/{name}         what a request named as its callback URL
    POST /notifications/{name}     what a subscription named as its endpoint; handshakes are answered, too

`name` is anything, as a tenant or a test. A call must be signed (`holdfast.web.sign`) and, unless it is a handshake, have
an id: who calls twice does so under the same id. What came is written into a ledger before it is answered, with ids and
hashes and nothing of a patient: `received` tells for each id how often it came. The doors under `/sandbox/…` make it fail
(500, silent, slow, 429), and be gone for good (410).
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

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import CallerRefused
from holdfast.web import verify
from holdfast.web.sandboxes import WHO_DIED, Faults, faulted

# As the gateway documents them for its clients.
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
    """What goes wrong. `slow_s` passes before anything is done; `is_gone` answers 410 to everything."""

    faults: Faults = field(default_factory=Faults)
    slow_s: float = 0.0
    is_gone: bool = False
    refuses_handshakes: bool = False


@dataclass(frozen=True)
class Received:
    """What came under one id. `bodies` is how many different ones: more than one is a fault of the sender."""

    id: str
    kind: Kind
    pagw_id: str
    name: str
    times: int
    bodies: int


@dataclass
class ClientSandbox:
    """`secrets` are those by which a call may be signed. With a folder, the ledger outlives the process."""

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    secrets: tuple[str, ...] = (SECRET,)
    behaviour: Behaviour = field(default_factory=Behaviour)

    def __post_init__(self) -> None:
        self.refused = 0
        self._path = None if self.folder is None else self.folder / LEDGER_FILE
        self.ledger: list[Entry] = [] if self._path is None else _kept(self._path)

    @property
    def received(self) -> dict[str, Received]:
        """By id, in the order in which each came first."""
        calls: dict[str, list[Entry]] = {}
        for each in self.ledger:
            calls.setdefault(each["id"], []).append(each)
        return {
            id: Received(
                id,
                came[0]["kind"],
                came[0]["pagwId"],
                came[0]["name"],
                len(came),
                len({each["sha256"] for each in came}),
            )
            for id, came in calls.items()
        }

    # --- as the client's server ------------------------------------------------------------------------------

    async def be_called_back(self, request: Request) -> Response:
        return await self._answered(request, "callback", await request.body())

    async def be_notified(self, request: Request) -> Response:
        body = await request.body()
        kind = _kind_of(body)
        return _refusal(400, "no notification") if kind is None else await self._answered(request, kind, body)

    async def _answered(self, request: Request, kind: Kind, body: bytes) -> Response:
        await asyncio.sleep(self.behaviour.slow_s)
        refusal = self._refusal(request.headers, kind, body)
        if refusal is not None:
            self.refused += 1
            return refusal

        async def taken() -> Response:
            self._write(_entry(request, kind, body, self._now()))
            return JSONResponse({"received": True, "sandbox": True}, headers=HEADERS)

        return await faulted(self.behaviour.faults, self.clock.now(), True, taken)

    def _refusal(self, headers: Mapping[str, str], kind: Kind, body: bytes) -> Response | None:
        if self.behaviour.is_gone:
            return _refusal(GONE, "gone")
        try:
            verify(headers.get(SIGNATURE_HEADER), body, self.secrets, now=self.clock.now())
        except CallerRefused as error:
            return _refusal(error.http_status, error.code)
        if kind == "handshake" and self.behaviour.refuses_handshakes:
            return _refusal(403, "no handshake")
        if kind not in ANSWERED_KINDS and not headers.get(DELIVERY_HEADER):
            return _refusal(400, f"{DELIVERY_HEADER} is missing")
        return None

    def _write(self, entry: Entry) -> None:
        """With the operating system before it is answered."""
        entry = {"number": len(self.ledger) + 1, **entry}
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        self.ledger.append(entry)

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock.now(), UTC).isoformat(timespec="milliseconds")

    # --- how it is driven ------------------------------------------------------------------------------------

    async def set_behaviour(self, request: Request) -> Response:
        """`{"faults": {"failed_after": 0.2}, "slow_s": 0, "is_gone": false, "refuses_handshakes": false}`"""
        told: dict[str, Any] = await request.json()
        self.behaviour = Behaviour(**{**told, "faults": Faults(**told.get("faults", {}))})
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        return JSONResponse({"ledger": self.ledger, "refused": self.refused})

    async def get_received(self, request: Request) -> Response:
        return JSONResponse({"received": [asdict(each) for each in self.received.values()]})


def client_app(sandbox: ClientSandbox) -> Starlette:
    return Starlette(
        routes=[
            Route("/callbacks/{name}", sandbox.be_called_back, methods=["POST"]),
            Route("/notifications/{name}", sandbox.be_notified, methods=["POST"]),
            Route("/sandbox/behaviour", sandbox.set_behaviour, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
            Route("/sandbox/received", sandbox.get_received),
        ],
        exception_handlers=WHO_DIED,
    )


def _kind_of(body: bytes) -> Kind | None:
    """By the status that stands first in a notification: Parameters in R4, SubscriptionStatus in R4B."""
    try:
        status = json.loads(body)["entry"][0]["resource"]
        told = {each["name"]: each.get("valueCode") for each in status.get("parameter", [])}
        type = status.get("type") or told.get("type")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    kinds: dict[Any, Kind] = {
        "handshake": "handshake",
        "heartbeat": "heartbeat",
        "event-notification": "notification",
    }
    return kinds.get(type) if isinstance(type, str) else None


def _entry(request: Request, kind: Kind, body: bytes, at: str) -> Entry:
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


def _refusal(status: int, error: str) -> Response:
    return JSONResponse({"error": error, "sandbox": True}, status_code=status, headers=HEADERS)


def _kept(path: Path) -> list[Entry]:
    """Of former processes. A line that was cut off by the end of one was not answered, and is taken away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return []
    whole, end, rest = path.read_bytes().rpartition(b"\n")
    if rest:
        os.truncate(path, len(whole) + len(end))
    return [json.loads(line) for line in whole.splitlines() if line]
