"""Limits for one trip: the strictest of the machine-readable policies and the policy text, with citations.

    build_applicable_rules(policies, passages, confidence) → ApplicableRules → cabin, fare, notice (Limit)

If two sources differ, a note reports the difference. Within the text a rule for some flights overrides one
for all flights, as an exception does; an absolute prohibition stays, and an approver cannot lift it. If
several policies are in force, all of them apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Generic, Literal, TypeVar

from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.domain.policy_rules.text_rules import (
    ExtractedRules,
    Passage,
    RuleKind,
    TextRule,
    extract_rules,
    split_sentences,
)
from tripcortex.domain.policy_rules.travel_policy import (
    STRICTEST,
    Policies,
    PreferredCarriers,
    Reason,
    Route,
    TravelPolicy,
    find_newest_with,
    to_policies,
)
from tripcortex.model.entities import Cabin, Citation, Confidence

T = TypeVar("T")

_PROHIBITION_PHRASES: Final = (
    "prohibit|never|banned|not be|not permit|not allow|not book|may not|must not".split("|")
)


@dataclass(frozen=True)
class Flight:
    """The facts that rules depend on: the route, the hours in the air, the days from booking to departure."""

    route: Route
    hours: Decimal
    notice_days: int


@dataclass(frozen=True)
class Limit(Generic[T]):
    """One limit with its citation. `notes` report where the text and the machine-readable policies differ."""

    value: T
    citation: Citation
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ApplicableRules:
    """All rules that apply to a trip.

    Every policy in `policies` applies; the newest is first, the defaults are last. Without a machine-readable
    policy the defaults take its place: the text may be misread, so it can only tighten limits.
    """

    policies: tuple[TravelPolicy, ...]
    extracted: ExtractedRules
    passages: tuple[Passage, ...]
    confidence: Confidence

    @property
    def version(self) -> str:
        """Return the versions of the company's policies, or that of the defaults if there are none."""
        own = [each.version for each in self.policies if each is not STRICTEST]
        return ", ".join(dict.fromkeys(own or [STRICTEST.version]))

    @property
    def long_haul_km(self) -> int:
        """Return the distance from which a route is long haul, from the newest policy that sets it."""
        return self._find_newest("long_haul_km").long_haul_km

    @property
    def preferred_carriers(self) -> PreferredCarriers:
        """Return the preferred carriers, from the newest policy that sets them."""
        return self._find_newest("preferred_carriers").preferred_carriers

    def list_prohibited(self, name: Literal["carriers", "destinations"]) -> tuple[str, ...]:
        """Return all airlines or destinations that any of the policies prohibits, each once."""
        named = (each for policy in self.policies for each in getattr(policy.prohibited, name))
        return tuple(dict.fromkeys(named))

    def _find_newest(self, name: str) -> TravelPolicy:
        return find_newest_with(self.policies, name)

    def is_hard(self, reason: Reason) -> bool:
        """Return True if any policy makes this reason a hard stop."""
        return any(policy.is_hard(reason) for policy in self.policies)

    def get_cabin_limit(self, flight: Flight) -> Limit[Cabin] | None:
        """Return the best cabin that may be booked, or None without a limit."""
        from_policies = [
            (
                rule.cabin,
                _cite_policy(policy, "cabins", _format_cabin_rule(rule.cabin, rule.max_duration_hours)),
            )
            for policy in self.policies
            if (rule := policy.find_cabin_rule(flight.hours))
        ]
        # "Never first class" agrees with a limit of economy, so it must not produce a difference note.
        most = min((cabin.rank for cabin, _ in from_policies), default=len(Cabin))
        from_text = [
            (rule.cabin, rule.citation)
            for rule in self._select_text_rules(RuleKind.cabin, flight)
            if rule.cabin and (not rule.is_absolute or rule.cabin.rank <= most)
        ]
        return _pick_strictest(from_policies, from_text, lambda cabin: cabin.rank, to_words)

    def find_cabin_ban(self, cabin: Cabin, flight: Flight) -> Citation | None:
        """Return the citation of a text rule that forbids this cabin without exception, or None."""
        rules = (
            rule for rule in self._select_text_rules(RuleKind.cabin, flight) if rule.is_final and rule.cabin
        )
        matching = [rule.citation for rule in rules if rule.cabin and rule.cabin.rank < cabin.rank]
        return _pick_best(matching) if matching else None

    def get_fare_limit(self, flight: Flight) -> Limit[Decimal] | None:
        """Return the maximum ticket price, or None without a limit."""
        from_policies = [
            (
                cap.max_usd,
                _cite_policy(policy, "caps", _format_fare_cap(cap.route, cap.days_ahead_min, cap.max_usd)),
            )
            for policy in self.policies
            if (cap := policy.find_fare_cap(flight.route, flight.notice_days))
        ]
        from_text = [
            (rule.max_usd, rule.citation)
            for rule in self._select_text_rules(RuleKind.fare, flight)
            if rule.max_usd
        ]
        return _pick_strictest(from_policies, from_text, lambda usd: usd, format_usd)

    def get_notice_limit(self, flight: Flight, *, hard: bool) -> Limit[int] | None:
        """Return the minimum number of days ahead, or None without a limit.

        Below the hard limit the trip is refused; below the soft one it needs approval.
        """
        name = "hard" if hard else "soft"
        from_policies = [
            (
                days,
                _cite_policy(policy, f"advance_purchase_days.{name}", f"at least {days} days ahead ({name})"),
            )
            for policy in self.policies
            if (days := getattr(policy.advance_purchase_days, name))
        ]
        rules = [
            rule for rule in self._select_text_rules(RuleKind.notice, flight) if rule.is_absolute is hard
        ]
        from_text = [(rule.days, rule.citation) for rule in rules if rule.days]
        return _pick_strictest(
            from_policies, from_text, lambda days: -days, lambda days: f"{days} days ahead"
        )

    def get_fare_tolerance(self) -> Limit[Decimal] | None:
        """Return the percentage by which a preferred carrier may exceed the lowest fare and still rank first.

        None without preferred carriers.
        """
        policy = self._find_newest("preferred_carriers")
        preferred = policy.preferred_carriers
        if not preferred.carriers:
            return None
        words = f"{', '.join(preferred.carriers)} within {preferred.within_percent} % of the lowest fare"
        from_policies = [(preferred.within_percent, _cite_policy(policy, "preferred_carriers", words))]
        rules = [rule for rule in self.extracted.rules if rule.kind is RuleKind.preferred]
        from_text = [(rule.percent, rule.citation) for rule in rules if rule.percent is not None]
        return _pick_strictest(
            from_policies, from_text, lambda percent: percent, lambda percent: f"{percent} %"
        )

    def cite_prohibition(self, name: Literal["carriers", "destinations"], names: Sequence[str]) -> Citation:
        """Return the citation of a sentence that prohibits one of `names`, or else of the policy's rule.

        The first of `names` is the one in the machine-readable rule.
        """
        if found := list(self._cite_prohibiting_sentences(names)):
            return _pick_best(found)
        policies = (each for each in self.policies if names[0] in getattr(each.prohibited, name))
        return _cite_policy(next(policies, self.policies[0]), f"prohibited.{name}", f"{name}: {names[0]}")

    def _cite_prohibiting_sentences(self, names: Sequence[str]) -> Iterable[Citation]:
        """Yield a citation of each sentence in the passages that names one of `names` and prohibits."""
        for passage in self.passages:
            cited = passage.citation()
            for sentence in split_sentences(passage.content_text or "", cited.section_title or ""):
                words = sentence.text
                if any(_mentions(words, name) for name in names) and _is_prohibition(
                    f"{sentence.about}: {words}"
                ):
                    yield cited.model_copy(update={"quote": words[:300]})

    def _select_text_rules(self, kind: RuleKind, flight: Flight) -> list[TextRule]:
        """Return the text rules that apply to the flight: the most specific ones and the absolute ones."""
        holding = [
            rule
            for rule in self.extracted.rules
            if rule.kind is kind and rule.applies_to(flight.route, flight.hours, flight.notice_days)
        ]
        if kind is RuleKind.notice:
            return holding
        narrowest = max((rule.specificity for rule in holding if not rule.is_absolute), default=0)
        return [rule for rule in holding if rule.is_absolute or rule.specificity == narrowest]


