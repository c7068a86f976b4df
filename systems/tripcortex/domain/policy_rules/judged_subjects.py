"""Judges each subject of a trip by the rules: destination, carriers, cabin, fare, notice, and the trip as a
whole.

A rule that certainly applies may permit; one that only may apply can restrict. Among rules that apply, the
strictest counts, unless a narrower one permits explicitly what a general standard leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.domain.policy_rules.regions import contains_airport
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, merge_approvers
from tripcortex.domain.policy_rules.scope_matching import Match, TripFacts, is_narrower, match_scope
from tripcortex.domain.policy_rules.travel_policy import Reason
from tripcortex.model.entities import Breach, Cabin, PolicyConstraints

# The approver where the policy names none.
DEFAULT_APPROVER: Final = "travel-desk"
# A tier that names further approvers, in addition to those of the general notice.
_ADDS: Final = re.compile(
    r"\badditional|\balso\b|\bin addition\b|\bas well\b|\btoo\b|\bfurther approv", re.IGNORECASE
)
_HALF: Final = Decimal(50)


@dataclass(frozen=True)
class Subject:
    """The judgement of one subject. Without coverage a breach asks a person."""

    name: str
    breaches: tuple[Breach, ...] = ()
    applied: tuple[PolicyRule, ...] = ()
    is_covered: bool = True
    notes: tuple[str, ...] = ()


def select(rules: Iterable[PolicyRule], facts: TripFacts, *effects: Effect) -> list[tuple[PolicyRule, Match]]:
    """Return the rules of these effects that apply or may apply; an incomplete rule is never certain."""
    found: list[tuple[PolicyRule, Match]] = []
    for rule in rules:
        if rule.effect in effects:
            match = match_scope(rule.scope, facts)
            if match is not Match.outside:
                found.append((rule, match if rule.is_complete else Match.unclear))
    return found


# --- destination, carriers, the whole trip ------------------------------------------------------------------


def judge_destination(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return a hard breach for a prohibited destination."""
    hit = [
        rule
        for rule, _ in select(rules, facts, Effect.prohibited_destinations)
        if any(contains_airport(token, facts.trip.destination) for token in rule.destinations)
    ]
    text = f"Trips to {facts.trip.destination} are prohibited."
    remedy = "choose another destination, or ask the travel desk"
    return Subject(
        "destination", _build_breaches(Reason.destination_prohibited, hit, text, remedy), tuple(hit)
    )


