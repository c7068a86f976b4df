"""What an operator may set, by environment variables. Read once by whoever starts the system, and passed down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.errors import SettingsError
from holdfast.variables import values_of

PREFIX: Final = "PAGW_"

# Of each number: the least, the default, the most.
RANGES: Final[Mapping[str, tuple[int, int, int]]] = {
    "idempotency_hours": (24, 48, 48),
    # Requests of a tenant in a minute; single tenants may have another number in PAGW_TENANT_LIMITS.
    "rate_limit": (1, 600, 1_000_000),
    # How long a synchronous answer is waited for; the guide wants one within 15 seconds.
    "answer_wait_s": (0, 13, 14),
    "retention_years": (6, 7, 100),
    "bundle_bytes_max": (1_000, 25_000_000, 200_000_000),
    # From when a request that does not move is stuck.
    "stuck_minutes": (1, 30, 10_000),
}
SWITCHES: Final[Mapping[str, bool]] = {
    # pagw.aws.dynamodb.enabled: without it a client's keys are neither asked for nor kept.
    "idempotency": True,
    # Webhooks may go to addresses of this machine and of private networks: for sandboxes alone.
    "private_targets": False,
}
TEXTS: Final[Mapping[str, str]] = {
    # Where the tokens of clients come from: the address of the issuer's keys, its name, and ours.
    "jwks_url": "",
    "token_issuer": "",
    "token_audience": "pagw",
    # Where payers call back, and what a CapabilityStatement says that we are.
    "public_url": "http://127.0.0.1:8080",
    "tenant_limits": "",
}


@dataclass(frozen=True)
class PagwSettings:
    """One field per variable: `rate_limit` is PAGW_RATE_LIMIT."""

    idempotency_hours: int = RANGES["idempotency_hours"][1]
    rate_limit: int = RANGES["rate_limit"][1]
    answer_wait_s: int = RANGES["answer_wait_s"][1]
    retention_years: int = RANGES["retention_years"][1]
    bundle_bytes_max: int = RANGES["bundle_bytes_max"][1]
    stuck_minutes: int = RANGES["stuck_minutes"][1]
    idempotency: bool = SWITCHES["idempotency"]
    private_targets: bool = SWITCHES["private_targets"]
    jwks_url: str = TEXTS["jwks_url"]
    token_issuer: str = TEXTS["token_issuer"]
    token_audience: str = TEXTS["token_audience"]
    public_url: str = TEXTS["public_url"]
    tenant_limits: str = TEXTS["tenant_limits"]

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> PagwSettings:
        environ = os.environ if environ is None else environ
        values = values_of(PREFIX, environ, numbers=RANGES, switches=SWITCHES, texts=TEXTS)
        settings = cls(**values)
        settings.limit_of("")
        return settings

    def limit_of(self, tenant: str) -> int:
        """How many requests a tenant may make in a minute: `acme=1200,zenith=60` names those with another number."""
        for each in filter(None, (part.strip() for part in self.tenant_limits.split(","))):
            name, _, number = each.partition("=")
            if not (name and number.isascii() and number.isdigit() and int(number) > 0):
                raise SettingsError(
                    f"PAGW_TENANT_LIMITS has {each!r}: write tenant=number, with commas between several."
                )
            if name == tenant:
                return int(number)
        return self.rate_limit


def variable_of(name: str) -> str:
    return PREFIX + name.upper()
