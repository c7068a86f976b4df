"""Recognise that a customer asks for a person. Such a message always reaches one, whatever the "
"classifier says."""

from __future__ import annotations

import re
from typing import Final

from richpanel.domain.idempotency_keys import normalise_text
from richpanel.domain.risks import split_sentences

_PERSON: Final = (
    r"(?:person|human(?: being)?|someone|somebody|anyone|anybody|agent|representative|rep|manager|"
    r"supervisor|operator|"
    r"staff|colleagues?|advis[eo]r|employees?|member of (?:your |the )?(?:staff|team)|customer service|"
    r"(?:your|the) (?:team|support))"
)
_WORDS: Final = re.compile(
    rf"\b(?:speak|talk|chat|write|get through|put (?:me )?through|transfer(?:red)?|connect(?:ed)?|"
    rf"forward) (?:\w+ )?(?:to|with) "
    rf"(?:\w+ ){{0,3}}{_PERSON}\b|"
    rf"\b(?:want|need|prefer|like|give me|get me|have|let) (?:to (?:have|see) )?(?:an?|some|the|"
    rf"your)? ?(?:\w+ )?"
    r"(?:real|live|actual|proper|human) (?:person|human|agent|being|one|people|representative)\b|"
    r"\b(?:real|live|actual) (?:person|human|agent|human being|people)\b.{0,40}(?:please|pls|\?|$)|"
    rf"\b(?:would|could|can|may|will|have|let|please) (?:\w+ )?{_PERSON}(?: \w+){{0,6}} (?:call|ring|"
    rf"phone|contact|answer|look|read|reply)\b|"
    r"\b(?:someone|somebody|anyone) (?:real|human|i can (?:speak|talk) to|to (?:speak|talk) to|"
    r"who (?:actually )?works)\b|"
    r"\bno (?:more )?(?:bots?|robots?|(?:automatic|automated|standard|canned) (?:answers|replies|"
    r"responses|messages))\b|"
    r"\b(?:not|to|with) (?:a |the |another )?(?:chat)?(?:bot|robot|machine|computer)\b(?! (?:i|we|and|for|"
    r"is|was|that))|\b(?:instead of|rather than) (?:a |the )?(?:bot|robot|machine)\b|"
    r"^(?:agent|human|operator|representative|real person|a person|person)(?: please| pls| now)?[.!?]*$|"
    r"\b(?:call|ring|phone) me back\b|\bhuman being\b"
)
_HARMLESS: Final = re.compile(
    r"\b(?:already|yesterday|just|was|have|i) (?:spoke|spoken|talked|speaking|talking)\b|\bno need\b"
)


def asks_for_person(text: str) -> bool:
    """Return whether a sentence of a message asks for a person. `text` is the sender's own."""
    sentences = {*split_sentences(text), *split_sentences(" ".join(text.split()))}
    return any(_asks(normalise_text(each).replace("’", "'")) for each in sentences)


def _asks(sentence: str) -> bool:
    return bool(_WORDS.search(sentence)) and not _HARMLESS.search(sentence)
