"""What a disruption report says: the answer of `disruption.assess`, as values.

Every section names the patterns that read it, with what they read and what that cost, so that each figure can be
traced to its question.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skymarshal.identifiers import Day, FlightNumber, Moment, TailNumber
from skymarshal.statuses import DisruptionKind

DELAY_MINUTES_MAX = 60 * 72


class Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class DisruptionAsked(BaseModel):
    """What happened to which flight. A flight is named by its id, or by its number and its day (UTC)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: DisruptionKind = Field(
        description="delay, cancel or swap; other words for them, as cancellation or late, are understood."
    )
    flight_id: str | None = None
    flight_number: FlightNumber | None = None
    day: Day | None = Field(default=None, description="The day of departure, UTC.", examples=["2026-01-30"])
    delay_minutes: int = Field(default=0, ge=0, le=DELAY_MINUTES_MAX)
    delay_code: str | None = Field(
        default=None, max_length=4, description="IATA's code of the cause, as 41 or TD."
    )
    swap_to: TailNumber | None = None
    known_at: Moment | None = Field(
        default=None,
        description=(
            "When the disruption becomes known; now, if left out. Notice, staff on shift, other flights and other "
            "aircraft are reckoned from it: for a flight of the past (the sample is of January 2026), give it."
        ),
        examples=["2026-01-29T22:00:00Z"],
    )

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        by_number = (self.flight_number is not None, self.day is not None)
        if by_number not in ((True, True), (False, False)) or any(by_number) == (self.flight_id is not None):
            raise ValueError("name the flight by flight_id, or by flight_number and day")
        if self.kind is DisruptionKind.DELAY and not self.delay_minutes:
            raise ValueError("a delay needs delay_minutes")
        if self.kind is DisruptionKind.SWAP and self.swap_to is None:
            raise ValueError("a swap needs swap_to, the registration of the other aircraft")
        if self.kind is not DisruptionKind.SWAP and self.swap_to is not None:
            raise ValueError("swap_to belongs to a swap: a delay or a cancellation has none")
        return self


class Trace(Value):
    """One access pattern that was run for a section, and what it read."""

    pattern: str
    purpose: str
    requests: int
    items_read: int
    read_units: float


class Section(Value):
    """`traces` is what was read for it."""

    traces: list[Trace] = []


class Derived(Section):
    """A section whose figures come from others, which it names."""

    derived_from: list[str]


class FlightHit(Section):
    """The flight as it is known now. `version` is what a confirmation gives back, so that it fits what was seen."""

    flight_id: str
    flight_number: str
    origin: str
    destination: str
    scheduled_departure: datetime
    scheduled_arrival: datetime
    new_departure: datetime | None
    new_arrival: datetime | None
    status: str
    aircraft_registration: str
    capacity: int
    version: int


class LostConnection(Value):
    outbound_flight_id: str
    outbound_flight_number: str
    airport: str
    minutes_available: int | None
    minutes_needed: int
    told: str


class PassengerHit(Value):
    rank: int
    passenger_id: str
    booking_id: str
    name: str | None
    seat: str | None
    cabin: str
    tier: str | None
    special_services: list[str]
    score: int
    reasons: list[str]
    reputation_risk: str
    missed_connections: list[LostConnection]
    bags: int


class PassengersHit(Section):
    """Those who hold a seat, in the order in which they are to be helped.

    `denied_boarding` is how many more they are than the seats of the aircraft swapped to.
    """

    count: int
    missing_connections: int
    denied_boarding: int
    waitlisted: int
    ranked: list[PassengerHit]


class BagsHit(Section):
    count: int
    by_status: dict[str, int]
    to_reroute: list[str]


class CrewHit(Value):
    """`is_legal` is null where not enough is known to tell; `unchecked` then says what could not be checked."""

    crew_id: str
    roster_id: str
    position: str
    violations: list[str]
    is_legal: bool | None
    unchecked: str | None = None


class CrewSection(Section):
    """`illegal` break a limit for certain; of `unknown` it cannot be told.

    `history_known` says whether the duties before and after are known: only the roster by crew member and time has
    them, once it is the one to read.
    """

    count: int
    illegal: int
    unknown: int
    history_known: bool
    rules: str
    members: list[CrewHit]
    minimum_crew_missing: list[str]


class CargoHit(Value):
    assignment_id: str
    shipment_id: str
    loading_status: str
    weight_kg: float
    special_handling: list[str]


class CargoSection(Section):
    """In the order of urgency: what suffers first from waiting comes first.

    Cargo with two handling codes counts under both.
    """

    count: int
    weight_kg: float
    by_special_handling: dict[str, float]
    assignments: list[CargoHit]


class WorkOrderHit(Value):
    workorder_id: str
    task: str
    status: str
    mel_category: str | None
    repair_due: date | None
    holds_the_aircraft: bool
    staff_on_shift: int
    staff_required: int
    staff_ids: list[str]


class MaintenanceSection(Section):
    """Open work on the aircraft, with who is on shift when the disruption becomes known.

    Work deferred under the minimum equipment list holds the aircraft from the day after its repair is due.
    """

    open: list[WorkOrderHit]


class NextFlight(Value):
    flight_id: str
    flight_number: str
    scheduled_departure: datetime
    late_minutes: int
    has_no_aircraft: bool


class RotationSection(Section):
    """What else the aircraft was to fly: how late, or without an aircraft because it never gets there."""

    flights: list[NextFlight]


class Claimants(Value):
    """Passengers with the same claim. `rule` says which paragraph gives the amount, or why nothing is owed."""

    who: str
    passengers: int
    per_passenger: Decimal
    rule: str


class CompensationSection(Derived):
    """What passengers may claim at most: a re-routing in good time halves or ends it, as the options count."""

    regime: str | None
    total: Decimal
    currency: str
    distance_km: int
    rule: str
    claimants: list[Claimants]
    care_due: bool
    refund_due: bool
    refund_rule: str


class CostLine(Value):
    label: str
    amount: Decimal
    basis: str


class OptionProposed(Value):
    rank: int
    id: str
    kind: Literal["delay", "re-crew", "swap", "cancel"]
    title: str
    delay_minutes: int
    passengers_carried: int
    cost: Decimal
    currency: str
    breakdown: list[CostLine]
    assumptions: list[str]
    blockers: list[str]
    aircraft_registration: str | None = None


class OptionsSection(Derived):
    proposed: list[OptionProposed]


class Report(Value):
    """The answer to one disruption. Nothing was written for it.

    `problems` is what the figures lack: rows that could not be read and are left out, times that do not fit.
    """

    kind: DisruptionKind
    delay_minutes: int
    delay_code: str | None
    known_at: datetime
    problems: list[str]
    flight: FlightHit
    passengers: PassengersHit
    bags: BagsHit
    crew: CrewSection
    cargo: CargoSection
    maintenance: MaintenanceSection
    rotation: RotationSection
    compensation: CompensationSection
    options: OptionsSection
    requests: int
    items_read: int
    read_units: float
