"""What could be done: recovery options with their cost, from the impact of a disruption.

The last step before a person decides: it reads nothing and writes nothing. Each option carries its cost line by
line, what it assumes and what stands in its way. Unit costs are working values (`data/costs.json`): good for
comparing options, not for the books.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from skymarshal.reference import Record, Source, document
from skymarshal.rights import DisruptedJourney, Exposure, Money, Reroute, exposure
from skymarshal.statuses import CargoSpecialHandling, DisruptionKind

CENT = Decimal("0.01")
COMPENSATION = "compensation"
OVERNIGHT = timedelta(hours=24)


class UnitCosts(Record):
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


COSTS = document("costs.json", UnitCosts)
TURNAROUND = timedelta(minutes=COSTS.turnaround_minutes)


class OptionKind(StrEnum):
    DELAY = "delay"
    RE_CREW = "re-crew"
    SWAP = "swap"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class AlternativeFlight:
    """A flight with seats left that still takes people there, so much later than planned."""

    flight_id: str
    seats_left: int
    arrives_late: timedelta
    departs_early: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class SpareAircraft:
    """Another aircraft for the flight. `ready_in` counts from the planned departure, and is negative before it.

    What a shorter delay saves is known exactly to those who have the itineraries and the rosters: they give
    `missed_connections` and `crew_illegal` for the swap's own delay. Without them it is estimated.
    """

    tail_number: str
    seats: int
    ready_in: timedelta
    missed_connections: int | None = None
    crew_illegal: int | None = None
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CargoLot:
    weight_kg: Decimal
    handling: CargoSpecialHandling = CargoSpecialHandling.GEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What a disruption hits, summed up: all that the options are built from.

    `delay` is the delay expected if the flight is operated as it stands; zero for a cancelled flight means that it
    cannot be. `crew_illegal` counts those whose limits break and cannot be extended, `crew_unknown` those of whom not
    enough is known to tell. `too_late` says why the flight can no longer leave with that delay.
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
    too_late: str | None = None
    alternatives: tuple[AlternativeFlight, ...] = ()
    spare_aircraft: tuple[SpareAircraft, ...] = ()
    delay_code: str | None = None
    notice_days: int = 0


@dataclass(frozen=True, slots=True)
class CostLine:
    label: str
    amount: Decimal
    basis: str


@dataclass(frozen=True, slots=True)
class Option:
    """One way out. `blockers` is empty when it can be done as it stands."""

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
        return not self.blockers


def recovery_options(impact: Impact, costs: UnitCosts = COSTS) -> list[Option]:
    """Every option there is, those that can be done first, the cheapest of them foremost."""
    options = [_cancelled(impact, costs)]
    options += [_swapped(impact, spare, costs) for spare in impact.spare_aircraft]
    # A flight whose aircraft is swapped has lost the one it was planned with; one cancelled may still fly later.
    if impact.kind is DisruptionKind.DELAY or (impact.kind is DisruptionKind.CANCEL and impact.delay):
        options.append(_delayed(impact, costs))
        if impact.crew_illegal:
            options.append(_re_crewed(impact, costs))
    ranked = sorted(options, key=lambda option: (not option.is_feasible, option.cost.amount, option.title))
    return [replace(option, rank=rank) for rank, option in enumerate(ranked, start=1)]


def _delayed(impact: Impact, costs: UnitCosts) -> Option:
    lines = _cost_of_flying_late(impact, impact.delay, impact.missed_connections, costs)
    blockers = _time_blockers(impact)
    if impact.crew_illegal:
        blockers += (f"{impact.crew_illegal} of the crew would break a duty or rest limit; call out others.",)
    title = f"Fly {_late(impact.delay)}"
    option = _option(OptionKind.DELAY, title, impact.delay, impact.passengers, lines, costs, blockers)
    return _assuming_crew(option, impact)


def _re_crewed(impact: Impact, costs: UnitCosts) -> Option:
    delay = max(impact.delay, timedelta(minutes=costs.crew_callout_minutes))
    lines = _cost_of_flying_late(impact, delay, impact.missed_connections, costs)
    lines.append(_line("crew called out", impact.crew_illegal, costs.crew_callout, "crew"))
    title = f"Call out {impact.crew_illegal} crew, fly {_late(delay)}"
    blockers = _time_blockers(impact) + _crew_blockers(impact)
    option = _option(OptionKind.RE_CREW, title, delay, impact.passengers, lines, costs, blockers)
    return _assuming_crew(option, impact)


def swap_delay(spare: SpareAircraft, costs: UnitCosts = COSTS) -> timedelta:
    """How late the flight leaves with it: the aircraft is made ready from when it is there."""
    return max(timedelta(0), spare.ready_in + timedelta(minutes=costs.turnaround_minutes))


def _swapped(impact: Impact, spare: SpareAircraft, costs: UnitCosts) -> Option:
    delay, carried = swap_delay(spare, costs), min(impact.passengers, spare.seats)
    crew_illegal = impact.crew_illegal if spare.crew_illegal is None else spare.crew_illegal
    missed = _missed_with(spare, impact, delay)
    lines = _cost_of_flying_late(replace(impact, passengers=carried), delay, missed, costs)
    lines.append(_line("aircraft change", 1, costs.aircraft_swap, "swap"))
    lines.append(_line("crew called out", crew_illegal, costs.crew_callout, "crew"))
    if carried < impact.passengers:
        # Boarding is denied to them: neither notice nor the cause of the delay excuses that (Article 4).
        denied = replace(
            impact, passengers=impact.passengers - carried, bags=0, notice_days=0, delay_code=None
        )
        lines += _cost_of_staying(denied, costs)
    behind = f", leave {impact.passengers - carried} behind" if carried < impact.passengers else ""
    title = f"Swap to {spare.tail_number}, fly {_late(delay)}{behind}"
    blockers = spare.blockers + _crew_blockers(replace(impact, crew_illegal=crew_illegal))
    option = _option(OptionKind.SWAP, title, delay, carried, lines, costs, blockers)
    assumed = ["The crew is rated on the other aircraft."]
    if spare.missed_connections is None:
        assumed.append("With a shorter delay, missed connections fall in proportion.")
    option = replace(option, assumptions=(*option.assumptions, *assumed), tail_number=spare.tail_number)
    return _assuming_crew(option, impact)


def _missed_with(spare: SpareAircraft, impact: Impact, delay: timedelta) -> int:
    if spare.missed_connections is not None:
        return spare.missed_connections
    return impact.missed_connections if delay >= impact.delay else _share(impact, delay)


def _cancelled(impact: Impact, costs: UnitCosts) -> Option:
    lines = [*_cost_of_staying(impact, costs), _cargo(impact, costs)]
    carried = min(impact.passengers, sum(flight.seats_left for flight in impact.alternatives))
    title = f"Cancel, re-accommodate {carried} of {impact.passengers}"
    option = _option(OptionKind.CANCEL, title, timedelta(0), carried, lines, costs)
    saved = "Fuel, fees and crew hours not spent are not counted in its favour."
    return replace(option, assumptions=(*option.assumptions, saved))


def _cost_of_flying_late(impact: Impact, delay: timedelta, missed: int, costs: UnitCosts) -> list[CostLine]:
    """Those who connect in time have the flight's delay; those who do not wait for the next day."""
    missed = min(missed, impact.passengers)
    on_time = impact.passengers - missed
    owed = [exposure(_journey(impact, arrival_delay=delay), on_time)]
    next_day = _journey(impact, arrival_delay=delay + OVERNIGHT, departure_delay=delay)
    owed.append(exposure(next_day, missed))
    minutes = int(delay.total_seconds() // 60)
    beds = impact.passengers if delay >= timedelta(hours=costs.hotel_after_hours) else missed
    return [
        _compensation(owed[0], costs),
        *([_compensation(owed[1], costs, "missed connections")] if missed else []),
        _line("delay", minutes, costs.delay_minute, "minutes"),
        _line("meals", impact.passengers if owed[0].care_due else missed, costs.meal, "passengers"),
        _line("hotel", beds, costs.hotel_night, "passengers"),
        _line("rebooking", missed, costs.rebooking, "missed connections"),
        *([_cargo(impact, costs)] if delay else []),
    ]


def _cost_of_staying(impact: Impact, costs: UnitCosts) -> list[CostLine]:
    """Seats on other flights go out soonest arrival first; who finds none gets a bed and the fare back."""
    lines, waiting = [], impact.passengers
    for flight in sorted(impact.alternatives, key=lambda flight: (flight.arrives_late, flight.flight_id)):
        moved = min(waiting, flight.seats_left)
        if moved:
            reroute = Reroute(departs_early=flight.departs_early, arrives_late=flight.arrives_late)
            lines.append(
                _compensation(exposure(_cancelled_journey(impact, reroute), moved), costs, flight.flight_id)
            )
        waiting -= moved
    moved = impact.passengers - waiting
    if waiting:
        lines.append(_compensation(exposure(_cancelled_journey(impact, None), waiting), costs, "no seat"))
    return [
        *lines,
        _line("rebooking", moved, costs.rebooking, "passengers"),
        _line("meals", impact.passengers, costs.meal, "passengers"),
        _line("hotel", waiting, costs.hotel_night, "passengers without a seat"),
        _line("refunds", waiting, costs.refund, "passengers without a seat"),
        _line("baggage re-routed", impact.bags, costs.bag_reroute, "bags"),
    ]


def _journey(
    impact: Impact, *, arrival_delay: timedelta, departure_delay: timedelta | None = None
) -> DisruptedJourney:
    return DisruptedJourney(
        origin=impact.origin,
        destination=impact.destination,
        carrier=impact.carrier,
        arrival_delay=arrival_delay,
        departure_delay=departure_delay,
        delay_code=impact.delay_code,
    )


def _cancelled_journey(impact: Impact, reroute: Reroute | None) -> DisruptedJourney:
    journey = _journey(impact, arrival_delay=timedelta(0))
    return replace(journey, kind=DisruptionKind.CANCEL, notice_days=impact.notice_days, reroute=reroute)


def _compensation(owed: Exposure, costs: UnitCosts, group: str | None = None) -> CostLine:
    amount = owed.total.amount * costs.rates[owed.total.currency] / costs.rates[costs.currency]
    label = f"{COMPENSATION}, {group}" if group else COMPENSATION
    return CostLine(label, amount.quantize(CENT), f"{owed.passengers} × {owed.per_passenger}: {owed.rule}")


def _cargo(impact: Impact, costs: UnitCosts) -> CostLine:
    special = sum((lot.weight_kg for lot in impact.cargo if lot.handling.is_special), Decimal(0))
    plain = sum((lot.weight_kg for lot in impact.cargo), Decimal(0)) - special
    amount = special * costs.cargo_special_kg_late + plain * costs.cargo_kg_late
    return CostLine("late cargo", amount.quantize(CENT), f"{special} kg special, {plain} kg plain")


def _line(label: str, number: int, unit: Decimal, of: str) -> CostLine:
    return CostLine(label, (unit * number).quantize(CENT), f"{number} {of} × {unit}")


def _time_blockers(impact: Impact) -> tuple[str, ...]:
    return () if impact.too_late is None else (impact.too_late,)


def _assuming_crew(option: Option, impact: Impact) -> Option:
    """What is not known of the crew is said where it matters: with an option that flies late."""
    if not impact.crew_unknown or not option.delay:
        return option
    assumed = f"That {impact.crew_unknown} of the crew may fly so late is assumed: their duty histories are not known."
    return replace(option, assumptions=(*option.assumptions, assumed))


def _crew_blockers(impact: Impact) -> tuple[str, ...]:
    if impact.crew_illegal <= impact.standby_crew:
        return ()
    return (f"{impact.crew_illegal} of the crew are out of hours and {impact.standby_crew} stand by.",)


def _share(impact: Impact, delay: timedelta) -> int:
    return int(impact.missed_connections * (delay / impact.delay)) if impact.delay else 0


def _option(
    kind: OptionKind,
    title: str,
    delay: timedelta,
    carried: int,
    lines: Iterable[CostLine],
    costs: UnitCosts,
    blockers: tuple[str, ...] = (),
) -> Option:
    # Compensation of nothing stays: its rule says why nothing is owed.
    breakdown = tuple(line for line in lines if line.amount or line.label.startswith(COMPENSATION))
    total = sum((line.amount for line in breakdown), Decimal(0))
    assumptions = (
        f"Unit costs: {costs.source.title}, {costs.source.as_of:%Y-%m}.",
        "Compensation goes by this flight's distance; who misses a connection arrives a day later.",
    )
    return Option(kind, title, delay, carried, Money(total, costs.currency), breakdown, assumptions, blockers)


def _late(delay: timedelta) -> str:
    minutes = round(delay.total_seconds() / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h late" if minutes else "on time"
