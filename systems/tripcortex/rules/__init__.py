"""Whether a trip is inside the company's policy: pure decisions over a plan, flights, rules and passages.

    policy.py (rules of each policy)   ┐
                                       ├→ limits.py (the stricter of both, with who says it) → judging.py → options.py
    reading.py (rules in passages)     ┘                                                              └→ approvals.py

Nothing here reads a store or asks anybody: who calls has retrieved the passages and knows the day.
"""

from __future__ import annotations

from tripcortex.rules.approvals import (
    ApprovalOver,
    MayNotDecide,
    approval_asked,
    approvers,
    decided,
    decided_by_time,
)
from tripcortex.rules.judging import OptionJudgement, PlanJudgement, judged, judged_option
from tripcortex.rules.options import Ranking, ranked, top_options
from tripcortex.rules.policy import STRICTEST, Policies, Reason, TravelPolicy
from tripcortex.rules.reading import Passage, TextRule

__all__ = [
    "STRICTEST",
    "ApprovalOver",
    "MayNotDecide",
    "OptionJudgement",
    "Passage",
    "PlanJudgement",
    "Policies",
    "Ranking",
    "Reason",
    "TextRule",
    "TravelPolicy",
    "approval_asked",
    "approvers",
    "decided",
    "decided_by_time",
    "judged",
    "judged_option",
    "ranked",
    "top_options",
]
