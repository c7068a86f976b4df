"""Which outboxes of a system may have unsent messages."""

from __future__ import annotations

from holdfast.config.settings import Settings
from holdfast.guarantees.messaging.declaration import BaseOutbox
from holdfast.guarantees.messaging.sql_outbox import SqlOutbox

__all__ = ["may_have_messages"]


def may_have_messages(outbox: BaseOutbox, settings: Settings) -> bool:
    """Return False for an outbox in an embedded PostgreSQL that was never started here.

    A list does not create its files.
    """
    if not isinstance(outbox, SqlOutbox) or not settings.has_embedded_sql:
        return True
    return settings.sql_directory is not None and settings.sql_directory.exists()
