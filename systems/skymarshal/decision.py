"""A decision, written: the option that somebody chose for a disruption, once, whatever is repeated.

The flight and the record of the decision change in one transaction, on the condition that nobody changed the flight
since it was assessed. The rows of the passengers follow: what the decision means for each. They are worked out from
the record, and have the key of passenger and disruption, so that a repeat writes the same. `settled` is set when all
are there; a call that was cut short is repeated with the same id.
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from holdfast import Stores, Ulids, Update
from holdfast.errors import (
    Conflict,
    InvalidRequest,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
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
from skymarshal.statuses import DisruptionKind, ReputationRisk, risk_rank

ROWS_AT_ONCE: Final = 100
ATTEMPTS_MAX: Final = 5
PAUSE_SECONDS_MAX: Final = 0.05
# Of a flight that has one of these, nothing is left to decide.
OVER: Final = (patterns.CANCELLED, "DEPARTED", "ARRIVED")


class Choice(BaseModel):
    """Which option, and who answers for it.

    The same `disruption_id` again, with the same decision, changes nothing more; with another it is refused. `version` is that of the flight in the report that was
    decided on: if the flight has changed since, the decision is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    option: str = Field(examples=["delay", "cancel", "swap-A6-BLB"])
    decided_by: str = Field(min_length=1, max_length=256)
    disruption_id: str | None = Field(default=None, min_length=1, max_length=64)
    version: int | None = None
    despite_blockers: bool = False


class Decision(BaseModel):
    """What was written; `repeated` when it had been before."""

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
    recorded = await _on_record(stores, disruption_id)
    repeated = recorded is not None
    if recorded is None:
        recorded, repeated = await _recorded(stores, _made(stores, choice, report, disruption_id), report)
    if repeated:
        _check_same(recorded, choice, report)
    if not recorded.settled:
        await _settle(stores, recorded)
    return report, Decision(
        disruption_id=disruption_id,
        option=recorded.option,
        decided_by=recorded.decided_by,
        decided_at=recorded.decided_at,
        passengers_noted=recorded.passengers_hit,
        repeated=repeated,
    )


async def _on_record(stores: Stores, disruption_id: DisruptionId) -> Disruption | None:
    """Read consistently: a decision acknowledged a moment ago must be seen."""
    return await stores.run(patterns.disruption(disruption_id).consistent())


def _made(stores: Stores, choice: Choice, report: Report, disruption_id: DisruptionId) -> Disruption:
    flight = report.flight
    if flight.status in OVER or choice.version not in (None, flight.version):
        raise _changed(report)
    option = _chosen(report, choice)
    return Disruption(
        disruption_id=disruption_id,
        flight_id=FlightId(flight.flight_id),
        flight_number=flight.flight_number,
        disruption_kind=report.kind,
        delay_minutes=option.delay_minutes,
        minutes_told=report.delay_minutes,
        delay_code=report.delay_code,
        aircraft_registration=option.aircraft_registration,
        option=option.id,
        decided_by=choice.decided_by,
        decided_at=datetime.fromtimestamp(stores.clock.now(), UTC),
        passengers_hit=report.passengers.count,
    )


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


async def _recorded(stores: Stores, made: Disruption, report: Report) -> tuple[Disruption, bool]:
    """The record, and whether somebody else had made it first under the same id."""
    for attempt in range(ATTEMPTS_MAX):
        try:
            await stores.transact(patterns.record_disruption(made), _change(report, made))
            return made, False
        except (TransactionCancelled, TransactionConflict) as error:
            earlier = await _on_record(stores, made.disruption_id)
            if earlier is not None:
                return earlier, True
            if not _is_in_the_way(error):
                raise _changed(report) from error
        # Another transaction is at the flight this moment; what it makes of it, the condition will tell.
        await asyncio.sleep(random.uniform(0, PAUSE_SECONDS_MAX) * (attempt + 1))
    raise RetryLater(
        f"Others are changing flight {made.flight_number} right now, and nothing was decided: ask again in a moment."
    )


def _is_in_the_way(error: TransactionCancelled | TransactionConflict) -> bool:
    """Whether only another transaction at the same time stood against it, and no condition."""
    if isinstance(error, TransactionConflict):
        return True
    return {reason.code for reason in error.reasons} <= {"None", "TransactionConflict"}


def _change(report: Report, made: Disruption) -> Update[Any]:
    """What the decision makes of the flight."""
    flight, delay = report.flight, timedelta(minutes=made.delay_minutes)
    if made.option == "cancel":
        return patterns.cancel_flight(made.flight_id, flight.version, made.delay_code)
    departure, arrival = flight.scheduled_departure + delay, flight.scheduled_arrival + delay
    if made.aircraft_registration is None:
        return patterns.delay_flight(made.flight_id, flight.version, departure, arrival, made.delay_code)
    aircraft = network.aircraft(made.aircraft_registration)
    if not delay:
        return patterns.swap_aircraft_on_time(
            made.flight_id, flight.version, aircraft.registration, aircraft.type, aircraft.seats
        )
    return patterns.swap_aircraft(
        made.flight_id,
        flight.version,
        aircraft.registration,
        aircraft.type,
        aircraft.seats,
        departure,
        arrival,
        made.delay_code,
    )


def _changed(report: Report) -> Conflict:
    flight = report.flight
    return Conflict(
        f"Flight {flight.flight_number} is not as it was when this was decided: it is {flight.status} now, at "
        f"version {flight.version}. Look at the new assessment and decide again."
    )


def _check_same(recorded: Disruption, choice: Choice, report: Report) -> None:
    """A repeat is the same disruption of the same flight, decided alike by the same person."""
    # A record of an earlier release does not say which delay was told.
    told = report.delay_minutes if recorded.minutes_told is None else recorded.minutes_told
    decided = (recorded.flight_id, recorded.disruption_kind, recorded.option, told, recorded.delay_code)
    asked = (report.flight.flight_id, report.kind, choice.option, report.delay_minutes, report.delay_code)
    if (*decided, recorded.decided_by) != (*asked, choice.decided_by):
        raise Conflict(
            f"The disruption {recorded.disruption_id} was decided already: {recorded.option} for the "
            f"{recorded.disruption_kind.value} of flight {recorded.flight_number} ({told} minutes), by "
            f"{recorded.decided_by}. "
            "Give another id, or none."
        )


async def _settle(stores: Stores, recorded: Disruption) -> None:
    """Writes the passengers' rows and marks the decision; what is there already is written the same again."""
    outcome = await assess(stores, _as_decided(recorded))
    rows = [_row(recorded, hit) for hit in outcome.passengers.ranked]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        await stores.run(patterns.note_disrupted_passengers(rows[start : start + ROWS_AT_ONCE]))
    await stores.run(patterns.settle_disruption(recorded.disruption_id))


def _as_decided(recorded: Disruption) -> DisruptionAsked:
    """The disruption that is left once the decision is carried out: a swap may be on time where a delay was told."""
    kind = DisruptionKind.CANCEL if recorded.option == "cancel" else DisruptionKind.DELAY
    return DisruptionAsked(
        kind=DisruptionKind.SWAP if recorded.aircraft_registration else kind,
        flight_id=recorded.flight_id,
        delay_minutes=recorded.delay_minutes,
        delay_code=recorded.delay_code,
        swap_to=recorded.aircraft_registration,
        known_at=recorded.decided_at,
    )


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
