"""Settings of Trip Cortex, read and validated from environment variables with the prefix TRIPCORTEX_."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from holdfast.config.env import read_env
from holdfast.core.errors import SettingsError
from holdfast.model.system import RequiredSetting
from holdfast.web.external_addresses import validate_address
from tripcortex.directory.approver_words import DEFAULT_LEVELS, Meaning, parse_levels, parse_words
from tripcortex.domain.policy_rules.approvals import JOINT, SEQUENTIAL
from tripcortex.model.entities import AUDIT_YEARS, MAX_OPTIONS, OPTIONS_CAP

T = TypeVar("T")

PREFIX: Final = "TRIPCORTEX_"
BEDROCK: Final = "bedrock"

# Each number: minimum, default, maximum.
RANGES: Final[Mapping[str, tuple[int, int, int]]] = {
    # Time limit for the employee to choose an option or to answer the planner's question.
    "choice_minutes": (1, 30, 1_440),
    "options_max": (1, MAX_OPTIONS, OPTIONS_CAP),
    "audit_years": (1, AUDIT_YEARS, 30),
    "request_chars_max": (20, 2_000, 20_000),
    # Bookings an employee may start in a minute: each is kept permanently.
    "requests_a_minute": (1, 20, 1_000),
    "policy_bytes_max": (1_000, 50_000_000, 500_000_000),
    "policy_pages_max": (1, 2_000, 20_000),
    # Consecutive failures that open the portal's circuit, and how long it stays open.
    "circuit_threshold": (1, 5, 1_000),
    "circuit_recovery_s": (1, 60, 86_400),
    # Accepted price increase between choice and booking, in percent.
    "price_tolerance_percent": (0, 5, 100),
    # The same after an approval, which may take days: the smaller of both counts.
    "approval_tolerance_percent": (0, 2, 100),
    "approval_tolerance_usd": (0, 25, 10_000),
    # The part of an approver's time after which others are asked too, in percent; 0: never.
    "escalation_percent": (0, 50, 99),
}
SWITCHES: Final[Mapping[str, bool]] = {
    # If no passage is above the threshold: fail (true) or apply the strictest rules (false).
    "stop_without_policy": False,
}
TEXTS: Final[Mapping[str, str]] = {
    # The issuer of employees' tokens (Clerk): URL of its keys, `iss` claim, and the expected `aud` claim.
    "jwks_url": "",
    "token_issuer": "",
    "token_audience": "tripcortex",
    # The organisation whose admins are trusted, and the accepted `azp` claims (web origins), comma-separated.
    "organisation": "",
    "authorized_parties": "",
    # The portal's API, and its website for people when the API is not available.
    "portal_url": "",
    "portal_web_url": "https://travel-portal.invalid",
    # URL under which the other processes reach this one, to post to a connection that it holds.
    "node_url": "",
    # Employees who hold the approver roles of the policies: `line-manager=emp-7,travel-desk=emp-9`.
    "approvers": "",
    # What a policy's words for approvers mean: `Finance=role:controlling;L1=manager:1`.
    "approver_words": "",
    # The number of each level that is a title: `manager=1,director=2`.
    "levels": DEFAULT_LEVELS,
    # Whether several approvers are asked one after the other or at once.
    "approval_order": SEQUENTIAL,
    "planner": "sentences",
    "embedding": "local",
    # Bedrock, if the planner or the embedding uses it: a region, or `bedrock+https://…` with an endpoint.
    "bedrock": "bedrock://us-east-1",
}
# Without these, employees cannot log in, or nothing can be booked.
PRODUCTION: Final = (
    RequiredSetting(
        "TRIPCORTEX_JWKS_URL", "the address of the issuer's keys", kind="address", components=("api",)
    ),
    RequiredSetting(
        "TRIPCORTEX_TOKEN_ISSUER", "the `iss` claim of employees' tokens", kind="address", components=("api",)
    ),
    RequiredSetting(
        "TRIPCORTEX_ORGANISATION",
        "the organisation whose admins are trusted; without it there are none",
        components=("api",),
    ),
    RequiredSetting(
        "TRIPCORTEX_PORTAL_URL", "the address of the portal's API", kind="address", components=("workflow",)
    ),
    RequiredSetting(
        "TRIPCORTEX_PORTAL_WEB_URL",
        "the portal's website, for employees when its API is not available",
        kind="address",
        components=("workflow",),
    ),
    RequiredSetting(
        "tripcortex/flow-token",
        "the key that signs the tokens of waits",
        kind="secret",
        components=("api", "workflow"),
    ),
    RequiredSetting(
        "tripcortex/connections",
        "the key that signs messages between processes",
        kind="secret",
        components=("api", "sender"),
    ),
    RequiredSetting(
        "tripcortex/portal-key", "the API key of the portal", kind="secret", components=("workflow",)
    ),
)
ADDRESSES: Final = ("portal_url", "portal_web_url", "node_url")
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "planner": ("sentences", BEDROCK),
    "embedding": ("local", BEDROCK),
    "approval_order": (SEQUENTIAL, JOINT),
}


@dataclass(frozen=True)
class TripCortexSettings:
    """The settings. One field per variable: `choice_minutes` is TRIPCORTEX_CHOICE_MINUTES."""

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
    approval_tolerance_percent: int = RANGES["approval_tolerance_percent"][1]
    approval_tolerance_usd: int = RANGES["approval_tolerance_usd"][1]
    escalation_percent: int = RANGES["escalation_percent"][1]
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
    approver_words: str = TEXTS["approver_words"]
    levels: str = TEXTS["levels"]
    approval_order: str = TEXTS["approval_order"]
    planner: str = TEXTS["planner"]
    embedding: str = TEXTS["embedding"]
    bedrock: str = TEXTS["bedrock"]

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> TripCortexSettings:
        """Read the settings from the environment. Raise `SettingsError` if one is invalid."""
        environ = os.environ if environ is None else environ
        values = read_env(PREFIX, environ, numbers=RANGES, switches=SWITCHES, texts=TEXTS)
        for name, choices in CHOICES.items():
            if values[name] not in choices:
                raise SettingsError(
                    f"Invalid {get_variable_name(name)}={values[name]!r}: expected {' or '.join(choices)}."
                )
        if not values["bedrock"].startswith(("bedrock://", "bedrock+http://", "bedrock+https://")):
            raise SettingsError(
                f"Invalid {get_variable_name('bedrock')}={values['bedrock']!r}: expected bedrock://REGION, "
                "such as bedrock://us-east-1, or bedrock+https:// and an endpoint."
            )
        for name in ADDRESSES:
            if values[name]:
                values[name] = _parse_address(name, values[name])
        settings = cls(**values)
        _ = settings.approvers_by_role, settings.meanings_by_word, settings.levels_by_title
        return settings

    @property
    def trusted_origins(self) -> tuple[str, ...]:
        """The web origins of `authorized_parties`: their tokens are accepted, so their pages may call."""
        return tuple(each.strip() for each in self.authorized_parties.split(",") if each.strip())

    @property
    def approvers_by_role(self) -> dict[str, str]:
        """Return the employee id of each approver role.

        Raise `SettingsError` if the variable is malformed.
        """
        found: dict[str, str] = {}
        for each in filter(None, (part.strip() for part in self.approvers.split(","))):
            role, _, employee_id = (part.strip() for part in each.partition("="))
            if not (role and employee_id):
                raise SettingsError(
                    f"Invalid {get_variable_name('approvers')}: expected role=employee, comma-separated, got "
                    f"{each!r}."
                )
            found[role] = employee_id
        return found

    @property
    def meanings_by_word(self) -> dict[str, Meaning]:
        """Return the company's own meanings of approvers' words. Raise `SettingsError` if one is invalid."""
        return _parse_setting("approver_words", self.approver_words, parse_words)

    @property
    def levels_by_title(self) -> dict[str, int]:
        """Return the number of each level that is a title. Raise `SettingsError` if one is invalid."""
        return _parse_setting("levels", self.levels, parse_levels)


def _parse_setting(name: str, value: str, parse: Callable[[str], T]) -> T:
    """Return the parsed value. Raise `SettingsError` if it is invalid."""
    try:
        return parse(value)
    except ValueError as error:
        raise SettingsError(f"Invalid {get_variable_name(name)}: {error}.") from None


def _parse_address(name: str, value: str) -> str:
    """Return the validated URL. Raise `SettingsError` if it is invalid."""
    try:
        return validate_address(value)
    except ValueError as error:
        raise SettingsError(
            f"{get_variable_name(name)} {error}. Set a URL such as https://travel.example.com."
        ) from None


def get_variable_name(name: str) -> str:
    """Return the environment variable of a setting: TRIPCORTEX_ and the name in capitals."""
    return f"{PREFIX}{name.upper()}"
