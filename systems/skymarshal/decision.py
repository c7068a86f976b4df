"""A decision, written: the option that somebody chose for a disruption, once, whatever is repeated.

The flight and the record of the decision change in one transaction, on the condition that nobody changed the flight
since it was assessed. The rows of the passengers follow: each has the key of passenger and disruption, so that a
repeat writes the same. `settled` is set when all are there; a call that was cut short is repeated with the same id.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast import Stores, Ulids, Update
from holdfast.errors import ConditionFailed, Conflict, InvalidRequest, TransactionCancelled
from skymarshal import network, patterns
from skymarshal.disruption import assess
from skymarshal.impact import DisruptionAsked, OptionProposed, PassengerHit, Report
from skymarshal.model import (
    BookingId,
    DisruptedPassenger,
    Disruption,
    DisruptionId,
    FlightId,
    PassengerId,
)
from skymarshal.statuses import ReputationRisk, risk_rank

ROWS_AT_ONCE = 100


class Choice(BaseModel):
    """Which option, and who answers for it. The same `disruption_id` again changes nothing more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    option: str = Field(examples=["delay", "cancel", "swap-A6-BLB"])
    decided_by: str = Field(min_length=1)
    disruption_id: str | None = Field(default=None, min_length=1, max_length=64)
    despite_blockers: bool = False


class Decision(BaseModel):
    """What was written."""

    model_config = ConfigDict(frozen=True)

    disruption_id: str
    option: str
    decided_by: str
    decided_at: datetime
    passengers_noted: int
    repeated: bool


async def confirm(stores: Stores, asked: DisruptionAsked, choice: Choice) -> tuple[Report, Decision]:
    """Assesses once more, and writes the option chosen."""
    report = await assess(stores, asked)
    disruption_id = DisruptionId(choice.disruption_id or Ulids(stores.clock).new())
    recorded = await stores.run(patterns.disruption(disruption_id))
    if recorded is None:
        recorded = await _recorded(stores, asked, choice, report, disruption_id)
        repeated = False
    else:
        _check_same(recorded, report, choice)
        repeated = True
    noted = await _settled(stores, recorded, report)
    return report, Decision(
        disruption_id=disruption_id,
        option=recorded.option,
        decided_by=recorded.decided_by,
        decided_at=recorded.decided_at,
        passengers_noted=noted,
        repeated=repeated,
    )


async def _recorded(
    stores: Stores, asked: DisruptionAsked, choice: Choice, report: Report, disruption_id: DisruptionId
) -> Disruption:
    option = _chosen(report, choice)
    made = Disruption(
        disruption_id=disruption_id,
        flight_id=FlightId(report.flight.flight_id),
        flight_number=report.flight.flight_number,
        disruption_kind=asked.kind,
        delay_minutes=option.delay_minutes,
        delay_code=asked.delay_code,
        aircraft_registration=option.aircraft_registration,
        option=option.id,
        decided_by=choice.decided_by,
        decided_at=datetime.fromtimestamp(stores.clock.now(), UTC),
        passengers_hit=report.passengers.count,
    )
    change = _change(report, option, asked.delay_code)
    try:
        await stores.transact(patterns.record_disruption(made), change)
    except (ConditionFailed, TransactionCancelled) as error:
        raise Conflict(
            f"Flight {report.flight.flight_number} was changed by somebody else since it was assessed: "
            "look at the new assessment and decide again."
        ) from error
    return made


def _chosen(report: Report, choice: Choice) -> OptionProposed:
    for option in report.options.proposed:
        if option.id == choice.option:
            if option.blockers and not choice.despite_blockers:
                raise InvalidRequest(
                    f"The option {option.id} cannot be done as it stands: {' '.join(option.blockers)} Remove what "
                    "stands in its way, choose another, or say despite_blockers."
                )
            return option
    known = ", ".join(option.id for option in report.options.proposed)
    raise InvalidRequest(f"There is no option {choice.option!r}: {known} were proposed.")


def _change(report: Report, option: OptionProposed, code: str | None) -> Update[Any]:
    flight = report.flight
    flight_id, delay = FlightId(flight.flight_id), timedelta(minutes=option.delay_minutes)
    if option.kind == "cancel":
        return patterns.cancel_flight(flight_id, flight.version, code)
    departure, arrival = flight.scheduled_departure + delay, flight.scheduled_arrival + delay
    if option.aircraft_registration is None:
        return patterns.delay_flight(flight_id, flight.version, departure, arrival, code)
    aircraft = network.aircraft(option.aircraft_registration)
    return patterns.swap_aircraft(
        flight_id,
        flight.version,
        aircraft.registration,
        aircraft.type,
        aircraft.seats,
        departure,
        arrival,
        code,
    )


def _check_same(recorded: Disruption, report: Report, choice: Choice) -> None:
    if (recorded.flight_id, recorded.option) != (report.flight.flight_id, choice.option):
        raise Conflict(
            f"The disruption {recorded.disruption_id} was decided already: {recorded.option} for flight "
            f"{recorded.flight_number}, by {recorded.decided_by}. Give another id, or none."
        )


async def _settled(stores: Stores, recorded: Disruption, report: Report) -> int:
    """Writes the passengers' rows and marks the decision; what is there already is written the same again."""
    if not recorded.settled:
        rows = [_row(recorded, hit) for hit in report.passengers.ranked]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            await stores.run(patterns.note_disrupted_passengers(rows[start : start + ROWS_AT_ONCE]))
        await stores.run(patterns.settle_disruption(recorded.disruption_id))
    return recorded.passengers_hit


def _row(recorded: Disruption, hit: PassengerHit) -> DisruptedPassenger:
    risk = ReputationRisk(hit.reputation_risk)
    return DisruptedPassenger(
        passenger_id=PassengerId(hit.passenger_id),
        disruption_id=recorded.disruption_id,
        flight_number=recorded.flight_number,
        risk_rank=risk_rank(risk),
        reputation_risk=risk,
        booking_id=BookingId(hit.booking_id),
        missed_connections=len(hit.missed_connections),
        score=Decimal(hit.score),
    )
