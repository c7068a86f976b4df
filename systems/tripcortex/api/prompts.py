"""The prompts of Trip Cortex: typical jobs of an employee or an assistant with an agent."""

from __future__ import annotations

from typing import Final

from holdfast.model.agents import Prompt


def plan_trip_within_policy(employee_id: str, trip: str) -> str:
    """Plan a trip within the company's travel policy, with the sources of every rule."""
    return (
        f"Employee {employee_id} wants this trip: {trip}. Look up with policy_says what the policies say "
        "about the class, the airline, the price, the hotel and the time of booking, one question each, and "
        "with history which trips the employee has booked before. Then propose a plan that keeps every "
        "rule. Cite file, page and section of each rule; if policy_says has no passage, say that the policy "
        "does not cover the point, and do not guess. Do not book: the employee chooses."
    )


def explain_booking(booking_id: str) -> str:
    """Explain to an employee what happened to a booking, and what they can do."""
    return (
        f"Explain booking {booking_id} with the tool why: its status, the steps in order, and the reason for "
        "each refusal with the source in the policy. Write for the employee, in plain words. Say what they "
        "can do next."
    )


PROMPTS: Final = (
    Prompt(
        plan_trip_within_policy,
        example={"employee_id": "emp-42", "trip": "two days in Chicago in May, flying with United"},
    ),
    Prompt(explain_booking, example={"booking_id": "01KK4CFSSGET7K6V2MMMVV3QH6"}),
)
