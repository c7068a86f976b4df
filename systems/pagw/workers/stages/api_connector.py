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

from holdfast import Stores
from holdfast.core.errors import (
    ExternalServiceFailed,
    ExternalServiceRefused,
    IdempotencyMismatch,
    error_label,
)
from holdfast.runtime import Secrets, open_secrets
from pagw.domain.statuses import Stage, Status
from pagw.integrations.payers.client import PayerCall, PayerClient, PayerResponse
from pagw.integrations.payers.config import parse_payer_config
from pagw.integrations.payers.formats import get_format
from pagw.integrations.payers.http_clients import PayerHttpClients, open_http_clients
from pagw.model import files, patterns
from pagw.model.audit import Actor
from pagw.model.entities import IdempotencyRecord, PayerRow, RequestRow, RequestUpdate, StageMessage
from pagw.model.payer_calls import record_call
from pagw.model.rate_limits import TENANT_LIMIT, count_payer_call
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
        TENANT_LIMIT,
        patterns.CALLS,
    )
    also_accepts = (Status.PENDED,)

    def __init__(self, stores: Stores, clients: PayerHttpClients, secrets: Secrets) -> None:
        super().__init__(stores)
        self.clients, self.secrets = clients, secrets

    @classmethod
    @asynccontextmanager
    async def open(cls, stores: Stores) -> AsyncIterator[ApiConnector]:
        """Open the stage with its own HTTP clients."""
        async with open_http_clients() as clients:
            yield cls(stores, clients, open_secrets())

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult | None:
        """Submit a converted request. If the message is an inquiry, look up a pended one and return None.

        Raise `StageFailed` if the payer is gone, `ExternalServiceFailed` if a call fails, `RateLimited` if
        the payer's limit is reached: the queue retries the request.
        """
        if request.status is Status.PENDED and not message.is_inquiry:
            return None
        row = await get_payer(self.stores, request.payer_id or "")
        if row is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        payer = build_payer_client(self.stores, self.clients, row, self.secrets)
        call = await self._load_call(request)
        calls = PayerCallLog(self.stores, row.payer_id, request.pagw_id)
        if request.status is Status.PENDED:
            await self._inquire(request, payer, call, calls)
            return None
        if (limit := row.options.get("max_per_minute")) is not None:
            await count_payer_call(self.stores, row.payer_id, limit)
        outcome = await self._call_payer(request, row, payer, call, calls)
        is_final = outcome["status"] == FINAL
        return StageResult(
            Status.SUBMITTED if is_final else Status.PENDED,
            RequestUpdate(metadata={"answeredAt": outcome["at"]}),
            {"payer": row.payer_id, "answer": outcome["status"]},
            writes=calls.take_writes(),
        )

    async def _load_call(self, request: RequestRow) -> PayerCall:
        """Return the call with the converted request."""
        sent = await self.stores.run(files.payer_request(request.created_at, request.pagw_id))
        former = request.replaces or ""
        return PayerCall(request.pagw_id, request.kind, former, sent.body, request.created_at)

    async def _inquire(
        self, request: RequestRow, payer: PayerClient, call: PayerCall, calls: PayerCallLog
    ) -> None:
        """Look up a pended request at its payer. Without a decision, or if the lookup fails, the next poll
        retries.
        """
        try:
            found = await calls.measure("inquire", payer.look_up(call))
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
        self,
        request: RequestRow,
        row: PayerRow,
        payer: PayerClient,
        call: PayerCall,
        calls: PayerCallLog,
    ) -> dict[str, Any]:
        """Call the payer once under the request's key, and return the recorded outcome.

        Raise `StageFailed` if the stored request changed, `ExternalServiceFailed` after a failed call, which
        is counted on the request.
        """

        async def act(_: str) -> dict[str, Any]:
            answer = await calls.measure(request.kind, payer.send(call))
            return await self._store_answer(request, row, answer)

        async def look_up(_: str) -> dict[str, Any] | None:
            found = await calls.measure(LOOK_UP, payer.look_up(call))
            return None if found is None else await self._store_answer(request, row, found)

        record = IdempotencyRecord(
            idempotency_key=f"{request.tenant}:{request.pagw_id}#payer",
            pagw_id=request.pagw_id,
            payload_sha256=hashlib.sha256(call.body).hexdigest(),
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

    async def _store_answer(
        self, request: RequestRow, row: PayerRow, answer: PayerResponse
    ) -> dict[str, Any]:
        """Store the answer as an object and return the outcome to record: status, hash and time.

        The first of two answers stays and decides: a later lookup may say more, but the payer's callback
        brings that too.
        """
        stored = await self.stores.run(
            files.keep_payer_response(answer.body, request.created_at, request.pagw_id)
        )
        form = get_format(parse_payer_config(row.model_dump()))
        return {
            "status": form.parse_answer(stored.body).status,
            "sha256": stored.info.sha256,
            "at": self.get_now().isoformat(),
        }