def build_applicable_rules(
    policies: Policies, passages: Sequence[Passage], confidence: Confidence | None = None
) -> ApplicableRules:
    """Collect the rules for a trip: the policies, and the rules extracted from the passages.

    Without a relevant passage (`confidence` is "none") the strictest defaults apply in addition to the given
    policies. By default the confidence is "high" with passages, "none" without.
    """
    confidence = confidence or ("high" if passages else "none")
    own = to_policies(policies)
    if confidence == "none":
        return ApplicableRules((*own, STRICTEST), ExtractedRules(), (), confidence)
    return ApplicableRules(own or (STRICTEST,), extract_rules(passages), tuple(passages), confidence)


def _pick_strictest(
    from_policies: list[tuple[T, Citation]],
    from_text: list[tuple[T, Citation]],
    laxity: Callable[[T], Decimal | int],
    to_text: Callable[[T], str],
) -> Limit[T] | None:
    """Return the strictest limit, citing a passage that states it, or else the machine-readable rule.

    `laxity` is lower for a stricter value; `to_text` formats a value for the notes. Return None without any
    limit.
    """
    if not from_policies and not from_text:
        return None
    value = min((value for value, _ in (*from_policies, *from_text)), key=laxity)
    matching = [citation for each, citation in from_text if each == value]
    citation = (
        _pick_best(matching)
        if matching
        else next(citation for each, citation in from_policies if each == value)
    )
    return Limit(value, citation, tuple(_describe_differences(from_policies, from_text, laxity, to_text)))


