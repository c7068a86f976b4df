"""The sample: the sandbox's payer, the providers of invented clinics, and requests of two tenants at every place on the way.

Requests come in by the intake and are brought on by the stages themselves, without their queues: a message that the
outbox still sends finds its work done. What the payer is asked goes to the sandbox that `holdfast up` has started; where
there is none, to one that ends with the sample, so that what pends there stays so. Run again, it adds nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from holdfast import Stores, open_secrets, prepare
from holdfast.errors import InvalidRequest, RetryLater
from holdfast.web.staging import environment
from pagw import patterns, sandbox
from pagw.findable import CLAIM, Findable, claim_name
from pagw.intake import Intake, Submission
from pagw.model import StageMessage, Tracked
from pagw.payers.client import make_client
from pagw.pipeline.attaching import AttachmentHandler
from pagw.pipeline.building import ResponseBuilder
from pagw.pipeline.calling_back import CallbackHandler
from pagw.pipeline.connecting import Connector
from pagw.pipeline.converting import Converter
from pagw.pipeline.enriching import Enricher
from pagw.pipeline.staging import StageHandler
from pagw.pipeline.subscribing import SubscriptionHandler
from pagw.registries import TOKENS
from pagw.sample_bundles import (
    CLAIM_SYSTEM,
    PROVIDER_NPIS,
    SampleAttachment,
    cancel_bundle,
    person,
    request_bundle,
)
from pagw.sandbox.payer import PayerSandbox, payer_app
from pagw.sandbox.payer_rules import DENIED, MODIFIED, PENDED_APPROVED
from pagw.settings import PagwSettings
from pagw.statuses import Stage

REQUESTS: Final = 12
# Where the payer would be, until `holdfast up` says where it is.
PAYER_URL: Final = "http://127.0.0.1:9000"
OFFICE_VISIT: Final = "99213"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Kind:
    """What is asked for; how far it is brought, and whether it is cancelled then."""

    code: str
    is_brought_on: bool = True
    is_cancelled: bool = False


KINDS: Final = (
    Kind(OFFICE_VISIT),
    Kind(DENIED),
    Kind(MODIFIED),
    Kind(PENDED_APPROVED),
    Kind(OFFICE_VISIT, is_cancelled=True),
    Kind(OFFICE_VISIT, is_brought_on=False),
)


async def sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Makes what is absent and gives the number of rows: of the registries, and of requests. It may be run again."""
    if scale <= 0:
        raise InvalidRequest(f"The scale of the sample is {scale}: give a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await prepare(stores, stores.system)
    count = max(1, round(REQUESTS * scale))
    with environment(_missing_variables()):
        rows = await _registered(stores)
        async with _bringing(stores) as bring:
            for number in range(count):
                rows += await bring.one(number)
                if progress is not None:
                    progress("requests", number + 1, count)
    return rows


def _missing_variables() -> dict[str, str]:
    """Secrets of the sandbox, where nobody has set others: the same that `holdfast up` sets."""
    told = sandbox.variables({"payer": PAYER_URL}, PagwSettings.load().public_url)
    return {name: value for name, value in told.items() if not os.environ.get(name)}


async def _registered(stores: Stores) -> int:
    """A payer that is registered stays where it is, unless `holdfast up` says that it is somewhere else."""
    url = os.environ.get(sandbox.PAYER_VARIABLE, "")
    known = await stores.run(patterns.payer(sandbox.PAYER_ID))
    if known is not None and url in ("", known.api_endpoint):
        return 0
    return await sandbox.register(stores, url or PAYER_URL)


@asynccontextmanager
async def _bringing(stores: Stores) -> AsyncIterator[_Bringing]:
    if os.environ.get(sandbox.PAYER_VARIABLE):
        async with make_client() as http:
            yield _Bringing(stores, http)
        return
    # Nobody but this process can reach it, and so it asks for no particular secret: the operator may have set another.
    payer = PayerSandbox(clock=stores.clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(payer_app(payer))) as http:
        yield _Bringing(stores, http)
    # What it gave ends with it.
    await TOKENS.forget(stores, payer_id=sandbox.PAYER_ID)


class _Bringing:
    """Takes requests in, and brings them on."""

    def __init__(self, stores: Stores, http: httpx2.AsyncClient) -> None:
        self.stores, self.findable = stores, Findable.open()
        self.intake = Intake(stores, PagwSettings.load(), self.findable)
        self.stages: Mapping[Stage, StageHandler] = {
            Stage.request_enricher: Enricher(stores),
            Stage.attachment_handler: AttachmentHandler(stores),
            Stage.request_converter: Converter(stores),
            Stage.api_connector: Connector(stores, http, open_secrets()),
            Stage.response_builder: ResponseBuilder(stores, self.findable),
            Stage.callback_handler: CallbackHandler(stores),
            Stage.subscription_handler: SubscriptionHandler(stores),
        }

    async def one(self, number: int) -> int:
        kind, reference = KINDS[number % len(KINDS)], f"SAMPLE-{number}"
        tenant = sandbox.TENANTS[number // len(KINDS) % len(sandbox.TENANTS)]
        known = self.findable.hash(tenant, CLAIM, claim_name(CLAIM_SYSTEM, reference))
        if await self.stores.run(patterns.found_by(tenant, CLAIM, known, limit=1)):
            return 0
        bundle = request_bundle(
            member=person(number),
            npi=PROVIDER_NPIS[number % len(PROVIDER_NPIS)],
            items=(kind.code,),
            urgency="expedited" if number % 4 == 0 else "standard",
            attachments=(SampleAttachment(),) if number % 3 == 0 else (),
            reference=reference,
        )
        is_done = await self._taken(tenant, reference, bundle, brings_on=kind.is_brought_on)
        if not (kind.is_cancelled and is_done):
            return 1
        cancelling = f"{reference}-CANCEL"
        await self._taken(tenant, cancelling, cancel_bundle(bundle, reference=cancelling), brings_on=True)
        return 2

    async def _taken(self, tenant: str, key: str, bundle: dict[str, Any], *, brings_on: bool) -> bool:
        """Whether it was brought as far as it goes."""
        accepted = await self.intake.accept(Submission(tenant, key, json.dumps(bundle).encode()))
        request = await self.stores.run(patterns.request(tenant, accepted.pagw_id))
        try:
            while request is not None and brings_on and (stage := self._next(request)):
                request = await self._brought_on(request, stage)
        except RetryLater:
            # The payer is not there yet, or the pipeline has it in hand: its message brings it on.
            return False
        return True

    def _next(self, request: Tracked) -> StageHandler | None:
        return None if request.stage is None else self.stages.get(request.stage)

    async def _brought_on(self, request: Tracked, stage: StageHandler) -> Tracked | None:
        """One stage further; None where it stays where it is."""
        message = StageMessage(pagw_id=request.pagw_id, tenant=request.tenant, stage=stage.stage)
        step = await stage.done(request, message)
        if step is not None:
            await stage.written(request, message, step)
        found = await self.stores.run(patterns.request(request.tenant, request.pagw_id))
        return None if found is None or found.stage is request.stage else found
