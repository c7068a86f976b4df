"""The webhook endpoint: verify a webhook, parse it and put it into the queue. It writes no table.

    signature → format → key → queue → 200

An unsigned or malformed webhook gets a permanent refusal (4xx) and is not enqueued; while the queue is
unavailable, the sender gets 503 and retries. The queue merges copies of one event that arrive within five
minutes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast import Stores
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import CallerRefused
from holdfast.runtime import Secrets, open_secrets
from holdfast.web import verify, verify_shared_secret
from richpanel.domain.inbound_events import EventMessage, build_event_message, parse_webhook
from richpanel.model import patterns
from richpanel.settings import WEBHOOK_SECRET, RichpanelSettings

SIGNATURE_HEADER: Final = "x-richpanel-signature"
# Richpanel's HTTP Target can send a fixed header and cannot sign.
SECRET_HEADER: Final = "x-richpanel-secret"
CORRELATION_HEADER: Final = "x-correlation-id"
CORRELATION_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass
class Ingress:
    """Accepts webhooks. `secrets` are read again when their cache expires: rotation needs no restart."""

    stores: Stores
    settings: RichpanelSettings = field(default_factory=RichpanelSettings.load)
    secrets: Secrets = field(default_factory=open_secrets)

    async def accept(self, sender: str, body: bytes, headers: Mapping[str, str]) -> EventMessage:
        """Verify, parse and enqueue a webhook; return the queue message.

        `sender` names the help desk whose format the body has. Raise `CallerRefused` if the signature or
        secret is invalid, `InvalidRequest` or `MalformedRequest` if the body is.
        """
        self._verify(body, headers)
        event = parse_webhook(body, sender)
        received_at = self.stores.now()
        message = build_event_message(event, received_at, bucket_s=self.settings.bucket_s)
        with bind_correlation_id(_read_correlation_id(headers)):
            await self.stores.run(patterns.enqueue(message))
        return message

    def _verify(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Check the signature, or the shared secret if there is no signature. Raise `CallerRefused`."""
        live = self.secrets.get(WEBHOOK_SECRET).live
        try:
            if SIGNATURE_HEADER in headers:
                verify(headers[SIGNATURE_HEADER], body, live, now=self.stores.clock.now())
            else:
                verify_shared_secret(headers.get(SECRET_HEADER), live)
        except CallerRefused as refused:
            refused.add_note(f"Send {SIGNATURE_HEADER} or {SECRET_HEADER}.")
            raise


def _read_correlation_id(headers: Mapping[str, str]) -> str | None:
    """Return the sender's correlation id, or None without one. A value that does not have the form of an id
    may name a person and is hashed.
    """
    value = headers.get(CORRELATION_HEADER)
    if not value:
        return None
    if CORRELATION_ID.fullmatch(value):
        return value
    return f"h-{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
