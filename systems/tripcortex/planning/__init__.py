"""From a sentence to a plan: the port, a reader of English sentences, and an adapter to a language model.

ports ← sentences (SentencePlanner: deterministic, asks instead of guessing)
      ← bedrock   (NovaPlanner: Nova 2 Lite, its answer checked by the same tables; not proved against the service)
"""

from __future__ import annotations

from tripcortex.planning.ports import (
    Asked,
    Passage,
    Planned,
    Planner,
    PlanOutcome,
    Question,
    Refusal,
    Traveller,
)
from tripcortex.planning.sentences import SentencePlanner

__all__ = [
    "Asked",
    "Passage",
    "PlanOutcome",
    "Planned",
    "Planner",
    "Question",
    "Refusal",
    "SentencePlanner",
    "Traveller",
]
