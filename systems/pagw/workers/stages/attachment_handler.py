"""pasattachmenthandler: extracts the Bundle's attachments, each into its own object with type and hash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pagw.domain.attachments import (
    Attachment,
    AttachmentRefused,
    NoScanner,
    Scanner,
    extract_attachments,
    scan_attachments,
)
from pagw.domain.statuses import Stage, Status
from pagw.model import files
from pagw.model.entities import RequestRow, RequestUpdate, StageMessage
from pagw.workers.stages.base_stage import BaseStage, StageFailed, StageResult

SCAN_RESULTS: Final = {None: "not scanned", True: "clean"}


class AttachmentHandler(BaseStage):
    """The stage that stores attachments. Set `scanner` to scan them for viruses."""

    stage = Stage.attachment_handler
    purpose = "Extracts attachments from the bundle, detects their types and hashes them"
    uses = (files.bundle, files.keep_attachment)
    # Replace this with a virus scanner.
    scanner: ClassVar[Scanner] = NoScanner()

    async def run(self, request: RequestRow, message: StageMessage) -> StageResult:
        """Scan the bundle's attachments and store each. Raise `StageFailed` if the scanner refuses one."""
        bundle = json.loads((await self.stores.run(files.bundle(request.created_at, request.pagw_id))).body)
        stored: list[dict[str, Any]] = []
        found = extract_attachments(bundle)
        scans = await self._scan(found)
        for each in found:
            number = f"{each.number:03}.{each.extension}"
            await self.stores.run(
                files.keep_attachment(each.body, request.created_at, request.pagw_id, number)
            )
            stored.append(
                {
                    "name": f"attachment_{number}",
                    "content_type": each.content_type,
                    "sha256": each.sha256,
                    "bytes": each.bytes,
                }
            )
        return StageResult(
            Status.ATTACHMENTS_PROCESSED,
            RequestUpdate(metadata={"attachments": stored}),
            {"attachments": len(stored), **({"scans": scans} if scans else {})},
        )

    async def _scan(self, found: Sequence[Attachment]) -> list[dict[str, Any]]:
        """Return the scan result of each attachment, for the audit. Raise `StageFailed` if one is refused."""
        try:
            findings = await scan_attachments(found, self.scanner)
        except AttachmentRefused as refused:
            raise StageFailed("AttachmentRefused", refused.message) from refused
        return [
            {"attachment": number, "scanner": each.scanner, "found": SCAN_RESULTS[each.is_clean]}
            for number, each in enumerate(findings, 1)
        ]
