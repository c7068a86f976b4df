"""The recovery options for a disruption (delay, re-crew, swap, cancel), computed with cost and blockers.

This is the last step before a person decides; it reads and writes nothing. Each option lists its cost line by
line, its assumptions and its blockers. Unit costs are working values (`data/costs.json`): good for comparing
options, not for accounting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from skymarshal.domain.passenger_rights import DisruptedJourney, Exposure, Money, Reroute, compute_exposure
from skymarshal.domain.reference_data import Record, Source, load_document
from skymarshal.domain.statuses import CargoSpecialHandling, DisruptionKind

CENT = Decimal("0.01")
COMPENSATION = "compensation"
OVERNIGHT = timedelta(hours=24)


class UnitCosts(Record):
    """The data file of unit costs. `rates` convert currencies; times are in minutes or hours as named."""

    source: Source
    currency: str
    rates: Mapping[str, Decimal]
    delay_minute: Decimal
    meal: Decimal
    hotel_night: Decimal
    rebooking: Decimal
    refund: Decimal
    crew_callout: Decimal
    aircraft_swap: Decimal
    cargo_kg_late: Decimal
    cargo_special_kg_late: Decimal
    bag_reroute: Decimal
    hotel_after_hours: int
    crew_callout_minutes: int
    turnaround_minutes: int


COSTS = load_document("costs.json", UnitCosts)
TURNAROUND = timedelta(minutes=COSTS.turnaround_minutes)


class OptionKind(StrEnum):
    """The kinds of recovery option. A re-crew calls out crew to replace those who break a limit."""

    DELAY = "delay"
    RE_CREW = "re-crew"
    SWAP = "swap"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class AlternativeFlight:
    """Another flight to the destination with seats left. `arrives_late` counts from the planned arrival."""

    flight_id: str
    seats_left: int
    arrives_late: timedelta
    departs_early: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class SpareAircraft:
    """Another aircraft for the flight.

    `ready_in` counts from the planned departure and is negative before it.

    A caller that has the itineraries and rosters gives the exact `missed_connections` and `crew_illegal` for
    the delay of this swap. Without them, the effect of a shorter delay is estimated.
    """

    tail_number: str
    seats: int
    ready_in: timedelta
    missed_connections: int | None = None
    crew_illegal: int | None = None
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CargoLot:
    """The weight of one shipment and its most urgent handling code."""

    weight_kg: Decimal
    handling: CargoSpecialHandling = CargoSpecialHandling.GEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The impact of a disruption as totals, the input of every option.

    `delay` is the expected delay if the flight operates as it is; zero for a cancelled flight means that it
    cannot. `crew_illegal` counts crew members who break a limit that cannot be extended, `crew_unknown` those
    whose duty history is unknown. `too_late_reason` says why the flight can no longer depart with that delay.
    """

    flight_id: str
    origin: str
    destination: str
    carrier: str
    kind: DisruptionKind
    delay: timedelta
    passengers: int
    missed_connections: int = 0
    bags: int = 0
    cargo: tuple[CargoLot, ...] = ()
    crew_illegal: int = 0
    standby_crew: int = 0
    crew_unknown: int = 0
    too_late_reason: str | None = None
    alternatives: tuple[AlternativeFlight, ...] = ()
    spare_aircraft: tuple[SpareAircraft, ...] = ()
    delay_code: str | None = None
    notice_days: int = 0


@dataclass(frozen=True, slots=True)
class CostLine:
    """One line of an option's cost. `basis` says how the amount was computed."""

    label: str
    amount: Decimal
    basis: str


@dataclass(frozen=True, slots=True)
class Option:
    """One recovery option. `blockers` is empty if nothing prevents it."""

    kind: OptionKind
    title: str
    delay: timedelta
    passengers_carried: int
    cost: Money
    breakdown: tuple[CostLine, ...]
    assumptions: tuple[str, ...]
    blockers: tuple[str, ...] = ()
    rank: int = 0
    tail_number: str | None = None

    @property
    def is_feasible(self) -> bool:
        """Whether nothing blocks the option."""
        return not self.blockers


