"""A payer's callback: proved, judged, kept as an object, and given to the callback handler. Acknowledged when it is stored.

Its signature is checked before it is read. A payer reaches its own requests alone. What makes no sense is refused, so that
the payer sees it while it can still send something else. The same callback again has the same bytes, finds its own object and
its own row in the inbox, and is acknowledged without another effect. What a payer answers when it is asked about a pended
request goes the same way (`taken_up`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from holdfast import Secrets, SqlWrite, Stores
from holdfast.errors import InvalidRequest, NotFound
from holdfast.web import verify
from pagw import files, patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.limits import take_callback
from pagw.model import QUEUES, PayerRow, StageMessage, Tracked
from pagw.payers.config import payer_config
from pagw.payers.judging import faults_in
from pagw.payers.messages import AnswerTold
from pagw.pipeline.payer_answers import callbacks_of, items_of
from pagw.registries import payer_of
from pagw.statuses import Stage

SERVICE: Final = "pascallbackhandler"
SIGNATURE_HEADER: Final = "x-payer-signature"
# Of one request; a payer that calls back more often than this with other contents is broken.
CALLBACKS_MAX: Final = 100


@dataclass(frozen=True)
class PayerCallbacks:
    stores: Stores
    secrets: Secrets

    async def take(self, payer_id: str, headers: Mapping[str, str], body: bytes) -> str:
        """The id of the request that it is about. Raises `CallerRefused` for a wrong signature, `InvalidRequest` for
        what makes no sense."""
        row = await self._payer(payer_id)
        secret = self.secrets.get(payer_config(row.model_dump()).callback_secret_name)
        verify(headers.get(SIGNATURE_HEADER), body, secret.live, now=self.stores.clock.now())
        request = await self._request(payer_id, body)
        await taken_up(self.stores, request, body, Actor("system", payer_id))
        return request.pagw_id

    async def admit(self, payer_id: str) -> None:
        """Before its body is read: `NotFound` for a payer that nobody knows, `RateLimited` for one that comes too often."""
        await self._payer(payer_id)
        await take_callback(self.stores, payer_id)

    async def _payer(self, payer_id: str) -> PayerRow:
        row = await payer_of(self.stores, payer_id)
        if row is None or not row.callback_secret:
            raise NotFound("No payer of this name calls back here.")
        return row

    async def _request(self, payer_id: str, body: bytes) -> Tracked:
        try:
            told = AnswerTold.model_validate_json(body)
        except ValidationError as error:
            raise InvalidRequest(
                "The callback is not what a payer's answer looks like: send it whole."
            ) from error
        found = await self.stores.run(patterns.request_of_payer(payer_id, told.reference))
        if found is None:
            raise NotFound("No request of this reference is with this payer.")
        now = datetime.fromtimestamp(self.stores.clock.now(), UTC)
        wrong = faults_in(told.decision, created_at=found.created_at, now=now, sequences=items_of(found))
        if wrong:
            raise InvalidRequest(f"The callback makes no sense: {wrong}. Send what is meant.")
        return found


async def taken_up(stores: Stores, request: Tracked, body: bytes, actor: Actor) -> str:
    """Keeps what a payer says of a request and gives it to the callback handler, once; gives its number."""
    number = await _kept(stores, request, body)
    at = datetime.fromtimestamp(stores.clock.now(), UTC)
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
    # If its row is in the inbox, it came before.
    await patterns.INBOX.once(
        stores,
        f"{SERVICE}-payer",
        f"{request.pagw_id}#{number}",
        patterns.note_callback(request.pagw_id, number, called, at),
        *audited(stores, event),
        told_of_callback(stores, request, number, f"payer-{number}"),
    )
    return number


def told_of_callback(stores: Stores, request: Tracked, number: str, occasion: str) -> SqlWrite[Any]:
    """The message that gives a callback to its handler."""
    message = StageMessage(
        pagw_id=request.pagw_id,
        tenant=request.tenant,
        stage=Stage.callback_handler,
        occasion=occasion,
        callback_key=number,
    )
    return patterns.OUTBOX.message(stores, request.pagw_id, QUEUES[Stage.callback_handler], message)


async def _kept(stores: Stores, request: Tracked, body: bytes) -> str:
    """The number under which it is kept: its own, if it came before, else the next that is free."""
    sha256, noted = hashlib.sha256(body).hexdigest(), callbacks_of(request)
    for number, called in noted.items():
        if called.get("sha256") == sha256:
            return number
    for place in range(len(noted) + 1, CALLBACKS_MAX + 1):
        number = f"{place:03}"
        kept = await stores.run(files.keep_callback(body, request.created_at, request.pagw_id, number))
        if kept.body == body:
            return number
    raise InvalidRequest(f"{request.pagw_id} was called back for {CALLBACKS_MAX} times: ask what is wrong.")
