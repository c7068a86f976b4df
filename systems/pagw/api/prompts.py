"""The prompts of PAGW: typical jobs of an operator of the gateway with an agent."""

from __future__ import annotations

from typing import Final

from holdfast.model.agents import Prompt


def explain_request(pagw_id: str) -> str:
    """Explain the state of a prior-authorisation request: where it is, why, and what happens next."""
    return (
        f"Explain the state of request {pagw_id}. Read it with request_status and its trail with why. Say "
        "when it came in, which stages it has passed, what it waits for, and when it is due; quote error "
        "codes and retries. Say whether an operator must act, and how. You see no patient data, and need "
        "none: use ids, states and times."
    )


def review_gateway() -> str:
    """Review the gateway: backlog, stuck and overdue requests, and what needs an operator first."""
    return (
        "Review the gateway with standing, stuck and overdue (with 24 hours). List the requests that need an "
        "operator, most urgent first, with the reason for each: look the worst three up with why. Say what "
        "is normal, so that nobody looks there."
    )


PROMPTS: Final = (
    Prompt(explain_request, example={"pagw_id": "PAGW-01JBEXAMPLE000000000000000"}),
    Prompt(review_gateway),
)
