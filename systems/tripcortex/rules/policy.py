"""A travel policy as a program can read it: the JSON that lies beside a policy document.

It is read whole or refused whole. A key that is not known is refused too: a rule that nobody applies is worse than none.
What the keys mean is in docs/travel_policy.md; `limits.py` asks this for the rule of one trip.
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

from holdfast.errors import InvalidRequest
from tripcortex.model import Cabin
from tripcortex.rules.money import USD, Usd, checked_currency

# Eurocontrol's line between medium and long haul.
LONG_HAUL_KM: Final = 4_000


class Reason(StrEnum):
    """Why something is out of policy. Stable: reports count by them."""

    cabin_above_policy = "cabin_above_policy"
    fare_above_cap = "fare_above_cap"
    late_booking = "late_booking"
    carrier_prohibited = "carrier_prohibited"
    destination_prohibited = "destination_prohibited"
    above_budget = "above_budget"
    no_relevant_policy = "no_relevant_policy"
    # No policy is needed to refuse these.
    airport_unknown = "airport_unknown"
    nowhere_to_go = "nowhere_to_go"
    departure_past = "departure_past"
    return_before_departure = "return_before_departure"


# A policy may make these hard; all others always are. Late booking is hard below its hard limit in any case.
SOFT: Final = frozenset({Reason.cabin_above_policy, Reason.fare_above_cap, Reason.late_booking})


class Route(StrEnum):
    domestic = "domestic"
    short_haul = "short_haul"
    long_haul = "long_haul"


class Rules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CabinRule(Rules):
    """The best cabin on flights shorter than so many hours; without hours, on all longer ones."""

    max_duration_hours: Decimal | None = Field(default=None, gt=0, le=24)
    cabin: Cabin


class FareCap(Rules):
    """The most that a ticket may cost, there and back, when it is bought at least so many days ahead."""

    route: Route
    days_ahead_min: int = Field(default=0, ge=0, le=365)
    max_usd: Usd


class AdvancePurchase(Rules):
    """Days between booking and departure: with fewer than `hard` it is refused, with fewer than `soft` it needs approval."""

    hard: int = Field(default=0, ge=0, le=365)
    soft: int = Field(default=0, ge=0, le=365)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.soft < self.hard:
            raise ValueError(f"soft ({self.soft}) is at least hard ({self.hard})")
        return self


class PreferredCarriers(Rules):
    """Airlines by IATA code or name; one of them goes first while its fare is so near to the lowest."""

    carriers: tuple[str, ...] = ()
    within_percent: Decimal = Field(default=Decimal(0), ge=0, le=100)


class Prohibited(Rules):
    """Airlines by code or name; destinations by airport (IATA) or country (ISO 3166, two letters)."""

    carriers: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()

    @field_validator("destinations")
    @classmethod
    def _codes(cls, destinations: tuple[str, ...]) -> tuple[str, ...]:
        for each in destinations:
            if not (each.isascii() and each.isalpha() and each.isupper() and len(each) in (2, 3)):
                raise ValueError(f"{each!r} is neither an airport like SVO nor a country like RU")
        return destinations


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class ApprovalRules(Rules):
    """Who lets a soft breach pass, and what becomes of it when nobody answers in time.

    `approver` is one person or a chain of them: employee ids, or roles such as `manager`. `at_deadline` is "approve" (a
    soft approval) or "refuse" (a hard one); reasons in `must_be_given` are refused at the deadline in any case.
    """

    approver: Annotated[tuple[str, ...], BeforeValidator(_several)] = Field(
        default=("travel-desk",), min_length=1
    )
    soft_deadline_hours: int = Field(default=24, ge=1, le=720)
    hard_deadline_hours: int = Field(default=24, ge=1, le=720)
    at_deadline: Literal["approve", "refuse"] = "refuse"
    must_be_given: frozenset[Reason] = frozenset()


class TravelPolicy(Rules):
    """What is not said is not limited: a route without a cap has none. `STRICTEST` says everything."""

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
    # By what a rule is cited where no passage says it.
    file_name: str = "travel-policy.json"
    policy_id: str = "rules"

    @classmethod
    def read(cls, source: str | bytes | Mapping[str, Any], **cited: str) -> TravelPolicy:
        """The policy in a JSON text or in what was read from one. `cited`: `file_name`, `policy_id`."""
        try:
            given = json.loads(source, parse_float=Decimal) if isinstance(source, str | bytes) else source
            if not isinstance(given, Mapping):
                raise ValueError("it is not an object with the keys of a policy")
            return cls.model_validate({**given, **cited})
        except ValidationError as error:
            raise InvalidRequest(f"This travel policy cannot be used: {_told(error)}.") from error
        except ValueError as error:
            raise InvalidRequest(f"This travel policy cannot be read as JSON: {error}.") from error

    @field_validator("currency")
    @classmethod
    def _usd(cls, code: str) -> str:
        return checked_currency(code)

    @field_validator("cabins")
    @classmethod
    def _shortest_first(cls, cabins: tuple[CabinRule, ...]) -> tuple[CabinRule, ...]:
        ends = [rule.max_duration_hours for rule in cabins]
        if len(set(ends)) != len(ends):
            raise ValueError("two cabins for the same duration: give each max_duration_hours once")
        return tuple(sorted(cabins, key=_end))

    @field_validator("caps")
    @classmethod
    def _one_each(cls, caps: tuple[FareCap, ...]) -> tuple[FareCap, ...]:
        rows = [(cap.route, cap.days_ahead_min) for cap in caps]
        if twice := sorted({row for row in rows if rows.count(row) > 1}):
            raise ValueError(f"two caps for {twice[0][0]} from {twice[0][1]} days ahead: keep one")
        return caps

    def is_hard(self, reason: Reason) -> bool:
        return reason not in SOFT or reason in self.hard_stops

    def cabin_rule(self, hours: Decimal) -> CabinRule | None:
        """The row of that duration; a flight beyond the last row is under the last."""
        rows = (rule for rule in self.cabins if _end(rule) > hours)
        return next(rows, self.cabins[-1] if self.cabins else None)

    def fare_cap(self, route: Route, notice_days: int) -> FareCap | None:
        """The row of the longest notice that is kept; with less notice than any row wants, the row that wants least."""
        rows = sorted((cap for cap in self.caps if cap.route is route), key=lambda cap: cap.days_ahead_min)
        reached = [cap for cap in rows if cap.days_ahead_min <= notice_days]
        return reached[-1] if reached else next(iter(rows), None)


# One, or several that serve: the newest first.
Policies = TravelPolicy | Sequence[TravelPolicy] | None


def each_of(policies: Policies) -> tuple[TravelPolicy, ...]:
    if policies is None:
        return ()
    return (policies,) if isinstance(policies, TravelPolicy) else tuple(policies)


def newest_saying(policies: Sequence[TravelPolicy], name: str) -> TravelPolicy:
    """The first that says this key at all; where none does, the first."""
    return next((each for each in policies if name in each.model_fields_set), policies[0])


def _end(rule: CabinRule) -> Decimal:
    return Decimal("Infinity") if rule.max_duration_hours is None else rule.max_duration_hours


def _told(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )


# Where no relevant policy is found nobody can tell who may make an exception: every stop is hard.
STRICTEST: Final = TravelPolicy(
    version="strictest",
    cabins=(CabinRule(cabin=Cabin.economy),),
    caps=(
        FareCap(route=Route.domestic, max_usd=Decimal(300)),
        FareCap(route=Route.short_haul, max_usd=Decimal(400)),
        FareCap(route=Route.long_haul, max_usd=Decimal(900)),
    ),
    advance_purchase_days=AdvancePurchase(hard=7, soft=14),
    hard_stops=SOFT,
    file_name="strictest defaults",
    policy_id="defaults",
)
