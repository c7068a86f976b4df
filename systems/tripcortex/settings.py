"""What an operator may set, by environment variables. Read once by whoever starts the system, and passed down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.errors import SettingsError
from holdfast.variables import values_of
from holdfast.web.party_addresses import party_address
from tripcortex.model import AUDIT_YEARS, OPTIONS_CAP, OPTIONS_MAX

PREFIX: Final = "TRIPCORTEX_"
BEDROCK: Final = "bedrock"

# Of each number: the least, the default, the most.
RANGES: Final[Mapping[str, tuple[int, int, int]]] = {
    # How long an employee may think about options, and about a question of the planner's.
    "choice_minutes": (1, 30, 1_440),
    "options_max": (1, OPTIONS_MAX, OPTIONS_CAP),
    "audit_years": (1, AUDIT_YEARS, 30),
    "request_chars_max": (20, 2_000, 20_000),
    # How many bookings an employee may begin in a minute: each is kept for good.
    "requests_a_minute": (1, 20, 1_000),
    "policy_bytes_max": (1_000, 50_000_000, 500_000_000),
    "policy_pages_max": (1, 2_000, 20_000),
    # Consecutive failures that open the portal's circuit, and how long it rests then.
    "circuit_threshold": (1, 5, 1_000),
    "circuit_recovery_s": (1, 60, 86_400),
    # How much dearer an offer may have become between choice and booking, in percent.
    "price_tolerance_percent": (0, 5, 100),
}
SWITCHES: Final[Mapping[str, bool]] = {
    # Without a passage above the threshold: the strictest rules, or a stop.
    "stop_without_policy": False,
}
TEXTS: Final[Mapping[str, str]] = {
    # Who issues employees' tokens (Clerk): the address of its keys, its name, and ours.
    "jwks_url": "",
    "token_issuer": "",
    "token_audience": "tripcortex",
    # Whose administrators are ours, and the pages in whose name a browser may ask; with commas between several.
    "organisation": "",
    "authorized_parties": "",
    # The portal, and the page that a person is sent to where it cannot be used by a program.
    "portal_url": "",
    "portal_web_url": "https://travel-portal.invalid",
    # Where other processes of ours reach this one, to hand a message to a connection that it holds.
    "node_url": "",
    # Who has the roles that a policy's approvers are named by: `line-manager=emp-7,travel-desk=emp-9`.
    "approvers": "",
    "planner": "sentences",
    "embedding": "local",
    # Where Bedrock is, for those of them that ask it: a region, or `bedrock+https://…` with an endpoint.
    "bedrock": "bedrock://us-east-1",
}
ADDRESSES: Final = ("portal_url", "portal_web_url", "node_url")
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "planner": ("sentences", BEDROCK),
    "embedding": ("local", BEDROCK),
}


@dataclass(frozen=True)
class TripCortexSettings:
    """One field per variable: `choice_minutes` is TRIPCORTEX_CHOICE_MINUTES."""

    choice_minutes: int = RANGES["choice_minutes"][1]
    options_max: int = RANGES["options_max"][1]
    audit_years: int = RANGES["audit_years"][1]
    request_chars_max: int = RANGES["request_chars_max"][1]
    requests_a_minute: int = RANGES["requests_a_minute"][1]
    policy_bytes_max: int = RANGES["policy_bytes_max"][1]
    policy_pages_max: int = RANGES["policy_pages_max"][1]
    circuit_threshold: int = RANGES["circuit_threshold"][1]
    circuit_recovery_s: int = RANGES["circuit_recovery_s"][1]
    price_tolerance_percent: int = RANGES["price_tolerance_percent"][1]
    stop_without_policy: bool = SWITCHES["stop_without_policy"]
    jwks_url: str = TEXTS["jwks_url"]
    token_issuer: str = TEXTS["token_issuer"]
    token_audience: str = TEXTS["token_audience"]
    organisation: str = TEXTS["organisation"]
    authorized_parties: str = TEXTS["authorized_parties"]
    portal_url: str = TEXTS["portal_url"]
    portal_web_url: str = TEXTS["portal_web_url"]
    node_url: str = TEXTS["node_url"]
    approvers: str = TEXTS["approvers"]
    planner: str = TEXTS["planner"]
    embedding: str = TEXTS["embedding"]
    bedrock: str = TEXTS["bedrock"]

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> TripCortexSettings:
        environ = os.environ if environ is None else environ
        values = values_of(PREFIX, environ, numbers=RANGES, switches=SWITCHES, texts=TEXTS)
        for name, choices in CHOICES.items():
            if values[name] not in choices:
                raise SettingsError(
                    f"{variable_of(name)} = {values[name]!r} cannot be: write {' or '.join(choices)}."
                )
        if not values["bedrock"].startswith(("bedrock://", "bedrock+http://", "bedrock+https://")):
            raise SettingsError(
                f"{variable_of('bedrock')} = {values['bedrock']!r} is no place: write bedrock://us-east-1, or "
                "bedrock+https:// and an endpoint."
            )
        for name in ADDRESSES:
            if values[name]:
                values[name] = _address(name, values[name])
        settings = cls(**values)
        _ = settings.people
        return settings

    @property
    def people(self) -> dict[str, str]:
        """Who has which role."""
        found: dict[str, str] = {}
        for each in filter(None, (part.strip() for part in self.approvers.split(","))):
            role, _, employee_id = (part.strip() for part in each.partition("="))
            if not (role and employee_id):
                raise SettingsError(
                    f"{variable_of('approvers')} has {each!r}: write role=employee, with commas between several."
                )
            found[role] = employee_id
        return found


def _address(name: str, value: str) -> str:
    try:
        return party_address(value)
    except ValueError as error:
        raise SettingsError(
            f"{variable_of(name)} {error}: give an address, as https://travel.example.com."
        ) from None


def variable_of(name: str) -> str:
    return f"{PREFIX}{name.upper()}"
