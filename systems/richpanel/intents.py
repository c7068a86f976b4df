"""What customers want: the intents, examples of each, and the classifier that is trained on them.

The examples are in `intent_examples/`, one file per intent, one text per line. docs/intents.md says how often the
classifier is right on texts it has not seen, and `measuring.py` measures it anew.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from holdfast.ai import Classifier, Example, local_classifier

FOLDER: Final = "intent_examples"
# An order number says that there is one; which it is says nothing about what is wanted.
NUMBER: Final = re.compile(r"#?\b[\w-]*\d[\w-]*")


class Intent(StrEnum):
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
def intent_classifier() -> Classifier:
    """Trained once in a process, on all examples."""
    return local_classifier(examples(), prepare=prepared)


def examples() -> tuple[Example, ...]:
    found: list[Example] = []
    for intent in Intent:
        lines = files("richpanel").joinpath(FOLDER, f"{intent}.txt").read_text("utf-8").splitlines()
        found += [Example(line.strip(), intent) for line in lines if line.strip()]
    return tuple(found)


def prepared(text: str) -> str:
    """A text as the classifier sees it: one form of each character, no case, every number the same."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return NUMBER.sub("0", folded)
