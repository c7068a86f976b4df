"""Judges each subject of a trip by the rules: destination, carriers, cabin, fare, notice, and the trip as a
whole.

A rule that certainly applies may permit; one that only may apply can restrict. Among rules that apply, one
with a narrower scope is the exception of a general one, and of those that are left the strictest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.domain.policy_rules.regions import contains_airport
from tripcortex.domain.policy_rules.rules import (
    OTHER_NOTE,
    Effect,
    Outcome,
    PolicyRule,
    Range,
    RuleScope,
    SubjectName,
    merge_approvers,
)
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
        if rule.effect in effects and not rule.is_pending:
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
    stated = select(rules, facts, Effect.trip_outcome)
    hit = [rule for rule in drop_general(stated) if rule.outcome is not Outcome.allowed]
    hit += [
        rule for rule in find_open(rules, facts, "trip", is_covered=False) if rule.effect is Effect.unknown
    ]
    text = "The policy asks for an approval of this trip."
    if any(rule.outcome is Outcome.forbidden for rule in hit):
        text = "The policy does not permit this trip."
    breaches = _build_breaches(
        Reason.approval_required, hit, text, "ask for the approval, or change the trip"
    )
    gaps = [rule for rule in rules if rule.subject == "document"]
    text = "The policy document is not complete, so it permits nothing by itself."
    breaches += _build_breaches(
        Reason.not_covered, gaps, text, "ask for an approval, or upload the whole document"
    )
    return Subject("trip", breaches, (*hit, *gaps))


# --- what is open -------------------------------------------------------------------------------------------

_SUBJECTS: Final[Mapping[Effect, SubjectName]] = {
    Effect.max_cabin: "cabin",
    Effect.cabin_outcome: "cabin",
    Effect.fare_cap: "fare",
    Effect.overage: "fare",
    Effect.fare_adjustment: "fare",
    Effect.notice: "notice",
    Effect.preferred_carriers: "carrier",
    Effect.prohibited_carriers: "carrier",
    Effect.prohibited_destinations: "trip",
    Effect.trip_outcome: "trip",
}


def is_grounded(rules: Iterable[PolicyRule]) -> bool:
    """Return True if at least one rule was understood and confirmed: what the rules do not limit is free."""
    return any(
        rule.is_complete and not rule.is_pending and rule.effect is not Effect.unknown for rule in rules
    )


def find_open(
    rules: Iterable[PolicyRule], facts: TripFacts, subject: SubjectName, *, is_covered: bool
) -> list[PolicyRule]:
    """Return the statements about a subject that may concern the trip and were not understood or confirmed.

    Where a rule covers the subject, only a statement about particular places or better cabins is still open.
    """
    found = []
    for rule in rules:
        about = rule.subject or ("trip" if rule.effect is Effect.unknown else _SUBJECTS[rule.effect])
        is_open = rule.is_pending or rule.effect is Effect.unknown
        if is_open and about == subject and (not is_covered or _is_specific(rule)):
            found += [rule] if match_scope(rule.scope, facts) is not Match.outside else []
    return found


def _is_specific(rule: PolicyRule) -> bool:
    """Return True if a statement names places or better cabins.

    One about all trips would restrict everything.
    """
    scope = rule.scope
    return any(route.one or route.other for route in scope.routes) or any(each.rank for each in scope.cabins)


def drop_general(rules: Sequence[tuple[PolicyRule, Match]]) -> list[PolicyRule]:
    """Return the rules without those of which a certain one with a narrower scope is the exception."""
    certain = [rule for rule, match in rules if match is Match.within]
    return [rule for rule, _ in rules if not any(_replaces(other, rule) for other in certain)]


def _replaces(rule: PolicyRule, other: PolicyRule) -> bool:
    """Return True if the first rule is an exception of the second one."""
    if rule.is_exception and rule is not other and rule.section == other.section:
        return not other.is_exception
    return is_narrower(_get_bare_scope(rule), _get_bare_scope(other))


def _waives(rule: PolicyRule, other: PolicyRule) -> bool:
    """Return True if the first rule exempts its routes or levels from the notice of the second one."""
    if rule.outcome is not Outcome.allowed or rule is other:
        return False
    days = {"days_ahead": Range()}
    is_part = is_narrower(rule.scope.model_copy(update=days), other.scope.model_copy(update=days))
    return is_part or (rule.is_exception and _replaces(rule, other))


def _get_bare_scope(rule: PolicyRule) -> RuleScope:
    """Return the scope without cabins: rules that are compared are about the cabin of the trip anyway."""
    return rule.scope.model_copy(update={"cabins": ()})


# --- cabin --------------------------------------------------------------------------------------------------


def judge_cabin(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return a breach if the cabin is better than what the rules permit."""
    cabin = facts.trip.cabin
    limits = select(rules, facts, Effect.max_cabin)
    if cabin is Cabin.economy:
        applied = tuple(rule for rule, match in limits if match is Match.within)[:1]
        return _cover("cabin", (), applied, is_grounded(rules))
    stated = select(rules, facts, Effect.cabin_outcome)
    granting = [(rule, match) for rule, match in limits if match is Match.within and _permits(rule, cabin)]
    below = [(rule, match) for rule, match in limits if not _permits(rule, cabin)]
    own = [(rule, match) for rule, match in stated if not _is_rest(rule, cabin)]
    said = [rule for rule, match in (*own, *granting) if match is Match.within]
    if said:
        # The standard cabin is what counts where nothing else is said of the cabin for these trips or levels.
        below = [(rule, match) for rule, match in below if not any(_lifts(each, rule) for each in said)]
        if granting:
            # "Premium economy is permitted" does not limit what the policy says of business class.
            below = [(rule, match) for rule, match in below if not _is_permission(rule)]
        stated = own
    text = f"{_to_words(cabin).capitalize()} is above what the policy allows."
    remedy = f"book {_to_words(_get_allowed(limits))}"
    left = drop_general([*stated, *granting])
    explicit = [rule for rule in left if rule.effect is Effect.cabin_outcome]
    for outcome in (Outcome.forbidden, Outcome.approval):
        strict = [rule for rule in explicit if rule.outcome is outcome]
        if strict:
            return Subject(
                "cabin", _build_breaches(Reason.cabin_above_policy, strict, text, remedy), tuple(strict)
            )
    limiting = [rule for rule in drop_general([*granting, *below]) if not _permits(rule, cabin)]
    if limiting:
        breaches = _build_breaches(Reason.cabin_above_policy, limiting, text, remedy)
        return Subject("cabin", breaches, tuple(limiting))
    return _cover("cabin", (), tuple(left), is_covered=bool(granting))


