"""Idempotency keys that version 0.2 stored as text: found until they expire, so that no repeat is lost.

This version stores a keyed hash. A record of the earlier one is under the client's own key, and expires two
days after its request at the latest; retention removes the key from the request's row.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from holdfast import Stores
from pagw.model import patterns
from pagw.model.entities import IDEMPOTENCY_HOURS
from pagw.model.lookup import RequestLookup, build_plain_key

MAX_AGE: Final = timedelta(hours=IDEMPOTENCY_HOURS)


class RecordKeys:
    """Finds the key under which the record of a client's key is stored. One per process."""

    def __init__(self, stores: Stores, lookup: RequestLookup) -> None:
        self._stores, self._lookup = stores, lookup
        # When the last plain key has expired; unknown before the first call.
        self._plain_until: datetime | None = None

    async def find(self, tenant: str, key: str) -> str:
        """Return the key with a hash, or the plain one if a record is still stored under it."""
        now = self._stores.now()
        if self._plain_until is None:
            self._plain_until = await self._find_end(now)
        if now < self._plain_until:
            plain = build_plain_key(tenant, key)
            found = await self._stores.run(patterns.submission(plain))
            if found is not None and not found.has_expired(self._stores.clock.now()):
                return plain
        return self._lookup.build_idempotency_key(tenant, key)

    async def _find_end(self, now: datetime) -> datetime:
        """Return when the record of the newest plain key has expired."""
        found = await self._stores.run(patterns.newest_plain_key(now - MAX_AGE))
        return now if found is None or found.newest is None else found.newest + MAX_AGE
