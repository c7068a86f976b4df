"""pasattachmenthandler: takes the attachments out of the bundle, each a file of its own with its type and hash."""

from __future__ import annotations

import json
from typing import Any

from pagw import files
from pagw.attachments import attachments_in
from pagw.model import Learnt, StageMessage, Tracked
from pagw.pipeline.staging import StageHandler, Step
from pagw.statuses import Stage, Status


class AttachmentHandler(StageHandler):
    stage = Stage.attachment_handler
    takes = (Status.ENRICHED,)

    async def done(self, request: Tracked, message: StageMessage) -> Step:
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        kept: list[dict[str, Any]] = []
        for each in attachments_in(bundle):
            number = f"{each.number:03}.{each.extension}"
            await self.stores.run(
                files.keep_attachment(each.body, request.created_at, request.pagw_id, number)
            )
            kept.append(
                {
                    "name": f"attachment_{number}",
                    "content_type": each.content_type,
                    "sha256": each.sha256,
                    "bytes": each.bytes,
                }
            )
        return Step(
            Status.ATTACHMENTS_PROCESSED,
            Stage.request_converter,
            Learnt(metadata={"attachments": kept}),
            {"attachments": len(kept)},
        )
