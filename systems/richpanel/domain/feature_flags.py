"""Feature flags as a decision reads them; safe mode if the stored `Switches` are missing or expired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from richpanel.model.entities import Switches

SWITCHES_NAME: Final = "global"
# Workers read the flags again after this time.
CACHE_S: Final = 30.0
LIFETIME: Final = timedelta(days=365)


@dataclass(frozen=True)
class FeatureFlags:
    """The current values of the flags. `reason` explains safe mode that no operator switched on."""

    safe_mode: bool = True
    automation_enabled: bool = False
    channels: frozenset[str] = frozenset()
    shadow: bool = False
    reason: str = ""

    @classmethod
    def from_item(cls, item: Switches | None, now: datetime) -> FeatureFlags:
        """Return the flags of an item; safe mode if it is missing or expired."""
        if item is None:
            return cls(reason="no switches are set, so safe mode is on")
        if item.expires_at <= now:
            return cls(reason="the switches were not renewed in time, so safe mode is on")
        return cls(item.safe_mode, item.automation_enabled, item.channels, item.shadow)

    @classmethod
    def build_unreadable(cls) -> FeatureFlags:
        """Return safe mode, for an item that could not be read."""
        return cls(reason="the switches could not be read, so safe mode is on")

    def get_block_reason(self, channel: str) -> str | None:
        """Return why automation is off on a channel, or None if it is on."""
        if self.safe_mode:
            return self.reason or "safe mode is on"
        if not self.automation_enabled:
            return "automation is switched off"
        if channel not in self.channels:
            return f"automation is not rolled out on {channel}"
        return None


def build_switches(
    *,
    safe_mode: bool,
    automation_enabled: bool,
    channels: frozenset[str] = frozenset(),
    shadow: bool = False,
    by: str,
    now: datetime,
    version: int = 1,
) -> Switches:
    """Build the `Switches` item that an operator (`by`) sets. It expires after `LIFETIME`."""
    return Switches(
        name=SWITCHES_NAME,
        safe_mode=safe_mode,
        automation_enabled=automation_enabled,
        channels=channels,
        shadow=shadow,
        updated_at=now,
        updated_by=by,
        expires_at=now + LIFETIME,
        version=version,
    )
