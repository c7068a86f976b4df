"""Policies of several kinds (tables, lists, prose, matrices of levels), each with trips and their verdicts.

The laws hold for each of them: a part of a policy, another order, or a stricter statement next to it never
permits more.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.systems.tripcortex.unit.policy_rules.documents import POLICY, make_trip, read_policy
from tripcortex.documents import DocumentRefused
from tripcortex.domain.policy_rules.judgement import judge_trip
from tripcortex.domain.policy_rules.rules import Outcome, PolicyRule
from tripcortex.domain.policy_rules.trips import Trip

FOLDER: Final = Path(__file__).parent / "policies"
NAMES: Final = sorted(path.stem for path in FOLDER.glob("*.md"))
CUTS: Final = 30


@cache
def read_text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


@cache
def read_rules(name: str) -> tuple[PolicyRule, ...]:
    return read_policy(read_text(name))


@cache
def read_cases(name: str) -> tuple[tuple[Trip, str], ...]:
    """Return the trips of a policy with their verdicts."""
    cases: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return tuple((make_trip(**values), values["verdict"]) for values in cases)


def list_wider(name: str, text: str) -> list[str]:
    """Return the trips of the policy that the given text permits although the whole policy does not."""
    try:
        rules = read_policy(text)
    except DocumentRefused:
        rules = ()
    return [
        f"{trip.origin}-{trip.destination} {trip.cabin}"
        for trip, _ in read_cases(name)
        if judge_trip(rules, trip).verdict is Outcome.allowed
        and judge_trip(read_rules(name), trip).verdict is not Outcome.allowed
    ]


@pytest.mark.parametrize(
    ("name", "index"), [(name, index) for name in NAMES for index in range(len(read_cases(name)))]
)
def test_trip_is_judged_as_the_policy_says(name: str, index: int) -> None:
    trip, verdict = read_cases(name)[index]
    found = judge_trip(read_rules(name), trip)
    assert found.verdict == verdict, found.breaches


@pytest.mark.parametrize("name", NAMES)
def test_truncated_policy_never_permits_more(name: str) -> None:
    text = read_text(name)
    places = Random(name).sample(range(40, len(text) - 1), CUTS)
    # A cut behind a finished sentence or row leaves no trace in the text.
    cuts = [cut for cut in places if not text[:cut].rstrip("\n #").endswith((".", "|"))]
    assert cuts
    assert {cut: wider for cut in cuts if (wider := list_wider(name, text[:cut]))} == {}


@pytest.mark.parametrize("name", [name for name in NAMES if read_text(name).count("\n## ") > 2])
def test_order_of_sections_does_not_matter(name: str) -> None:
    head, *sections = read_text(name).split("\n## ")
    Random(name).shuffle(sections)
    assert list_wider(name, "\n## ".join([head.rstrip("\n") + "\n", *sections]).rstrip("\n") + "\n") == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "statement",
    [
        "The maximum fare is $5,000 per ticket on all flights.",
        "Flights may be booked up to 1 day before departure without approval.",
        "Business class",
        "Business class is permitted for travellers whose meeting starts on the day of",
        "Economy class is the standard for all flights.",
    ],
)
def test_contradictory_or_incomplete_statement_never_permits_more(name: str, statement: str) -> None:
    assert list_wider(name, f"{read_text(name).rstrip()}\n\n{statement}\n") == []


@pytest.mark.parametrize("name", NAMES)
def test_stricter_amounts_next_to_the_policys_own_never_permit_more(name: str) -> None:
    text = read_text(name)
    stricter = "\n\n".join(line.replace("$1,", "$") for line in text.splitlines() if line.startswith("- "))
    assert list_wider(name, f"{text}\n\n{stricter}\n") == []


@pytest.mark.parametrize(
    "reference", ["See Section 12 for exceptions.", "Fares are limited as stated in Appendix Q."]
)
def test_policy_that_refers_to_a_missing_section_permits_nothing(reference: str) -> None:
    rules = read_policy(POLICY.replace("Ask the travel desk.", f"Ask the travel desk. {reference}"))
    assert judge_trip(read_policy(), make_trip("SFO", "ORD")).verdict is Outcome.allowed
    assert judge_trip(rules, make_trip("SFO", "ORD")).verdict is Outcome.approval
    assert any("does not have" in note for rule in rules for note in rule.notes)