def _lifts(rule: PolicyRule, limit: PolicyRule) -> bool:
    """Return True if the rule is about some trips or levels, and the limit is only the standard of all."""
    is_scoped = _get_bare_scope(rule) != RuleScope()
    return is_standard(limit) and is_scoped and not (limit.scope.levels and not rule.scope.levels)


def _is_permission(rule: PolicyRule) -> bool:
    """Return True if the rule permits a cabin above economy and says nothing of those above it."""
    is_better = rule.cabin is not None and rule.cabin.rank > 0
    return is_better and rule.outcome is not Outcome.forbidden and not rule.approvers


def is_standard(rule: PolicyRule) -> bool:
    """Return True for a statement that economy is the standard, without a word on what is above it."""
    return rule.cabin is Cabin.economy and rule.outcome is not Outcome.forbidden and not rule.approvers


def _is_rest(rule: PolicyRule, cabin: Cabin) -> bool:
    """Return True for a statement about "any other flight", or about those above a lower cabin.

    What is said of a flight or a cabin itself counts more.
    """
    is_of_lower = (
        rule.cabin is not None and rule.cabin.rank < cabin.rank and rule.outcome is Outcome.forbidden
    )
    return OTHER_NOTE in rule.notes or is_of_lower


def _permits(rule: PolicyRule, cabin: Cabin) -> bool:
    return rule.cabin is not None and rule.cabin.rank >= cabin.rank


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
    waived = [rule for rule, match in caps if rule.is_exception and match is Match.within]
    caps = [(rule, match) for rule, match in caps if not any(_replaces(each, rule) for each in waived)]
    covering = [rule for rule, match in caps if match is Match.within]
    exceeded = [rule for rule, _ in caps if price > get_limit(rule, facts)]
    if not exceeded:
        return _cover("fare", (), tuple(covering), _is_settled(rules, facts, "fare", covering))
    lowest = min(get_limit(rule, facts) for rule in exceeded)
    tiers = _find_tiers(rules, facts, price, lowest)
    waived = [rule for rule, match in tiers if rule.outcome is Outcome.allowed and match is Match.within]
    asked = [rule for rule in _pick_tiers(tiers) if rule.outcome is not Outcome.allowed]
    if waived and not asked and covering:
        return Subject("fare", (), (*covering, *waived))
    strict = (*exceeded, *asked)
    text = f"A fare of {format_usd(price)} is above the cap of {format_usd(lowest)}."
    breaches = _build_breaches(Reason.fare_above_cap, strict, text, f"a fare of at most {format_usd(lowest)}")
    return _cover("fare", breaches, strict, is_covered=True)


