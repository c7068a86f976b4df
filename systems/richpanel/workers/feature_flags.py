"""Feature flags in the store: a cached read for workers (safe mode if unreadable), and the write."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast import Stores
from holdfast.core.errors import ConditionFailed, HoldfastError
from richpanel.domain.feature_flags import CACHE_S, FeatureFlags, build_switches
from richpanel.model import patterns
from richpanel.model.entities import Switches

log = logging.getLogger(__name__)


@dataclass
class FeatureFlagReader:
    """Reads the flags, with a cache. An expired cache entry is never used."""

    stores: Stores
    _cached: tuple[float, FeatureFlags] | None = field(default=None, repr=False)

    async def read(self) -> FeatureFlags:
        """Return the flags, at most `CACHE_S` seconds old. Return safe mode, uncached, if they cannot be
        read.
        """
        now = self.stores.clock.now()
        if self._cached is not None and 0 <= now - self._cached[0] < CACHE_S:
            return self._cached[1]
        try:
            item = await self.stores.run(patterns.read_switches())
        except HoldfastError as error:
            log.warning("Failed to read the switches, so safe mode is on: %s", error)
            return FeatureFlags.build_unreadable()
        position = FeatureFlags.from_item(item, datetime.fromtimestamp(now, UTC))
        self._cached = (now, position)
        return position


async def set_switches(
    stores: Stores,
    *,
    safe_mode: bool,
    automation_enabled: bool,
    by: str,
    channels: frozenset[str] = frozenset(),
    shadow: bool = False,
) -> Switches:
    """Write the switches as the operator `by`, and return them. Raise `ConditionFailed` if another operator
    changed them at the same time.
    """
    now = stores.now()
    seen = await stores.run(patterns.read_switches())
    new = build_switches(
        safe_mode=safe_mode,
        automation_enabled=automation_enabled,
        channels=channels,
        shadow=shadow,
        by=by,
        now=now,
        version=1 if seen is None else seen.version,
    )
    try:
        if seen is None:
            await stores.run(patterns.create_switches(new))
            return new
        await stores.run(patterns.turn_switches(new, seen.version))
    except ConditionFailed as error:
        error.add_note(
            "Another operator changed the switches at the same time. Read them and set them again."
        )
        raise
    return new.model_copy(update={"version": seen.version + 1})
