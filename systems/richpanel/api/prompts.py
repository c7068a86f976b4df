"""The prompts of the Richpanel middleware: typical jobs of a support lead with an agent."""

from __future__ import annotations

from typing import Final

from holdfast.model.agents import Prompt


def explain_ticket(conversation_id: str) -> str:
    """Find out what happened to a ticket: who has it, what was sent, and why."""
    return (
        f"What happened to ticket {conversation_id}? Read its state with the tool conversation and its "
        "actions with why. Say, oldest first: which event came in, what the middleware decided and with what "
        "confidence, what it did at the help desk, and what it only recorded. End with the team that has the "
        "ticket now and the question that still waits for the customer, if there is one."
    )


PROMPTS: Final = (Prompt(explain_ticket, example={"conversation_id": "c-1"}),)
