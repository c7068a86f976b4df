"""Travel policy rules: pure checks of a plan and of flights against machine-readable and textual policies.

    travel_policy.py (machine-readable) ┐
                                        ├→ limits.py (the stricter, cited) → compliance.py → option_ranking.py
    text_rules.py (found in passages)   ┘                                               └→ approvals.py

This package reads no store and calls no service: the caller retrieves the passages and passes the current
date.
"""

from __future__ import annotations

from tripcortex.domain.policy_rules.approvals import (
    ApprovalOver,
    MayNotDecide,
    apply_deadline,
    apply_decision,
    build_approval,
    escalate,
    list_words,
    split_stages,
)
from tripcortex.domain.policy_rules.compliance import OptionJudgement, PlanJudgement, check_option, check_plan
from tripcortex.domain.policy_rules.option_ranking import Ranking, pick_top_options, rank_options
from tripcortex.domain.policy_rules.text_rules import Passage, TextRule
from tripcortex.domain.policy_rules.travel_policy import STRICTEST, Policies, Reason, TravelPolicy

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
    "apply_deadline",
    "apply_decision",
    "build_approval",
    "check_option",
    "check_plan",
    "escalate",
    "list_words",
    "pick_top_options",
    "rank_options",
    "split_stages",
]
