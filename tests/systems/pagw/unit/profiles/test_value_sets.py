"""Expansion of value sets: what can be listed is listed, and what cannot is open."""

from __future__ import annotations

from typing import Any

from pagw.domain.profiles.tables import ValueSet
from tests.cases import all_cases
from tools.pas_profiles.value_sets import Expander

ANIMALS: dict[str, Any] = {
    "url": "urn:animals",
    "content": "complete",
    "concept": [
        {"code": "dog", "concept": [{"code": "poodle"}]},
        {"code": "cat"},
        {"code": "puppy", "property": [{"code": "subsumedBy", "valueCode": "dog"}]},
    ],
}
LICENSED: dict[str, Any] = {"url": "urn:licensed", "content": "not-present"}


def expand(*include: dict[str, Any], exclude: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    sets = {
        "urn:asked": {"compose": {"include": [*include], "exclude": [*exclude]}},
        "urn:cats": {"compose": {"include": [{"system": "urn:animals", "concept": [{"code": "cat"}]}]}},
        "urn:loop": {"compose": {"include": [{"valueSet": ["urn:loop"]}]}},
    }
    return Expander(sets, {"urn:animals": ANIMALS, "urn:licensed": LICENSED}).expand("urn:asked")


def filter_by(operator: str, value: str) -> dict[str, Any]:
    return {"system": "urn:animals", "filter": [{"property": "concept", "op": operator, "value": value}]}


@all_cases(
    ("include", "codes"),
    [
        ({"system": "urn:animals"}, ["cat", "dog", "poodle", "puppy"]),
        ({"system": "urn:animals", "concept": [{"code": "cat"}]}, ["cat"]),
        (filter_by("is-a", "dog"), ["dog", "poodle", "puppy"]),
        (filter_by("descendent-of", "dog"), ["poodle", "puppy"]),
        (filter_by("is-not-a", "dog"), ["cat"]),
        ({"valueSet": ["urn:cats|1.0"]}, ["cat"]),
    ],
)
def test_lists_codes(include: dict[str, Any], codes: list[str]) -> None:
    assert expand(include) == {"codes": {"urn:animals": codes}, "open": []}


@all_cases(
    ("include", "open"),
    [
        ({"system": "urn:licensed"}, ["urn:licensed"]),
        ({"system": "urn:unknown", "filter": []}, ["urn:unknown"]),
        (filter_by("regex", "d.*"), ["urn:animals"]),
        ({"valueSet": ["urn:nowhere"]}, ["*"]),
        ({"valueSet": ["urn:loop"]}, ["*"]),
    ],
)
def test_leaves_open_what_cannot_be_listed(include: dict[str, Any], open: list[str]) -> None:
    assert expand(include) == {"codes": {}, "open": open}


def test_removes_excluded_codes() -> None:
    found = expand({"system": "urn:animals"}, exclude=(filter_by("is-a", "dog"),))
    assert found["codes"] == {"urn:animals": ["cat"]}


def test_a_code_of_an_open_value_set_is_neither_allowed_nor_refused() -> None:
    closed = ValueSet({"s": frozenset({"a"})}, frozenset())
    assert (closed.allows("a", "s"), closed.allows("a", None), closed.allows("b", "s")) == (True, True, False)
    half = ValueSet({"s": frozenset({"a"})}, frozenset({"t"}))
    assert (half.allows("a", "s"), half.allows("b", "t"), half.allows("b", None)) == (True, None, None)
