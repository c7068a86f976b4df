"""The switches as a worker sees them: read at most every half minute, and safe mode when they cannot be read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast import Stores
from holdfast.errors import ConditionFailed, HoldfastError
from richpanel import patterns
from richpanel.model import Switches
from richpanel.switches import CACHE_S, SwitchPosition, switched

log = logging.getLogger(__name__)


@dataclass
class Switchboard:
    """Where the switches stand. What was read longer ago than the cache allows counts for nothing."""

    stores: Stores
    _kept: tuple[float, SwitchPosition] | None = field(default=None, repr=False)

    async def position(self) -> SwitchPosition:
        now = self.stores.clock.now()
        if self._kept is not None and 0 <= now - self._kept[0] < CACHE_S:
            return self._kept[1]
        try:
            item = await self.stores.run(patterns.read_switches())
        except HoldfastError as error:
            log.warning("The switches cannot be read, so safe mode is on: %s", error)
            return SwitchPosition.unreadable()
        position = SwitchPosition.read(item, datetime.fromtimestamp(now, UTC))
        self._kept = (now, position)
        return position


async def turn(
    stores: Stores,
    *,
    safe_mode: bool,
    automation_enabled: bool,
    by: str,
    channels: frozenset[str] = frozenset(),
    shadow: bool = False,
) -> Switches:
    """Sets the switches, over what is there. Raises `ConditionFailed` when somebody else was quicker: look again."""
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    seen = await stores.run(patterns.read_switches())
    wanted = switched(
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
            await stores.run(patterns.create_switches(wanted))
            return wanted
        await stores.run(patterns.turn_switches(wanted, seen.version))
    except ConditionFailed as error:
        error.add_note(
            "The switches were turned by somebody else at the same time: look at them and turn again."
        )
        raise
    return wanted.model_copy(update={"version": seen.version + 1})
