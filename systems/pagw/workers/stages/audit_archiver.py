"""The audit archiver: writes each audit event as its own object to the audit bucket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast import ReceivedMessage, Stores
from holdfast.core.errors import AlreadyExists
from holdfast.model.components import Handler
from pagw.model import files
from pagw.model.audit import NO_REQUEST
from pagw.model.entities import AuditMessage


class AuditArchiver:
    """Archives audit events."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    async def handle(self, received: ReceivedMessage[AuditMessage]) -> None:
        """Write one event. An event that is already archived is left as it is."""
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
        except AlreadyExists:
            return


@asynccontextmanager
async def open_audit_archiver(stores: Stores) -> AsyncIterator[Handler]:
    """Open the archiver's handler."""
    yield AuditArchiver(stores).handle
