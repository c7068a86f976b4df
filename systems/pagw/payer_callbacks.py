"""A payer's callback: proved, kept as an object, and given to the callback handler. Acknowledged when both are stored.

Its signature is checked before it is read. A payer reaches its own requests alone. The same callback again has the same
bytes, finds its own object and its own row in the inbox, and is acknowledged without another effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from holdfast import Secrets, Stores
from holdfast.errors import InvalidRequest, NotFound
from holdfast.web import verify
from pagw import files, patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.limits import take_callback
from pagw.model import QUEUES, PayerRow, StageMessage, Tracked
from pagw.payers.config import payer_config
from pagw.payers.messages import AnswerTold
from pagw.registries import payer_of
from pagw.statuses import Stage

SERVICE: Final = "pascallbackhandler"
SIGNATURE_HEADER: Final = "x-payer-signature"
# Of one request; a payer that calls back more often than this with other contents is broken.
CALLBACKS_MAX: Final = 20


@dataclass(frozen=True)
class PayerCallbacks:
    stores: Stores
    secrets: Secrets

    async def take(self, payer_id: str, headers: Mapping[str, str], body: bytes) -> str:
        """The id of the request that it is about. Raises `CallerRefused` for a wrong signature."""
        row = await self._payer(payer_id)
        secret = self.secrets.get(payer_config(row.model_dump()).callback_secret_name)
        verify(headers.get(SIGNATURE_HEADER), body, secret.live, now=self.stores.clock.now())
        request = await self._request(payer_id, body)
        number = await self._kept(request, body)
        # If its row is in the inbox, it came before.
        writes = self._writes(request, payer_id, number)
        await patterns.INBOX.once(self.stores, f"{SERVICE}-payer", f"{request.pagw_id}#{number}", *writes)
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
        return found

    async def _kept(self, request: Tracked, body: bytes) -> str:
        for place in range(1, CALLBACKS_MAX + 1):
            number = f"{place:03}"
            kept = await self.stores.run(
                files.keep_callback(body, request.created_at, request.pagw_id, number)
            )
            if kept.body == body:
                return number
        raise InvalidRequest(
            f"{request.pagw_id} was called back for {CALLBACKS_MAX} times: ask what is wrong."
        )

    def _writes(self, request: Tracked, payer_id: str, number: str) -> list[Any]:
        event = AuditEvent(
            type="PAYER_CALLBACK",
            actor=Actor("system", payer_id),
            service=SERVICE,
            tenant=request.tenant,
            pagw_id=request.pagw_id,
            resource_type="callback",
            resource_id=number,
        )
        message = StageMessage(
            pagw_id=request.pagw_id,
            tenant=request.tenant,
            stage=Stage.callback_handler,
            occasion=f"payer-{number}",
            callback_key=number,
        )
        return [
            *audited(self.stores, event),
            patterns.OUTBOX.message(self.stores, request.pagw_id, QUEUES[Stage.callback_handler], message),
        ]
