"""Judging trips by the rules that are read from a policy: nothing is permitted by accident."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.systems.tripcortex.unit.policy_rules.documents import POLICY, judge, make_trip, read_policy
from tests.systems.tripcortex.unit.policy_rules.trips import POLICY as JSON_POLICY
from tripcortex.domain.policy_rules import STRICTEST
from tripcortex.domain.policy_rules.conversion import convert_policy
from tripcortex.domain.policy_rules.extraction.statements import MAX_SENTENCE_CHARS, split_sentences
from tripcortex.domain.policy_rules.judgement import judge_trip
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, merge_approvers


@pytest.mark.parametrize(
    ("trip", "verdict", "approvers"),
    [
        pytest.param({"to": "ORD", "price": 600}, "allowed", (), id="at the cap of both ways"),
        pytest.param({"to": "ORD", "price": 601}, "approval", ("Line manager",), id="above the cap"),
        pytest.param({"to": "LHR", "price": 1500}, "allowed", (), id="other route, other cap"),
        pytest.param(
            {"to": "LHR", "price": 1700}, "approval", ("Line manager", "Finance"), id="two approvers"
        ),
        pytest.param(
            {"to": "LHR", "price": 900, "return_date": None},
            "approval",
            ("Line manager", "Finance"),
            id="one way has half of the money",
        ),
        pytest.param({"to": "ORD", "days": 10}, "approval", ("line manager",), id="late"),
        pytest.param({"to": "ORD", "days": 3}, "approval", ("line manager", "Finance"), id="very late"),
        pytest.param(
            {"to": "NRT", "cabin": "premium_economy"}, "allowed", (), id="permitted on long flights"
        ),
        pytest.param(
            {"to": "ORD", "cabin": "premium_economy"},
            "approval",
            ("travel-desk",),
            id="above the standard on short ones",
        ),
        pytest.param({"to": "NRT", "cabin": "business"}, "approval", ("Vice President",), id="business long"),
        pytest.param({"to": "ORD", "cabin": "business"}, "forbidden", (), id="business short"),
        pytest.param({"to": "NRT", "cabin": "first"}, "forbidden", (), id="first"),
        pytest.param({"to": "ORD", "carrier": "NK"}, "forbidden", (), id="prohibited airline"),
        pytest.param({"to": "SVO"}, "forbidden", (), id="prohibited country"),
        pytest.param({"to": "PVG"}, "approval", ("Security",), id="a country that needs an approval"),
        pytest.param({"to": "GRU"}, "allowed", (), id="no cap for the route"),
    ],
)
def test_complete_policy_decides(trip: dict[str, Any], verdict: str, approvers: tuple[str, ...]) -> None:
    found = judge(POLICY, "SFO", trip.pop("to"), **trip)
    assert (found.verdict, found.approvers) == (verdict, approvers), found.breaches


def test_rule_outside_the_scope_of_the_trip_never_applies() -> None:
    found = judge(POLICY, "SFO", "ORD", price=601)
    assert [rule.quote for rule in found.applied if rule.amount_usd] == ["US domestic | $300 | Line manager"]


def test_what_a_complete_policy_does_not_mention_is_not_restricted() -> None:
    policy = "# Policy\n\nEconomy class is required on all flights.\n"
    assert judge(policy, "SFO", "ORD", price=9000, days=0).verdict is Outcome.allowed
    better = judge(policy, "SFO", "ORD", cabin="business")
    assert (better.verdict, better.approvers) == (Outcome.approval, ("travel-desk",))


@pytest.mark.parametrize(
    ("statement", "subject"),
    [
        ("The fare of a flight is limited to the amount of 300 quatloos or $90 in orbit.", "fare"),
        ("Tickets are booked in advance, by 12 days or by moon, whichever is sooner.", "notice"),
    ],
)
def test_statement_that_was_not_understood_leaves_its_subject_to_a_person(
    statement: str, subject: Literal["fare", "notice"]
) -> None:
    rule = PolicyRule(
        text=statement, quote=statement, effect=Effect.unknown, subject=subject, is_complete=False
    ).with_id()
    complete = read_policy("# Policy\n\nEconomy class is required on all flights.\n")
    assert judge_trip(complete, make_trip("SFO", "ORD")).verdict is Outcome.allowed
    found = judge_trip((*complete, rule), make_trip("SFO", "ORD"))
    assert (found.verdict, found.uncovered) == (Outcome.approval, (subject,))


def test_proposal_that_waits_decides_nothing_and_leaves_its_subject_open() -> None:
    rules = read_policy()
    pending = [rule.model_copy(update={"is_pending": True}) for rule in rules if rule.effect is Effect.notice]
    others = [rule for rule in rules if rule.effect is not Effect.notice]
    late = make_trip("SFO", "ORD", days=3)
    assert judge_trip(others, late).verdict is Outcome.allowed
    found = judge_trip((*others, *pending), late)
    assert (found.verdict, found.uncovered, found.approvers) == ("approval", ("notice",), ("travel-desk",))


def test_amounts_in_another_currency_count_by_the_rate_of_the_policy() -> None:
    policy = POLICY.replace("$300", "€300").replace("Version 4.", "Version 4. 1 EUR = 1.50 USD.")
    verdicts = [judge(policy, "SFO", "ORD", price=price).verdict for price in (890, 910)]
    assert verdicts == ["allowed", "approval"]


def test_without_any_rule_a_person_decides() -> None:
    assert judge_trip((), make_trip("SFO", "ORD")).verdict is Outcome.approval


@pytest.mark.parametrize(
    "sentence",
    [
        "Business class may be booked for travellers with a medical certificate.",
        "Business class is permitted on flights operated in the winter season if a client pays.",
        "Business class is permitted for travel to zone 9.",
        "Business class is available to upgraded passengers.",
    ],
)
def test_condition_that_was_not_understood_permits_nothing(sentence: str) -> None:
    policy = POLICY.replace("- First class", f"- {sentence}\n- First class").replace(
        "- Business class on long-haul flights requires the approval of the Vice President.\n", ""
    )
    assert judge(policy, "SFO", "NRT", cabin="business").verdict is not Outcome.allowed


def test_estimate_close_to_a_limit_counts_as_the_strict_side() -> None:
    # About 8.0 hours by distance: neither the permission nor the prohibition of 8 hours is certain.
    near = make_trip("ORD", "LHR", cabin="premium_economy")
    assert judge_trip(read_policy(), near).verdict is Outcome.approval
    known = near.model_copy(update={"outbound_hours": "9.5", "inbound_hours": "10.5"})
    assert judge_trip(read_policy(), known).verdict is Outcome.allowed


def test_unknown_level_gets_no_permission_of_a_level() -> None:
    policy = POLICY.replace("- Premium economy is", "- For directors and above, premium economy is")
    verdicts = [
        judge(policy, "SFO", "NRT", cabin="premium_economy", employee_level=level).verdict
        for level in (None, "manager", "director", "vice president")
    ]
    assert verdicts == ["approval", "approval", "allowed", "allowed"]


def test_amounts_of_hotels_and_meals_are_not_fares() -> None:
    policy = POLICY.replace(
        "## 5.", "## Hotels\n\nThe limit is $190 per night. Meals are limited to $60 a day.\n\n## 5."
    )
    assert judge(policy, "SFO", "ORD", price=600).verdict is Outcome.allowed


def test_rules_round_trip_as_json_and_have_stable_ids() -> None:
    rules = read_policy()
    assert [PolicyRule.model_validate_json(rule.model_dump_json()) for rule in rules] == list(rules)
    moved = read_policy(POLICY.replace("Version 4.", "Version 5."))
    assert {rule.rule_id for rule in rules} == {rule.rule_id for rule in moved}
    assert len({rule.rule_id for rule in rules}) == len(rules)


def test_every_rule_has_its_quote_and_section() -> None:
    for rule in read_policy():
        assert rule.quote
        assert rule.section


# --- the machine-readable policy ----------------------------------------------------------------------------


def test_converted_policy_decides_as_its_keys_say() -> None:
    rules = convert_policy(JSON_POLICY)
    cap = min(rule.amount_usd for rule in rules if rule.amount_usd)
    assert judge_trip(rules, make_trip("SFO", "ORD", price=100)).verdict is Outcome.allowed
    assert judge_trip(rules, make_trip("SFO", "ORD", price=cap * 10)).verdict is not Outcome.allowed


def test_strictest_defaults_forbid_what_they_do_not_allow() -> None:
    rules = convert_policy(STRICTEST)
    assert judge_trip(rules, make_trip("SFO", "ORD", price=300)).verdict is Outcome.allowed
    assert judge_trip(rules, make_trip("SFO", "ORD", price=301)).verdict is Outcome.forbidden
    assert judge_trip(rules, make_trip("SFO", "ORD", cabin="business")).verdict is Outcome.forbidden
    assert judge_trip(rules, make_trip("SFO", "ORD", days=6)).verdict is Outcome.forbidden


def test_reads_long_sentences_in_linear_pieces() -> None:
    words = "business class is permitted " * 200
    pieces = split_sentences(words)
    assert max(map(len, pieces)) <= MAX_SENTENCE_CHARS
    assert " ".join(pieces) == words.strip()


def test_approvers_of_several_rules_are_named_once() -> None:
    chains = [("L1 Manager", "Finance"), ("L1",), ("VP",), ("VP-level",)]
    assert merge_approvers(chains) == ("L1 Manager", "Finance", "VP")
