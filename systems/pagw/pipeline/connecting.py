"""pasapiconnector: asks the payer, once per request however often this is tried and whoever dies over it.

The intent is recorded under a key of the request, the payer is asked under the request's id, the outcome is recorded. An
outcome that nobody knows is looked up at the payer before it is asked again. What the payer answers is an object before it
is an outcome, so that the record needs to hold nothing of it.

It also asks a payer what became of a request that is pended, when `following_up` or an operator says so: the answer goes
the way of a callback.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from holdfast import Handler, Secrets, Stores, open_secrets
from holdfast.errors import IdempotencyMismatch, PartyFailed, error_label
from pagw import files, patterns
from pagw.auditing import Actor
from pagw.model import IdempotencyRecord, Learnt, StageMessage, Tracked
from pagw.payer_callbacks import taken_up
from pagw.payers.client import Payer, PayerAnswer, make_client
from pagw.pipeline.staging import StageFailed, StageHandler, Step
from pagw.registries import payer_client, payer_of
from pagw.statuses import Stage, Status

# How long a payer has to act; the lease of the record is longer.
ACT_S: Final = 20.0
FINAL: Final = "final"

log = logging.getLogger(__name__)


class Connector(StageHandler):
    stage = Stage.api_connector
    takes = (Status.CONVERTED, Status.PENDED)

    def __init__(self, stores: Stores, http: httpx2.AsyncClient, secrets: Secrets) -> None:
        super().__init__(stores)
        self.http, self.secrets = http, secrets

    async def done(self, request: Tracked, message: StageMessage) -> Step | None:
        if request.status is Status.PENDED and not message.is_inquiry:
            return None
        row = await payer_of(self.stores, request.payer_id or "")
        if row is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        payer = payer_client(self.stores, self.http, row, self.secrets)
        if request.status is Status.PENDED:
            await self._inquired(request, payer)
            return None
        outcome = await self._asked(request, payer)
        is_final = outcome["status"] == FINAL
        return Step(
            Status.SUBMITTED if is_final else Status.PENDED,
            Stage.response_builder,
            Learnt(metadata={"answeredAt": outcome["at"]}),
            {"payer": row.payer_id, "answer": outcome["status"]},
        )

    async def _inquired(self, request: Tracked, payer: Payer) -> None:
        """A payer that has not decided is asked again, when it is time to. So is one that cannot be asked or is not
        understood: whoever waits for it waits in any case."""
        try:
            found = await payer.look_up(request.pagw_id)
        except PartyFailed as error:
            log.warning("What became of %s is not known: %s", request.pagw_id, error)
            return
        if found is None:
            log.warning("%s is pended, and its payer knows nothing of it.", request.pagw_id)
        elif found.status == FINAL:
            await taken_up(self.stores, request, found.body, Actor.service(self.stage.service))

    async def _asked(self, request: Tracked, payer: Payer) -> dict[str, Any]:
        sent = (await self.stores.run(files.payer_request(request.created_at, request.pagw_id))).body

        async def act(_: str) -> dict[str, Any]:
            return await self._kept(request, await self._submitted(payer, request, sent))

        async def look_up(_: str) -> dict[str, Any] | None:
            found = await payer.look_up(request.pagw_id)
            return None if found is None else await self._kept(request, found)

        record = IdempotencyRecord(
            idempotency_key=f"{request.tenant}:{request.pagw_id}#payer",
            pagw_id=request.pagw_id,
            payload_sha256=hashlib.sha256(sent).hexdigest(),
        )
        try:
            done = await patterns.CALLS.outside(self.stores, record, act=act, look_up=look_up, act_s=ACT_S)
        except IdempotencyMismatch as error:
            raise StageFailed("PAYLOAD_CHANGED", "What the payer was sent is not what is kept.") from error
        except PartyFailed as error:
            await self.stores.run(patterns.count_retry(request.pagw_id, error_label(error), self.now()))
            raise
        return dict(done.result)

    async def _submitted(self, payer: Payer, request: Tracked, sent: bytes) -> PayerAnswer:
        former = request.replaces or ""
        match request.kind:
            case "update":
                return await payer.update(former, request.pagw_id, sent)
            case "cancel":
                return await payer.cancel(former, request.pagw_id, sent)
            case _:
                return await payer.submit(request.pagw_id, sent)

    async def _kept(self, request: Tracked, answer: PayerAnswer) -> dict[str, Any]:
        """The answer as an object. Of two answers the first stays, and decides: a payer that was looked up later may say
        more, which its callback tells too."""
        kept = await self.stores.run(
            files.keep_payer_response(answer.body, request.created_at, request.pagw_id)
        )
        return {
            "status": _status_of(kept.body),
            "sha256": kept.info.sha256,
            "at": self.now().isoformat(),
        }


def _status_of(body: bytes) -> str:
    from pagw.payers.messages import AnswerTold

    return AnswerTold.model_validate_json(body).status


@asynccontextmanager
async def connecting(stores: Stores) -> AsyncIterator[Handler]:
    async with make_client() as http:
        yield Connector(stores, http, open_secrets()).handle
