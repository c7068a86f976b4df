"""Words of a question for full-text search: its keywords, its word pairs, and text that PostgreSQL accepts.

The local model averages the vectors of all words, so stop words would blur the result.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"[a-z0-9&'’-]+")
_STOP_WORDS: Final = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between
    both but by can could did do does doing down during each few for from further get go had has have having
    he her here hers him his how i if in into is it its itself just like may me might more most must my need
    no nor not now of off on once only or other our out over own put same shall she should so some such than
    that the their them then there these they this those through to too under until up us very want was we
    were what when where which while who whom why will with without would you your
    """.split()
)


class QueryWords(NamedTuple):
    """A question for full-text search: its text, keywords, pairs of adjacent keywords, and synonyms."""

    question: str
    keywords: str
    pairs: tuple[str, ...]
    synonyms: str

    @classmethod
    def from_question(cls, question: str, added: str) -> QueryWords:
        """Split the question into keywords and pairs. `added` are synonyms."""
        return cls(question, extract_content_words(question), _find_word_pairs(question), added)


def extract_content_words(text: str) -> str:
    """Return the text's words in lower case without stop words, or the whole text if nothing else remains."""
    return " ".join(each for each in _WORD.findall(text.lower()) if each not in _STOP_WORDS) or text


def _find_word_pairs(text: str) -> tuple[str, ...]:
    """Return the adjacent keywords: for "May I fly business class?", `fly business` and `business class`."""
    adjacent = pairwise(_WORD.findall(text.lower()))
    return tuple(f"{one} {other}" for one, other in adjacent if not {one, other} & _STOP_WORDS)


def to_postgres_text(text: str) -> str:
    """Return the text as PostgreSQL accepts it: zero bytes as spaces, unpaired surrogates as "?"."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", " ")
