"""What a disruption report says: the answer of `disruption.assess`, as values.

Every section names the patterns that read it, with what they read and what that cost, so that each figure can be
traced to its question.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from skymarshal.identifiers import FlightNumber, TailNumber
from skymarshal.statuses import DisruptionKind

DELAY_MINUTES_MAX = 60 * 72


class Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class DisruptionAsked(BaseModel):
    """What happened to which flight. A flight is named by its id, or by its number and its day (UTC)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: DisruptionKind
    flight_id: str | None = None
    flight_number: FlightNumber | None = None
    day: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$", examples=["2026-01-30"])
    delay_minutes: int = Field(default=0, ge=0, le=DELAY_MINUTES_MAX)
    delay_code: str | None = None
    swap_to: TailNumber | None = None
    # When it becomes known; the clock's time if left out. Notice and staff on shift are counted from it.
    known_at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.flight_id is None and (self.flight_number is None or self.day is None):
            raise ValueError("name the flight: flight_id, or flight_number and day")
        if self.kind is DisruptionKind.DELAY and not self.delay_minutes:
            raise ValueError("a delay needs delay_minutes")
        if self.kind is DisruptionKind.SWAP and self.swap_to is None:
            raise ValueError("a swap needs swap_to, the registration of the other aircraft")
        return self


class Trace(Value):
    """One access pattern that was run for a section, and what it read."""

    pattern: str
    purpose: str
    requests: int
    items_read: int
    read_units: float


class Section(Value):
    traces: list[Trace] = []


class FlightHit(Section):
    flight_id: str
    flight_number: str
    origin: str
    destination: str
    scheduled_departure: datetime
    scheduled_arrival: datetime
    new_departure: datetime | None
    new_arrival: datetime | None
    aircraft_registration: str
    capacity: int
    version: int


class LostConnection(Value):
    outbound_flight_id: str
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
    """Those who hold a seat, in the order in which they are to be helped."""

    count: int
    missing_connections: int
    waitlisted: int
    ranked: list[PassengerHit]


class BagsHit(Section):
    count: int
    by_status: dict[str, int]
    to_reroute: list[str]


class CrewHit(Value):
    crew_id: str
    roster_id: str
    position: str
    violations: list[str]
    is_legal: bool


class CrewSection(Section):
    count: int
    illegal: int
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
    """In the order of urgency: what suffers first from waiting comes first."""

    count: int
    weight_kg: float
    by_special_handling: dict[str, float]
    assignments: list[CargoHit]


class WorkOrderHit(Value):
    workorder_id: str
    task: str
    status: str
    mel_category: str | None
    holds_the_aircraft: bool
    staff_on_shift: int
    staff_required: int
    staff_ids: list[str]


class MaintenanceSection(Section):
    """Open work on the aircraft, with who is on shift when the disruption becomes known."""

    open: list[WorkOrderHit]


class NextFlight(Value):
    flight_id: str
    flight_number: str
    scheduled_departure: datetime
    late_minutes: int


class RotationSection(Section):
    """What else the aircraft was to fly, and how late it gets there."""

    flights: list[NextFlight]


class CompensationSection(Section):
    """What passengers may claim. `rule` says which paragraph gives the amount, or why nothing is owed."""

    regime: str | None
    per_passenger: Decimal
    total: Decimal
    currency: str
    distance_km: int
    rule: str
    care_due: bool
    refund_due: bool


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


class OptionsSection(Section):
    proposed: list[OptionProposed]


class Report(Value):
    """The answer to one disruption. Nothing was written for it."""

    kind: DisruptionKind
    delay_minutes: int
    delay_code: str | None
    known_at: datetime
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
