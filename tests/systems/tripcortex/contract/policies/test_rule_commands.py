"""The commands `policies rules …` on a real PostgreSQL: policies by file name, rules by part of an id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from tests.systems.tripcortex.contract.policies.knowledge_base import Base
from tests.systems.tripcortex.contract.policies.known_rules import (
    CAP,
    ECONOMY,
    UNKNOWN,
    VAGUE,
    add_policy,
    propose_known,
)
from tripcortex.api.rule_commands import RULE_COMMANDS
from tripcortex.model.policies.rules import RuleStatus
from tripcortex.policies import rule_proposals
from tripcortex.policies.rule_review import RuleChanged


@pytest.fixture(autouse=True)
def _policy(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve one policy with four rules."""
    base.rows("DELETE FROM tripcortex.policies")
    monkeypatch.setattr(rule_proposals, "propose_rules", propose_known)
    add_policy(base, ECONOMY, CAP, VAGUE, UNKNOWN)


def run(base: Base, name: str, *given: Any, **options: Any) -> Any:
    """Run a command on the stores; return its result."""

    async def call() -> Any:
        return await RULE_COMMANDS[f"policies rules {name}"](base.stores, *given, **options)

    return base.run(call())


def list_statuses(base: Base) -> dict[str, str]:
    """Return the status of each rule by its quote."""
    return {each["quote"]: each["status"] for each in run(base, "list", "policy.md").page.items}


def get_id(base: Base, quote: str) -> str:
    """Return the id of the rule with this quote."""
    [rule] = [each for each in run(base, "list", "policy.md").page.items if each["quote"] == quote]
    return str(rule["rule_id"])


def test_lists_the_rules_of_a_policy_by_its_file_name_or_id(base: Base) -> None:
    [(policy_id,)] = base.rows("SELECT id FROM tripcortex.policies")
    assert list_statuses(base) == dict.fromkeys((ECONOMY, CAP, VAGUE, UNKNOWN), "proposed")
    by_id = run(base, "list", str(policy_id), status=RuleStatus.proposed).page.items
    assert [each["effect"] for each in by_id] == ["max_cabin", "fare_cap", "max_cabin", "unknown"]
    assert [each["complete"] for each in by_id] == [True, True, False, True]
    with pytest.raises(NotFound, match="No policy in service is named"):
        run(base, "list", "other.md")


def test_a_name_that_several_serving_policies_have_is_refused_with_their_ids(base: Base) -> None:
    second = add_policy(base, ECONOMY)
    with pytest.raises(InvalidRequest, match=str(second.id)):
        run(base, "list", "policy.md")


def test_confirms_rules_by_the_start_of_their_ids_and_shows_each_outcome(base: Base) -> None:
    economy, unknown = get_id(base, ECONOMY), get_id(base, UNKNOWN)
    done = run(base, "confirm", "policy.md", [economy[:8], unknown[:8]], by="ada").page.items
    assert [(each["rule_id"], each["status"]) for each in done] == [(economy, "confirmed"), (unknown, None)]
    assert "was not understood" in done[1]["problem"]
    shown = run(base, "show", "policy.md", economy)
    assert (shown["quote"], shown["section"], shown["decided_by"]) == (ECONOMY, "Rules", "ada")
    assert shown["rule"]["cabin"] == "economy" and "amount_usd" not in shown["rule"]
    assert [each["action"] for each in shown["changes"]] == ["confirm"]


def test_confirms_all_complete_rules_at_once(base: Base) -> None:
    run(base, "confirm-complete", "policy.md")
    assert list_statuses(base) == {
        ECONOMY: "confirmed",
        CAP: "confirmed",
        VAGUE: "proposed",
        UNKNOWN: "proposed",
    }


def test_edits_a_rule_from_a_file(base: Base, tmp_path: Path) -> None:
    changes = tmp_path / "changes.json"
    changes.write_text('{"amount_usd": 650}')
    edited = run(base, "edit", "policy.md", get_id(base, CAP), changes)
    assert (edited["status"], edited["rule"]["amount_usd"]) == ("confirmed", "650")
    for text, message in (("[]", "expected a JSON object"), ("{", "expected JSON")):
        changes.write_text(text)
        with pytest.raises(InvalidRequest, match=message):
            run(base, "edit", "policy.md", get_id(base, CAP), changes)
    with pytest.raises(InvalidRequest, match="Could not read"):
        run(base, "edit", "policy.md", get_id(base, CAP), tmp_path / "none.json")


def test_rejects_a_rule_only_in_the_version_that_was_seen(base: Base) -> None:
    rule_id = get_id(base, VAGUE)
    assert run(base, "reject", "policy.md", rule_id, version=1)["status"] == "rejected"
    with pytest.raises(RuleChanged):
        run(base, "reject", "policy.md", rule_id, version=1)
    with pytest.raises(InvalidRequest, match="--version is for one rule"):
        run(base, "confirm", "policy.md", [rule_id, get_id(base, CAP)], version=1)


def test_an_unknown_or_ambiguous_rule_is_refused(base: Base) -> None:
    with pytest.raises(NotFound, match="No rule of policy.md has the id"):
        run(base, "show", "policy.md", "zzz")
    with pytest.raises(InvalidRequest, match="Several rules start with ''"):
        run(base, "show", "policy.md", "")


def test_proposes_the_rules_of_a_policy_again(base: Base) -> None:
    run(base, "confirm", "policy.md", [get_id(base, ECONOMY)])
    base.rows("DELETE FROM tripcortex.policy_rules WHERE status = 'proposed'")
    run(base, "propose", "policy.md")
    assert list_statuses(base)[ECONOMY] == "confirmed" and list_statuses(base)[CAP] == "proposed"


def write_trips(folder: Path, trips: Any) -> Path:
    file = folder / "trips.json"
    file.write_text(json.dumps(trips))
    return file


@pytest.mark.parametrize(
    ("trips", "message"),
    [
        ([], "expected 1 to 500"),
        ("BOS", "Invalid trip 1: expected a JSON object"),
        ({"origin": "Boston"}, "Invalid trip 1: origin"),
        ({"origin": "BOS", "destination": "QQQ", "depart": "2026-04-14"}, "unknown airport QQQ"),
        (
            [{"origin": "BOS", "destination": "ORD", "depart": "2026-04-14", "price": 5}],
            "Invalid trip 1: unknown member price",
        ),
    ],
)
def test_invalid_trips_are_refused_with_their_number(
    base: Base, tmp_path: Path, trips: Any, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        run(base, "try", trip=write_trips(tmp_path, trips))