def build_recovery_options(impact: Impact, costs: UnitCosts = COSTS) -> list[Option]:
    """Return the options with their rank, feasible ones first, then by cost.

    Cancelling is always among them, and a swap to each spare aircraft. A requested swap has no delay option;
    re-crewing is offered only if crew members break a limit.
    """
    options = [_build_cancel_option(impact, costs)]
    options += [_build_swap_option(impact, spare, costs) for spare in impact.spare_aircraft]
    # A swapped flight has lost its planned aircraft; a cancelled one may still fly later.
    if impact.kind is DisruptionKind.DELAY or (impact.kind is DisruptionKind.CANCEL and impact.delay):
        options.append(_build_delay_option(impact, costs))
        if impact.crew_illegal:
            options.append(_build_re_crew_option(impact, costs))
    ranked = sorted(options, key=lambda option: (not option.is_feasible, option.cost.amount, option.title))
    return [replace(option, rank=rank) for rank, option in enumerate(ranked, start=1)]


def _build_delay_option(impact: Impact, costs: UnitCosts) -> Option:
    """Build the option to fly late.

    It is blocked if crew members break a limit or the new departure has passed.
    """
    lines = _compute_late_flight_costs(impact, impact.delay, impact.missed_connections, costs)
    blockers = _list_time_blockers(impact)
    if impact.crew_illegal:
        blockers += (
            f"{impact.crew_illegal} crew member(s) would break a duty or rest limit; call out others.",
        )
    title = f"Fly {_format_delay(impact.delay)}"
    option = _build_option(OptionKind.DELAY, title, impact.delay, impact.passengers, lines, costs, blockers)
    return _add_crew_assumption(option, impact)


def _build_re_crew_option(impact: Impact, costs: UnitCosts) -> Option:
    """Build the option to call out crew and fly late, at least as late as a call-out takes.

    It is blocked if too few are on standby or the new departure has passed.
    """
    delay = max(impact.delay, timedelta(minutes=costs.crew_callout_minutes))
    lines = _compute_late_flight_costs(impact, delay, impact.missed_connections, costs)
    lines.append(_build_line("crew called out", impact.crew_illegal, costs.crew_callout, "crew"))
    title = f"Call out {impact.crew_illegal} crew, fly {_format_delay(delay)}"
    blockers = _list_time_blockers(impact) + _list_crew_blockers(impact)
    option = _build_option(OptionKind.RE_CREW, title, delay, impact.passengers, lines, costs, blockers)
    return _add_crew_assumption(option, impact)


def compute_swap_delay(spare: SpareAircraft, costs: UnitCosts = COSTS) -> timedelta:
    """Return the departure delay with this aircraft: its turnaround starts when it is available."""
    return max(timedelta(0), spare.ready_in + timedelta(minutes=costs.turnaround_minutes))


def _build_swap_option(impact: Impact, spare: SpareAircraft, costs: UnitCosts) -> Option:
    """Build the option to fly with a spare aircraft. Passengers beyond its seats are denied boarding."""
    delay, carried = compute_swap_delay(spare, costs), min(impact.passengers, spare.seats)
    crew_illegal = impact.crew_illegal if spare.crew_illegal is None else spare.crew_illegal
    missed = _count_missed_with(spare, impact, delay)
    lines = _compute_late_flight_costs(replace(impact, passengers=carried), delay, missed, costs)
    lines.append(_build_line("aircraft change", 1, costs.aircraft_swap, "swap"))
    lines.append(_build_line("crew called out", crew_illegal, costs.crew_callout, "crew"))
    if carried < impact.passengers:
        # They are denied boarding, which neither notice nor the cause of the delay excuses (Article 4).
        denied = replace(
            impact, passengers=impact.passengers - carried, bags=0, notice_days=0, delay_code=None
        )
        lines += _compute_cancellation_costs(denied, costs)
    behind = f", leave {impact.passengers - carried} behind" if carried < impact.passengers else ""
    title = f"Swap to {spare.tail_number}, fly {_format_delay(delay)}{behind}"
    blockers = spare.blockers + _list_crew_blockers(replace(impact, crew_illegal=crew_illegal))
    option = _build_option(OptionKind.SWAP, title, delay, carried, lines, costs, blockers)
    assumptions = ["The crew is rated on the other aircraft."]
    if spare.missed_connections is None:
        assumptions.append("With a shorter delay, missed connections fall in proportion.")
    option = replace(option, assumptions=(*option.assumptions, *assumptions), tail_number=spare.tail_number)
    return _add_crew_assumption(option, impact)


