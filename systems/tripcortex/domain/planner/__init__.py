"""The planner: turns an English sentence about a trip into a plan, a question or a refusal.

`ports` defines the `Planner` protocol. `sentence_planner.SentencePlanner` implements it with fixed rules and
asks instead of guessing. `tripcortex.integrations.planner_models` implements it with a language model.
"""

from __future__ import annotations

from tripcortex.domain.planner.ports import (
    Passage,
    Planner,
    PlanOutcome,
    PlanRequest,
    Question,
    Refusal,
    TravellerProfile,
    TripPlan,
)
from tripcortex.domain.planner.sentence_planner import SentencePlanner

__all__ = [
    "Passage",
    "PlanOutcome",
    "PlanRequest",
    "Planner",
    "Question",
    "Refusal",
    "SentencePlanner",
    "TravellerProfile",
    "TripPlan",
]
