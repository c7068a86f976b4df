"""Step ExecuteSearch: searches the portal and ranks the options by the confirmed rules.

The circuit breaker guards the call. Audit event `flight_search`, status `options_presented`. If the portal
stays down, the booking fails with the link to its pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from holdfast.flows import Next, StepContext
from tripcortex.domain.policy_rules.booking_checks import rank_by_rules
from tripcortex.domain.policy_rules.option_ranking import Ranking
from tripcortex.model.entities import AuditEvent, Booking, FlightOption
from tripcortex.policies.rule_loader import load_rules_for_judgement
from tripcortex.workers.audit_entries import build_audit_entry
from tripcortex.workers.dependencies import find_employee_level, get_dependencies, start_stopwatch
from tripcortex.workers.steps.endings import build_message_writes, fail_booking
from tripcortex.workers.steps.local_date import get_local_date
from tripcortex.workers.steps.serializers import option_to_json
from tripcortex.workers.steps.validation import get_plan

STEP: Final = "ExecuteSearch"


async def execute_search(context: StepContext[Booking]) -> Next:
    """Search the portal, rank the flights, send the employee the options and move to `options_presented`.

    Fail the booking with the link if there is nothing to choose from.
    """
    dependencies, watch, booking = get_dependencies(context), start_stopwatch(), context.item
    plan = get_plan(booking)
    offers = await dependencies.portal.search(plan.parameters, plan.preferences)
    options = [offer.to_option(str(place)) for place, offer in enumerate(offers, 1)]
    today = get_local_date(booking, context.now)
    ranking = await rank_flights(context, options, dependencies.settings.options_max, today=today)
    chosen = number_options(ranking)
    entry = build_audit_entry(
        context.stores,
        booking,
        AuditEvent.flight_search,
        STEP,
        inputs={"parameters": plan.parameters.model_dump(mode="json", exclude_none=True)},
        outputs={
            "offers": len(offers),
            "options": [
                {
                    "option": each.option_id,
                    "carrier": each.carrier,
                    "price_usd": str(each.price_usd),
                    "verdict": each.verdict,
                }
                for each in chosen
            ],
        },
        years=dependencies.settings.audit_years,
        latency_ms=watch.ms,
    )
    if ranking.failure is not None:
        return fail_booking(context, STEP, ranking.failure, with_link=True, audit=(entry,))
    body = {"options": [option_to_json(each) for each in chosen], "notes": booking.notes}
    message = build_message_writes(context.stores, booking, "options", body)
    return Next(
        "options_presented",
        {"flight_options": chosen},
        writes=(entry, *message),
        deadline_s=60.0 * dependencies.settings.choice_minutes,
    )


async def rank_flights(
    context: StepContext[Booking], options: Sequence[FlightOption], count: int, *, today: date
) -> Ranking:
    """Rank flights for the booking's plan by the rules that are confirmed now.

    `today` is the day of the request at the employee's place, from which the notice counts.
    """
    return rank_by_rules(
        options,
        get_plan(context.item),
        await load_rules_for_judgement(context.stores),
        count,
        today=today,
        employee_level=await find_employee_level(context),
    )


def number_options(ranking: Ranking) -> list[FlightOption]:
    """Return the ranked options with new option ids, the numbers that the employee sees; the best is 1."""
    return [
        option.model_copy(update={"option_id": str(place)}) for place, option in enumerate(ranking.options, 1)
    ]
