"""Settings from environment variables: retention times, limits, and the audit and archive switches.

The process reads them once at start and passes them down. Each number has a range: a lifetime that is too
long is refused like one that is too short, because both break a promise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.config.env import read_env
from holdfast.model.system import RequiredSetting

PREFIX: Final = "RP_MW_"
DAY_S: Final = 86400
# Counts without a new reply for this long are of no use.
QUALITY_DAYS: Final = 365

# For each number: minimum, default, maximum.
RANGES: Final[Mapping[str, tuple[int, int, int]]] = {
    # A record must outlive its message: 4 days in the queue, 14 in the dead-letter queue, 4 in the queue
    # again.
    "idempotency_days": (23, 30, 365),
    "state_days": (1, 90, 365),
    # A cap for privacy policies, whatever `state_days` says.
    "state_days_max": (1, 365, 365),
    "pending_flow_days": (7, 14, 30),
    "audit_days": (1, 60, 3650),
    "bucket_s": (60, 300, 3600),
    "replies_max": (1, 3, 20),
    "reply_pause_s": (60, 6 * 3600, 30 * DAY_S),
    "order_attempts_max": (1, 2, 5),
    # Replies to an intent stop past this share of bad ones, in percent, after this many replies; at 100 they
    # never stop.
    "bad_replies_max_percent": (1, 40, 100),
    "judged_replies_min": (5, 20, 10_000),
    # Help desk calls of all workers in half a minute; 0 leaves the limit to the help desk.
    "calls_max": (0, 0, 100_000),
}
SWITCHES: Final[Mapping[str, bool]] = {"audit": True, "archive": False}
# `holdfast up` sets this variable to the sandbox if the operator has not set it.
HELPDESK_VARIABLE: Final = "RICHPANEL_HELPDESK_URL"
WEBHOOK_SECRET: Final = "richpanel_webhook"
API_KEY_SECRET: Final = "richpanel_api_key"
# Without these, the help desk cannot be called, or its webhooks cannot be verified.
PRODUCTION: Final = (
    RequiredSetting(
        HELPDESK_VARIABLE, "the address of the help desk", kind="address", components=("worker",)
    ),
    RequiredSetting(API_KEY_SECRET, "the API key of the help desk", kind="secret", components=("worker",)),
    RequiredSetting(
        WEBHOOK_SECRET, "the key that signs the help desk's webhooks", kind="secret", components=("ingress",)
    ),
)


@dataclass(frozen=True)
class RichpanelSettings:
    """One field per variable: `idempotency_days` is RP_MW_IDEMPOTENCY_DAYS, `helpdesk_url`
    RICHPANEL_HELPDESK_URL.
    """

    idempotency_days: int = RANGES["idempotency_days"][1]
    state_days: int = RANGES["state_days"][1]
    state_days_max: int = RANGES["state_days_max"][1]
    pending_flow_days: int = RANGES["pending_flow_days"][1]
    audit_days: int = RANGES["audit_days"][1]
    bucket_s: int = RANGES["bucket_s"][1]
    replies_max: int = RANGES["replies_max"][1]
    reply_pause_s: int = RANGES["reply_pause_s"][1]
    order_attempts_max: int = RANGES["order_attempts_max"][1]
    bad_replies_max_percent: int = RANGES["bad_replies_max_percent"][1]
    judged_replies_min: int = RANGES["judged_replies_min"][1]
    calls_max: int = RANGES["calls_max"][1]
    audit: bool = SWITCHES["audit"]
    # The replay archive stores texts, so an operator must switch it on.
    archive: bool = SWITCHES["archive"]
    # The address of the help desk and the shop.
    helpdesk_url: str = ""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> RichpanelSettings:
        """Read the settings from `environ`, by default the process environment. Raise `SettingsError` if one
        is invalid.
        """
        environ = os.environ if environ is None else environ
        values = read_env(PREFIX, environ, numbers=RANGES, switches=SWITCHES)
        return cls(**values, helpdesk_url=environ.get(HELPDESK_VARIABLE, ""))

    @property
    def state_retention_days(self) -> int:
        """The retention of conversation states: `state_days`, capped by `state_days_max`."""
        return min(self.state_days, self.state_days_max)

    @property
    def customer_retention_days(self) -> int:
        """The retention of customer links: longer than everything found through them."""
        return max(self.idempotency_days, self.state_retention_days, self.audit_days) + 1


def get_variable_name(name: str) -> str:
    """Return the environment variable of a number or a switch: `RP_MW_` and the name in capitals."""
    return PREFIX + name.upper()
