"""A stand-in for Resend: mails with their idempotency keys, over real HTTP.

The same key with the same mail is one mail for a day, by the sandbox's clock; with another mail it is refused. Then the
key is forgotten, and the next mail under it is a second one: the ledger shows it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agenticpm.sandbox.driving import Driven
from agenticpm.sandbox.ledger import Entry, Ledger
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import Faults, faulted

KEY_KEPT_S: Final = 86_400
KEY_CHARS_MAX: Final = 256
RECIPIENTS_MAX: Final = 50


@dataclass
class ResendSandbox(Driven):
    """`api_key` is what callers must send; `sends_only` makes it one that may do nothing but send.

    `domain` is the one that was verified: mail from another is refused. Empty lets any send.
    """

    clock: Clock = SYSTEM_CLOCK
    api_key: str = ""
    domain: str = ""
    sends_only: bool = False
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.folder, "resend", self._now)

    @property
    def ledger(self) -> list[Entry]:
        """Every mail that went out: `key`, `from`, `to`, `subject`, `text`, `id`, `at`."""
        return self._ledger.entries

    # --- as the party ----------------------------------------------------------------------------------------

    async def send(self, request: Request) -> Response:
        body, key = await _json(request), request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= KEY_CHARS_MAX:
            return _refused(400, "invalid_idempotency_key", "The key must be between 1-256 chars.")
        if missing := [name for name in ("from", "to", "subject") if not body.get(name)]:
            return _refused(422, "missing_required_field", f"Missing `{missing[0]}` field.")
        to = [body["to"]] if isinstance(body["to"], str) else body["to"]
        if len(to) > RECIPIENTS_MAX or not all(isinstance(each, str) and "@" in each for each in to):
            return _refused(422, "validation_error", "Invalid `to` field.")
        if self.domain and not body["from"].rstrip(">").endswith(f"@{self.domain}"):
            return _refused(
                403, "validation_error", "The domain is not verified. Please, add and verify your domain."
            )
        if (known := self._known(key)) is not None:
            if known["body"] == body:
                return JSONResponse({"id": known["id"]})
            return _refused(
                409,
                "invalid_idempotent_request",
                "Same idempotency key used with a different request payload.",
            )
        return JSONResponse({"id": self._sent(body, to, key)["id"]})

    async def domains(self, request: Request) -> Response:
        if self.sends_only:
            return _refused(401, "restricted_api_key", "This API key is restricted to only send emails.")
        told = [{"id": _id("domain"), "name": self.domain, "status": "verified"}] if self.domain else []
        return JSONResponse({"object": "list", "has_more": False, "data": told})

    def _known(self, key: str | None) -> Entry | None:
        """The latest mail under a key that is not forgotten yet."""
        since = self.clock.now() - KEY_KEPT_S
        found = [each for each in self.ledger if key is not None and each["key"] == key and each["s"] > since]
        return found[-1] if found else None

    def _sent(self, body: dict[str, Any], to: list[str], key: str | None) -> Entry:
        return self._ledger.add(
            "mail",
            key=key,
            reference=key or "",
            id=_id(f"mail {len(self.ledger) + 1}"),
            to=to,
            subject=body["subject"],
            text=body.get("text", ""),
            body=body,
            s=self.clock.now(),
        )

    # --- who may, and what goes wrong ------------------------------------------------------------------------

    def party(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if self.api_key and not given:
                return _refused(401, "missing_api_key", "Missing API key in the authorization header.")
            if self.api_key and not hmac.compare_digest(given.encode(), f"Bearer {self.api_key}".encode()):
                return _refused(403, "invalid_api_key", "API key is invalid.")
            changes = request.method != "GET"
            return await faulted(self.faults, self.clock.now(), changes, lambda: endpoint(request))

        return answered

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock.now(), UTC).isoformat(timespec="milliseconds")


def resend_app(sandbox: ResendSandbox) -> Starlette:
    return Starlette(
        routes=[
            Route("/emails", sandbox.party(sandbox.send), methods=["POST"]),
            Route("/domains", sandbox.party(sandbox.domains)),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ]
    )


async def _json(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except json.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}


def _refused(status: int, name: str, message: str) -> Response:
    return JSONResponse({"statusCode": status, "message": message, "name": name}, status_code=status)


def _id(seed: str) -> str:
    return str(uuid5(NAMESPACE_URL, seed))
