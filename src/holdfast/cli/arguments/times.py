"""Parse times typed on the command line: ISO 8601 with a time zone, or relative to now."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from holdfast.cli.usage_error import UsageError

SECONDS_PER_UNIT: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
AGO_FORMAT: Final = re.compile(r"-(?P<amount>[0-9]{1,9}(\.[0-9]{1,3})?)(?P<unit>[smhd])")


def parse_time(text: str, now: float) -> float:
    """Parse a time to epoch seconds. Raise `UsageError` if it is invalid or has no time zone.

    Accepted are `2026-02-04T01:00:00Z`, `2026-02-04T02:00+01:00`, and before `now`: `-90s`, `-15m`, `-2h`,
    `-3d`.
    """
    if ago := AGO_FORMAT.fullmatch(text.strip()):
        return now - float(ago["amount"]) * SECONDS_PER_UNIT[ago["unit"]]
    try:
        moment = datetime.fromisoformat(text.strip())
        is_zoned = moment.tzinfo is not None
        seconds = moment.astimezone(UTC).timestamp() if is_zoned else 0.0
    except (ValueError, OverflowError):
        raise UsageError(
            f"Invalid time {text!r}: expected ISO 8601 such as 2026-02-04T01:00:00Z, "
            "or a time before now such as -90s, -15m, -2h or -3d."
        ) from None
    if not is_zoned:
        raise UsageError(f"Invalid time {text!r}: the time zone is missing. Add Z for UTC, or +01:00.")
    return seconds
