"""What holds for one trip: the machine-readable policy and the passages, each asked; the stricter counts, and is cited.

    in_force(policies, passages, confidence) → InForce → cabin / fare / notice, each a Limit with its citation

Where two speak and differ, the difference is told. Within the text a rule for some flights goes before one for all, as an
exception does; what is never permitted stays so, and nobody approves it. Of several policies that serve, each holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Generic, Literal, TypeVar

from tripcortex.model import Cabin, Citation, Confidence
from tripcortex.rules.money import shown
from tripcortex.rules.policy import (
    STRICTEST,
    Policies,
    PreferredCarriers,
    Reason,
    Route,
    TravelPolicy,
    each_of,
    newest_saying,
)
from tripcortex.rules.reading import Kind, Passage, Read, TextRule, read, sentences

T = TypeVar("T")

_PROHIBITING: Final = "prohibit|never|banned|not be|not permit|not allow|not book|may not|must not".split("|")


@dataclass(frozen=True)
class Flight:
    """What a rule may ask about: the kind of route, the hours in the air, the days from booking to departure."""

    route: Route
    hours: Decimal
    notice_days: int


@dataclass(frozen=True)
class Limit(Generic[T]):
    """`notes` tell where the text and the machine-readable policies differ."""

    value: T
    citation: Citation
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InForce:
    """All that is known of the rules. With several policies each holds, the newest first; the defaults come last.

    Where there is no machine-readable policy the defaults are one: a text may be misread, so it only ever tightens.
    """

    policies: tuple[TravelPolicy, ...]
    read: Read
    passages: tuple[Passage, ...]
    confidence: Confidence

    @property
    def version(self) -> str:
        """Those of the company's own; of the defaults only where there are no others."""
        own = [each.version for each in self.policies if each is not STRICTEST]
        return ", ".join(dict.fromkeys(own or [STRICTEST.version]))

    @property
    def long_haul_km(self) -> int:
        return self._newest("long_haul_km").long_haul_km

    @property
    def preferred(self) -> PreferredCarriers:
        return self._newest("preferred_carriers").preferred_carriers

    def prohibited(self, name: Literal["carriers", "destinations"]) -> tuple[str, ...]:
        """What any of the policies prohibits."""
        named = (each for policy in self.policies for each in getattr(policy.prohibited, name))
        return tuple(dict.fromkeys(named))

    def _newest(self, name: str) -> TravelPolicy:
        return newest_saying(self.policies, name)

    def is_hard(self, reason: Reason) -> bool:
        return any(policy.is_hard(reason) for policy in self.policies)

    def cabin(self, flight: Flight) -> Limit[Cabin] | None:
        """The best cabin that may be booked."""
        coded = [
            (rule.cabin, _coded(policy, "cabins", _cabin_words(rule.cabin, rule.max_duration_hours)))
            for policy in self.policies
            if (rule := policy.cabin_rule(flight.hours))
        ]
        # "Never first class" does not differ from "economy": it only says less.
        most = min((cabin.rank for cabin, _ in coded), default=len(Cabin))
        said = [
            (rule.cabin, rule.citation)
            for rule in self._said(Kind.cabin, flight)
            if rule.cabin and (not rule.is_absolute or rule.cabin.rank <= most)
        ]
        return _strictest(coded, said, lambda cabin: cabin.rank, worded)

    def never(self, cabin: Cabin, flight: Flight) -> Citation | None:
        """Where the text says that this cabin is never booked on such a flight."""
        rules = (rule for rule in self._said(Kind.cabin, flight) if rule.is_final and rule.cabin)
        saying = [rule.citation for rule in rules if rule.cabin and rule.cabin.rank < cabin.rank]
        return _best(saying) if saying else None

    def fare(self, flight: Flight) -> Limit[Decimal] | None:
        """The most that the ticket may cost."""
        coded = [
            (cap.max_usd, _coded(policy, "caps", _cap_words(cap.route, cap.days_ahead_min, cap.max_usd)))
            for policy in self.policies
            if (cap := policy.fare_cap(flight.route, flight.notice_days))
        ]
        said = [(rule.max_usd, rule.citation) for rule in self._said(Kind.fare, flight) if rule.max_usd]
        return _strictest(coded, said, lambda usd: usd, shown)

    def notice(self, flight: Flight, *, hard: bool) -> Limit[int] | None:
        """The days ahead that are wanted, or without which it is refused. None where any day will do."""
        name = "hard" if hard else "soft"
        coded = [
            (days, _coded(policy, f"advance_purchase_days.{name}", f"at least {days} days ahead ({name})"))
            for policy in self.policies
            if (days := getattr(policy.advance_purchase_days, name))
        ]
        rules = [rule for rule in self._said(Kind.notice, flight) if rule.is_absolute is hard]
        said = [(rule.days, rule.citation) for rule in rules if rule.days]
        return _strictest(coded, said, lambda days: -days, lambda days: f"{days} days ahead")

    def tolerance(self) -> Limit[Decimal] | None:
        """By how many percent a preferred carrier may be dearer than the lowest fare and still go first."""
        policy = self._newest("preferred_carriers")
        preferred = policy.preferred_carriers
        if not preferred.carriers:
            return None
        words = f"{', '.join(preferred.carriers)} within {preferred.within_percent} % of the lowest fare"
        coded = [(preferred.within_percent, _coded(policy, "preferred_carriers", words))]
        rules = [rule for rule in self.read.rules if rule.kind is Kind.preferred]
        said = [(rule.percent, rule.citation) for rule in rules if rule.percent is not None]
        return _strictest(coded, said, lambda percent: percent, lambda percent: f"{percent} %")

    def prohibition(self, name: Literal["carriers", "destinations"], names: Sequence[str]) -> Citation:
        """The sentence that names what is prohibited, or the rule that does. The first of `names` is the rule's."""
        if found := list(self._naming(names)):
            return _best(found)
        policies = (each for each in self.policies if names[0] in getattr(each.prohibited, name))
        return _coded(next(policies, self.policies[0]), f"prohibited.{name}", f"{name}: {names[0]}")

    def _naming(self, names: Sequence[str]) -> Iterable[Citation]:
        for passage in self.passages:
            cited = passage.citation()
            for sentence in sentences(passage.content_text or "", cited.section_title or ""):
                words = sentence.text
                if any(_names(words, name) for name in names) and _prohibits(f"{sentence.about}: {words}"):
                    yield cited.model_copy(update={"quote": words[:300]})

    def _said(self, kind: Kind, flight: Flight) -> list[TextRule]:
        """Of the text's rules that hold for the flight: the narrowest, and those that nothing lifts."""
        holding = [
            rule
            for rule in self.read.rules
            if rule.kind is kind and rule.holds(flight.route, flight.hours, flight.notice_days)
        ]
        if kind is Kind.notice:
            return holding
        narrowest = max((rule.narrowness for rule in holding if not rule.is_absolute), default=0)
        return [rule for rule in holding if rule.is_absolute or rule.narrowness == narrowest]