def _is_settled(
    rules: Sequence[PolicyRule], facts: TripFacts, subject: SubjectName, covering: Sequence[PolicyRule]
) -> bool:
    """Return True if nothing about the subject is open for this trip: a rule covers it, or none limits it."""
    return is_grounded(rules) and not find_open(rules, facts, subject, is_covered=bool(covering))


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
    groups = {rule.group for rule in certain if rule.group}
    # A row that was not understood does not count next to one that is about this trip.
    caps = [(rule, match) for rule, match in caps if rule.is_complete or rule.group not in groups]
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
        and (
            rule.over_usd is None
            or over / (2 if rule.basis == "one_way" and facts.is_return else 1) in rule.over_usd
        )
    ]


def _adds(rule: PolicyRule) -> bool:
    """Return True if a tier names approvers in addition to those of a general one."""
    return bool(_ADDS.search(re.sub(r"\bnot\b[^.;)]*", " ", rule.quote)))


def _pick_tiers(tiers: Sequence[tuple[PolicyRule, Match]]) -> list[PolicyRule]:
    """Return the tiers without those that a tier for a part of their fares or trips replaces."""
    if any(_adds(rule) for rule, _ in tiers):
        return [rule for rule, _ in tiers]
    certain = [rule for rule, match in tiers if match is Match.within]
    return [rule for rule, _ in tiers if not any(_is_part_tier(other, rule) for other in certain)]


def _is_part_tier(tier: PolicyRule, other: PolicyRule) -> bool:
    """Return True if the first tier is for some of the fares or trips of the second."""
    return is_narrower(_get_tier_scope(tier), _get_tier_scope(other))


def _get_tier_scope(tier: PolicyRule) -> RuleScope:
    """Return the scope with the range above the cap in place of the price."""
    return tier.scope.model_copy(update={"price_usd": tier.over_percent or tier.over_usd or Range()})


# --- notice -------------------------------------------------------------------------------------------------


def judge_notice(rules: Sequence[PolicyRule], facts: TripFacts) -> Subject:
    """Return a breach if the trip is booked too late; a tier of days names its own approvers."""
    known = select(rules, facts, Effect.notice)
    covering = [rule for rule, match in known if match is Match.within]
    left = [rule for rule, _ in known if not any(_waives(other, rule) for other in covering)]
    missed = [rule for rule in left if rule.days is not None and facts.notice_days < rule.days]
    stated = [(rule, match) for rule, match in known if rule.days is None and rule in left]
    is_adding = any(_adds(rule) for rule, _ in stated)
    tiers = [rule for rule, _ in stated] if is_adding else drop_general(stated)
    tiers = [rule for rule in tiers if rule.outcome is not Outcome.allowed]
    if tiers and not is_adding:
        missed = [rule for rule in missed if rule.outcome is Outcome.forbidden]
    strict = (*tiers, *missed)
    days = "1 day" if facts.notice_days == 1 else f"{facts.notice_days} days"
    breaches = _build_breaches(
        Reason.late_booking, strict, f"The departure is {days} ahead, less than the policy requires.",
        "choose a later departure",
    )  # fmt: skip
    is_covered = _is_settled(rules, facts, "notice", covering)
    return _cover("notice", breaches, strict or tuple(covering), is_covered)


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
