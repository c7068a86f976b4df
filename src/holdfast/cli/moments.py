"""Moments as they are typed: an ISO 8601 time with its zone, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from holdfast.cli.misuse import CalledWrongly

SECONDS_OF: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
AGO: Final = re.compile(r"-(?P<amount>[0-9]{1,9}(\.[0-9]{1,3})?)(?P<unit>[smhd])")


def moment_of(text: str, now: float) -> float:
    """Epoch seconds of `2026-02-04T01:00:00Z`, `2026-02-04T02:00+01:00`, or of `-90s`, `-15m`, `-2h`, `-3d`."""
    if ago := AGO.fullmatch(text.strip()):
        return now - float(ago["amount"]) * SECONDS_OF[ago["unit"]]
    try:
        moment = datetime.fromisoformat(text.strip())
        is_zoned = moment.tzinfo is not None
        seconds = moment.astimezone(UTC).timestamp() if is_zoned else 0.0
    except (ValueError, OverflowError):
        raise CalledWrongly(
            f"{text!r} is no time: write it as 2026-02-04T01:00:00Z, or say how long ago, as -90s, -15m, -2h or -3d."
        ) from None
    if not is_zoned:
        raise CalledWrongly(f"{text!r} does not say in which zone: end it with Z for UTC, or with +01:00.")
    return seconds
