"""The machine-readable travel policy: schema and validation of the JSON uploaded with a policy document.

It is accepted or rejected as a whole. An unknown key is rejected too, because a rule that is silently ignored
is worse than no rule. docs/systems/tripcortex/travel_policy.md explains the keys; `limits.py` looks up the
rule for one trip.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from holdfast.core.errors import InvalidRequest
from tripcortex.domain.policy_rules.money import USD, Usd, require_usd
from tripcortex.model.entities import Cabin

# Eurocontrol's line between medium and long haul.
LONG_HAUL_KM: Final = 4_000


class Reason(StrEnum):
    """Reason codes for a breach. They are stable because reports count by them."""

    cabin_above_policy = "cabin_above_policy"
    fare_above_cap = "fare_above_cap"
    late_booking = "late_booking"
    carrier_prohibited = "carrier_prohibited"
    destination_prohibited = "destination_prohibited"
    above_budget = "above_budget"
    no_relevant_policy = "no_relevant_policy"
    carrier_not_preferred = "carrier_not_preferred"
    approval_required = "approval_required"
    not_covered = "not_covered"
    # No policy is needed to refuse these.
    airport_unknown = "airport_unknown"
    nowhere_to_go = "nowhere_to_go"
    departure_past = "departure_past"
    return_before_departure = "return_before_departure"


# A policy may make these hard; all others always are. Late booking below its hard limit is hard in any case.
SOFT_REASONS: Final = frozenset({Reason.cabin_above_policy, Reason.fare_above_cap, Reason.late_booking})


class Route(StrEnum):
    """The kind of route, by country and distance."""

    domestic = "domestic"
    short_haul = "short_haul"
    long_haul = "long_haul"


class PolicyModel(BaseModel):
    """Base of the policy models: immutable, and unknown keys are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CabinRule(PolicyModel):
    """The best cabin on flights shorter than `max_duration_hours`; without one, on all longer flights."""

    max_duration_hours: Decimal | None = Field(default=None, gt=0, le=24)
    cabin: Cabin


class FareCap(PolicyModel):
    """The maximum price of a round trip that is bought at least `days_ahead_min` days ahead."""

    route: Route
    days_ahead_min: int = Field(default=0, ge=0, le=365)
    max_usd: Usd


