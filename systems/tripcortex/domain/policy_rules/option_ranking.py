"""Ranks the flights that an employee may choose from, and explains it if there are none.

Options are ordered by the first difference in this list:

1. flights that comply before those that need approval, then fewer breaches first; a flight with a hard breach
is never shown; then flights of an airline that the employee avoids, after all others; 2. fares within the
tolerance of the lowest (`preferred_carriers.within_percent`) before higher ones; 3. among those near fares: a
preferred airline first, then the flight that meets most of the employee's preferences (airline, part of day,
non-stop); 4. the lower fare; more preferences met; the shorter trip; the earlier departure; the option's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from holdfast import Document
from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.model.entities import (
    MAX_ITEM_OPTIONS_BYTES,
    MAX_OPTIONS,
    OPTIONS_CAP,
    BookingPlan,
    Breach,
    Citation,
    Failure,
    FlightOption,
)

# The hour at which each part of the day starts; the night ends when the morning starts.
PARTS_OF_DAY: Final = {"morning": 5, "afternoon": 12, "evening": 17, "night": 21}


class OptionJudgement(Document):
    """The result of checking a flight.

    `ok` means no breach; `is_bookable` means no hard breach, so that an approver may let it pass.
    """

    option_id: str
    ok: bool
    is_bookable: bool
    is_preferred_vendor: bool = False
    breaches: tuple[Breach, ...] = ()
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True)
class Ranking:
    """Ranked flights with their breaches and citations.

    `judgements` has all flights; `failure` is set if none is shown.
    """

    options: tuple[FlightOption, ...]
    judgements: tuple[OptionJudgement, ...]
    failure: Failure | None = None


def rank_judged(
    options: Iterable[FlightOption],
    judgements: Sequence[OptionJudgement],
    plan: BookingPlan,
    count: int = MAX_OPTIONS,
    *,
    near_percent: Decimal,
) -> Ranking:
    """Rank the flights that are not forbidden by their judgements; keep at most `count`, never over five.

    `near_percent` is the margin above the lowest fare within which a preferred airline ranks first.
    """
    found = {option.option_id: option for option in options}
    marked = [_annotate(found[each.option_id], each) for each in judgements if each.is_bookable]
    order = _OptionOrder(plan, _get_near_fare(marked, near_percent))
    best = sorted(marked, key=order.get_sort_key)[: max(1, min(count, OPTIONS_CAP))]
    fitting = _fit_into_item(best)
    failure = None if fitting else _build_too_large() if best else _explain_no_options(found, judgements)
    return Ranking(fitting, tuple(judgements), failure)


def _annotate(option: FlightOption, judgement: OptionJudgement) -> FlightOption:
    """Return the option with the judgement's breaches, citations and preferred vendor."""
    return option.model_copy(
        update={
            "is_preferred_vendor": judgement.is_preferred_vendor,
            "breaches": list(judgement.breaches),
            "citations": list(judgement.citations),
        }
    )


def _get_near_fare(options: Sequence[FlightOption], percent: Decimal) -> Decimal:
    """Return the highest fare that counts as near the lowest one.

    The lowest fare is that of compliant flights, or of all shown ones if none complies.
    """
    fares = [option.price_usd for option in options if not option.breaches]
    fares = fares or [option.price_usd for option in options]
    return min(fares, default=Decimal(0)) * (100 + percent) / 100


@dataclass(frozen=True)
class _OptionOrder:
    """The order of options; `near_usd` is the highest fare that counts as near the lowest."""

    plan: BookingPlan
    near_usd: Decimal

    def get_sort_key(self, option: FlightOption) -> tuple[Any, ...]:
        """Return the key that puts the best option first (the order in the module's docstring)."""
        is_near = option.price_usd <= self.near_usd
        fit = _count_met_preferences(option, self.plan)
        return (
            len(option.breaches),
            is_flown_by(option, self.plan.preferences.avoided_vendors),
            not is_near,
            is_near and not option.is_preferred_vendor,
            -fit if is_near else 0,
            option.price_usd,
            -fit,
            option.duration_minutes,
            option.outbound[0].departs_at.isoformat() if option.outbound else "",
            option.option_id,
        )


def _count_met_preferences(option: FlightOption, plan: BookingPlan) -> int:
    """Return how many of the employee's preferences the flight meets."""
    wishes = plan.preferences
    return (
        is_flown_by(option, wishes.vendors)
        + (wishes.nonstop and option.stops == 0)
        + (wishes.depart_part is not None and get_part_of_day(option) == wishes.depart_part)
    )


def get_part_of_day(option: FlightOption) -> str | None:
    """Return the part of the day at which the flight leaves, in local time; None without segments."""
    if not option.outbound:
        return None
    hour = option.outbound[0].departs_at.hour
    begun = [part for part, begins in PARTS_OF_DAY.items() if begins <= hour]
    return begun[-1] if begun else "night"


def _fit_into_item(options: Sequence[FlightOption]) -> tuple[FlightOption, ...]:
    """Return as many of the first options as fit into 300,000 bytes of a booking's item."""
    kept: list[FlightOption] = []
    size = 0
    for option in options:
        size += len(option.model_dump_json().encode())
        if size > MAX_ITEM_OPTIONS_BYTES:
            break
        kept.append(option)
    return tuple(kept)


# --- nothing to choose from -------------------------------------------------------------------------------


def _build_too_large() -> Failure:
    """Return the failure for flights that exist but do not fit into a booking's item."""
    return Failure(
        code="options_too_large",
        text="Flights were found, but the portal's data for the best one is too large to store.",
        remedy="book on the travel portal's own pages, or try another day",
    )


def _explain_no_options(found: dict[str, FlightOption], judgements: Sequence[OptionJudgement]) -> Failure:
    """Return the failure: no flights at all, or the hard breaches of the flight that has the fewest."""
    if not judgements:
        return Failure(
            code="no_flights",
            text="No flight was found for these airports and days.",
            remedy="try another day, or another airport of the city",
        )
    # The flight with the fewest hard breaches shows best what would comply.
    nearest = min(
        judgements,
        key=lambda each: (len(_list_hard_breaches(each)), found[each.option_id].price_usd, each.option_id),
    )
    hard = _list_hard_breaches(nearest)
    price = found[nearest.option_id].price_usd
    return Failure(
        code="nothing_complies",
        text=f"None of {len(judgements)} flights complies with the policy. The nearest, at "
        f"{format_usd(price)}: "
        f"{' '.join(breach.text for breach in hard)}",
        remedy="; ".join(dict.fromkeys(breach.remedy for breach in hard)),
        breaches=list(nearest.breaches),
    )


def _list_hard_breaches(judgement: OptionJudgement) -> list[Breach]:
    return [breach for breach in judgement.breaches if breach.severity == "hard"]


def is_flown_by(option: FlightOption, named: Iterable[str]) -> bool:
    """Return True if the option's airline is among `named`: by code, name, or first words of its name."""
    code, name = option.carrier.casefold(), option.carrier_name.casefold()
    return any(each in (code, name) or name.startswith(f"{each} ") for each in map(str.casefold, named))