def judge_carriers(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return breaches for prohibited carriers, and for others where preferred ones must be used."""
    flown = set(facts.trip.all_carriers)
    hit = [rule for rule, _ in select(rules, facts, Effect.prohibited_carriers) if flown & set(rule.carriers)]
    breaches = _build_breaches(
        Reason.carrier_prohibited,
        hit,
        f"{', '.join(sorted(flown))} may not be booked.",
        "choose another airline",
    )
    preferred = [rule for rule, _ in select(rules, facts, Effect.preferred_carriers)]
    named = {code for rule in preferred for code in rule.carriers}
    strict = [rule for rule in preferred if rule.outcome is not Outcome.allowed]
    if flown and strict and not flown & named:
        breaches += _build_breaches(
            Reason.carrier_not_preferred, strict, f"{', '.join(sorted(flown))} is not a preferred airline.",
            f"choose one of {', '.join(sorted(named))}",
        )  # fmt: skip
        hit += strict
    elif flown & named:
        hit += [rule for rule in preferred if flown & set(rule.carriers)]
    return Subject("carrier", breaches, tuple(hit))


def judge_whole_trip(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return breaches for trips that always need an approval, and for statements that were not understood."""
    hit = [
        rule for rule, _ in select(rules, facts, Effect.trip_outcome) if rule.outcome is not Outcome.allowed
    ]
    hit += [rule for rule, _ in select(rules, facts, Effect.unknown) if _is_specific(rule)]
    text = "The policy asks for an approval of this trip."
    return Subject(
        "trip", _build_breaches(Reason.approval_required, hit, text, "ask for the approval"), tuple(hit)
    )


def _is_specific(rule: PolicyRule) -> bool:
    """Return True if a statement names places or better cabins.

    One about all trips would restrict everything.
    """
    scope = rule.scope
    return any(route.one or route.other for route in scope.routes) or any(each.rank for each in scope.cabins)


# --- cabin --------------------------------------------------------------------------------------------------


def judge_cabin(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return a breach if the cabin is better than what the rules permit."""
    cabin = facts.trip.cabin
    limits = select(rules, facts, Effect.max_cabin)
    if cabin is Cabin.economy:
        applied = tuple(rule for rule, match in limits if match is Match.within)[:1]
        is_covered = any(
            rule.is_complete for rule in rules if rule.effect in (Effect.max_cabin, Effect.cabin_outcome)
        )
        return _cover("cabin", (), applied, is_covered)
    stated = [(rule, match) for rule, match in select(rules, facts, Effect.cabin_outcome)]
    forbidden = [rule for rule, _ in stated if rule.outcome is Outcome.forbidden]
    needed = [rule for rule, _ in stated if rule.outcome is Outcome.approval]
    text = f"{_to_words(cabin).capitalize()} is above what the policy allows."
    remedy = f"book {_to_words(_get_allowed(limits))}"
    if forbidden or needed:
        strict = forbidden or needed
        return Subject(
            "cabin", _build_breaches(Reason.cabin_above_policy, strict, text, remedy), tuple(strict)
        )
    granting = [rule for rule, match in limits if match is Match.within and _permits(rule, cabin)]
    below = _drop_overridden([rule for rule, _ in limits if not _permits(rule, cabin)], granting)
    if granting and not below:
        return Subject("cabin", (), tuple(granting))
    if below:
        return Subject("cabin", _build_breaches(Reason.cabin_above_policy, below, text, remedy), tuple(below))
    return _cover("cabin", (), (), is_covered=False)


def _permits(rule: PolicyRule, cabin: Cabin) -> bool:
    return rule.cabin is not None and rule.cabin.rank >= cabin.rank


def _drop_overridden(limits: list[PolicyRule], granting: list[PolicyRule]) -> list[PolicyRule]:
    """Return the limits that no permission with a narrower scope lifts."""
    return [limit for limit in limits if not any(is_narrower(grant.scope, limit.scope) for grant in granting)]


def _get_allowed(limits: list[tuple[PolicyRule, Match]]) -> Cabin:
    cabins = [rule.cabin for rule, match in limits if match is Match.within and rule.cabin]
    return max(cabins, key=lambda each: each.rank, default=Cabin.economy)


# --- fare ---------------------------------------------------------------------------------------------------


def judge_fare(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return a breach if the price is above a cap, with what the policy asks for such a fare."""
    price = facts.trip.price_usd
    if price is None:
        return Subject("fare")
    caps = list_caps(rules, facts)
    covering = [rule for rule, match in caps if match is Match.within]
    exceeded = [rule for rule, _ in caps if price > get_limit(rule, facts)]
    if not exceeded:
        return _cover("fare", (), tuple(covering), bool(covering))
    lowest = min(get_limit(rule, facts) for rule in exceeded)
    tiers = _find_tiers(rules, facts, price, lowest)
    waived = [rule for rule, match in tiers if rule.outcome is Outcome.allowed and match is Match.within]
    asked = [
        rule
        for rule, _ in tiers
        if rule.outcome is not Outcome.allowed
        and not any(is_narrower(each.scope, rule.scope) for each in waived)
    ]
    if waived and not asked and covering:
        return Subject("fare", (), (*covering, *waived))
    strict = (*exceeded, *asked)
    text = f"A fare of {format_usd(price)} is above the cap of {format_usd(lowest)}."
    breaches = _build_breaches(Reason.fare_above_cap, strict, text, f"a fare of at most {format_usd(lowest)}")
    return _cover("fare", breaches, strict, bool(covering))


def list_caps(rules: Sequence[PolicyRule], facts: TripFacts) -> list[tuple[PolicyRule, Match]]:
    """Return the caps of the trip, adjusted for its cabin and route where rules plainly say so.

    A cap of economy counts for another cabin only if an adjustment names that cabin.
    """
    adjusting = [
        rule for rule, match in select(rules, facts, Effect.fare_adjustment) if match is Match.within
    ]
    caps = select(rules, facts, Effect.fare_cap)
    is_of_cabin = any(facts.trip.cabin in rule.scope.cabins for rule in adjusting)
    if is_of_cabin and not any(facts.trip.cabin in rule.scope.cabins for rule, _ in caps):
        economy = TripFacts(facts.trip.model_copy(update={"cabin": Cabin.economy}))
        caps = select(rules, economy, Effect.fare_cap)
    for each in adjusting:
        caps = [(_adjust(rule, each, facts), match) for rule, match in caps]
    return _drop_general_rows(caps)


def _adjust(cap: PolicyRule, adjustment: PolicyRule, facts: TripFacts) -> PolicyRule:
    """Return the cap as the adjustment raises it."""
    if cap.amount_usd is None:
        return cap
    if adjustment.percent is not None:
        return cap.model_copy(update={"amount_usd": cap.amount_usd * adjustment.percent / 100})
    added = adjustment.amount_usd or Decimal(0)
    if adjustment.basis == "one_way" and cap.basis != "one_way" and facts.is_return:
        added *= 2
    return cap.model_copy(update={"amount_usd": cap.amount_usd + added})


def get_limit(rule: PolicyRule, facts: TripFacts) -> Decimal:
    """Return a cap for the whole trip: twice a one-way cap for a return trip, a part of a return cap for a
    one-way.

    A rule without an amount sets no limit.
    """
    amount = Decimal("Infinity") if rule.amount_usd is None else rule.amount_usd
    if rule.basis == "one_way":
        return amount * 2 if facts.is_return else amount
    if rule.basis == "round_trip" and not facts.is_return:
        return amount * (rule.one_way_percent or _HALF) / 100
    return amount


def _drop_general_rows(caps: list[tuple[PolicyRule, Match]]) -> list[tuple[PolicyRule, Match]]:
    """Return the caps without the rows of a table that a narrower row of the same table replaces."""
    certain = [rule for rule, match in caps if match is Match.within]
    return [
        (rule, match) for rule, match in caps if not any(_is_exception_row(other, rule) for other in certain)
    ]


def _is_exception_row(row: PolicyRule, general: PolicyRule) -> bool:
    return bool(row.group) and row.group == general.group and is_narrower(row.scope, general.scope)


def _find_tiers(
    rules: Sequence[PolicyRule], facts: TripFacts, price: Decimal, limit: Decimal
) -> list[tuple[PolicyRule, Match]]:
    """Return the rules for fares that are this much above the cap."""
    over = price - limit
    percent = over * 100 / limit if limit else Decimal(100)
    return [
        (rule, match)
        for rule, match in select(rules, facts, Effect.overage)
        if (rule.over_percent is None or percent in rule.over_percent)
        and (rule.over_usd is None or over in rule.over_usd)
    ]


# --- notice -------------------------------------------------------------------------------------------------


def judge_notice(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return a breach if the trip is booked too late; a tier of days names its own approvers."""
    known = select(rules, facts, Effect.notice)
    covering = [rule for rule, match in known if match is Match.within]
    missed = [rule for rule, _ in known if rule.days is not None and facts.notice_days < rule.days]
    tiers = [rule for rule, _ in known if rule.days is None and rule.outcome is not Outcome.allowed]
    if tiers and not any(_ADDS.search(rule.quote) for rule in tiers):
        missed = [rule for rule in missed if rule.outcome is Outcome.forbidden]
    strict = (*tiers, *missed)
    days = "1 day" if facts.notice_days == 1 else f"{facts.notice_days} days"
    breaches = _build_breaches(
        Reason.late_booking, strict, f"The departure is {days} ahead, less than the policy requires.",
        "choose a later departure",
    )  # fmt: skip
    return _cover("notice", breaches, strict or tuple(covering), bool(covering))


# --- breaches -----------------------------------------------------------------------------------------------


def _cover(
    name: str, breaches: tuple[Breach, ...], applied: tuple[PolicyRule, ...], is_covered: bool
) -> Subject:
    """Return the subject; without coverage with a breach that lets a person decide."""
    if is_covered or breaches:
        return Subject(name, breaches, applied, is_covered)
    uncovered = Breach(
        code=Reason.not_covered,
        severity="soft",
        text=f"No confirmed rule covers the {name} of this trip.",
        remedy="ask for an approval, or have the policy's rules confirmed",
    )
    return Subject(name, (uncovered,), applied, is_covered)


def _build_breaches(code: Reason, rules: Sequence[PolicyRule], text: str, remedy: str) -> tuple[Breach, ...]:
    """Return one breach for the rules: hard if one forbids, else soft with the approvers of all."""
    if not rules:
        return ()
    hard = [rule for rule in rules if rule.outcome is Outcome.forbidden]
    cited = (hard or list(rules))[0]
    approvers = () if hard else merge_approvers(rule.approvers for rule in rules)
    severity = "hard" if hard else "soft"
    return (
        Breach(
            code=code,
            severity=severity,
            text=text,
            remedy=remedy,
            citation=cited.cite(),
            approvers=list(approvers),
        ),
    )


def build_constraints(rules: Sequence[PolicyRule], facts: TripFacts) -> PolicyConstraints:
    """Return what a search should look for: the best permitted cabin, the cap, and the preferred carriers."""
    permitted = Cabin.economy
    for cabin in Cabin:
        trial = TripFacts(facts.trip.model_copy(update={"cabin": cabin}))
        if not judge_cabin(rules, trial).breaches:
            permitted = cabin
    caps = [get_limit(rule, facts) for rule, _ in list_caps(rules, facts)]
    preferred = [
        code for rule, _ in select(rules, facts, Effect.preferred_carriers) for code in rule.carriers
    ]
    return PolicyConstraints(
        max_budget_usd=min((cap for cap in caps if cap.is_finite()), default=None),
        max_cabin=permitted,
        preferred_vendors=list(dict.fromkeys(preferred)),
    )


def _to_words(cabin: Cabin) -> str:
    return cabin.value.replace("_", " ")
