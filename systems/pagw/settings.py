"""The gateway's settings, from environment variables. Loaded once at startup and passed down."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.config.env import read_env
from holdfast.core.errors import SettingsError
from holdfast.model.system import RequiredSetting

PREFIX: Final = "PAGW_"
_TENANT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")

# Minimum, default and maximum of each number.
RANGES: Final[Mapping[str, tuple[int, int, int]]] = {
    "idempotency_hours": (24, 48, 48),
    # Requests per tenant and minute. PAGW_TENANT_LIMITS overrides it for single tenants.
    "rate_limit": (1, 600, 1_000_000),
    # Longest wait for a synchronous answer. The PAS guide requires one within 15 seconds.
    "answer_wait_s": (0, 13, 14),
    "retention_years": (6, 7, 100),
    "bundle_bytes_max": (1_000, 25_000_000, 200_000_000),
    # Events for clients out of reach are kept this long, and $events returns them.
    "event_days": (1, 30, 365),
    # A request without progress for this long is stuck.
    "stuck_minutes": (1, 30, 10_000),
    # The outbox: pagw.outbox.poll-interval-ms, batch-size and max-retries.
    "outbox_poll_interval_ms": (100, 5_000, 600_000),
    "outbox_batch_size": (1, 25, 1_000),
    "outbox_max_retries": (1, 5, 100),
}
SWITCHES: Final[Mapping[str, bool]] = {
    # pagw.aws.dynamodb.enabled: if off, idempotency keys are neither required nor stored.
    "idempotency": True,
    # Allow webhooks to loopback and private addresses, for sandboxes only.
    "private_targets": False,
}
TEXTS: Final[Mapping[str, str]] = {
    # The issuer of clients' tokens: address of its keys, its name, and the expected audience.
    "jwks_url": "",
    "token_issuer": "",
    "token_audience": "pagw",
    # The issuer's token endpoint, which the SMART configuration names.
    "token_url": "",
    # The gateway's public address, for payers' callbacks and the CapabilityStatement.
    "public_url": "http://127.0.0.1:8080",
    "tenant_limits": "",
    # Tenants whose requests other tenants find with the member id and a provider's NPI.
    "shared_inquiries": "",
}
# Without these, clients cannot authenticate, or data leaves for addresses that are not checked.
PRODUCTION: Final = (
    RequiredSetting("PAGW_JWKS_URL", "the address of the issuer's keys", kind="address", components=("api",)),
    RequiredSetting(
        "PAGW_TOKEN_ISSUER", "the `iss` claim of clients' tokens", kind="address", components=("api",)
    ),
    RequiredSetting(
        "PAGW_PUBLIC_URL",
        "the gateway's public address, for payers and clients",
        kind="address",
        components=("api", "payer-callbacks", "pasrequestconverter", "passubscriptionhandler", "pasnotifier"),
    ),
    RequiredSetting("PAGW_PRIVATE_TARGETS", "webhooks could reach private addresses", kind="unset"),
    RequiredSetting("PAGW_PAYER_URL", "it registers the sandbox of a payer", kind="unset"),
    RequiredSetting("PAGW_PAS_PAYER_URL", "it registers the sandbox of a payer", kind="unset"),
    RequiredSetting(
        "pagw/lookup-key",
        "the key of the hashes that find members and claims",
        kind="secret",
        components=("api", "payer-callbacks", "pasresponsebuilder"),
    ),
)


@dataclass(frozen=True)
class PagwSettings:
    """The settings. One field per variable: `rate_limit` is PAGW_RATE_LIMIT."""

    idempotency_hours: int = RANGES["idempotency_hours"][1]
    rate_limit: int = RANGES["rate_limit"][1]
    answer_wait_s: int = RANGES["answer_wait_s"][1]
    retention_years: int = RANGES["retention_years"][1]
    bundle_bytes_max: int = RANGES["bundle_bytes_max"][1]
    event_days: int = RANGES["event_days"][1]
    stuck_minutes: int = RANGES["stuck_minutes"][1]
    outbox_poll_interval_ms: int = RANGES["outbox_poll_interval_ms"][1]
    outbox_batch_size: int = RANGES["outbox_batch_size"][1]
    outbox_max_retries: int = RANGES["outbox_max_retries"][1]
    idempotency: bool = SWITCHES["idempotency"]
    private_targets: bool = SWITCHES["private_targets"]
    jwks_url: str = TEXTS["jwks_url"]
    token_issuer: str = TEXTS["token_issuer"]
    token_audience: str = TEXTS["token_audience"]
    token_url: str = TEXTS["token_url"]
    public_url: str = TEXTS["public_url"]
    tenant_limits: str = TEXTS["tenant_limits"]
    shared_inquiries: str = TEXTS["shared_inquiries"]

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> PagwSettings:
        """Read the settings from `environ`, by default the process environment. Raise `SettingsError` for an
        invalid one.
        """
        environ = os.environ if environ is None else environ
        values = read_env(PREFIX, environ, numbers=RANGES, switches=SWITCHES, texts=TEXTS)
        settings = cls(**values)
        settings.get_tenant_limit("")
        settings.list_shared_tenants()
        return settings

    def list_shared_tenants(self) -> tuple[str, ...]:
        """Return the tenants whose requests other tenants may find. Raise `SettingsError` for a name that no
        tenant can have.
        """
        names = tuple(filter(None, (each.strip() for each in self.shared_inquiries.split(","))))
        for name in names:
            if not _TENANT.fullmatch(name):
                raise SettingsError(
                    f"Invalid PAGW_SHARED_INQUIRIES entry {name!r}: expected the names of tenants, separated "
                    "by commas."
                )
        return names

    def get_tenant_limit(self, tenant: str) -> int:
        """Return the tenant's requests per minute: from PAGW_TENANT_LIMITS (`acme=1200,zenith=60`), else the
        default. Raise `SettingsError` if that variable is invalid.
        """
        for each in filter(None, (part.strip() for part in self.tenant_limits.split(","))):
            name, _, number = each.partition("=")
            if not (name and number.isascii() and number.isdigit() and int(number) > 0):
                raise SettingsError(
                    f"Invalid PAGW_TENANT_LIMITS entry {each!r}: expected tenant=number, separated by commas."
                )
            if name == tenant:
                return int(number)
        return self.rate_limit


def get_variable_name(name: str) -> str:
    """Return the environment variable of a setting: `PAGW_` and the name in capitals."""
    return PREFIX + name.upper()
