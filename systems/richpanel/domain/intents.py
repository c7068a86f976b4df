"""Customer intents, examples of each, and the classifier trained on them.

The examples are in `intent_examples/`, one file per intent, one text per line.
docs/systems/richpanel/intents.md reports the accuracy on unseen texts, and `api/intent_accuracy.py`
measures it.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from holdfast.ai import Classifier, Example, train_local_classifier

FOLDER: Final = "intent_examples"
# The presence of an order number helps to classify; its digits do not.
NUMBER: Final = re.compile(r"#?\b[\w-]*\d[\w-]*")


class Intent(StrEnum):
    """The intents. Each value is also the name of its file of examples."""

    order_status = "order_status"
    delivery_problem = "delivery_problem"
    return_or_refund = "return_or_refund"
    cancel_order = "cancel_order"
    change_order = "change_order"
    product_question = "product_question"
    discount_or_promo = "discount_or_promo"
    account_access = "account_access"
    payment_problem = "payment_problem"
    chargeback = "chargeback"
    fraud_report = "fraud_report"
    complaint = "complaint"
    shipping_policy = "shipping_policy"
    human_request = "human_request"
    greeting_or_thanks = "greeting_or_thanks"


@cache
def get_intent_classifier() -> Classifier:
    """Return the classifier, trained on all examples once per process."""
    return train_local_classifier(load_examples(), prepare=prepare_text)


def load_examples() -> tuple[Example, ...]:
    """Load the examples of all intents, one per line that is not blank."""
    found: list[Example] = []
    for intent in Intent:
        lines = files("richpanel").joinpath(FOLDER, f"{intent}.txt").read_text("utf-8").splitlines()
        found += [Example(line.strip(), intent) for line in lines if line.strip()]
    return tuple(found)


def prepare_text(text: str) -> str:
    """Return a text as the classifier reads it: NFKC, case folded, every number replaced by 0."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return NUMBER.sub("0", folded)
