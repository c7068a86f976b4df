"""pasrequestenricher: stores the parsed claim, and adds the registries' data about provider and payer.

Intake has parsed the claim already to decide whether to accept the request. It is parsed again here, so that
a client does not wait for an object that only the stages read.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from pagw.domain.fhir.claims import parse_claim
from pagw.domain.statuses import Stage, Status
from pagw.model import files
from pagw.model.entities import PayerRow, Provider, RequestRow, RequestUpdate, StageMessage
from pagw.model.registries import REGISTRIES, get_payer, get_provider
from pagw.workers.stages.base_stage import BaseStage, StageFailed, StageResult


class Enricher(BaseStage):
    """The stage that enriches requests."""

    stage = Stage.request_enricher
    purpose = "Adds provider and payer data from the registries"
    uses = (files.bundle, files.keep_parsed, files.keep_enriched, REGISTRIES)

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult:
        """Store the parsed claim and the enriched request. Raise `StageFailed` if payer or provider is
        missing, because an operator removed it.
        """
        claim = await self._parse_claim(request)
        provider = await get_provider(self.stores, request.provider_npi or "")
        payer = await get_payer(self.stores, request.payer_id or "")
        # Both were known when the request was accepted; an operator may have removed one since.
        if provider is None:
            raise StageFailed("UNKNOWN_PROVIDER", "The provider is no longer in the registry.")
        if payer is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        body = json.dumps(build_enriched_request(request, claim, provider, payer), sort_keys=True).encode()
        await self.stores.run(files.keep_enriched(body, request.created_at, request.pagw_id))
        # With the item sequences, the callback endpoint refuses unknown items without reading the Bundle.
        items = [int(each["sequence"]) for each in claim["items"]]
        hours = payer.options.get(f"{request.urgency}_hours")
        due_at = None if hours is None else request.created_at + timedelta(hours=hours)
        return StageResult(Status.ENRICHED, RequestUpdate(due_at=due_at, metadata={"items": items}))

    async def _parse_claim(self, request: RequestRow) -> dict[str, Any]:
        """Parse the claim of the stored bundle, store it as an object and return it as JSON."""
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        claim = parse_claim(bundle).model_dump(mode="json", exclude_none=True)
        body = json.dumps(claim, sort_keys=True).encode()
        await self.stores.run(files.keep_parsed(body, request.created_at, request.pagw_id))
        return claim


def build_enriched_request(
    request: RequestRow, claim: dict[str, Any], provider: Provider, payer: PayerRow
) -> dict[str, Any]:
    """Return the content of the enriched request."""
    return {
        "reference": request.pagw_id,
        "kind": request.kind,
        "replaces": request.replaces,
        "claim": claim,
        "provider": {
            "npi": provider.npi,
            "name": provider.name,
            "type": provider.type,
            "endpoints": provider.endpoints,
        },
        "payer": {"payer_id": payer.payer_id, "name": payer.name, "format": payer.format},
    }
