"""Sentences, quotes and acceptance criteria."""

from __future__ import annotations

import pytest

from agenticpm.domain.reading.criteria import has_criteria
from agenticpm.domain.reading.sentences import remove_quotes, split_quotes, split_sentences, unwrap

CRITERIA = (
    "AC1: sorted\nAC2: filtered",
    "Acceptance Criteria (draft)\n- sorted",
    "The user sees a list. AC: sorted",
    "Given a user\nWhen he signs in\nThen he sees the list",
    "Gegeben ein Dienst, wenn er endet, dann wird er bezahlt",
    "Étant donné un prêt, quand il finit, alors un mail part",
    "Dado un turno cuando termina entonces se cierra",
    "[ ] sorted\n[x] filtered",
    "Abnahmekriterien: sortiert",
    "Critères d’acceptation :\n- trié",
    "Criterios de aceptación\n- ordenado",
    "Definition of Done\n- merged",
    "Done when the list is sorted.",
    "| Given | When | Then |\n| a | b | c |",
)
NO_CRITERIA = (
    "Done.",
    "As a user I want to see the list so that I can choose.",
    "Acceptance test went fine today",
    "We should discuss acceptance with Anna.",
    "Als Kunde möchte ich wählen, wenn ich da bin.",
    "The AC unit in the room is broken",
)


@pytest.mark.parametrize("text", CRITERIA)
def test_recognises_acceptance_criteria(text: str) -> None:
    assert has_criteria(text)


@pytest.mark.parametrize("text", NO_CRITERIA)
def test_takes_no_other_text_for_criteria(text: str) -> None:
    assert not has_criteria(text)


def test_splits_sentences_but_not_abbreviations() -> None:
    found = [each.text for each in split_sentences("Sent to Dr. Weber on 3. May. Is it there? Not yet seen.")]
    assert found == ["Sent to Dr. Weber on 3. May.", "Is it there?", "Not yet seen."]


def test_separates_own_words_from_quotes() -> None:
    own, quoted = split_quotes("It is sorted.\n\nOn 3 May Ann wrote:\n> We may be late.")
    assert (own.strip(), quoted.strip()) == ("It is sorted.", "We may be late.")
    assert remove_quotes("> old\nnew") == "new"


def test_joins_the_lines_of_a_paragraph() -> None:
    assert unwrap("one\ntwo\n\n- three\n- four") == "one two\n- three\n- four"
