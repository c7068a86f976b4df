"""pasapiconnector: sends a request to its payer exactly once, across retries and crashes.

It records the intent under a key of the request, calls the payer under the request's id and records the
outcome. It looks up an unknown outcome at the payer before it calls again. The payer's answer is stored as an
object before the outcome is recorded, so that the record contains none of it.

It also asks the payer about a pended request when `payer_polling` or an operator requests it, and processes
the answer as a callback.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from holdfast import Stores
from holdfast.core.errors import (
    ExternalServiceFailed,
    ExternalServiceRefused,
    IdempotencyMismatch,
    error_label,
)
from holdfast.runtime import Secrets, open_secrets
from pagw.domain.statuses import Stage, Status
from pagw.integrations.payers.client import PayerClient, PayerResponse, make_client
from pagw.model import files, patterns
from pagw.model.audit import Actor
from pagw.model.entities import IdempotencyRecord, RequestRow, RequestUpdate, StageMessage
from pagw.model.payer_calls import record_call
from pagw.model.registries import REGISTRIES, TOKENS, build_payer_client, get_payer
from pagw.workers.payer_call_log import LOOK_UP, PayerCallLog
from pagw.workers.payer_callbacks import record_callback
from pagw.workers.stages.base_stage import BaseStage, StageFailed, StageResult

# The time that a payer has to act. The record's lease is longer.
ACT_S: Final = 20.0
FINAL: Final = "final"

log = logging.getLogger(__name__)


class ApiConnector(BaseStage):
    """The stage that calls payers."""

    stage = Stage.api_connector
    purpose = "Submits the request to the payer, once"
    uses = (
        files.payer_request,
        files.keep_payer_response,
        files.keep_callback,
        patterns.note_callback,
        patterns.count_retry,
        record_call,
        REGISTRIES,
        TOKENS,
        patterns.CALLS,
    )
    also_accepts = (Status.PENDED,)

    def __init__(self, stores: Stores, http: httpx2.AsyncClient, secrets: Secrets) -> None:
        super().__init__(stores)
        self.http, self.secrets = http, secrets

    @classmethod
    @asynccontextmanager
    async def open(cls, stores: Stores) -> AsyncIterator[ApiConnector]:
        """Open the stage with its own HTTP client."""
        async with make_client() as http:
            yield cls(stores, http, open_secrets())

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult | None:
        """Submit a converted request. If the message is an inquiry, look up a pended one and return None.

        Raise `StageFailed` if the payer is gone, `ExternalServiceFailed` if a call fails.
        """
        if request.status is Status.PENDED and not message.is_inquiry:
            return None
        row = await get_payer(self.stores, request.payer_id or "")
        if row is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        payer = build_payer_client(self.stores, self.http, row, self.secrets)
        calls = PayerCallLog(self.stores, row.payer_id, request.pagw_id)
        if request.status is Status.PENDED:
            await self._inquire(request, payer, calls)
            return None
        outcome = await self._call_payer(request, payer, calls)
        is_final = outcome["status"] == FINAL
        return StageResult(
            Status.SUBMITTED if is_final else Status.PENDED,
            RequestUpdate(metadata={"answeredAt": outcome["at"]}),
            {"payer": row.payer_id, "answer": outcome["status"]},
            writes=calls.take_writes(),
        )

    async def _inquire(self, request: RequestRow, payer: PayerClient, calls: PayerCallLog) -> None:
        """Look up a pended request at its payer. Without a decision, or if the lookup fails, the next poll
        retries.
        """
        try:
            found = await calls.measure("inquire", payer.look_up(request.pagw_id))
        except ExternalServiceFailed as error:
            log.warning("Looking up the pended request %s failed: %s", request.pagw_id, error)
            return
        finally:
            await calls.store()
        if found is None:
            log.warning("The payer does not know the pended request %s.", request.pagw_id)
        elif found.status == FINAL:
            await record_callback(self.stores, request, found.body, Actor.service(self.stage.service))

    async def _call_payer(
        self, request: RequestRow, payer: PayerClient, calls: PayerCallLog
    ) -> dict[str, Any]:
        """Call the payer once under the request's key, and return the recorded outcome.

        Raise `StageFailed` if the stored request changed, `ExternalServiceFailed` after a failed call, which
        is counted on the request.
        """
        sent = (await self.stores.run(files.payer_request(request.created_at, request.pagw_id))).body

        async def act(_: str) -> dict[str, Any]:
            answer = await calls.measure(request.kind, self._submit(payer, request, sent))
            return await self._store_answer(request, answer)

        async def look_up(_: str) -> dict[str, Any] | None:
            found = await calls.measure(LOOK_UP, payer.look_up(request.pagw_id))
            return None if found is None else await self._store_answer(request, found)

        record = IdempotencyRecord(
            idempotency_key=f"{request.tenant}:{request.pagw_id}#payer",
            pagw_id=request.pagw_id,
            payload_sha256=hashlib.sha256(sent).hexdigest(),
        )
        try:
            done = await patterns.CALLS.call_external(
                self.stores, record, act=act, look_up=look_up, act_s=ACT_S
            )
        except IdempotencyMismatch as error:
            raise StageFailed(
                "PAYLOAD_CHANGED", "The stored request differs from the one sent to the payer."
            ) from error
        except ExternalServiceFailed as error:
            counted = patterns.count_retry(request.pagw_id, error_label(error), self.get_now())
            await self.stores.transact(counted, *calls.take_writes())
            raise
        except ExternalServiceRefused:
            await calls.store()
            raise
        return dict(done.result)

    async def _submit(self, payer: PayerClient, request: RequestRow, sent: bytes) -> PayerResponse:
        """Submit, update or cancel at the payer, by the request's kind."""
        former = request.replaces or ""
        match request.kind:
            case "update":
                return await payer.update(former, request.pagw_id, sent)
            case "cancel":
                return await payer.cancel(former, request.pagw_id, sent)
            case _:
                return await payer.submit(request.pagw_id, sent)

    async def _store_answer(self, request: RequestRow, answer: PayerResponse) -> dict[str, Any]:
        """Store the answer as an object and return the outcome to record: status, hash and time.

        The first of two answers stays and decides: a later lookup may say more, but the payer's callback
        brings that too.
        """
        stored = await self.stores.run(
            files.keep_payer_response(answer.body, request.created_at, request.pagw_id)
        )
        return {
            "status": _parse_status(stored.body),
            "sha256": stored.info.sha256,
            "at": self.get_now().isoformat(),
        }


def _parse_status(body: bytes) -> str:
    """Return the status of a stored payer answer: `final` or `pended`."""
    from pagw.integrations.payers.messages import PayerAnswerBody

    return PayerAnswerBody.model_validate_json(body).status
