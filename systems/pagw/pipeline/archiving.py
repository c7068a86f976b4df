"""Audit events on their way to the audit bucket: each a file of its own, under the document's layout of keys."""

from __future__ import annotations

import json

from holdfast import Received, Stores
from holdfast.errors import AlreadyThere
from pagw import files
from pagw.auditing import NO_REQUEST
from pagw.model import AuditMessage


class AuditArchive:
    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    async def handle(self, received: Received[AuditMessage]) -> None:
        message = received.message
        try:
            await self.stores.run(
                files.keep_audit_event(
                    json.dumps(message.event, sort_keys=True).encode(),
                    message.timestamp,
                    message.service_name,
                    message.pagw_id or NO_REQUEST,
                    message.event_uuid,
                )
            )
        except AlreadyThere:
            return