class AdvancePurchase(PolicyModel):
    """Minimum days ahead: fewer than `hard` is refused, fewer than `soft` needs approval."""

    hard: int = Field(default=0, ge=0, le=365)
    soft: int = Field(default=0, ge=0, le=365)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Raise `ValueError` if `soft` is less than `hard`."""
        if self.soft < self.hard:
            raise ValueError(f"soft ({self.soft}) must be at least hard ({self.hard})")
        return self


class PreferredCarriers(PolicyModel):
    """Airlines (IATA code or name) that rank first within `within_percent` of the lowest fare."""

    carriers: tuple[str, ...] = ()
    within_percent: Decimal = Field(default=Decimal(0), ge=0, le=100)


class Prohibited(PolicyModel):
    """Prohibited airlines (code or name) and destinations (IATA airport or ISO 3166 two-letter country)."""

    carriers: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()

    @field_validator("destinations")
    @classmethod
    def _check_codes(cls, destinations: tuple[str, ...]) -> tuple[str, ...]:
        """Raise `ValueError` unless each is two or three capitals."""
        for each in destinations:
            if not (each.isascii() and each.isalpha() and each.isupper() and len(each) in (2, 3)):
                raise ValueError(
                    f"{each!r} is invalid: expected an airport such as SVO or a country such as RU"
                )
        return destinations


def _to_tuple(value: object) -> object:
    """Return a text as a tuple of one, any other value as it is."""
    return (value,) if isinstance(value, str) else value


class ApprovalRules(PolicyModel):
    """The approvers of soft breaches, and the outcome if no approver answers in time.

    `approver` is one person or a chain: employee ids, or roles such as `manager`. `at_deadline` is "approve"
    (a soft approval) or "refuse" (a hard one); a breach whose reason is in `must_be_given` is always refused
    at the deadline.
    """

    approver: Annotated[tuple[str, ...], BeforeValidator(_to_tuple)] = Field(
        default=("travel-desk",), min_length=1
    )
    soft_deadline_hours: int = Field(default=24, ge=1, le=720)
    hard_deadline_hours: int = Field(default=24, ge=1, le=720)
    at_deadline: Literal["approve", "refuse"] = "refuse"
    must_be_given: frozenset[Reason] = frozenset()


class TravelPolicy(PolicyModel):
    """A machine-readable travel policy. A missing key means no limit; `STRICTEST` sets every limit."""

    version: str = Field(coerce_numbers_to_str=True, min_length=1)
    currency: str = USD
    cabins: tuple[CabinRule, ...] = ()
    caps: tuple[FareCap, ...] = ()
    advance_purchase_days: AdvancePurchase = AdvancePurchase()
    preferred_carriers: PreferredCarriers = PreferredCarriers()
    prohibited: Prohibited = Prohibited()
    approval: ApprovalRules = ApprovalRules()
    hard_stops: frozenset[Reason] = frozenset()
    long_haul_km: int = Field(default=LONG_HAUL_KM, ge=500, le=20_000)
    # Cited for a rule that no passage states.
    file_name: str = "travel-policy.json"
    policy_id: str = "rules"

    @classmethod
    def parse(cls, source: str | bytes | Mapping[str, Any], **cited: str) -> TravelPolicy:
        """Parse and validate a policy from JSON text or a mapping. Raise `InvalidRequest` if it is invalid.

        `cited` sets `file_name` and `policy_id`, which citations of the rules use.
        """
        try:
            given = json.loads(source, parse_float=Decimal) if isinstance(source, str | bytes) else source
            if not isinstance(given, Mapping):
                raise ValueError("expected a JSON object with the keys of a policy")
            return cls.model_validate({**given, **cited})
        except ValidationError as error:
            raise InvalidRequest(f"Invalid travel policy: {_format_error(error)}.") from error
        except ValueError as error:
            raise InvalidRequest(f"Invalid travel policy: not readable as JSON: {error}.") from error

    @field_validator("currency")
    @classmethod
    def _check_currency(cls, code: str) -> str:
        return require_usd(code)

    @field_validator("cabins")
    @classmethod
    def _sort_cabins(cls, cabins: tuple[CabinRule, ...]) -> tuple[CabinRule, ...]:
        """Sort the rules by duration. Raise `ValueError` if two have the same one."""
        ends = [rule.max_duration_hours for rule in cabins]
        if len(set(ends)) != len(ends):
            raise ValueError("two cabins for the same duration: give each max_duration_hours once")
        return tuple(sorted(cabins, key=_get_upper_bound))

    @field_validator("caps")
    @classmethod
    def _reject_duplicates(cls, caps: tuple[FareCap, ...]) -> tuple[FareCap, ...]:
        """Raise `ValueError` if two caps have the same route and notice."""
        rows = [(cap.route, cap.days_ahead_min) for cap in caps]
        if twice := sorted({row for row in rows if rows.count(row) > 1}):
            raise ValueError(f"two caps for {twice[0][0]} from {twice[0][1]} days ahead: keep one")
        return caps

    def is_hard(self, reason: Reason) -> bool:
        """Return True if a breach for this reason is a hard stop."""
        return reason not in SOFT_REASONS or reason in self.hard_stops

    def find_cabin_rule(self, hours: Decimal) -> CabinRule | None:
        """Return the rule for that duration; the last rule also covers longer flights. None without rules."""
        rows = (rule for rule in self.cabins if _get_upper_bound(rule) > hours)
        return next(rows, self.cabins[-1] if self.cabins else None)

    def find_fare_cap(self, route: Route, notice_days: int) -> FareCap | None:
        """Return the cap with the longest notice that is met.

        With less notice than any cap asks for, return the one that asks for least.
        """
        rows = sorted((cap for cap in self.caps if cap.route is route), key=lambda cap: cap.days_ahead_min)
        reached = [cap for cap in rows if cap.days_ahead_min <= notice_days]
        return reached[-1] if reached else next(iter(rows), None)


# One policy, or all policies in force with the newest first.
Policies = TravelPolicy | Sequence[TravelPolicy] | None


def to_policies(policies: Policies) -> tuple[TravelPolicy, ...]:
    """Return the policies as a tuple: none, one or several."""
    if policies is None:
        return ()
    return (policies,) if isinstance(policies, TravelPolicy) else tuple(policies)


def find_newest_with(policies: Sequence[TravelPolicy], name: str) -> TravelPolicy:
    """Return the first policy that sets this key, or the first of all if none does; the newest is first."""
    return next((each for each in policies if name in each.model_fields_set), policies[0])


def _get_upper_bound(rule: CabinRule) -> Decimal:
    """Return the rule's maximum duration, infinity without one."""
    return Decimal("Infinity") if rule.max_duration_hours is None else rule.max_duration_hours


def _format_error(error: ValidationError) -> str:
    """Return the invalid keys with their messages, without the values."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )


# Without a relevant policy there is no known approver, so every stop is hard.
STRICTEST: Final = TravelPolicy(
    version="strictest",
    cabins=(CabinRule(cabin=Cabin.economy),),
    caps=(
        FareCap(route=Route.domestic, max_usd=Decimal(300)),
        FareCap(route=Route.short_haul, max_usd=Decimal(400)),
        FareCap(route=Route.long_haul, max_usd=Decimal(900)),
    ),
    advance_purchase_days=AdvancePurchase(hard=7, soft=14),
    hard_stops=SOFT_REASONS,
    file_name="strictest defaults",
    policy_id="defaults",
)
