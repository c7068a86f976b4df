"""A sandbox for Resend over real HTTP: it accepts mails with idempotency keys and records them in a ledger.

The same key with the same mail is one mail for a day, by the sandbox's clock; with another mail it is
refused. Then the key is forgotten, and the next mail under it is a second one, visible in the ledger.
"""

from __future__ import annotations

import hmac
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

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandbox_faults import ERROR_HANDLERS, Faults, apply_faults, read_object
from holdfast_demo.agenticpm.sandbox.controls import SandboxControls
from holdfast_demo.agenticpm.sandbox.ledger import Entry, Ledger

KEY_LIFETIME_S: Final = 86_400
MAX_KEY_CHARS: Final = 256
MAX_RECIPIENTS: Final = 50


@dataclass
class ResendSandbox(SandboxControls):
    """The sandbox. `api_key` is the one that callers must send; `sends_only` restricts it to sending.

    `domain` is the verified one: mail from another is refused. Empty allows any sender.
    """

    clock: Clock = SYSTEM_CLOCK
    api_key: str = ""
    domain: str = ""
    sends_only: bool = False
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.folder, "resend", self._format_now)

    @property
    def ledger(self) -> list[Entry]:
        """Every mail sent: `key`, `from`, `to`, `subject`, `text`, `id`, `at`."""
        return self._ledger.entries

    # --- Resend's API ---------------------------------------------------------------------------------------

    async def send(self, request: Request) -> Response:
        """Validate and record a mail; a known key with the same mail returns the earlier id."""
        body, key = await read_object(request), request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= MAX_KEY_CHARS:
            return _build_error(400, "invalid_idempotency_key", "The key must be between 1-256 chars.")
        if missing := [name for name in ("from", "to", "subject") if not body.get(name)]:
            return _build_error(422, "missing_required_field", f"Missing `{missing[0]}` field.")
        to = body["to"] if isinstance(body["to"], list) else [body["to"]]
        if len(to) > MAX_RECIPIENTS or not all(isinstance(each, str) and "@" in each for each in to):
            return _build_error(422, "validation_error", "Invalid `to` field.")
        if not isinstance(body["from"], str):
            return _build_error(422, "validation_error", "Invalid `from` field.")
        if self.domain and not body["from"].rstrip(">").endswith(f"@{self.domain}"):
            return _build_error(
                403, "validation_error", "The domain is not verified. Please, add and verify your domain."
            )
        if (known := self._find_sent(key)) is not None:
            if known["body"] == body:
                return JSONResponse({"id": known["id"]})
            return _build_error(
                409,
                "invalid_idempotent_request",
                "Same idempotency key used with a different request payload.",
            )
        return JSONResponse({"id": self._record_mail(body, to, key)["id"]})

    async def list_domains(self, request: Request) -> Response:
        """Return the verified domain; 401 for a send-only key."""
        if self.sends_only:
            return _build_error(401, "restricted_api_key", "This API key is restricted to only send emails.")
        domains = (
            [{"id": _make_id("domain"), "name": self.domain, "status": "verified"}] if self.domain else []
        )
        return JSONResponse({"object": "list", "has_more": False, "data": domains})

    def _find_sent(self, key: str | None) -> Entry | None:
        """Return the latest mail under a key that has not expired, or None."""
        since = self.clock.now() - KEY_LIFETIME_S
        found = [each for each in self.ledger if key is not None and each["key"] == key and each["s"] > since]
        return found[-1] if found else None

    def _record_mail(self, body: dict[str, Any], to: list[str], key: str | None) -> Entry:
        """Add a mail to the ledger, with the time that its key is known from."""
        return self._ledger.add(
            "mail",
            key=key,
            reference=key or "",
            id=_make_id(f"mail {len(self.ledger) + 1}"),
            to=to,
            subject=body["subject"],
            text=body.get("text", ""),
            body=body,
            s=self.clock.now(),
        )

    # --- authorization and faults ---------------------------------------------------------------------------

    def wrap_endpoint(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wrap an endpoint of the simulated API: check the key and apply the faults."""

        async def respond(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if self.api_key and not given:
                return _build_error(401, "missing_api_key", "Missing API key in the authorization header.")
            if self.api_key and not hmac.compare_digest(given.encode(), f"Bearer {self.api_key}".encode()):
                return _build_error(403, "invalid_api_key", "API key is invalid.")
            changes = request.method != "GET"
            return await apply_faults(self.faults, self.clock.now(), changes, lambda: endpoint(request))

        return respond

    def _format_now(self) -> str:
        return datetime.fromtimestamp(self.clock.now(), UTC).isoformat(timespec="milliseconds")


def build_resend_app(sandbox: ResendSandbox) -> Starlette:
    """Build the ASGI app of the sandbox."""
    return Starlette(
        routes=[
            Route("/emails", sandbox.wrap_endpoint(sandbox.send), methods=["POST"]),
            Route("/domains", sandbox.wrap_endpoint(sandbox.list_domains)),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ],
        exception_handlers=ERROR_HANDLERS,
    )


def _build_error(status: int, name: str, message: str) -> Response:
    return JSONResponse({"statusCode": status, "message": message, "name": name}, status_code=status)


def _make_id(seed: str) -> str:
    """Return a UUID that depends only on the seed."""
    return str(uuid5(NAMESPACE_URL, seed))
