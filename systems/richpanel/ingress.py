"""The door: a webhook's bytes become a message in the queue, or a refusal. No table is written here.

    signature → shape → key → queue → 200

What is unsigned or malformed is refused for good (4xx) and nothing is enqueued; while the queue cannot take it, the sender
is told to come again (503). Several copies of one event within five minutes are one message: the queue sees to that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import getrandbits
from typing import Final

from holdfast import Secrets, Stores, open_secrets
from holdfast.correlation import correlated
from holdfast.errors import CallerRefused
from holdfast.web import verify, verify_shared_secret
from richpanel import patterns
from richpanel.payloads import EventMessage, event_message, inbound_event
from richpanel.settings import RichpanelSettings

WEBHOOK_SECRET: Final = "richpanel_webhook"
SIGNATURE_HEADER: Final = "x-richpanel-signature"
# Richpanel's HTTP Target can send a fixed header and cannot sign.
SECRET_HEADER: Final = "x-richpanel-secret"
CORRELATION_HEADER: Final = "x-correlation-id"
CORRELATION: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
CORRELATION_BITS: Final = 128


@dataclass
class Ingress:
    """Takes webhooks. `secrets` are looked at again as often as their cache says, so that rotation needs no restart."""

    stores: Stores
    settings: RichpanelSettings = field(default_factory=RichpanelSettings.load)
    secrets: Secrets = field(default_factory=open_secrets)

    async def take(self, sender: str, body: bytes, headers: Mapping[str, str]) -> EventMessage:
        """The message that was enqueued."""
        self._verify(body, headers)
        event = inbound_event(body, sender)
        received_at = datetime.fromtimestamp(self.stores.clock.now(), UTC)
        message = event_message(event, received_at, bucket_s=self.settings.bucket_s)
        with correlated(_correlation(headers) or f"{getrandbits(CORRELATION_BITS):032x}"):
            await self.stores.run(patterns.enqueue(message))
        return message

    def _verify(self, body: bytes, headers: Mapping[str, str]) -> None:
        live = self.secrets.get(WEBHOOK_SECRET).live
        try:
            if SIGNATURE_HEADER in headers:
                verify(headers[SIGNATURE_HEADER], body, live, now=self.stores.clock.now())
            else:
                verify_shared_secret(headers.get(SECRET_HEADER), live)
        except CallerRefused as refused:
            refused.add_note(f"Send {SIGNATURE_HEADER} or {SECRET_HEADER}.")
            raise


def _correlation(headers: Mapping[str, str]) -> str | None:
    """The sender's own id of the call. One that is more than an id, and so might name somebody, is kept as its hash."""
    given = headers.get(CORRELATION_HEADER)
    if not given:
        return None
    if CORRELATION.fullmatch(given):
        return given
    return f"h-{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
