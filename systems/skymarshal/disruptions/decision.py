"""The decision on a disruption: `confirm` writes the chosen option exactly once, even if it is repeated.

One transaction changes the flight and records the decision, on the condition that the flight has not changed
since it was assessed. The passengers' rows follow. They are computed from the record and keyed by passenger
and disruption, so a repeat writes the same rows. `settled` is set when all are written. Repeat a call that
was cut short with the same id.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from holdfast import Stores, Update
from holdfast.core.errors import (
    Conflict,
    InvalidRequest,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.core.rng import RNG
from holdfast.model.ulids import UlidGenerator
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.report import DisruptionRequest, OptionProposed, PassengerHit, Report
from skymarshal.domain import airline_network
from skymarshal.domain.statuses import DisruptionKind, ReputationRisk, encode_risk_rank
from skymarshal.model import patterns
from skymarshal.model.entities import (
    BookingId,
    DisruptedPassenger,
    Disruption,
    DisruptionId,
    FlightId,
    PassengerId,
)

BATCH_ROWS: Final = 100
MAX_ATTEMPTS: Final = 5
MAX_PAUSE_S: Final = 0.05
MAX_VERSION: Final = 999_999_999
# A flight with one of these statuses leaves nothing to decide.
FINAL_STATUSES: Final = (patterns.CANCELLED, "DEPARTED", "ARRIVED")


class Choice(BaseModel):
    """The chosen option and the person responsible for it.

    Repeating a `disruption_id` with the same decision changes nothing more; with another decision it is
    refused. `version` is the flight's version in the report that was decided on; if the flight has changed
    since, the decision is refused. `despite_blockers` allows an option that has blockers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    option: str = Field(examples=["delay", "cancel", "swap-A6-BLB"])
    decided_by: str = Field(min_length=1, max_length=256)
    disruption_id: str | None = Field(default=None, min_length=1, max_length=64)
    version: int | None = Field(default=None, ge=0, le=MAX_VERSION)
    despite_blockers: bool = False


class Decision(BaseModel):
    """The recorded decision. `repeated` is true if an earlier call had recorded it.

    `passengers_noted` is the number of passengers affected.
    """

    model_config = ConfigDict(frozen=True)

    disruption_id: str
    option: str
    decided_by: str
    decided_at: datetime
    passengers_noted: int
    repeated: bool


async def confirm(stores: Stores, request: DisruptionRequest, choice: Choice) -> tuple[Report, Decision]:
    """Assess the disruption again and write the chosen option. Return the new report and the decision.

    Without a `disruption_id` in `choice`, one is generated. Raise `Conflict` if the flight has changed or the
    id belongs to another decision, `InvalidRequest` for an unknown or blocked option, `RetryLater` after
    repeated transaction conflicts.
    """
    report = await assess(stores, request)
    disruption_id = DisruptionId(choice.disruption_id or UlidGenerator(stores.clock).new())
    record = await _load_record(stores, disruption_id)
    repeated = record is not None
    if record is None:
        record, repeated = await _write_record(
            stores, _build_record(stores, choice, report, disruption_id), report
        )
    if repeated:
        _check_same_decision(record, choice, report)
    if not record.settled:
        await _settle(stores, record)
    return report, Decision(
        disruption_id=disruption_id,
        option=record.option,
        decided_by=record.decided_by,
        decided_at=record.decided_at,
        passengers_noted=record.passengers_hit,
        repeated=repeated,
    )


async def _load_record(stores: Stores, disruption_id: DisruptionId) -> Disruption | None:
    """Return the record of a decision or None.

    The read is consistent: a decision acknowledged a moment ago must be visible.
    """
    return await stores.run(patterns.disruption(disruption_id).consistent())


def _build_record(stores: Stores, choice: Choice, report: Report, disruption_id: DisruptionId) -> Disruption:
    """Build the record of a new decision, not settled yet.

    Raise `Conflict` if the flight is cancelled, departed, arrived or at another version than the choice
    names.
    """
    flight = report.flight
    if flight.status in FINAL_STATUSES or choice.version not in (None, flight.version):
        raise _build_changed_error(report)
    option = _find_option(report, choice)
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
        decided_at=stores.now(),
        passengers_hit=report.passengers.count,
    )


def _find_option(report: Report, choice: Choice) -> OptionProposed:
    """Return the chosen option of the report. Raise `InvalidRequest` if it was not proposed or is blocked."""
    for option in report.options.proposed:
        if option.id == choice.option:
            if option.blockers and not choice.despite_blockers:
                raise InvalidRequest(
                    f"The option {option.id} is blocked: {' '.join(option.blockers)} "
                    "Remove the blockers, choose another option, or set despite_blockers."
                )
            return option
    known = ", ".join(option.id for option in report.options.proposed)
    raise InvalidRequest(f"Invalid option {choice.option!r}: expected one of those proposed: {known}.")


