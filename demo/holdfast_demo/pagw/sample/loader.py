"""The sample: the sandbox payer, invented providers, and requests of two tenants in every state.

The intake accepts the requests, and the stages run directly, without their queues: a message that the outbox
still sends finds its work done. Payer calls go to the sandbox that `holdfast up` started, or else to one that
exists only while the sample loads, so that pended requests stay pended. A second run adds nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from holdfast import Stores, provision
from holdfast.core.errors import InvalidRequest, RetryLater
from holdfast.runtime import open_secrets
from holdfast.web.demo_env import patch_environ
from holdfast_demo.pagw import sandbox
from holdfast_demo.pagw.sample.bundles import (
    CLAIM_SYSTEM,
    PROVIDER_NPIS,
    SampleAttachment,
    build_cancel_bundle,
    build_request_bundle,
    get_person,
)
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, MODIFIED, PENDED_APPROVED
from pagw.domain.statuses import Stage
from pagw.integrations.payers.connection import make_client
from pagw.integrations.payers.http_clients import PayerHttpClients
from pagw.model import patterns
from pagw.model.entities import RequestRow, StageMessage
from pagw.model.lookup import CLAIM, RequestLookup, format_claim_identifier
from pagw.model.registries import TOKENS
from pagw.settings import PagwSettings
from pagw.workers.intake import Intake, Submission
from pagw.workers.stages import load_stages
from pagw.workers.stages.api_connector import ApiConnector
from pagw.workers.stages.base_stage import BaseStage

REQUESTS: Final = 12
# The payer's address until `holdfast up` sets another.
PAYER_URL: Final = "http://127.0.0.1:9000"
OFFICE_VISIT: Final = "99213"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class SampleKind:
    """A kind of sample request: the service code, whether its stages run, and whether it is cancelled
    afterwards.
    """

    code: str
    is_processed: bool = True
    is_cancelled: bool = False


KINDS: Final = (
    SampleKind(OFFICE_VISIT),
    SampleKind(DENIED),
    SampleKind(MODIFIED),
    SampleKind(PENDED_APPROVED),
    SampleKind(OFFICE_VISIT, is_cancelled=True),
    SampleKind(OFFICE_VISIT, is_processed=False),
)


async def load_sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Create the missing rows of `REQUESTS` × `scale` requests, at least one. Return their number (registries
    and requests). Safe to repeat. Raise `InvalidRequest` unless `scale` is above 0.
    """
    if scale <= 0:
        raise InvalidRequest(f"Invalid sample scale {scale}: expected a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await provision(stores, stores.system)
    count = max(1, round(REQUESTS * scale))
    with patch_environ(_get_missing_variables()):
        rows = await _register_payer(stores)
        async with _open_runner(stores) as runner:
            for number in range(count):
                rows += await runner.add_request(number)
                if progress is not None:
                    progress("requests", number + 1, count)
    return rows


def _get_missing_variables() -> dict[str, str]:
    """Return the sandbox's variables that are not set, with the same values as `holdfast up` sets."""
    variables = sandbox.build_variables({"payer": PAYER_URL}, PagwSettings.load().public_url)
    return {name: value for name, value in variables.items() if not os.environ.get(name)}


async def _register_payer(stores: Stores) -> int:
    """Register the sandbox payer, unless it is registered and `holdfast up` gives no other address. Return
    the number of rows.
    """
    url = os.environ.get(sandbox.PAYER_VARIABLE, "")
    known = await stores.run(patterns.payer(sandbox.PAYER_ID))
    if known is not None and url in ("", known.api_endpoint):
        return 0
    return await sandbox.register(stores, url or PAYER_URL)


@asynccontextmanager
async def _open_runner(stores: Stores) -> AsyncIterator[_SampleRunner]:
    """Open the runner with the payer that `holdfast up` started, or else with a sandbox payer in this
    process.
    """
    if os.environ.get(sandbox.PAYER_VARIABLE):
        async with make_client() as http:
            yield _SampleRunner(stores, http)
        return
    # Only this process reaches it, so it accepts any secret: the operator may have set another.
    payer = PayerSandbox(clock=stores.clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(build_payer_app(payer))) as http:
        yield _SampleRunner(stores, http)
    # Its tokens end with it.
    await TOKENS.invalidate(stores, payer_id=sandbox.PAYER_ID)


def build_stages(stores: Stores, http: httpx2.AsyncClient) -> dict[Stage, BaseStage]:
    """Return every stage, to be run without its queue. They call payers with this client."""
    stages = {stage: made(stores) for stage, made in load_stages().items() if made is not ApiConnector}
    return {**stages, ApiConnector.stage: ApiConnector(stores, PayerHttpClients(http), open_secrets())}


class _SampleRunner:
    """Submits sample requests and runs their stages."""

    def __init__(self, stores: Stores, http: httpx2.AsyncClient) -> None:
        self.stores, self.lookup = stores, RequestLookup.open()
        self.intake = Intake(stores, PagwSettings.load(), self.lookup)
        self.stages = build_stages(stores, http)

    async def add_request(self, number: int) -> int:
        """Add the sample request of this number, and its cancellation if its kind has one. Return the number
        of new requests, 0 if it exists.
        """
        kind, reference = KINDS[number % len(KINDS)], f"SAMPLE-{number}"
        tenant = sandbox.TENANTS[number // len(KINDS) % len(sandbox.TENANTS)]
        known = self.lookup.hash(tenant, CLAIM, format_claim_identifier(CLAIM_SYSTEM, reference))
        if await self.stores.run(patterns.found_by(tenant, CLAIM, known, limit=1)):
            return 0
        bundle = build_request_bundle(
            member=get_person(number),
            npi=PROVIDER_NPIS[number % len(PROVIDER_NPIS)],
            items=(kind.code,),
            urgency="expedited" if number % 4 == 0 else "standard",
            attachments=(SampleAttachment(),) if number % 3 == 0 else (),
            reference=reference,
        )
        is_done = await self._submit(tenant, reference, bundle, process=kind.is_processed)
        if not (kind.is_cancelled and is_done):
            return 1
        cancel_reference = f"{reference}-CANCEL"
        await self._submit(
            tenant, cancel_reference, build_cancel_bundle(bundle, reference=cancel_reference), process=True
        )
        return 2

    async def _submit(self, tenant: str, key: str, bundle: dict[str, Any], *, process: bool) -> bool:
        """Submit a bundle and run its stages. Return False if a stage must be retried later."""
        accepted = await self.intake.accept(Submission(tenant, key, json.dumps(bundle).encode()))
        request = await self.stores.run(patterns.request(tenant, accepted.pagw_id))
        try:
            while request is not None and process and (stage := self._get_next_stage(request)):
                request = await self._run_stage(request, stage)
        except RetryLater:
            # The payer is down, or the pipeline is processing the request: its queued message continues it.
            return False
        return True

    def _get_next_stage(self, request: RequestRow) -> BaseStage | None:
        """Return the stage that processes the request next, or None if it waits or has ended."""
        return None if request.stage is None else self.stages.get(request.stage)

    async def _run_stage(self, request: RequestRow, stage: BaseStage) -> RequestRow | None:
        """Run one stage and return the request, or None if its stage did not change."""
        message = StageMessage(pagw_id=request.pagw_id, tenant=request.tenant, stage=stage.stage)
        step = await stage.run(request, message)
        if step is not None:
            await stage.write_result(request, message, step)
        found = await self.stores.run(patterns.request(request.tenant, request.pagw_id))
        return None if found is None or found.stage is request.stage else found
