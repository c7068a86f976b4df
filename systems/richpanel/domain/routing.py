"""Routing: the team of a message, by its risks, its language and its intent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.ai import UNKNOWN, Classification
from richpanel.domain.intents import Intent, OtherLabel
from richpanel.domain.reading import Reading
from richpanel.domain.risks import Risk, find_risk_words, has_harmless_sentence

# Below the first a message goes to triage; from the second on automation may answer it.
MIN_ROUTE_CONFIDENCE: Final = 0.5
MIN_AUTOMATE_CONFIDENCE: Final = 0.6
# Risks need less confidence: a false alarm costs a look, a missed risk costs money.
MIN_RISK_CONFIDENCE: Final = 0.25
MIN_RISKS_CONFIDENCE: Final = 0.3
# A message that asks whether something is safe uses the words of risks.
MIN_RISK_CONFIDENCE_OF_HARMLESS: Final = 0.7


class Team(StrEnum):
    """The teams of the help desk."""

    risk = "risk"
    orders = "orders"
    returns = "returns"
    billing = "billing"
    accounts = "accounts"
    sales = "sales"
    care = "care"
    triage = "triage"


TEAMS: Final[Mapping[str, Team]] = {
    Intent.order_status: Team.orders,
    Intent.delivery_problem: Team.orders,
    Intent.return_or_refund: Team.returns,
    Intent.cancel_order: Team.orders,
    Intent.change_order: Team.orders,
    Intent.product_question: Team.sales,
    Intent.discount_or_promo: Team.sales,
    Intent.account_access: Team.accounts,
    Intent.payment_problem: Team.billing,
    Intent.chargeback: Team.risk,
    Intent.fraud_report: Team.risk,
    Intent.complaint: Team.care,
    Intent.shipping_policy: Team.sales,
    Intent.human_request: Team.care,
    Intent.greeting_or_thanks: Team.triage,
    OtherLabel.safety_report: Team.risk,
    OtherLabel.legal_threat: Team.risk,
}

# The template of the note for the agent, by intent.
SUGGESTIONS: Final[Mapping[str, str]] = {
    Intent.shipping_policy: "faq_shipping",
    Intent.return_or_refund: "faq_return",
    Intent.cancel_order: "faq_cancel",
    Intent.discount_or_promo: "faq_discount",
    Intent.account_access: "faq_account",
    Intent.product_question: "faq_product",
    Intent.payment_problem: "faq_payment",
}

# The labels of the classifier that mean a risk.
RISK_INTENTS: Final[Mapping[str, Risk]] = {
    Intent.chargeback: Risk.chargeback,
    Intent.fraud_report: Risk.fraud_suspected,
    OtherLabel.safety_report: Risk.safety,
    OtherLabel.legal_threat: Risk.legal_threat,
}


@dataclass(frozen=True)
class Routing:
    """The chosen team, the risks found, and the reason."""

    team: Team
    risks: frozenset[Risk]
    reason: str


def choose_team(
    reading: Reading, classification: Classification, known_risks: frozenset[str] = frozenset()
) -> Routing:
    """Choose the team of a message.

    Risk comes first: a conversation once at risk (`known_risks`) stays with the risk team. A message in
    another language, and one that a program sent, go to triage. Otherwise the team with the highest
    probability over all its intents is chosen; with too little, or out of scope, it is triage.
    """
    new = frozenset() if reading.automatic else find_risks(reading.content, classification)
    kept = frozenset(risk for risk in Risk if risk in known_risks)
    if new or kept:
        source = "message" if new else "conversation"
        names = ", ".join(sorted(new or kept))
        return Routing(Team.risk, new | kept, f"the {source} has the risk {names}: always to {Team.risk}")
    if reading.automatic:
        return Routing(Team.triage, kept, f"a program sent it ({reading.automatic}), so it is never answered")
    if not reading.is_home_language:
        return Routing(Team.triage, kept, f"written in {reading.language}: for a person who reads it")
    return _choose_by_intent(classification)


def _choose_by_intent(classification: Classification) -> Routing:
    """Choose the likeliest team, or triage if no team is likely enough."""
    nothing: frozenset[Risk] = frozenset()
    team, confidence = get_likeliest_team(classification)
    if team is None:
        return Routing(Team.triage, nothing, f"out of scope ({classification.confidence:.0%})")
    if confidence < MIN_ROUTE_CONFIDENCE:
        return Routing(
            Team.triage, nothing, f"no intent reached {MIN_ROUTE_CONFIDENCE:.0%} (best {confidence:.0%})"
        )
    return Routing(team, nothing, f"{classification.label} ({confidence:.0%}) goes to {team}")


def get_likeliest_team(classification: Classification) -> tuple[Team | None, float]:
    """Return the team with the highest probability over all its intents, and that probability. None for what
    is out of scope.
    """
    sums: dict[Team | None, float] = {}
    ranked = dict(classification.alternatives) | {classification.label: classification.confidence}
    for label, confidence in ranked.items():
        team = TEAMS.get(label)
        if label != UNKNOWN:
            sums[team] = sums.get(team, 0.0) + confidence
    if not sums:
        return None, classification.confidence
    return max(sums.items(), key=lambda pair: pair[1])


def find_risks(text: str, classification: Classification) -> frozenset[Risk]:
    """Return the risks that a text's words mean, and those of labels with at least `MIN_RISK_CONFIDENCE`
    alone, or `MIN_RISKS_CONFIDENCE` together.
    """
    ranked = ((classification.label, classification.confidence), *classification.alternatives)
    risks = {RISK_INTENTS[label]: confidence for label, confidence in ranked if label in RISK_INTENTS}
    is_harmless = has_harmless_sentence(text)
    min_confidence = MIN_RISK_CONFIDENCE_OF_HARMLESS if is_harmless else MIN_RISK_CONFIDENCE
    by_label = {risk for risk, confidence in risks.items() if confidence >= min_confidence}
    if not by_label and not is_harmless and sum(risks.values()) >= MIN_RISKS_CONFIDENCE:
        by_label = {max(risks, key=lambda risk: risks[risk])}
    return find_risk_words(text) | by_label
