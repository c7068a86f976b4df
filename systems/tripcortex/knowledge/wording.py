"""What of a text says what it is about, and what of it can be kept.

The local model takes the mean of all its words: those that every text has blur it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"[a-z0-9&'’-]+")
_EVERYWHERE: Final = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both but by can
    could did do does doing down during each few for from further get go had has have having he her here hers him his how i if
    in into is it its itself just like may me might more most must my need no nor not now of off on once only or other our out
    over own put same shall she should so some such than that the their them then there these they this those through to too
    under until up us very want was we were what when where which while who whom why will with without would you your""".split()
)


class WordsAsked(NamedTuple):
    """A question for full text: as it was asked, its words that say something, those of them that stood side by side, and the
    words that were added."""

    question: str
    says: str
    pairs: tuple[str, ...]
    added: str

    @classmethod
    def of(cls, question: str, added: str) -> WordsAsked:
        return cls(question, content_words(question), _pairs(question), added)


def content_words(text: str) -> str:
    """Without the words that are everywhere; of a text that has no other, all of it."""
    return " ".join(each for each in _WORD.findall(text.lower()) if each not in _EVERYWHERE) or text


def _pairs(text: str) -> tuple[str, ...]:
    """Of "May I fly business class?", `fly business` and `business class`."""
    beside = pairwise(_WORD.findall(text.lower()))
    return tuple(f"{one} {other}" for one, other in beside if not {one, other} & _EVERYWHERE)


def sendable(text: str) -> str:
    """As PostgreSQL takes it: a zero byte and half of a pair of surrogates are text in Python alone."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", " ")
