"""Converts the machine-readable policy into rules, which need no confirmation."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from tripcortex.domain.planner.carriers import parse_carriers
from tripcortex.domain.planner.text_normalization import normalize_text
from tripcortex.domain.policy_rules.extraction.carriers import find_carriers
from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, Range, RoutePattern, RuleScope
from tripcortex.domain.policy_rules.travel_policy import FareCap, Reason, Route, TravelPolicy
from tripcortex.model.entities import Cabin

_IATA_LENGTH: Final = 2


def convert_policy(policy: TravelPolicy) -> tuple[PolicyRule, ...]:
    """Return the policy's keys as rules. A missing key means no limit, which a rule says too."""
    rules = (
        *_convert_cabins(policy),
        *_convert_caps(policy),
        *_convert_notice(policy),
        *_convert_carriers(policy),
        *_convert_prohibited(policy),
    )
    return tuple(rule.with_id() for rule in rules)


def _build(policy: TravelPolicy, key: str, text: str, effect: Effect, **values: Any) -> PolicyRule:
    """Return a rule that cites a key of the JSON."""
    return PolicyRule(
        text=text, effect=effect, quote=text, section=key, group=key, policy_id=policy.policy_id,
        file_name=policy.file_name, **values,
    )  # fmt: skip


def _build_outcome(policy: TravelPolicy, reason: Reason) -> dict[str, Any]:
    """Return what a breach of this reason needs."""
    if policy.is_hard(reason):
        return {"outcome": Outcome.forbidden}
    return {"outcome": Outcome.approval, "approvers": policy.approval.approver}


def _convert_cabins(policy: TravelPolicy) -> Iterator[PolicyRule]:
    outcome = _build_outcome(policy, Reason.cabin_above_policy)
    low: Decimal | None = None
    for at, rule in enumerate(policy.cabins):
        is_last = at == len(policy.cabins) - 1
        high = None if is_last else rule.max_duration_hours
        text = f"{rule.cabin.value.replace('_', ' ')} on flights {_describe_hours(low, high)}"
        scope = RuleScope(hours=Range(low=low, high=high, high_included=False))
        yield _build(policy, "cabins", text, Effect.max_cabin, cabin=rule.cabin, scope=scope, **outcome)
        low = high
    if not policy.cabins:
        yield _build(policy, "cabins", "no limit on cabins", Effect.max_cabin, cabin=Cabin.first)


def _describe_hours(low: Decimal | None, high: Decimal | None) -> str:
    if low is None and high is None:
        return "of any duration"
    start = "" if low is None else f"from {low} hours"
    return f"{start} under {high} hours".strip() if high is not None else start


def _convert_caps(policy: TravelPolicy) -> Iterator[PolicyRule]:
    """Yield the caps by route and notice; without a cap for a route, a rule without an amount."""
    for route in Route:
        rows = sorted((cap for cap in policy.caps if cap.route is route), key=lambda cap: cap.days_ahead_min)
        scope = _build_route_scope(route, policy.long_haul_km)
        for at, cap in enumerate(rows):
            below = rows[at + 1].days_ahead_min if at + 1 < len(rows) else None
            yield _convert_cap(policy, cap, scope, None if at == 0 else cap.days_ahead_min, below)
        if not rows:
            text = f"no limit on fares of {route.value.replace('_', ' ')} flights"
            yield _build(policy, "caps", text, Effect.fare_cap, scope=scope)


def _convert_cap(
    policy: TravelPolicy, cap: FareCap, scope: RuleScope, low: int | None, below: int | None
) -> PolicyRule:
    """Return one cap for a span of days: the row with the least notice is also for less."""
    days = Range(
        low=None if low is None else Decimal(low),
        high=None if below is None else Decimal(below),
        high_included=False,
    )
    route = cap.route.value.replace("_", " ")
    text = f"{route} from {cap.days_ahead_min} days ahead: at most {format_usd(cap.max_usd)}"
    return _build(
        policy, "caps", text, Effect.fare_cap, amount_usd=cap.max_usd,
        scope=scope.model_copy(update={"days_ahead": days}), **_build_outcome(policy, Reason.fare_above_cap),
    )  # fmt: skip


def _build_route_scope(route: Route, long_haul_km: int) -> RuleScope:
    if route is Route.domestic:
        return RuleScope(routes=(RoutePattern(is_domestic=True),))
    km = Decimal(long_haul_km)
    distance = Range(low=km) if route is Route.long_haul else Range(high=km, high_included=False)
    return RuleScope(routes=(RoutePattern(is_domestic=False),), distance_km=distance)


def _convert_notice(policy: TravelPolicy) -> Iterator[PolicyRule]:
    days = policy.advance_purchase_days
    soft = f"at least {days.soft} days ahead (soft)"
    outcome = _build_outcome(policy, Reason.late_booking)
    yield _build(policy, "advance_purchase_days.soft", soft, Effect.notice, days=days.soft, **outcome)
    if days.hard:
        text = f"at least {days.hard} days ahead (hard)"
        hard = Outcome.forbidden
        yield _build(policy, "advance_purchase_days.hard", text, Effect.notice, days=days.hard, outcome=hard)


def _convert_carriers(policy: TravelPolicy) -> Iterator[PolicyRule]:
    preferred = policy.preferred_carriers
    if preferred.carriers:
        text = f"{', '.join(preferred.carriers)} within {preferred.within_percent} % of the lowest fare"
        yield _build(
            policy, "preferred_carriers", text, Effect.preferred_carriers, outcome=Outcome.allowed,
            carriers=_to_codes(preferred.carriers), percent=preferred.within_percent,
        )  # fmt: skip


def _convert_prohibited(policy: TravelPolicy) -> Iterator[PolicyRule]:
    forbidden = Outcome.forbidden
    for name in policy.prohibited.carriers:
        yield _build(
            policy, "prohibited.carriers", f"carriers: {name}", Effect.prohibited_carriers, outcome=forbidden,
            carriers=_to_codes((name,)),
        )  # fmt: skip
    for place in policy.prohibited.destinations:
        yield _build(
            policy, "prohibited.destinations", f"destinations: {place}", Effect.prohibited_destinations,
            outcome=forbidden, destinations=(place,),
        )  # fmt: skip


def _find_short_name(name: str) -> tuple[str, ...]:
    """Return the code of a name that is also a word, such as Spirit: a list of airlines means the airline."""
    return parse_carriers(f"prefer {normalize_text(name)}")[1]


def _to_codes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return airlines as IATA codes; a name that is not known stays as it is."""
    codes: list[str] = []
    for name in names:
        found = () if len(name) == _IATA_LENGTH else find_carriers(name) or _find_short_name(name)
        codes += found or (name.upper() if len(name) == _IATA_LENGTH else name,)
    return tuple(dict.fromkeys(codes))
