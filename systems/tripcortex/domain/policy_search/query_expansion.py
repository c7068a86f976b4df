"""Words that a question means without containing them: synonyms, and general terms for names. Pure."""

from __future__ import annotations

from tripcortex.domain.policy_search.general_terms import find_general_terms
from tripcortex.domain.policy_search.synonyms import find_synonyms


def expand_question(question: str) -> str:
    """Return the words to add to a question; they weigh less than its own."""
    return " ".join([*find_synonyms(question), *find_general_terms(question).split()])
