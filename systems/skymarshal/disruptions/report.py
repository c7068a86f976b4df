"""The models of a disruption request and of the report that answers it, section by section.

Every section lists the access patterns that read its data, with the items read and their cost, so that each
figure can be traced to its reads.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skymarshal.domain.identifiers import Day, FlightNumber, Moment, TailNumber
from skymarshal.domain.statuses import DisruptionKind

MAX_DELAY_MINUTES = 60 * 72


class ReportValue(BaseModel):
    """Base of the report's models: immutable."""

    model_config = ConfigDict(frozen=True)


class DisruptionRequest(BaseModel):
    """A disruption of one flight, named by its id, or by its number and day (UTC)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: DisruptionKind = Field(
        description="delay, cancel or swap; synonyms such as cancellation or late are accepted."
    )
    flight_id: str | None = None
    flight_number: FlightNumber | None = None
    day: Day | None = Field(default=None, description="The day of departure, UTC.", examples=["2026-01-30"])
    delay_minutes: int = Field(default=0, ge=0, le=MAX_DELAY_MINUTES)
    delay_code: str | None = Field(
        default=None, max_length=4, description="The IATA delay code of the cause, such as 41 or TD."
    )
    swap_to: TailNumber | None = None
    known_at: Moment | None = Field(
        default=None,
        description=(
            "When the disruption became known; default: now. Notice, staff on shift, alternative flights and "
            "spare aircraft are computed for this time. Give it for a past flight (the sample is from "
            "January 2026)."
        ),
        examples=["2026-01-29T22:00:00Z"],
    )

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        """Raise ValueError unless the flight is named in exactly one way and the fields fit the kind."""
        by_number = (self.flight_number is not None, self.day is not None)
        if by_number not in ((True, True), (False, False)) or any(by_number) == (self.flight_id is not None):
            raise ValueError("name the flight either by flight_id, or by flight_number and day")
        if self.kind is DisruptionKind.DELAY and not self.delay_minutes:
            raise ValueError("a delay needs delay_minutes")
        if self.kind is DisruptionKind.SWAP and self.swap_to is None:
            raise ValueError("a swap needs swap_to, the registration of the other aircraft")
        if self.kind is not DisruptionKind.SWAP and self.swap_to is not None:
            raise ValueError("swap_to is only allowed with kind swap")
        return self


class Trace(ReportValue):
    """The reads of one access pattern for a section."""

    pattern: str
    purpose: str
    requests: int
    items_read: int
    read_units: float


class Section(ReportValue):
    """A section of the report. `traces` lists the reads made for it."""

    traces: list[Trace] = []


class DerivedSection(Section):
    """A section computed from the sections that `derived_from` names, and from own reads if it has any."""

    derived_from: list[str]


class FlightHit(Section):
    """The disrupted flight as stored now; a swap shows the requested aircraft and its seats instead.

    The new times are null for a cancellation. A confirmation sends `version` back to prove that it saw this
    state.
    """

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


class LostConnection(ReportValue):
    """One connection that a passenger misses. `minutes_available` is null if the flight is cancelled.

    `told` is a sentence that explains it.
    """

    outbound_flight_id: str
    outbound_flight_number: str
    airport: str
    minutes_available: int | None
    minutes_needed: int
    told: str


class PassengerHit(ReportValue):
    """One passenger of the flight. `rank` starts at 1 with the most urgent; `bags` is the number of bags."""

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
    """Passengers who hold a seat, in the order in which they are to be helped.

    `denied_boarding` is the number of passengers beyond the seats of the swap aircraft.
    """

    count: int
    missing_connections: int
    denied_boarding: int
    waitlisted: int
    ranked: list[PassengerHit]


class BagsHit(Section):
    """The bags of passengers who hold a seat: their number, by status, and the tags of those to re-route."""

    count: int
    by_status: dict[str, int]
    to_reroute: list[str]


class CrewHit(ReportValue):
    """One crew member.

    `is_legal` is null if too little is known to decide; `unchecked` then says what was not checked.
    """

    crew_id: str
    roster_id: str
    position: str
    violations: list[str]
    is_legal: bool | None
    unchecked: str | None = None


class CrewSection(Section):
    """The crew of the flight.

    `illegal` counts members who certainly break a limit, `unknown` those with too little data to decide.

    `history_known` says whether earlier and later duties are known: they are once the roster is migrated to
    the table by crew member and time.
    """

    count: int
    illegal: int
    unknown: int
    history_known: bool
    rules: str
    members: list[CrewHit]
    minimum_crew_missing: list[str]


class CargoHit(ReportValue):
    """One shipment on the flight. A missing weight is 0."""

    assignment_id: str
    shipment_id: str
    loading_status: str
    weight_kg: float
    special_handling: list[str]


class CargoSection(Section):
    """Cargo in order of urgency: the most sensitive to waiting comes first.

    Cargo with two handling codes counts under both.
    """

    count: int
    weight_kg: float
    by_special_handling: dict[str, float]
    assignments: list[CargoHit]


class WorkOrderHit(ReportValue):
    """One work order that is not closed.

    `holds_the_aircraft` says whether it keeps the aircraft on the ground; `staff_ids` are those on shift.
    """

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
    """Open work on the aircraft, with the staff on shift when the disruption became known.

    Work deferred under the minimum equipment list grounds the aircraft from the day after its repair is due.
    """

    open: list[WorkOrderHit]


class NextFlight(ReportValue):
    """A later flight of the same aircraft. `late_minutes` is 0 if the flight has no aircraft."""

    flight_id: str
    flight_number: str
    scheduled_departure: datetime
    late_minutes: int
    has_no_aircraft: bool


class RotationSection(Section):
    """The aircraft's next flights: their delay, or that they have no aircraft because it never gets there."""

    flights: list[NextFlight]


class Claimants(ReportValue):
    """Passengers with the same claim.

    `rule` names the paragraph that gives the amount, or why nothing is owed.
    """

    who: str
    passengers: int
    per_passenger: Decimal
    rule: str


class CompensationSection(DerivedSection):
    """The most that passengers may claim.

    Timely re-routing halves or ends it, which the options take into account.
    """

    regime: str | None
    total: Decimal
    currency: str
    distance_km: int
    rule: str
    claimants: list[Claimants]
    care_due: bool
    refund_due: bool
    refund_rule: str


class CostLine(ReportValue):
    """One line of an option's cost. `basis` says how the amount was computed."""

    label: str
    amount: Decimal
    basis: str


class OptionProposed(ReportValue):
    """One recovery option with its cost.

    `id` is the value to confirm; an option with blockers needs an override.
    """

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


class OptionsSection(DerivedSection):
    """The recovery options by rank: first those without blockers, then by cost."""

    proposed: list[OptionProposed]


class Report(ReportValue):
    """The assessment of one disruption. Nothing was written for it.

    `problems` lists the gaps in the figures: unreadable rows that were skipped, inconsistent times.
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