def in_force(
    policies: Policies, passages: Sequence[Passage], confidence: Confidence | None = None
) -> InForce:
    """Without a relevant passage the strictest defaults hold beside whatever policies there are."""
    confidence = confidence or ("high" if passages else "none")
    own = each_of(policies)
    if confidence == "none":
        return InForce((*own, STRICTEST), Read(), (), confidence)
    return InForce(own or (STRICTEST,), read(passages), tuple(passages), confidence)


def _strictest(
    coded: list[tuple[T, Citation]],
    said: list[tuple[T, Citation]],
    laxity: Callable[[T], Decimal | int],
    words: Callable[[T], str],
) -> Limit[T] | None:
    """The least of all. It is cited by a passage that says it, and by the machine-readable rule where none does."""
    if not coded and not said:
        return None
    value = min((value for value, _ in (*coded, *said)), key=laxity)
    saying = [citation for each, citation in said if each == value]
    citation = _best(saying) if saying else next(citation for each, citation in coded if each == value)
    return Limit(value, citation, tuple(_differences(coded, said, laxity, words)))


def _differences(
    coded: list[tuple[T, Citation]],
    said: list[tuple[T, Citation]],
    laxity: Callable[[T], Decimal | int],
    words: Callable[[T], str],
) -> Iterator[str]:
    """Between the strictest of the text and of the rules; and between the rules of two policies."""
    by_laxity = sorted(coded, key=lambda pair: laxity(pair[0]))
    own = [pair for pair in by_laxity if pair[1].policy_id != STRICTEST.policy_id]
    if own and own[0][0] != own[-1][0]:
        (counts, where), (other, place) = own[0], own[-1]
        yield (
            f"The rule {place.section_title} in {place.file_name} says {words(other)}, that in {where.file_name} "
            f"{words(counts)}: {words(counts)} counts."
        )
    if not by_laxity or not said:
        return
    (rule, where), (text, place) = by_laxity[0], min(said, key=lambda pair: laxity(pair[0]))
    if rule != text:
        at = f", page {place.source_page}," if place.source_page is not None else ""
        yield (
            f"{place.file_name}{at} says {words(text)}, the rule {where.section_title} in {where.file_name} says "
            f"{words(rule)}: {words(min(rule, text, key=laxity))} counts."
        )


def _best(citations: Iterable[Citation]) -> Citation:
    return min(citations, key=lambda each: (-(each.similarity or 0.0), each.chunk_id, each.quote or ""))


def _coded(policy: TravelPolicy, rule: str, words: str) -> Citation:
    return Citation(
        chunk_id=f"rule:{rule}",
        policy_id=policy.policy_id,
        file_name=policy.file_name,
        section_title=rule,
        quote=words,
    )


def _cabin_words(cabin: Cabin, below: Decimal | None) -> str:
    return (
        f"{worded(cabin)} on flights {'of any longer duration' if below is None else f'under {below} hours'}"
    )


def _cap_words(route: Route, days: int, most: Decimal) -> str:
    return f"{worded(route)} from {days} days ahead: at most {shown(most)}"


def worded(name: Cabin | Route) -> str:
    return name.value.replace("_", " ")


def _names(text: str, name: str) -> bool:
    """A code as it is written, a name in any case."""
    if len(name) <= 3:
        return name in text.replace(",", " ").replace(".", " ").split()
    return name.casefold() in text.casefold()


def _prohibits(text: str) -> bool:
    return any(words in text.casefold() for words in _PROHIBITING)
