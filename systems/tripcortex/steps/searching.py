"""ExecuteSearch: what the portal has, and what of it the employee may choose. The circuit is asked before and told after.

The audit `flight_search`, status `options_presented`. A portal that stays away ends in the link to its own pages.
"""

from __future__ import annotations

from typing import Final

from holdfast.flows import Next, Run
from tripcortex.auditing import audited
from tripcortex.model import AuditEvent, Booking, FlightOption
from tripcortex.rules.options import Ranking, ranked
from tripcortex.steps.days import today_of
from tripcortex.steps.ending import failed, telling
from tripcortex.steps.retrieving import passages_of, policy_of
from tripcortex.steps.showing import shown_option
from tripcortex.steps.validating import planned
from tripcortex.workshop import stopwatch, workshop_of

STEP: Final = "ExecuteSearch"


async def execute_search(run: Run[Booking]) -> Next:
    workshop, watch, booking = workshop_of(run), stopwatch(), run.item
    plan = planned(booking)
    offers = await workshop.portal.search(plan.parameters, plan.preferences)
    options = [offer.as_option(str(place)) for place, offer in enumerate(offers, 1)]
    ranking = ranked(
        options,
        plan,
        await policy_of(run.stores),
        await passages_of(run.stores, workshop, booking),
        workshop.settings.options_max,
        today=today_of(booking, run.now),
        confidence=booking.policy_confidence,
    )
    chosen = numbered(ranking)
    entry = audited(
        run.stores,
        booking,
        AuditEvent.flight_search,
        STEP,
        given={"parameters": plan.parameters.model_dump(mode="json", exclude_none=True)},
        gave={
            "offers": len(offers),
            "options": [
                {"option": each.option_id, "carrier": each.carrier, "price_usd": str(each.price_usd)}
                for each in chosen
            ],
        },
        years=workshop.settings.audit_years,
        latency_ms=watch.ms,
    )
    if ranking.failure is not None:
        return failed(run, STEP, ranking.failure, with_link=True, audit=(entry,))
    told = {"options": [shown_option(each) for each in chosen], "notes": booking.notes}
    message = telling(run.stores, booking, "options", told)
    return Next(
        "options_presented",
        {"flight_options": chosen},
        writes=(entry, *message),
        deadline_s=60.0 * workshop.settings.choice_minutes,
    )


def numbered(ranking: Ranking) -> list[FlightOption]:
    """Under the numbers that an employee sees: the best is 1."""
    return [
        option.model_copy(update={"option_id": str(place)}) for place, option in enumerate(ranking.shown, 1)
    ]
