"""pasrequestconverter: builds the request to the payer, in the payer's format."""

from __future__ import annotations

import json
from typing import Any

from holdfast import Stores
from holdfast.core.errors import InvalidRequest, SettingsError
from pagw.domain.fhir.exact_json import parse_exact
from pagw.domain.statuses import Stage, Status
from pagw.integrations.payers.config import parse_payer_config
from pagw.integrations.payers.formats import get_format
from pagw.model import files, patterns
from pagw.model.entities import PayerRow, RequestRow, StageMessage
from pagw.model.registries import REGISTRIES, get_payer
from pagw.settings import PagwSettings
from pagw.workers.stages.base_stage import BaseStage, StageFailed, StageResult


class Converter(BaseStage):
    """The stage that converts requests."""

    stage = Stage.request_converter
    purpose = "Builds the payer's request in the payer's format"
    uses = (files.enriched, files.bundle, files.keep_payer_request, REGISTRIES)

    def __init__(self, stores: Stores, settings: PagwSettings | None = None) -> None:
        super().__init__(stores)
        self.settings = settings or PagwSettings.load()

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult:
        """Build the payer's request and store it. Raise `StageFailed` if that is impossible."""
        payer = await get_payer(self.stores, request.payer_id or "")
        if payer is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        body = self._convert(payer, await self._build_payer_request(request))
        await self.stores.run(files.keep_payer_request(body, request.created_at, request.pagw_id))
        return StageResult(Status.CONVERTED, details={"format": payer.format, "bytes": len(body)})

    def _convert(self, payer: PayerRow, wanted: dict[str, Any]) -> bytes:
        """Return the request in the payer's format. Raise `StageFailed` if the format is unsupported or does
        not fit.
        """
        try:
            return get_format(parse_payer_config(payer.model_dump())).convert(wanted)
        except SettingsError as error:
            raise StageFailed("FORMAT_NOT_BUILT", error.message) from error
        except InvalidRequest as error:
            raise StageFailed("CANNOT_BE_CONVERTED", error.message) from error

    async def _build_payer_request(self, request: RequestRow) -> dict[str, Any]:
        """Return the enriched request with the whole Bundle, because PAS gives the payer all of it."""
        stores, created = self.stores, request.created_at
        enriched = json.loads((await stores.run(files.enriched(created, request.pagw_id))).body)
        bundle = parse_exact((await stores.run(files.bundle(created, request.pagw_id))).body)
        claim = enriched["claim"]
        former = await self._get_former(request)
        items = [{**each, "info_cancelled": each.get("is_cancelled", False)} for each in claim["items"]]
        return {
            **enriched,
            **claim,
            "items": items,
            "attachments": request.metadata.get("attachments", []),
            "former_reference": None if former is None else former.pagw_id,
            "callback_url": f"{self.settings.public_url}/payer-callbacks/{request.payer_id}",
            "bundle": bundle,
        }

    async def _get_former(self, request: RequestRow) -> RequestRow | None:
        """Return the request that this one updates or cancels, or None. Raise `StageFailed` if it is gone."""
        if request.replaces is None:
            return None
        former = await self.stores.run(patterns.request_in_hand(request.tenant, request.replaces))
        if former is None:
            raise StageFailed(
                "UNKNOWN_FORMER_REQUEST", "The request that this one changes is no longer tracked."
            )
        return former
