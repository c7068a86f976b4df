"""What an operator may set, by environment variables: how long things are kept, and whether the audit is written.

Read once by whoever starts the system, and passed down. Each has a range: a lifetime that is too long is refused as
one that is too short, because both break a promise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.variables import values_of

PREFIX: Final = "RP_MW_"
DAY_S: Final = 86400

# Of each number: the least, the default, the most.
RANGES: Final[Mapping[str, tuple[int, int, int]]] = {
    # A record outlives the message it is of: 4 days in the queue, 14 among the dead letters, and 4 in the queue again.
    "idempotency_days": (23, 30, 365),
    "state_days": (1, 90, 365),
    # A cap for privacy policies: whatever `state_days` says, no state is kept longer.
    "state_days_max": (1, 365, 365),
    "pending_flow_days": (7, 14, 30),
    "audit_days": (1, 60, 3650),
    "bucket_s": (60, 300, 3600),
    "replies_max": (1, 3, 20),
    "reply_pause_s": (60, 6 * 3600, 30 * DAY_S),
    "order_attempts_max": (1, 2, 5),
    # Calls that all workers together may make at the help desk in half a minute; 0 leaves it to the help desk.
    "calls_max": (0, 0, 100_000),
}
SWITCHES: Final[Mapping[str, bool]] = {"audit": True, "archive": False}
# The variable that `holdfast up` sets to the sandbox where nobody has said where the help desk is.
HELPDESK_VARIABLE: Final = "RICHPANEL_HELPDESK_URL"


@dataclass(frozen=True)
class RichpanelSettings:
    """One field per variable: `idempotency_days` is RP_MW_IDEMPOTENCY_DAYS, `helpdesk_url` RICHPANEL_HELPDESK_URL."""

    idempotency_days: int = RANGES["idempotency_days"][1]
    state_days: int = RANGES["state_days"][1]
    state_days_max: int = RANGES["state_days_max"][1]
    pending_flow_days: int = RANGES["pending_flow_days"][1]
    audit_days: int = RANGES["audit_days"][1]
    bucket_s: int = RANGES["bucket_s"][1]
    replies_max: int = RANGES["replies_max"][1]
    reply_pause_s: int = RANGES["reply_pause_s"][1]
    order_attempts_max: int = RANGES["order_attempts_max"][1]
    calls_max: int = RANGES["calls_max"][1]
    audit: bool = SWITCHES["audit"]
    # The replay archive keeps texts, and so is off unless somebody wants it.
    archive: bool = SWITCHES["archive"]
    # Where the help desk and the shop are.
    helpdesk_url: str = ""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> RichpanelSettings:
        environ = os.environ if environ is None else environ
        values = values_of(PREFIX, environ, numbers=RANGES, switches=SWITCHES)
        return cls(**values, helpdesk_url=environ.get(HELPDESK_VARIABLE, ""))

    @property
    def state_kept_days(self) -> int:
        return min(self.state_days, self.state_days_max)

    @property
    def customer_days(self) -> int:
        """How long it is known who wrote in a conversation: longer than anything that is found by it."""
        return max(self.idempotency_days, self.state_kept_days, self.audit_days) + 1


def variable_of(name: str) -> str:
    return PREFIX + name.upper()
