"""pasrequestenricher: keeps the parsed claim, and adds what the registries know of the provider and the payer.

The parser has made the claim already, to decide whether the request is accepted. It is made of the bundle again here, so
that a client need not wait for a file that only the stages read.
"""

from __future__ import annotations

import json
from typing import Any

from pagw import files
from pagw.fhir.claims import parsed
from pagw.model import Learnt, PayerRow, Provider, StageMessage, Tracked
from pagw.pipeline.staging import StageFailed, StageHandler, Step
from pagw.registries import payer_of, provider_of
from pagw.statuses import Stage, Status


class Enricher(StageHandler):
    stage = Stage.request_enricher
    takes = (Status.VALIDATED,)

    async def done(self, request: Tracked, message: StageMessage) -> Step:
        claim = await self._claim(request)
        provider = await provider_of(self.stores, request.provider_npi or "")
        payer = await payer_of(self.stores, request.payer_id or "")
        # Both were known when the request was accepted; an operator may have removed one since.
        if provider is None:
            raise StageFailed("UNKNOWN_PROVIDER", "The provider is no longer in the registry.")
        if payer is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        body = json.dumps(enriched(request, claim, provider, payer), sort_keys=True).encode()
        await self.stores.run(files.keep_enriched(body, request.created_at, request.pagw_id))
        # Which items there are, so that a callback about another is refused by who sees no bundle.
        items = [int(each["sequence"]) for each in claim["items"]]
        return Step(Status.ENRICHED, Stage.attachment_handler, Learnt(metadata={"items": items}))

    async def _claim(self, request: Tracked) -> dict[str, Any]:
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        claim = parsed(bundle).model_dump(mode="json", exclude_none=True)
        body = json.dumps(claim, sort_keys=True).encode()
        await self.stores.run(files.keep_parsed(body, request.created_at, request.pagw_id))
        return claim


def enriched(request: Tracked, claim: dict[str, Any], provider: Provider, payer: PayerRow) -> dict[str, Any]:
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