def _count_missed_with(spare: SpareAircraft, impact: Impact, delay: timedelta) -> int:
    """Return the missed connections of a swap: the exact number if known, otherwise an estimate."""
    if spare.missed_connections is not None:
        return spare.missed_connections
    return impact.missed_connections if delay >= impact.delay else _estimate_missed(impact, delay)


def _build_cancel_option(impact: Impact, costs: UnitCosts) -> Option:
    """Build the option to cancel and move passengers to other flights, as far as these have seats."""
    lines = [*_compute_cancellation_costs(impact, costs), _build_cargo_line(impact, costs)]
    carried = min(impact.passengers, sum(flight.seats_left for flight in impact.alternatives))
    title = f"Cancel, re-accommodate {carried} of {impact.passengers}"
    option = _build_option(OptionKind.CANCEL, title, timedelta(0), carried, lines, costs)
    savings = "Savings of fuel, fees and crew hours are not counted."
    return replace(option, assumptions=(*option.assumptions, savings))


def _compute_late_flight_costs(
    impact: Impact, delay: timedelta, missed: int, costs: UnitCosts
) -> list[CostLine]:
    """List the costs of a late flight with `missed` connections. Those who miss one wait for the next day."""
    missed = min(missed, impact.passengers)
    on_time = impact.passengers - missed
    owed = [compute_exposure(_build_journey(impact, arrival_delay=delay), on_time)]
    next_day = _build_journey(impact, arrival_delay=delay + OVERNIGHT, departure_delay=delay)
    owed.append(compute_exposure(next_day, missed))
    minutes = int(delay.total_seconds() // 60)
    beds = impact.passengers if delay >= timedelta(hours=costs.hotel_after_hours) else missed
    return [
        _build_compensation_line(owed[0], costs),
        *([_build_compensation_line(owed[1], costs, "missed connections")] if missed else []),
        _build_line("delay", minutes, costs.delay_minute, "minutes"),
        _build_line("meals", impact.passengers if owed[0].care_due else missed, costs.meal, "passengers"),
        _build_line("hotel", beds, costs.hotel_night, "passengers"),
        _build_line("rebooking", missed, costs.rebooking, "missed connections"),
        *([_build_cargo_line(impact, costs)] if delay else []),
    ]


def _compute_cancellation_costs(impact: Impact, costs: UnitCosts) -> list[CostLine]:
    """List the costs of not flying.

    Seats on other flights fill by earliest arrival; the others get a bed and a refund.
    """
    lines, waiting = [], impact.passengers
    for flight in sorted(impact.alternatives, key=lambda flight: (flight.arrives_late, flight.flight_id)):
        moved = min(waiting, flight.seats_left)
        if moved:
            reroute = Reroute(departs_early=flight.departs_early, arrives_late=flight.arrives_late)
            lines.append(
                _build_compensation_line(
                    compute_exposure(_build_cancelled_journey(impact, reroute), moved),
                    costs,
                    flight.flight_id,
                )
            )
        waiting -= moved
    moved = impact.passengers - waiting
    if waiting:
        lines.append(
            _build_compensation_line(
                compute_exposure(_build_cancelled_journey(impact, None), waiting), costs, "no seat"
            )
        )
    return [
        *lines,
        _build_line("rebooking", moved, costs.rebooking, "passengers"),
        _build_line("meals", impact.passengers, costs.meal, "passengers"),
        _build_line("hotel", waiting, costs.hotel_night, "passengers without a seat"),
        _build_line("refunds", waiting, costs.refund, "passengers without a seat"),
        _build_line("baggage re-routed", impact.bags, costs.bag_reroute, "bags"),
    ]


def _build_journey(
    impact: Impact, *, arrival_delay: timedelta, departure_delay: timedelta | None = None
) -> DisruptedJourney:
    """Build the delayed journey as input of the passenger rights."""
    return DisruptedJourney(
        origin=impact.origin,
        destination=impact.destination,
        carrier=impact.carrier,
        arrival_delay=arrival_delay,
        departure_delay=departure_delay,
        delay_code=impact.delay_code,
    )


def _build_cancelled_journey(impact: Impact, reroute: Reroute | None) -> DisruptedJourney:
    """Build the cancelled journey, with the replacement flight if there is one."""
    journey = _build_journey(impact, arrival_delay=timedelta(0))
    return replace(journey, kind=DisruptionKind.CANCEL, notice_days=impact.notice_days, reroute=reroute)


def _build_compensation_line(owed: Exposure, costs: UnitCosts, group: str | None = None) -> CostLine:
    """Build the line of a compensation, converted to the currency of the costs.

    `group` names the passengers.
    """
    amount = owed.total.amount * costs.rates[owed.total.currency] / costs.rates[costs.currency]
    label = f"{COMPENSATION}, {group}" if group else COMPENSATION
    return CostLine(label, amount.quantize(CENT), f"{owed.passengers} × {owed.per_passenger}: {owed.rule}")


def _build_cargo_line(impact: Impact, costs: UnitCosts) -> CostLine:
    """Build the line for late cargo: special cargo costs more per kilogram."""
    special = sum((lot.weight_kg for lot in impact.cargo if lot.handling.is_special), Decimal(0))
    plain = sum((lot.weight_kg for lot in impact.cargo), Decimal(0)) - special
    amount = special * costs.cargo_special_kg_late + plain * costs.cargo_kg_late
    return CostLine("late cargo", amount.quantize(CENT), f"{special} kg special, {plain} kg plain")


def _build_line(label: str, count: int, unit_cost: Decimal, unit: str) -> CostLine:
    """Build the line of a count times a unit cost; `unit` names what is counted."""
    return CostLine(label, (unit_cost * count).quantize(CENT), f"{count} {unit} × {unit_cost}")


def _list_time_blockers(impact: Impact) -> tuple[str, ...]:
    """Return the reason why the flight can no longer depart with the delay, if there is one."""
    return () if impact.too_late_reason is None else (impact.too_late_reason,)


def _add_crew_assumption(option: Option, impact: Impact) -> Option:
    """Return the option, with an assumption added if it flies late with crew of unknown duty history."""
    if not impact.crew_unknown or not option.delay:
        return option
    assumption = (
        f"Assumes that {impact.crew_unknown} crew member(s) with unknown duty history may fly so late."
    )
    return replace(option, assumptions=(*option.assumptions, assumption))


def _list_crew_blockers(impact: Impact) -> tuple[str, ...]:
    """Return a blocker if more crew members break a limit than standby crew can replace."""
    if impact.crew_illegal <= impact.standby_crew:
        return ()
    return (f"{impact.crew_illegal} crew member(s) out of hours, {impact.standby_crew} on standby.",)


def _estimate_missed(impact: Impact, delay: timedelta) -> int:
    """Estimate the missed connections of a shorter delay, in proportion; 0 if the original delay is zero."""
    return int(impact.missed_connections * (delay / impact.delay)) if impact.delay else 0


def _build_option(
    kind: OptionKind,
    title: str,
    delay: timedelta,
    carried: int,
    lines: Iterable[CostLine],
    costs: UnitCosts,
    blockers: tuple[str, ...] = (),
) -> Option:
    # A compensation line of 0 stays in the list: its rule says why nothing is owed.
    """Build an option without rank. Lines of 0 are dropped, except compensation."""
    breakdown = tuple(line for line in lines if line.amount or line.label.startswith(COMPENSATION))
    total = sum((line.amount for line in breakdown), Decimal(0))
    assumptions = (
        f"Unit costs: {costs.source.title}, {costs.source.as_of:%Y-%m}.",
        "Compensation uses this flight's distance; passengers who miss a connection arrive a day later.",
    )
    return Option(kind, title, delay, carried, Money(total, costs.currency), breakdown, assumptions, blockers)


def _format_delay(delay: timedelta) -> str:
    """Format a delay for a title, such as 2:15 h late or on time."""
    minutes = round(delay.total_seconds() / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h late" if minutes else "on time"