def _describe_differences(
    from_policies: list[tuple[T, Citation]],
    from_text: list[tuple[T, Citation]],
    laxity: Callable[[T], Decimal | int],
    to_text: Callable[[T], str],
) -> Iterator[str]:
    """Yield the differences between two policies, and between the policies and the text."""
    by_laxity = sorted(from_policies, key=lambda pair: laxity(pair[0]))
    own = [pair for pair in by_laxity if pair[1].policy_id != STRICTEST.policy_id]
    if own and own[0][0] != own[-1][0]:
        (counts, where), (other, place) = own[0], own[-1]
        yield (
            f"The rule {place.section_title} in {place.file_name} says {to_text(other)}, that in "
            f"{where.file_name} "
            f"{to_text(counts)}: {to_text(counts)} counts."
        )
    if not by_laxity or not from_text:
        return
    (rule, where), (text, place) = by_laxity[0], min(from_text, key=lambda pair: laxity(pair[0]))
    if rule != text:
        at = f", page {place.source_page}," if place.source_page is not None else ""
        yield (
            f"{place.file_name}{at} says {to_text(text)}, the rule {where.section_title} in "
            f"{where.file_name} "
            "says "
            f"{to_text(rule)}: {to_text(min(rule, text, key=laxity))} counts."
        )


def _pick_best(citations: Iterable[Citation]) -> Citation:
    """Return the citation with the highest similarity."""
    return min(citations, key=lambda each: (-(each.similarity or 0.0), each.chunk_id, each.quote or ""))


def _cite_policy(policy: TravelPolicy, rule: str, words: str) -> Citation:
    """Return the citation of a machine-readable rule; `rule` is its key, `words` its text."""
    return Citation(
        chunk_id=f"rule:{rule}",
        policy_id=policy.policy_id,
        file_name=policy.file_name,
        section_title=rule,
        quote=words,
    )


def _format_cabin_rule(cabin: Cabin, below: Decimal | None) -> str:
    return (
        f"{to_words(cabin)} on flights "
        f"{'of any longer duration' if below is None else f'under {below} hours'}"
    )


def _format_fare_cap(route: Route, days: int, most: Decimal) -> str:
    return f"{to_words(route)} from {days} days ahead: at most {format_usd(most)}"


def to_words(name: Cabin | Route) -> str:
    """Return an enum value as words: `premium_economy` becomes "premium economy"."""
    return name.value.replace("_", " ")


def _mentions(text: str, name: str) -> bool:
    """Return True if the text mentions the name: a code must match exactly, a longer name in any case."""
    if len(name) <= 3:
        return name in text.replace(",", " ").replace(".", " ").split()
    return name.casefold() in text.casefold()


def _is_prohibition(text: str) -> bool:
    """Return whether the text contains a phrase such as "never" or "not permitted"."""
    return any(words in text.casefold() for words in _PROHIBITION_PHRASES)
