"""The prompts of SkyMarshal: typical jobs of a duty manager with an agent."""

from __future__ import annotations

from typing import Final

from holdfast.model.agents import Prompt


def assess_disrupted_flight(flight_number: str, day: str, what_happened: str = "it is cancelled") -> str:
    """Assess a disrupted flight: who and what is affected, what it may cost, and what to do."""
    return (
        f"Flight {flight_number} on {day}: {what_happened}. Assess it with the tool who_is_hit, and look up "
        "details with the other tools only where the assessment leaves a question open. Report in this "
        "order: how many passengers are affected and who needs help first, with the reason; connections, "
        "bags, cargo and crew; possible claims; the recovery options with their drawbacks, and the one that "
        "you recommend. Name the gaps that `problems` lists. Decide nothing: a duty manager confirms."
    )


def trace_passenger(passenger_id: str) -> str:
    """Find out where a passenger and their bags are, and what a disruption means for them."""
    return (
        f"Find the bookings of passenger {passenger_id}, their bags, and the disruptions that affected them. "
        "Say which flights the passenger still has, where each bag was last seen, and what is unclear."
    )


PROMPTS: Final = (
    Prompt(
        assess_disrupted_flight,
        example={"flight_number": "EY11", "day": "2026-01-30", "what_happened": "it is 200 minutes late"},
    ),
    Prompt(trace_passenger, example={"passenger_id": "OZ69826352P"}),
)
