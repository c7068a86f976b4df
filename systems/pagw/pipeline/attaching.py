"""pasattachmenthandler: takes the attachments out of the bundle, each a file of its own with its type and hash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pagw import files
from pagw.attachments import Attachment, AttachmentRefused, NoScanner, Scanner, attachments_in, scanned
from pagw.model import Learnt, StageMessage, Tracked
from pagw.pipeline.staging import StageFailed, StageHandler, Step
from pagw.statuses import Stage, Status

SAID: Final = {None: "not scanned", True: "clean"}


class AttachmentHandler(StageHandler):
    stage = Stage.attachment_handler
    takes = (Status.ENRICHED,)
    # Whoever has a scanner of viruses puts it here.
    scanner: ClassVar[Scanner] = NoScanner()

    async def done(self, request: Tracked, message: StageMessage) -> Step:
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        kept: list[dict[str, Any]] = []
        found = attachments_in(bundle)
        scans = await self._scans(found)
        for each in found:
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
            {"attachments": len(kept), **({"scans": scans} if scans else {})},
        )

    async def _scans(self, found: Sequence[Attachment]) -> list[dict[str, Any]]:
        """What the scanner says of each, for the audit; what it refuses ends the request."""
        try:
            findings = await scanned(found, self.scanner)
        except AttachmentRefused as refused:
            raise StageFailed("AttachmentRefused", refused.message) from refused
        return [
            {"attachment": number, "scanner": each.scanner, "found": SAID[each.is_clean]}
            for number, each in enumerate(findings, 1)
        ]
