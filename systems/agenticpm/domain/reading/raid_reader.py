"""Read risks, assumptions, issues, dependencies and decisions from sentences.

Questions, hypotheticals, negations and what is already resolved are not taken as facts. A sentence is of one
kind at most. What is found is a proposal: nothing here writes a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agenticpm.domain.reading import vocabulary as words
from agenticpm.domain.reading.criteria import is_criterion
from agenticpm.domain.reading.sentences import Sentence, split_sentences


class RaidKind(StrEnum):
    risk = "risk"
    assumption = "assumption"
    issue = "issue"
    dependency = "dependency"
    decision = "decision"


class Source(StrEnum):
    """Where a sentence stands. A description says how things shall be, a comment or mail what happened."""

    description = "description"
    comment = "comment"
    mail = "mail"


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that says something for the RAID log. A higher weight is a clearer statement."""

    kind: RaidKind
    quote: str
    weight: int


def read_statements(text: str, source: Source, *, is_held: bool = False) -> Iterator[Statement]:
    """Yield what the sentences of a text say. `is_held`: the ticket is known to be blocked or waiting."""
    for sentence in split_sentences(text):
        if (found := read_sentence(sentence, source, is_held=is_held)) is not None:
            yield found


def read_sentence(sentence: Sentence, source: Source, *, is_held: bool = False) -> Statement | None:
    """Return what a sentence says, or None."""
    if not _is_fact(sentence):
        return None
    text = sentence.text
    skipped = source is Source.description and is_criterion(text, sentence.line)
    for kind, weigh in _READERS[:1] if skipped else _READERS:
        if weight := weigh(text, source, is_held):
            return Statement(kind, text, weight)
    return None


def says_blocked(text: str) -> str | None:
    """Return the sentence that says that work is blocked now, or None."""
    found = None
    for sentence in split_sentences(text):
        if not _is_fact(sentence) or is_criterion(sentence.text, sentence.line):
            continue
        if _says(words.BLOCKED, words.NOT_BLOCKED, sentence.text) and not _is_resolved(sentence.text):
            found = sentence.text
    return found


def says_resolved(text: str) -> bool:
    """Return whether a later text ends what was said before: it is resolved, confirmed, back, or received."""
    return any(
        not sentence.is_question
        and (
            words.NOT_BLOCKED.search(sentence.text) is not None
            or words.NO_RISK.search(sentence.text) is not None
            or (
                words.LATER_RESOLVED.search(sentence.text) is not None
                and (words.NOT_YET.search(sentence.text) is None or _is_resolved(sentence.text))
            )
        )
        for sentence in split_sentences(text)
    )


def says_waiting(text: str) -> str | None:
    """Return the sentence that says that work waits for somebody, or None."""
    for sentence in split_sentences(text):
        if _is_fact(sentence) and _weigh_dependency(sentence.text, Source.comment, True):
            return sentence.text
    return None


def _is_fact(sentence: Sentence) -> bool:
    return not sentence.is_question and words.HYPOTHETICAL.search(sentence.text) is None


def _says(pattern: re.Pattern[str], negated: re.Pattern[str], text: str) -> bool:
    """Return whether the pattern occurs and its negation does not."""
    return bool(pattern.search(text)) and not negated.search(text)


# --- kinds --------------------------------------------------------------------------------------------------


def _weigh_assumption(text: str, source: Source, is_held: bool) -> int:
    return 3 if _says(words.ASSUMPTION, words.NO_ASSUMPTION, text) else 0


def _weigh_named_risk(text: str, source: Source, is_held: bool) -> int:
    """Weigh a sentence with the word risk, or with a fear."""
    return 3 if _says(words.RISK_WORD, words.NO_RISK, text) and not _is_resolved(text) else 0


def _weigh_possible_risk(text: str, source: Source, is_held: bool) -> int:
    """Weigh a possible event with a bad outcome; a description states rules for it, which are no risks."""
    if words.NO_RISK.search(text) or _is_resolved(text) or not words.BAD_OUTCOME.search(text):
        return 0
    has_condition = words.CONDITION.search(text) is not None
    if source is not Source.description and has_condition and words.POSSIBLE.search(text):
        return 2
    if source is Source.description and has_condition and not words.TEAM.search(text):
        return 0
    return 2 if words.MAYBE.search(text) and words.SERIOUS.search(text) else 0


def _weigh_strict_dependency(text: str, source: Source, is_held: bool) -> int:
    """Weigh a sentence in which work waits for somebody, and which is no condition."""
    pattern = words.DEPENDENCY_STATED if source is Source.description else words.DEPENDENCY
    return 3 if _says(pattern, words.NO_DEPENDENCY, text) and not _is_resolved(text) else 0


def _weigh_dependency(text: str, source: Source, is_held: bool) -> int:
    pattern = words.DEPENDENCY if is_held else words.DEPENDENCY_STATED
    return 2 if _says(pattern, words.NO_DEPENDENCY, text) and not _is_resolved(text) else 0


def _weigh_issue(text: str, source: Source, is_held: bool) -> int:
    """Weigh a sentence about something that went wrong; in a description only if the ticket is held."""
    if source is Source.description and not is_held:
        return 0
    if not _says(words.ISSUE, words.NO_ISSUE, text) or _is_resolved(text):
        return 0
    return 2


def _weigh_decision(text: str, source: Source, is_held: bool) -> int:
    return 2 if words.DECISION.search(text) else 0


def _is_resolved(text: str) -> bool:
    """Return whether the sentence says that the matter is over."""
    return words.RESOLVED.search(text) is not None


_READERS: Final = (
    (RaidKind.assumption, _weigh_assumption),
    (RaidKind.risk, _weigh_named_risk),
    (RaidKind.dependency, _weigh_strict_dependency),
    (RaidKind.risk, _weigh_possible_risk),
    (RaidKind.dependency, _weigh_dependency),
    (RaidKind.issue, _weigh_issue),
    (RaidKind.decision, _weigh_decision),
)