async def _write_record(stores: Stores, record: Disruption, report: Report) -> tuple[Disruption, bool]:
    """Write the record and the flight in one transaction, with a few attempts if transactions conflict.

    Return the record and False, or the earlier record and True if an earlier call had used the same id. Raise
    `Conflict` if the flight has changed, `RetryLater` after the last attempt.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            await stores.transact(patterns.record_disruption(record), _build_flight_update(report, record))
            return record, False
        except (TransactionCancelled, TransactionConflict) as error:
            earlier = await _load_record(stores, record.disruption_id)
            if earlier is not None:
                return earlier, True
            if not _is_transaction_conflict(error):
                raise _build_changed_error(report) from error
        # Another transaction is writing the flight; the next attempt checks the version that it leaves.
        await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S) * (attempt + 1))
    raise RetryLater(
        f"Others are changing flight {record.flight_number}; nothing was decided. Retry in a second."
    )


def _is_transaction_conflict(error: TransactionCancelled | TransactionConflict) -> bool:
    """Return whether only a concurrent transaction, and no failed condition, cancelled this one."""
    if isinstance(error, TransactionConflict):
        return True
    return {reason.code for reason in error.reasons} <= {"None", "TransactionConflict"}


def _build_flight_update(report: Report, record: Disruption) -> Update[Any]:
    """Build the update that carries out the decision, if the flight still has the report's version."""
    flight, delay = report.flight, timedelta(minutes=record.delay_minutes)
    if record.option == "cancel":
        return patterns.cancel_flight(record.flight_id, flight.version, record.delay_code)
    departure, arrival = flight.scheduled_departure + delay, flight.scheduled_arrival + delay
    if record.aircraft_registration is None:
        return patterns.delay_flight(record.flight_id, flight.version, departure, arrival, record.delay_code)
    aircraft = airline_network.get_aircraft(record.aircraft_registration)
    if not delay:
        return patterns.swap_aircraft_on_time(
            record.flight_id, flight.version, aircraft.registration, aircraft.type, aircraft.seats
        )
    return patterns.swap_aircraft(
        record.flight_id,
        flight.version,
        aircraft.registration,
        aircraft.type,
        aircraft.seats,
        departure,
        arrival,
        record.delay_code,
    )


def _build_changed_error(report: Report) -> Conflict:
    """Build the error for a flight that changed or is already cancelled, departed or arrived."""
    flight = report.flight
    return Conflict(
        f"Flight {flight.flight_number} has changed since the assessment: it is {flight.status} now, "
        f"at version {flight.version}. Check the new assessment and decide again."
    )


def _check_same_decision(record: Disruption, choice: Choice, report: Report) -> None:
    """Raise `Conflict` unless a repeat has the same flight, disruption, option and author as the record."""
    # Records of earlier releases lack the reported delay.
    minutes = report.delay_minutes if record.minutes_told is None else record.minutes_told
    decided = (record.flight_id, record.disruption_kind, record.option, minutes, record.delay_code)
    requested = (report.flight.flight_id, report.kind, choice.option, report.delay_minutes, report.delay_code)
    if (*decided, record.decided_by) != (*requested, choice.decided_by):
        raise Conflict(
            f"The disruption {record.disruption_id} was already decided: {record.option} for the "
            f"{record.disruption_kind.value} of flight {record.flight_number} ({minutes} minutes), by "
            f"{record.decided_by}. Give another id, or none."
        )


async def _settle(stores: Stores, record: Disruption) -> None:
    """Assess the decided disruption, write the rows of its passengers and mark the decision as settled.

    Existing rows are overwritten with the same values.
    """
    outcome = await assess(stores, _build_decided_request(record))
    rows = [_build_passenger_row(record, hit) for hit in outcome.passengers.ranked]
    for start in range(0, len(rows), BATCH_ROWS):
        await stores.run(patterns.note_disrupted_passengers(rows[start : start + BATCH_ROWS]))
    await stores.run(patterns.settle_disruption(record.disruption_id))


def _build_decided_request(record: Disruption) -> DisruptionRequest:
    """Build the request for the disruption that remains once the decision is carried out.

    A swap may leave on time although a delay was reported.
    """
    kind = DisruptionKind.CANCEL if record.option == "cancel" else DisruptionKind.DELAY
    return DisruptionRequest(
        kind=DisruptionKind.SWAP if record.aircraft_registration else kind,
        flight_id=record.flight_id,
        delay_minutes=record.delay_minutes,
        delay_code=record.delay_code,
        swap_to=record.aircraft_registration,
        known_at=record.decided_at,
    )


def _build_passenger_row(record: Disruption, hit: PassengerHit) -> DisruptedPassenger:
    """Build the stored row of one affected passenger."""
    risk = ReputationRisk(hit.reputation_risk)
    return DisruptedPassenger(
        passenger_id=PassengerId(hit.passenger_id),
        disruption_id=record.disruption_id,
        flight_number=record.flight_number,
        risk_rank=encode_risk_rank(risk),
        reputation_risk=risk,
        booking_id=BookingId(hit.booking_id),
        missed_connections=len(hit.missed_connections),
        score=Decimal(hit.score),
    )
