"""Tests of rank fusion, of its spread over sections, and of synonyms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tripcortex.domain.policy_search.general_terms import ACROSS, AIRLINE, WITHIN, find_general_terms
from tripcortex.domain.policy_search.query_expansion import expand_question
from tripcortex.domain.policy_search.rank_fusion import fuse, spread_over_sections
from tripcortex.domain.policy_search.synonyms import find_synonyms

ORDERS = st.lists(st.integers(0, 30), unique=True, max_size=20)


def test_high_in_both_rankings_beats_first_in_one() -> None:
    assert fuse(["a", "b", "c"], ["d", "b", "e"])[0] == "b"
    assert fuse(["a"], ["b"]) == ["a", "b"]


@given(ORDERS, ORDERS)
def test_fusion_keeps_every_entry_and_the_agreed_order(one: list[int], other: list[int]) -> None:
    found = fuse(one, other)
    assert sorted(found) == sorted({*one, *other})
    assert fuse(one, one) == one


def test_at_most_half_of_the_result_is_of_one_section() -> None:
    sections = {"a1": "a", "a2": "a", "b1": "b", "a3": "a", "c1": "c"}
    assert spread_over_sections(list(sections), sections, 4) == ["a1", "a2", "b1", "c1"]
    assert spread_over_sections(list(sections), sections, 2) == ["a1", "b1"]
    assert spread_over_sections(["a1", "a2", "a3"], sections, 3) == ["a1", "a2", "a3"]


@given(ORDERS, st.integers(1, 5), st.integers(1, 30))
def test_spread_returns_each_entry_once(order: list[int], sections: int, count: int) -> None:
    found = spread_over_sections(order, {each: each % sections for each in order}, count)
    assert len(found) == len(set(found)) == min(count, len(order))
    assert found[:1] == order[:1]


def test_adds_the_country_and_the_region_of_a_place() -> None:
    assert find_general_terms("trip to Shanghai") == f"China Asia Asia Pacific {ACROSS}"
    assert find_general_terms("may i fly from delhi to mumbai?") == f"India Asia Asia Pacific {WITHIN}"
    assert find_general_terms("From the UK to São Paulo").endswith(ACROSS)
    # A city's name in small letters may be another word.
    assert find_general_terms("a nice room for reading") == ""
    assert find_general_terms("Is Nice in Europe?").startswith("France Europe")


def test_adds_a_general_word_for_an_airline() -> None:
    assert find_general_terms("Can I take Lufthansa?") == AIRLINE
    assert expand_question("Can I take Lufthansa?").endswith(AIRLINE)


def test_adds_the_policys_synonym_for_a_travellers_word() -> None:
    assert "lodging" in find_synonyms("Which hotels may I choose?")
    assert "authorizing official" in find_synonyms("My boss is ill")
    assert "baggage" in find_synonyms("two SUITCASES")
    assert "nonrefundable" in find_synonyms("a ticket that cannot be refunded")
    assert find_synonyms("What is the boiling point of ethanol?") == []
    # A part of another word does not count.
    assert "taxi" not in find_synonyms("a cabinet")
    assert "hotel" not in find_synonyms("Which hotel may I choose?")
