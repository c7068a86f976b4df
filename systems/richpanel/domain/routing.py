"""Routing: the team of each intent, and the words that mean risk whatever the classifier says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.ai import Classification
from richpanel.domain.idempotency_keys import normalise_text
from richpanel.domain.intents import Intent

# Below the first a message goes to triage; from the second on automation may answer it.
MIN_ROUTE_CONFIDENCE: Final = 0.4
MIN_AUTOMATE_CONFIDENCE: Final = 0.6
# Risks need less confidence: a false alarm costs a look, a missed risk costs money.
MIN_RISK_CONFIDENCE: Final = 0.25


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


class Risk(StrEnum):
    """The risks that always route to the risk team."""

    chargeback = "chargeback"
    fraud_suspected = "fraud_suspected"


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

RISK_INTENTS: Final[Mapping[str, Risk]] = {
    Intent.chargeback: Risk.chargeback,
    Intent.fraud_report: Risk.fraud_suspected,
}

_RISK_WORDS: Final[Mapping[Risk, re.Pattern[str]]] = {
    Risk.chargeback: re.compile(
        r"\bcharge ?-?backs?\b|\bdisput(?:e|es|ed|ing)\b|\bpaypal (?:case|claim)\b|\bbuyer protection\b|"
        r"\brevers(?:e|es|ed|ing) (?:the|this|my|that) (?:charge|payment|transaction)\b"
    ),
    Risk.fraud_suspected: re.compile(
        r"\bfraud(?:ulent|ster)?s?\b|\bscam(?:med|mer)?s?\b|\bunauthori[sz]ed\b|\bidentity "
        r"theft\b|\bhacked\b|"
        r"\bphishing\b|\bstolen (?:\w+ )?card\b|\bimpersonat(?:e|es|ed|ing)\b|\bused my (?:\w+ )?card\b|"
        r"\b(?:didn't|did not|never) (?:make|made) this (?:purchase|payment|order)\b"
    ),
}


@dataclass(frozen=True)
class Routing:
    """The chosen team, the risks found, and the reason."""

    team: Team
    risks: frozenset[Risk]
    reason: str


def choose_team(
    text: str, classification: Classification, known_risks: frozenset[str] = frozenset()
) -> Routing:
    """Choose the team of a message.

    Risk comes first: a conversation once at risk (`known_risks`) stays with the risk team. Otherwise the
    intent decides; with too little confidence, or no intent, the message goes to triage.
    """
    new = find_risks(text, classification)
    kept = frozenset(risk for risk in Risk if risk in known_risks)
    if new or kept:
        source = "message" if new else "conversation"
        names = ", ".join(sorted(new or kept))
        return Routing(Team.risk, new | kept, f"the {source} has the risk {names}: always to {Team.risk}")
    if not classification.is_known or classification.confidence < MIN_ROUTE_CONFIDENCE:
        return Routing(
            Team.triage,
            kept,
            f"no intent reached {MIN_ROUTE_CONFIDENCE:.0%} (best {classification.confidence:.0%})",
        )
    team = TEAMS.get(classification.label, Team.triage)
    return Routing(team, kept, f"{classification.label} ({classification.confidence:.0%}) goes to {team}")


def find_risks(text: str, classification: Classification) -> frozenset[Risk]:
    """Return the risks that a text's words mean, and those of intents with at least `MIN_RISK_CONFIDENCE`."""
    folded = normalise_text(text)
    by_words = {risk for risk, words in _RISK_WORDS.items() if words.search(folded)}
    ranked = ((classification.label, classification.confidence), *classification.alternatives)
    by_intent = {
        RISK_INTENTS[label]
        for label, confidence in ranked
        if label in RISK_INTENTS and confidence >= MIN_RISK_CONFIDENCE
    }
    return frozenset(by_words | by_intent)
