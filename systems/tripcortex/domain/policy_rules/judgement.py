"""The judgement of a trip by the confirmed rules: allowed, approval or forbidden, with the rules that say so.

A trip is allowed only if no rule asks for more and nothing about it is open. What no rule limits is not
limited, except for cabins above economy: those need a permission. A person decides where a statement that may
concern the trip was not understood or not confirmed yet, and where a document is not whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast import Document
from tripcortex.domain.policy_rules.judged_subjects import (
    DEFAULT_APPROVER,
    Subject,
    build_constraints,
    judge_cabin,
    judge_carriers,
    judge_destination,
    judge_fare,
    judge_notice,
    judge_whole_trip,
)
from tripcortex.domain.policy_rules.rules import Outcome, PolicyRule, merge_approvers
from tripcortex.domain.policy_rules.scope_matching import TripFacts
from tripcortex.domain.policy_rules.trips import Trip
from tripcortex.model.entities import Breach, Citation, PolicyConstraints

__all__ = ["DEFAULT_APPROVER", "Judgement", "Trip", "judge_trip"]

_SUBJECTS: Final = (
    judge_destination,
    judge_carriers,
    judge_cabin,
    judge_fare,
    judge_notice,
    judge_whole_trip,
)


class Judgement(Document):
    """The result of judging a trip.

    `applied` are the rules within whose scope the trip is and which decided something; `uncovered` names what
    no confirmed rule covers: `cabin`, `fare`, `notice`.
    """

    verdict: Outcome
    breaches: tuple[Breach, ...] = ()
    approvers: tuple[str, ...] = ()
    applied: tuple[PolicyRule, ...] = ()
    constraints: PolicyConstraints = PolicyConstraints()
    uncovered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Return the citations of the rules that were applied, each once."""
        return tuple({rule.rule_id: rule.cite() for rule in self.applied}.values())


def judge_trip(rules: Iterable[PolicyRule], trip: Trip) -> Judgement:
    """Judge a trip by confirmed rules.

    A hard breach makes the trip forbidden, a soft one asks for its approvers.
    """
    known = tuple(rules)
    facts = TripFacts(trip)
    subjects = [judge(known, facts) for judge in _SUBJECTS]
    breaches = tuple(breach for subject in subjects for breach in subject.breaches)
    uncovered = tuple(subject.name for subject in subjects if not subject.is_covered)
    verdict = _decide(breaches)
    return Judgement(
        verdict=verdict,
        breaches=breaches,
        approvers=_list_approvers(verdict, breaches),
        applied=_list_applied(subjects),
        constraints=build_constraints(known, facts),
        uncovered=uncovered,
        notes=tuple(dict.fromkeys(note for subject in subjects for note in subject.notes)),
    )


def _decide(breaches: Iterable[Breach]) -> Outcome:
    """Return the strictest outcome of the breaches."""
    severities = {breach.severity for breach in breaches}
    if "hard" in severities:
        return Outcome.forbidden
    return Outcome.approval if severities else Outcome.allowed


def _list_approvers(verdict: Outcome, breaches: Iterable[Breach]) -> tuple[str, ...]:
    """Return whom the breaches ask for; the default approver if they name no one."""
    if verdict is not Outcome.approval:
        return ()
    named = merge_approvers(breach.approvers for breach in breaches)
    return named or (DEFAULT_APPROVER,)


def _list_applied(subjects: Iterable[Subject]) -> tuple[PolicyRule, ...]:
    return tuple({rule.rule_id: rule for subject in subjects for rule in subject.applied}.values())
