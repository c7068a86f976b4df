"""The quality of replies in the store: a cached read for workers, and the operator's list and resumption."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from holdfast import Stores
from holdfast.core.errors import HoldfastError, InvalidRequest
from richpanel.domain.intents import Intent
from richpanel.domain.reply_quality import CACHE_S, UNREADABLE, find_stopped_intents
from richpanel.model import patterns
from richpanel.model.entities import ReplyQuality
from richpanel.settings import QUALITY_DAYS, RichpanelSettings

log = logging.getLogger(__name__)


@dataclass
class ReplyQualityReader:
    """Reads which intents have stopped, with a cache. An expired cache entry is never used."""

    stores: Stores
    settings: RichpanelSettings
    _cached: tuple[float, Mapping[str, str]] | None = field(default=None, repr=False)

    async def read(self) -> Mapping[str, str]:
        """Return the stopped intents with the reasons, at most `CACHE_S` seconds old. All are stopped, and
        nothing is cached, if they cannot be read.
        """
        now = self.stores.clock.now()
        if self._cached is not None and 0 <= now - self._cached[0] < CACHE_S:
            return self._cached[1]
        try:
            rows = await list_reply_quality(self.stores)
        except HoldfastError as error:
            log.warning("Failed to read the quality of replies, so none is sent: %s", error)
            return dict.fromkeys(Intent, UNREADABLE)
        stopped = find_stopped_intents(rows, self.settings)
        self._report(stopped)
        self._cached = (now, stopped)
        return stopped

    def _report(self, stopped: Mapping[str, str]) -> None:
        """Log and count each intent that has stopped since the last read."""
        before = self._cached[1] if self._cached is not None else {}
        for intent in stopped.keys() - before.keys():
            log.warning("%s. An operator can resume them.", stopped[intent])
            self.stores.count("replies_stopped", intent=intent)


async def list_reply_quality(stores: Stores) -> list[ReplyQuality]:
    """Return the counts of each intent that had replies."""
    now = stores.now()
    found = await stores.all(patterns.reply_quality())
    return [row for row in found if row.expires_at > now]


async def resume_replies(stores: Stores, intent: str, by: str) -> ReplyQuality:
    """Count the replies to an intent from zero again, as the operator `by`. Raise `InvalidRequest` for an
    unknown intent.
    """
    if intent not in set(Intent):
        raise InvalidRequest(f"Invalid intent {intent!r}: expected one of {', '.join(Intent)}.")
    now = stores.now()
    ends = now + timedelta(days=QUALITY_DAYS)
    fresh = ReplyQuality(intent=intent, resumed_at=now, resumed_by=by, expires_at=ends)
    await stores.run(patterns.resume_replies(fresh))
    return fresh
