"""From a sentence to a plan: the port, a reader of English sentences, and an adapter to a language model.

ports ← sentences (SentencePlanner: deterministic, asks instead of guessing)
      ← reasoned (ReasonedPlanner: any `Reasoner` reads; our tables and decisions stand) ← bedrock (`nova_planner`: Nova 2
        Lite by Converse; not proved against the service)
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
from tripcortex.planning.reasoned import ReasonedPlanner
from tripcortex.planning.sentences import SentencePlanner

__all__ = [
    "Asked",
    "Passage",
    "PlanOutcome",
    "Planned",
    "Planner",
    "Question",
    "ReasonedPlanner",
    "Refusal",
    "SentencePlanner",
    "Traveller",
]
