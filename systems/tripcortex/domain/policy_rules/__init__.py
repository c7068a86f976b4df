"""Travel policy rules: rules with a scope, read from documents or JSON, and the judgement of trips by them.

    document → `proposals.py` ┐
                              ├→ rules.py → judgement.py → booking_checks.py → option_ranking.py, approvals.py
    JSON → `conversion.py`    ┘

This package reads no store and calls no service: the caller loads the rules and passes the current date.
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
from tripcortex.domain.policy_rules.option_ranking import OptionJudgement, Ranking
from tripcortex.domain.policy_rules.travel_policy import STRICTEST, Policies, Reason, TravelPolicy

__all__ = [
    "STRICTEST",
    "ApprovalOver",
    "MayNotDecide",
    "OptionJudgement",
    "Policies",
    "Ranking",
    "Reason",
    "TravelPolicy",
    "apply_deadline",
    "apply_decision",
    "build_approval",
    "escalate",
    "list_words",
    "split_stages",
]
