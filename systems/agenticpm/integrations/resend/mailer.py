"""The Resend mailer: send mail with an idempotency key, so that the same key twice within a day is one mail.

Resend keeps a key for `KEY_LIFETIME_S` seconds with its mail and returns the same id again. After that it
would send a second mail, so a retry must not come later. It refuses a key that comes with another mail.
"""

from __future__ import annotations

from typing import Any, Final

import httpx2
from pydantic import Field

from agenticpm.domain.tickets import Health, OutgoingMail
from agenticpm.integrations.response_models import ResponseModel, parse_response
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, HoldfastError
from holdfast.web.external_client import ExternalClient, ExternalResponse

NAME: Final = "Resend"
KEY_LIFETIME_S: Final = 86_400
MAX_KEY_CHARS: Final = 256
# Limits of the stored and displayed parts of a refusal.
MAX_NAME_CHARS: Final = 100
MAX_MESSAGE_CHARS: Final = 300
BUSY_RETRY_S: Final = 5.0
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
CONFLICT: Final = 409
# Resend's error name for a key that may only send. Such a key is valid.
SEND_ONLY_KEY: Final = "restricted_api_key"


class SentResponse(ResponseModel):
    id: str = Field(min_length=1)


class Refusal(ResponseModel):
    """The body of a refusal by Resend."""

    name: str = "unknown"
    message: str = ""


class ResendMailer:
    """A `Mailer` for Resend. The HTTP client has the address and the API key."""

    def __init__(self, http: httpx2.AsyncClient, sender: str) -> None:
        self._client = ExternalClient(http, NAME)
        self._sender = sender

    async def check_health(self) -> Health:
        """Return whether the key is valid, by the cheapest read. A send-only key counts as valid.

        Resend refuses that read to a send-only key with an error name of its own.
        """
        try:
            answer = await self._client.request(
                "GET", "/domains", accepted_statuses=frozenset({UNAUTHORIZED})
            )
            if answer.status != UNAUTHORIZED:
                return Health(is_ok=True, detail="The key is valid.")
            refusal = _parse_refusal(answer)
        except HoldfastError as error:
            return Health(is_ok=False, detail=error.message)
        if refusal.name == SEND_ONLY_KEY:
            return Health(is_ok=True, detail="The key is valid and may only send.")
        return Health(is_ok=False, detail=f"Resend refused the key: {refusal.name}.")

    async def send(self, mail: OutgoingMail, key: str) -> dict[str, Any]:
        """Send one mail under the idempotency key and return its id.

        Raise ExternalServiceRefused if the key or the mail is invalid, ExternalServiceFailed otherwise.
        """
        if not 1 <= len(key) <= MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
            raise ExternalServiceRefused(
                "invalid_idempotency_key",
                f"Invalid idempotency key: expected 1 to {MAX_KEY_CHARS} printable ASCII characters.",
            )
        answer = await self._client.request(
            "POST",
            "/emails",
            json={"from": self._sender, "to": list(mail.to), "subject": mail.subject, "text": mail.text},
            headers={"Idempotency-Key": key},
            accepted_statuses=frozenset({FORBIDDEN, CONFLICT}),
        )
        if answer.status in (FORBIDDEN, CONFLICT):
            raise _build_send_error(answer)
        return {"id": parse_response(SentResponse, answer.body, NAME, may_be_done=True).id}


def _build_send_error(answer: ExternalResponse) -> ExternalServiceFailed | ExternalServiceRefused:
    """Build the error of a mail that was not sent.

    403 is an invalid key, which the operator can fix, or a mail that we may not send. 409 is another mail
    under the same key, or the same mail in progress.
    """
    refusal = _parse_refusal(answer)
    if refusal.name == "concurrent_idempotent_requests":
        return ExternalServiceFailed(
            "Resend is already sending the same mail.", may_be_done=True, retry_after_s=BUSY_RETRY_S
        )
    if answer.status == FORBIDDEN and refusal.name != "validation_error":
        return ExternalServiceFailed(
            f"Resend refused the credentials with 403 ({refusal.name}): fix them in the integration.",
            may_be_done=False,
        )
    if answer.status == CONFLICT and refusal.name != "invalid_idempotent_request":
        return ExternalServiceFailed(f"Resend responded with 409 ({refusal.name}).", may_be_done=True)
    return ExternalServiceRefused(
        refusal.name, f"Resend refused the mail ({refusal.name}): {refusal.message}"
    )


def _parse_refusal(answer: ExternalResponse) -> Refusal:
    """Return the name and message of a refusal, truncated."""
    refusal = parse_response(
        Refusal, answer.body if isinstance(answer.body, dict) else {}, NAME, may_be_done=True
    )
    return Refusal(name=refusal.name[:MAX_NAME_CHARS], message=refusal.message[:MAX_MESSAGE_CHARS])
