"""Words that mean risk: fraud, a dispute about a payment, danger to people, and legal steps.

They are looked for in the sender's own sentences, in nine languages, whatever the classifier says: a missed
risk costs more than a look. A sentence that only asks whether something is safe, or says that a fear is over,
is left out. The words are in `risk_words/`, one regular expression per line, for case-folded text.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

from richpanel.domain.idempotency_keys import normalise_text

FOLDER: Final = "risk_words"
HARMLESS: Final = "harmless"


class Risk(StrEnum):
    """The risks that always route to the risk team. Each value is also the name of its file of words."""

    chargeback = "chargeback"
    fraud_suspected = "fraud_suspected"
    safety = "safety"
    legal_threat = "legal_threat"


_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def split_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text, without blank ones."""
    return tuple(each.strip() for each in _SENTENCE.split(text) if each.strip())


def find_risk_words(text: str) -> frozenset[Risk]:
    """Return the risks that the sentences of a text name. `text` is the sender's own: without quotations."""
    # A line break may end a sentence or be the client's, so both readings are searched.
    sentences = {*split_sentences(text), *split_sentences(" ".join(text.split()))}
    return frozenset(risk for each in sentences for risk in _find_in_sentence(each))


def has_harmless_sentence(text: str) -> bool:
    """Return whether a sentence asks whether something is safe, or says that a fear is over."""
    folded = (normalise_text(each).replace("’", "'") for each in split_sentences(" ".join(text.split())))
    return any(_load_words(HARMLESS).search(each) for each in folded)


def _find_in_sentence(sentence: str) -> frozenset[Risk]:
    """Return the risks that one sentence names."""
    folded = normalise_text(sentence).replace("’", "'")
    if _load_words(HARMLESS).search(folded):
        return frozenset()
    return frozenset(risk for risk in Risk if _load_words(risk).search(folded))


@cache
def _load_words(name: str) -> re.Pattern[str]:
    """Load the regular expressions of a file as one."""
    lines = files("richpanel").joinpath(FOLDER, f"{name}.txt").read_text("utf-8").splitlines()
    return re.compile("|".join(line for line in lines if line))
