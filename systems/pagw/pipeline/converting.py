"""pasrequestconverter: makes what the payer is sent, in the payer's own format."""

from __future__ import annotations

import json
from typing import Any

from holdfast import Stores
from holdfast.errors import InvalidRequest, SettingsError
from pagw import files, patterns
from pagw.model import PayerRow, StageMessage, Tracked
from pagw.payers.config import payer_config
from pagw.payers.formats import format_of
from pagw.pipeline.staging import StageFailed, StageHandler, Step
from pagw.registries import payer_of
from pagw.settings import PagwSettings
from pagw.statuses import Stage, Status


class Converter(StageHandler):
    stage = Stage.request_converter
    takes = (Status.ATTACHMENTS_PROCESSED,)

    def __init__(self, stores: Stores, settings: PagwSettings | None = None) -> None:
        super().__init__(stores)
        self.settings = settings or PagwSettings.load()

    async def done(self, request: Tracked, message: StageMessage) -> Step:
        payer = await payer_of(self.stores, request.payer_id or "")
        if payer is None:
            raise StageFailed("UNKNOWN_PAYER", "The payer is no longer configured.")
        body = self._converted(payer, await self._wanted(request))
        await self.stores.run(files.keep_payer_request(body, request.created_at, request.pagw_id))
        return Step(
            Status.CONVERTED, Stage.api_connector, details={"format": payer.format, "bytes": len(body)}
        )

    def _converted(self, payer: PayerRow, wanted: dict[str, Any]) -> bytes:
        try:
            return format_of(payer_config(payer.model_dump())).converted(wanted)
        except SettingsError as error:
            raise StageFailed("FORMAT_NOT_BUILT", error.message) from error
        except InvalidRequest as error:
            raise StageFailed("CANNOT_BE_CONVERTED", error.message) from error

    async def _wanted(self, request: Tracked) -> dict[str, Any]:
        """The enriched request with the whole bundle beside it: the payer is to have all of it (PAS)."""
        stores, created = self.stores, request.created_at
        enriched = json.loads((await stores.run(files.enriched(created, request.pagw_id))).body)
        bundle = json.loads((await stores.run(files.bundle(created, request.pagw_id))).body)
        claim = enriched["claim"]
        former = await self._former(request)
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

    async def _former(self, request: Tracked) -> Tracked | None:
        if request.replaces is None:
            return None
        former = await self.stores.run(patterns.request_in_hand(request.tenant, request.replaces))
        if former is None:
            raise StageFailed(
                "UNKNOWN_FORMER_REQUEST", "The request that this one changes is not tracked any more."
            )
        return former
