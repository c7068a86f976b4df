"""Payers' callbacks: verify, check and store each, and queue it for the callback handler.

A callback is acknowledged when it is stored. The signature is verified before the body is parsed. A payer
reaches only its own requests. An inconsistent callback is refused, so that the payer can correct it. A
repeated callback has the same bytes, finds its object and its inbox row, and is acknowledged without another
effect. A payer's answer to an inquiry is recorded in the same way (`record_callback`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from holdfast import Stores
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.sql import SqlWrite
from holdfast.runtime import Secrets
from holdfast.web import verify
from pagw.domain.statuses import BEFORE_PAYER, Stage, Status
from pagw.integrations.payers.config import parse_payer_config
from pagw.integrations.payers.decision_checks import find_faults
from pagw.integrations.payers.messages import PayerAnswerBody
from pagw.model import files, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import QUEUES, PayerRow, RequestRow, StageMessage
from pagw.model.rate_limits import count_callback
from pagw.model.registries import get_payer
from pagw.workers.stages.payer_answers import get_callbacks, get_item_sequences

SERVICE: Final = "pascallbackhandler"
SIGNATURE_HEADER: Final = "x-payer-signature"
# Different callbacks per request. A payer that exceeds this is broken.
MAX_CALLBACKS: Final = 100


@dataclass(frozen=True)
class PayerCallbacks:
    """Receives the callbacks of payers."""

    stores: Stores
    secrets: Secrets

    async def receive(self, payer_id: str, signature: str | None, body: bytes) -> str:
        """Record a callback and return its request's id. Raise `CallerRefused` for a wrong signature,
        `InvalidRequest` for an invalid or inconsistent body, `NotFound` for an unknown payer or request.
        """
        row = await self._get_payer(payer_id)
        secret = self.secrets.get(parse_payer_config(row.model_dump()).callback_secret_name)
        verify(signature, body, secret.live, now=self.stores.clock.now())
        request = await self._get_request(payer_id, body)
        await record_callback(self.stores, request, body, Actor("system", payer_id))
        return request.pagw_id

    async def admit(self, payer_id: str) -> None:
        """Check a caller before its body is read. Raise `NotFound` for an unknown payer, `RateLimited` for
        too many calls.
        """
        await self._get_payer(payer_id)
        await count_callback(self.stores, payer_id)

    async def _get_payer(self, payer_id: str) -> PayerRow:
        """Return the payer. Raise `NotFound` if it is unknown or has no callback secret."""
        row = await get_payer(self.stores, payer_id)
        if row is None or not row.callback_secret:
            raise NotFound("Unknown payer, or a payer without a callback secret.")
        return row

    async def _get_request(self, payer_id: str, body: bytes) -> RequestRow:
        """Parse a callback and return its request. Raise `InvalidRequest` if it is invalid or inconsistent,
        `NotFound` if the payer has no such request.
        """
        try:
            answer = PayerAnswerBody.model_validate_json(body)
        except ValidationError as error:
            raise InvalidRequest(
                "Invalid callback: expected a payer's answer. Check its fields and send it again."
            ) from error
        found = await self.stores.run(patterns.request_of_payer(payer_id, answer.reference))
        if found is None:
            raise NotFound("Request not found: this payer has no request with this reference.")
        refuse_unsent(found)
        now = self.stores.now()
        wrong = find_faults(
            answer.decision, created_at=found.created_at, now=now, sequences=get_item_sequences(found)
        )
        if wrong:
            raise InvalidRequest(f"Inconsistent callback: {wrong}. Correct it and send it again.")
        return found


def refuse_unsent(request: RequestRow) -> None:
    """Raise `InvalidRequest` if the payer cannot have the request, because it was never sent."""
    status = request.metadata.get("failedAt") if request.status is Status.FAILED else request.status
    if status in BEFORE_PAYER:
        raise InvalidRequest(
            "Inconsistent callback: the gateway has not sent this request to the payer. Check its reference."
        )


async def record_callback(stores: Stores, request: RequestRow, body: bytes, actor: Actor) -> str:
    """Store a payer's answer and queue it for the callback handler, once. Return its number (`001` …)."""
    number = await _store_callback(stores, request, body)
    at = stores.now()
    event = AuditEvent(
        type="PAYER_CALLBACK",
        actor=actor,
        service=SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type="callback",
        resource_id=number,
    )
    called = {"at": at.isoformat(), "sha256": hashlib.sha256(body).hexdigest()}
    # An inbox row means that the callback was recorded before.
    await patterns.INBOX.run_once(
        stores,
        f"{SERVICE}-payer",
        f"{request.pagw_id}#{number}",
        patterns.note_callback(request.pagw_id, number, called, at),
        *build_audit_writes(stores, event),
        build_callback_message(stores, request, number, f"payer-{number}"),
    )
    return number


def build_callback_message(stores: Stores, request: RequestRow, number: str, occasion: str) -> SqlWrite[Any]:
    """Return the outbox write that gives the callback `number` to its handler. `occasion` makes the message
    unique.
    """
    message = StageMessage(
        pagw_id=request.pagw_id,
        tenant=request.tenant,
        stage=Stage.callback_handler,
        occasion=occasion,
        callback_key=number,
    )
    return patterns.OUTBOX.enqueue(stores, request.pagw_id, message, queue=QUEUES[Stage.callback_handler])


async def _store_callback(stores: Stores, request: RequestRow, body: bytes) -> str:
    """Store the body and return its number: the earlier one if it was received before, else the next free
    one. Raise `InvalidRequest` after `MAX_CALLBACKS` different callbacks.
    """
    sha256, recorded = hashlib.sha256(body).hexdigest(), get_callbacks(request)
    for number, called in recorded.items():
        if called.get("sha256") == sha256:
            return number
    for index in range(len(recorded) + 1, MAX_CALLBACKS + 1):
        number = f"{index:03}"
        stored = await stores.run(files.keep_callback(body, request.created_at, request.pagw_id, number))
        if stored.body == body:
            return number
    raise InvalidRequest(
        f"{request.pagw_id} has {MAX_CALLBACKS} different callbacks, the maximum. Contact the gateway's "
        "operator."
    )
