"""Which flights an employee may choose from, and in which order. When none may be shown: why, and what would comply.

The order, the first difference deciding:

1. flights that comply, before those that somebody has to approve, and of these the ones with fewer breaches; what is
   stopped hard is never shown; then flights of an airline that the employee does not want, behind all others;
2. fares within the tolerance of the lowest (`preferred_carriers.within_percent`), before dearer ones;
3. among those near fares: a preferred airline first, then what fits the employee's wishes best (airline, part of day,
   non-stop);
4. the lower fare; the better fit; the shorter trip; the earlier departure; the option's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from tripcortex.model import (
    ITEM_OPTIONS_BYTES_MAX,
    OPTIONS_CAP,
    OPTIONS_MAX,
    BookingPlan,
    Breach,
    Confidence,
    Failure,
    FlightOption,
)
from tripcortex.rules.judging import OptionJudgement, is_one_of, option_under
from tripcortex.rules.limits import in_force
from tripcortex.rules.money import shown
from tripcortex.rules.policy import Policies
from tripcortex.rules.reading import Passage

# Of each part of a day the hour that it begins with; a night ends with the morning.
PARTS_OF_DAY: Final = {"morning": 5, "afternoon": 12, "evening": 17, "night": 21}


@dataclass(frozen=True)
class Ranking:
    """`shown` in their order, each with its breaches and citations; `judgements` of all; `failure` where none is shown."""

    shown: tuple[FlightOption, ...]
    judgements: tuple[OptionJudgement, ...]
    failure: Failure | None = None


def top_options(
    options: Iterable[FlightOption],
    plan: BookingPlan,
    policies: Policies,
    passages: Sequence[Passage],
    count: int = OPTIONS_MAX,
    *,
    today: date,
    confidence: Confidence | None = None,
) -> tuple[FlightOption, ...]:
    """The flights to choose from, the best first: at most `count`, and never more than five."""
    return ranked(options, plan, policies, passages, count, today=today, confidence=confidence).shown


def ranked(
    options: Iterable[FlightOption],
    plan: BookingPlan,
    policies: Policies,
    passages: Sequence[Passage],
    count: int = OPTIONS_MAX,
    *,
    today: date,
    confidence: Confidence | None = None,
) -> Ranking:
    """As `top_options`, with the judgement of every flight, and with why there is nothing to choose from."""
    rules = in_force(policies, passages, confidence)
    found = {option.option_id: option for option in options}
    judgements = {
        option_id: option_under(rules, option, plan, today) for option_id, option in sorted(found.items())
    }
    marked = [_marked(found[each.option_id], each) for each in judgements.values() if each.is_bookable]
    tolerance = rules.tolerance()
    order = _Order(plan, _near(marked, tolerance.value if tolerance else Decimal(0)))
    best = sorted(marked, key=order.place_of)[: max(1, min(count, OPTIONS_CAP))]
    all_judged = tuple(judgements.values())
    fitting = _fitting(best)
    failure = None if fitting else _too_large() if best else _why(found, all_judged)
    return Ranking(fitting, all_judged, failure)


def _marked(option: FlightOption, judgement: OptionJudgement) -> FlightOption:
    return option.model_copy(
        update={
            "is_preferred_vendor": judgement.is_preferred_vendor,
            "breaches": list(judgement.breaches),
            "citations": list(judgement.citations),
        }
    )


def _near(options: Sequence[FlightOption], percent: Decimal) -> Decimal:
    """The dearest fare that counts as near: of those that comply, or where none does, of those that are shown."""
    fares = [option.price_usd for option in options if not option.breaches]
    fares = fares or [option.price_usd for option in options]
    return min(fares, default=Decimal(0)) * (100 + percent) / 100


@dataclass(frozen=True)
class _Order:
    plan: BookingPlan
    near_usd: Decimal

    def place_of(self, option: FlightOption) -> tuple[Any, ...]:
        is_near = option.price_usd <= self.near_usd
        fit = _fit(option, self.plan)
        return (
            len(option.breaches),
            is_one_of(option, self.plan.preferences.avoided_vendors),
            not is_near,
            is_near and not option.is_preferred_vendor,
            -fit if is_near else 0,
            option.price_usd,
            -fit,
            option.duration_minutes,
            option.outbound[0].departs_at.isoformat() if option.outbound else "",
            option.option_id,
        )


def _fit(option: FlightOption, plan: BookingPlan) -> int:
    """How many of the employee's wishes it meets."""
    wishes = plan.preferences
    return (
        is_one_of(option, wishes.vendors)
        + (wishes.nonstop and option.stops == 0)
        + (wishes.depart_part is not None and part_of_day(option) == wishes.depart_part)
    )


def part_of_day(option: FlightOption) -> str | None:
    """When it leaves, by the clock of the airport."""
    if not option.outbound:
        return None
    hour = option.outbound[0].departs_at.hour
    begun = [part for part, begins in PARTS_OF_DAY.items() if begins <= hour]
    return begun[-1] if begun else "night"


def _fitting(options: Sequence[FlightOption]) -> tuple[FlightOption, ...]:
    """As many of the first as a booking's item can hold."""
    kept: list[FlightOption] = []
    size = 0
    for option in options:
        size += len(option.model_dump_json().encode())
        if size > ITEM_OPTIONS_BYTES_MAX:
            break
        kept.append(option)
    return tuple(kept)


# --- nothing to choose from ----------------------------------------------------------------------------------------


def _too_large() -> Failure:
    """Flights there are, and not one that a booking's item can hold: that is no empty choice."""
    return Failure(
        code="options_too_large",
        text="Flights were found, and what the portal says of the best is too large to be kept.",
        remedy="book in the travel portal itself, or try another day",
    )


def _why(found: dict[str, FlightOption], judgements: Sequence[OptionJudgement]) -> Failure:
    if not judgements:
        return Failure(
            code="no_flights",
            text="No flight was found for these airports and days.",
            remedy="try another day, or another airport of the city",
        )
    # The flight that is nearest to being shown says best what would comply.
    nearest = min(
        judgements,
        key=lambda each: (len(_hard(each)), found[each.option_id].price_usd, each.option_id),
    )
    told = _hard(nearest)
    price = found[nearest.option_id].price_usd
    return Failure(
        code="nothing_complies",
        text=f"None of {len(judgements)} flights keeps to the policy. The nearest, at {shown(price)}: "
        f"{' '.join(breach.text for breach in told)}",
        remedy="; ".join(dict.fromkeys(breach.remedy for breach in told)),
        breaches=list(nearest.breaches),
    )


def _hard(judgement: OptionJudgement) -> list[Breach]:
    return [breach for breach in judgement.breaches if breach.severity == "hard"]
