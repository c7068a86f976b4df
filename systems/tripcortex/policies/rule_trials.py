"""Dry run of the rules over sample trips: the verdict of the confirmed rules, and with the proposals as well.

Nothing is written. A trip is judged by the same function as in a booking (`judge_trip`), so the verdict for
the confirmed rules is the one that a booking of this trip gets now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from pydantic import ValidationError

from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from tripcortex.domain.policy_rules.distances import is_airport
from tripcortex.domain.policy_rules.judgement import Judgement, Trip, judge_trip
from tripcortex.policies.rule_loader import load_serving_rules, mark_pending
from tripcortex.policies.rule_review import describe_errors

MAX_TRIPS: Final = 500


@dataclass(frozen=True)
class Trial:
    """The judgements of one trip: by the confirmed rules, and by the confirmed and proposed ones."""

    trip: Trip
    now: Judgement
    with_proposals: Judgement

    @property
    def changes(self) -> bool:
        """Return whether confirming all proposals would change the verdict or who has to approve."""
        return (self.now.verdict, self.now.approvers) != (
            self.with_proposals.verdict,
            self.with_proposals.approvers,
        )


async def try_trips(stores: Stores, trips: Sequence[Trip]) -> list[Trial]:
    """Judge each trip by the rules of the serving policies, without and with the proposals.

    A statement that was not understood cannot be confirmed: it stays open in both.
    """
    rules = await load_serving_rules(stores)
    every = (*rules.confirmed, *rules.proposed)
    now = (*rules.confirmed, *mark_pending(rules.proposed))
    return [Trial(each, judge_trip(now, each), judge_trip(every, each)) for each in trips]


def parse_trips(given: Any, today: date) -> list[Trip]:
    """Return the trips of a JSON object or list of objects; a trip without `booked_on` is booked today.

    Raise `InvalidRequest` for an invalid trip, for none and for more than 500.
    """
    listed = list(given) if isinstance(given, list) else [given]
    if not 1 <= len(listed) <= MAX_TRIPS:
        raise InvalidRequest(f"Invalid trips: expected 1 to {MAX_TRIPS}, got {len(listed)}. Send fewer.")
    return [_parse_trip(each, number, today) for number, each in enumerate(listed, 1)]


def _parse_trip(given: Any, number: int, today: date) -> Trip:
    """Return one trip. Raise `InvalidRequest` with the trip's number and the invalid members."""
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"Invalid trip {number}: expected a JSON object, got {type(given).__name__}.")
    try:
        trip = Trip.model_validate({"booked_on": today, **given})
    except ValidationError as error:
        raise InvalidRequest(f"Invalid trip {number}: {describe_errors(error)}.") from error
    if trip.model_extra:
        known = ", ".join(Trip.model_fields)
        raise InvalidRequest(
            f"Invalid trip {number}: unknown member {', '.join(trip.model_extra)}. A trip has: {known}."
        )
    for airport in (trip.origin, trip.destination):
        if not is_airport(airport):
            raise InvalidRequest(
                f"Invalid trip {number}: unknown airport {airport}. Name an IATA code such as ORD."
            )
    return trip
