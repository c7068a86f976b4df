"""The kill switches as a decision sees them: what the table says, and safe mode when it says nothing that counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from richpanel.model import Switches

NAME: Final = "global"
# How long what was read may be used before it is read again.
CACHE_S: Final = 30.0
LIFETIME: Final = timedelta(days=365)


@dataclass(frozen=True)
class SwitchPosition:
    """Which way the switches stand. `reason` says why, where it is not the operator's own doing."""

    safe_mode: bool = True
    automation_enabled: bool = False
    channels: frozenset[str] = frozenset()
    shadow: bool = False
    reason: str = ""

    @classmethod
    def read(cls, item: Switches | None, now: datetime) -> SwitchPosition:
        """What an item says; one that is missing, or is over, says safe mode."""
        if item is None:
            return cls(reason="no switches are set, so safe mode is on")
        if item.expires_at <= now:
            return cls(reason="the switches were not renewed in time, so safe mode is on")
        return cls(item.safe_mode, item.automation_enabled, item.channels, item.shadow)

    @classmethod
    def unreadable(cls) -> SwitchPosition:
        return cls(reason="the switches could not be read, so safe mode is on")

    def held_back(self, channel: str) -> str | None:
        """Why nothing may be done by itself on a channel; None where it may."""
        if self.safe_mode:
            return self.reason or "safe mode is on"
        if not self.automation_enabled:
            return "automation is switched off"
        if channel not in self.channels:
            return f"automation is not rolled out on {channel}"
        return None


def switched(
    *,
    safe_mode: bool,
    automation_enabled: bool,
    channels: frozenset[str] = frozenset(),
    shadow: bool = False,
    by: str,
    now: datetime,
    version: int = 1,
) -> Switches:
    """An item as an operator sets it."""
    return Switches(
        name=NAME,
        safe_mode=safe_mode,
        automation_enabled=automation_enabled,
        channels=channels,
        shadow=shadow,
        updated_at=now,
        updated_by=by,
        expires_at=now + LIFETIME,
        version=version,
    )
