"""Who gets what: a team for each intent, and the words that mean risk whatever the classifier makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.ai import Classification
from richpanel.intents import Intent
from richpanel.keys import normalised_text

# Below the first a message goes to triage; from the second on it may be answered by itself.
ROUTE_CONFIDENCE_MIN: Final = 0.4
AUTOMATE_CONFIDENCE_MIN: Final = 0.6
# A risk is taken seriously on less: a false alarm costs a look, a missed one costs money.
RISK_CONFIDENCE_MIN: Final = 0.25


class Team(StrEnum):
    risk = "risk"
    orders = "orders"
    returns = "returns"
    billing = "billing"
    accounts = "accounts"
    sales = "sales"
    care = "care"
    triage = "triage"


class Risk(StrEnum):
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

# The note that helps the agent with an intent.
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
        r"\bfraud(?:ulent|ster)?s?\b|\bscam(?:med|mer)?s?\b|\bunauthori[sz]ed\b|\bidentity theft\b|\bhacked\b|"
        r"\bphishing\b|\bstolen (?:\w+ )?card\b|\bimpersonat(?:e|es|ed|ing)\b|\bused my (?:\w+ )?card\b|"
        r"\b(?:didn't|did not|never) (?:make|made) this (?:purchase|payment|order)\b"
    ),
}


@dataclass(frozen=True)
class Routing:
    """A team, and why."""

    team: Team
    risks: frozenset[Risk]
    reason: str


def routed(text: str, found: Classification, known: frozenset[str] = frozenset()) -> Routing:
    """Risk first, whatever else is wanted, and once at risk, always; then the team of the intent, if it is sure enough."""
    new = risks(text, found)
    kept = frozenset(risk for risk in Risk if risk in known)
    if new or kept:
        said = "says" if new else "was said before to mean"
        names = ", ".join(sorted(new or kept))
        return Routing(Team.risk, new | kept, f"the message {said} {names}, which always goes to {Team.risk}")
    if not found.is_known or found.confidence < ROUTE_CONFIDENCE_MIN:
        return Routing(
            Team.triage, kept, f"no intent reached {ROUTE_CONFIDENCE_MIN:.0%} (best {found.confidence:.0%})"
        )
    team = TEAMS.get(found.label, Team.triage)
    return Routing(team, kept, f"{found.label} ({found.confidence:.0%}) goes to {team}")


def risks(text: str, found: Classification) -> frozenset[Risk]:
    folded = normalised_text(text)
    by_words = {risk for risk, words in _RISK_WORDS.items() if words.search(folded)}
    ranked = ((found.label, found.confidence), *found.alternatives)
    by_intent = {
        RISK_INTENTS[label]
        for label, confidence in ranked
        if label in RISK_INTENTS and confidence >= RISK_CONFIDENCE_MIN
    }
    return frozenset(by_words | by_intent)
