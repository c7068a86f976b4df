"""Mail that goes out, by Resend. The key goes with it: within a day, the same key twice is one mail.

Resend keeps a key for `KEY_KEPT_S` seconds with the mail that came under it, and answers the same id again. After that
it would send a second mail: who repeats must not come later. A key that comes with another mail is refused for good.
"""

from __future__ import annotations

from typing import Any, Final

import httpx2
from pydantic import Field

from agenticpm.connectors.shapes import Shape, shaped
from agenticpm.tickets import Health, OutgoingMail
from holdfast.errors import HoldfastError, PartyFailed, PartyRefused
from holdfast.web.parties import Answer, Party

NAME: Final = "Resend"
KEY_KEPT_S: Final = 86_400
KEY_CHARS_MAX: Final = 256
# Of a refusal, what is kept and shown.
NAME_CHARS_MAX: Final = 100
MESSAGE_CHARS_MAX: Final = 300
BUSY_RETRY_S: Final = 5.0
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
CONFLICT: Final = 409
# A key of ours that may send, and do nothing else, is told so by this name: it is a good key.
SENDS_ONLY: Final = "restricted_api_key"


class Sent(Shape):
    id: str = Field(min_length=1)


class Refusal(Shape):
    """How Resend says no."""

    name: str = "unknown"
    message: str = ""


class ResendMailer:
    """The port of mail that is sent. The client knows the address and the API key."""

    def __init__(self, http: httpx2.AsyncClient, sender: str) -> None:
        self._party = Party(http, NAME)
        self._sender = sender

    async def health(self) -> Health:
        """Whether the key is good, by the cheapest read there is. One that may only send is refused it, by name."""
        try:
            answer = await self._party.ask("GET", "/domains", passes=frozenset({UNAUTHORIZED}))
            if answer.status != UNAUTHORIZED:
                return Health(is_ok=True, detail="The key is good.")
            refusal = _refusal(answer)
        except HoldfastError as error:
            return Health(is_ok=False, detail=error.message)
        if refusal.name == SENDS_ONLY:
            return Health(is_ok=True, detail="The key is good, and may only send.")
        return Health(is_ok=False, detail=f"Resend refuses the key: {refusal.name}.")

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]:
        if not 1 <= len(key) <= KEY_CHARS_MAX or not (key.isascii() and key.isprintable()):
            raise PartyRefused(
                "invalid_idempotency_key",
                f"A key has 1 to {KEY_CHARS_MAX} characters that a header can hold.",
            )
        answer = await self._party.ask(
            "POST",
            "/emails",
            json={"from": self._sender, "to": list(mail.to), "subject": mail.subject, "text": mail.text},
            headers={"Idempotency-Key": key},
            passes=frozenset({FORBIDDEN, CONFLICT}),
        )
        if answer.status in (FORBIDDEN, CONFLICT):
            raise _not_sent(answer)
        return {"id": shaped(Sent, answer.body, NAME, may_be_done=True).id}


def _not_sent(answer: Answer) -> PartyFailed | PartyRefused:
    """403 is a bad key, which can be mended, or a mail that we may not send; 409 another mail, or the same one under way."""
    refusal = _refusal(answer)
    if refusal.name == "concurrent_idempotent_requests":
        return PartyFailed(
            "Resend is sending the same mail just now.", may_be_done=True, retry_after_s=BUSY_RETRY_S
        )
    if answer.status == FORBIDDEN and refusal.name != "validation_error":
        return PartyFailed(
            f"Resend refuses the credentials with 403 ({refusal.name}): mend them in the integration.",
            may_be_done=False,
        )
    if answer.status == CONFLICT and refusal.name != "invalid_idempotent_request":
        return PartyFailed(f"Resend answers 409 ({refusal.name}).", may_be_done=True)
    return PartyRefused(refusal.name, f"Resend refuses the mail ({refusal.name}): {refusal.message}")


def _refusal(answer: Answer) -> Refusal:
    told = shaped(Refusal, answer.body if isinstance(answer.body, dict) else {}, NAME, may_be_done=True)
    return Refusal(name=told.name[:NAME_CHARS_MAX], message=told.message[:MESSAGE_CHARS_MAX])
