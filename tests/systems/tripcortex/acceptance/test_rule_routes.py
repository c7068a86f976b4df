"""The review of rules over real HTTP with PostgreSQL: what an admin sees, decides and tries, and races."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import httpx2
import pytest

from holdfast.web import PROBLEM_JSON
from tests.systems.tripcortex.acceptance.live_service import Service, start_service
from tripcortex.domain.policy_rules.proposals import PolicyEntity
from tripcortex.domain.policy_rules.rules import Effect, PolicyRule
from tripcortex.model.entities import Cabin
from tripcortex.policies import rule_proposals
from tripcortex.policies.embedding import build_local_embedding
from tripcortex.policies.ingestion import ingest_pending

ADMIN = {"is_admin": True}
ECONOMY = "Economy class is the highest cabin on every flight."
BUSINESS = "Business class may be booked on flights of our choice."
POLICY = f"# Air travel\n\n{ECONOMY}\n\n{BUSINESS}\n".encode()
STATEMENTS: dict[str, dict[str, Any]] = {
    ECONOMY: {"effect": Effect.max_cabin, "cabin": Cabin.economy},
    BUSINESS: {"effect": Effect.max_cabin, "cabin": Cabin.business, "is_complete": False},
}
TRIP = {"origin": "BOS", "destination": "ORD", "depart": "2026-04-14", "cabin": "business"}


def propose_known(entities: Iterable[PolicyEntity]) -> tuple[PolicyRule, ...]:
    """Propose the rules of the two sentences, as the extraction does for those it understands."""
    return tuple(
        PolicyRule(text=each.text, quote=each.text, page=each.page, section="Air travel", **known).with_id()
        for each in entities
        if (known := STATEMENTS.get(each.text)) is not None
    )


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with start_service(tmp_path_factory.mktemp("rules"), with_policies=True) as made:
        yield made


@pytest.fixture
def policy_id(web: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Upload and ingest a policy with two rules; remove it afterwards."""
    monkeypatch.setattr(rule_proposals, "propose_rules", propose_known)
    sent = {"file": ("air.md", POLICY, "text/markdown")}
    made = web.call("POST", "/policies", "emp-ada", files=sent, token=ADMIN)
    web.run(ingest_pending(web.stores, build_local_embedding()))
    policy_id = made.json()["id"]
    yield policy_id
    web.call("DELETE", f"/policies/{policy_id}", token=ADMIN)


def test_an_admin_lists_rules_with_their_words_and_place(web: Service, policy_id: str) -> None:
    listed = web.call("GET", f"/policies/{policy_id}/rules", token=ADMIN).json()
    assert (listed["policyId"], listed["fileName"], listed["serves"]) == (policy_id, "air.md", True)
    economy, business = listed["items"]
    assert (economy["quote"], economy["section"], economy["status"]) == (ECONOMY, "Air travel", "proposed")
    assert (economy["rule"]["effect"], economy["rule"]["cabin"]) == ("max_cabin", "economy")
    assert (economy["isComplete"], business["isComplete"]) == (True, False)
    confirmed = web.call("GET", f"/policies/{policy_id}/rules?status=confirmed", token=ADMIN).json()
    assert confirmed["items"] == []
    check_problem(web.call("GET", f"/policies/{policy_id}/rules?status=perhaps", token=ADMIN), 400)


def test_decisions_are_recorded_with_the_admin_and_the_reason(web: Service, policy_id: str) -> None:
    economy, business = list_rules(web, policy_id)
    done = decide(web, economy, "confirm", reason="As we agreed.")
    assert (done["status"], done["version"], done["decidedBy"]) == ("confirmed", 2, "emp-ada")
    rejected = decide(web, business, "reject")
    assert rejected["status"] == "rejected"
    detail = web.call("GET", f"/policies/{policy_id}/rules/{economy['ruleId']}", token=ADMIN).json()
    [change] = detail["changes"]
    assert (change["action"], change["changedBy"], change["reason"]) == (
        "confirm",
        "emp-ada",
        "As we agreed.",
    )
    assert change["rule"] == detail["rule"]


def test_an_edit_shows_the_proposal_next_to_the_rule_that_decides(web: Service, policy_id: str) -> None:
    _, business = list_rules(web, policy_id)
    changes = {"is_complete": True, "scope": {"hours": {"low": "8"}}}
    edited = decide(web, business, "edit", changes=changes)
    assert (edited["status"], edited["quote"]) == ("confirmed", BUSINESS)
    assert edited["rule"]["scope"]["hours"]["low"] == "8"
    assert edited["proposed"]["scope"]["hours"]["low"] is None
    path = f"/policies/{policy_id}/rules/{business['ruleId']}/edit"
    body = {"version": 2, "changes": {"couch": True}}
    problem = check_problem(web.call("POST", path, "emp-ada", json=body, token=ADMIN), 400)
    assert "unknown member couch" in problem["detail"]


def test_the_second_of_two_admins_gets_409_in_plain_words(web: Service, policy_id: str) -> None:
    economy, _ = list_rules(web, policy_id)
    decide(web, economy, "reject")
    path = f"/policies/{policy_id}/rules/{economy['ruleId']}"
    for action, more in (("confirm", {}), ("reject", {}), ("edit", {"changes": {"cabin": "business"}})):
        body = {"version": economy["version"], **more}
        answer = web.call("POST", f"{path}/{action}", "emp-ben", json=body, token=ADMIN)
        problem = check_problem(answer, 409)
        assert "you saw version 1, and it is now version 2, rejected by emp-ada" in problem["detail"]
        assert "SQL" not in problem["detail"] and "UPDATE" not in problem["detail"]


def test_several_rules_are_confirmed_with_the_outcome_of_each(web: Service, policy_id: str) -> None:
    economy, business = list_rules(web, policy_id)
    path = f"/policies/{policy_id}/rules/confirm"
    seen = [{"ruleId": economy["ruleId"], "version": 1}, {"ruleId": business["ruleId"], "version": 7}]
    first, second = web.call("POST", path, json={"rules": seen}, token=ADMIN).json()["items"]
    assert (first["confirmed"], first["version"], first["problem"]) == (True, 2, None)
    assert not second["confirmed"] and "you saw version 7" in second["problem"]
    for body in ({}, {"rules": seen, "allComplete": True}, {"rules": [{"ruleId": "x"}]}):
        check_problem(web.call("POST", path, json=body, token=ADMIN), 400)


def test_all_complete_rules_are_confirmed_only_by_request(web: Service, policy_id: str) -> None:
    economy, _ = list_rules(web, policy_id)
    path = f"/policies/{policy_id}/rules/confirm"
    done = web.call("POST", path, json={"allComplete": True}, token=ADMIN).json()["items"]
    assert [(each["ruleId"], each["confirmed"]) for each in done] == [(economy["ruleId"], True)]
    assert [each["status"] for each in list_rules(web, policy_id)] == ["confirmed", "proposed"]


def test_rules_can_be_read_again_without_losing_decisions(web: Service, policy_id: str) -> None:
    economy, _ = list_rules(web, policy_id)
    decide(web, economy, "confirm")
    again = web.call("POST", f"/policies/{policy_id}/rules/propose", token=ADMIN).json()
    assert [each["status"] for each in again["items"]] == ["confirmed", "proposed"]


def test_unknown_policies_and_rules_are_not_found(web: Service, policy_id: str) -> None:
    absent = "00000000-0000-4000-8000-000000000000"
    for path in (f"/policies/{absent}/rules", "/policies/x/rules", f"/policies/{policy_id}/rules/none"):
        check_problem(web.call("GET", path, token=ADMIN), 404)
    for action in ("confirm", "reject"):
        answer = web.call(
            "POST", f"/policies/{policy_id}/rules/none/{action}", json={"version": 1}, token=ADMIN
        )
        check_problem(answer, 404)


# --- helpers ------------------------------------------------------------------------------------------------


def list_rules(web: Service, policy_id: str) -> list[dict[str, Any]]:
    """Return the rules of the policy as the API shows them."""
    found: list[dict[str, Any]] = web.call("GET", f"/policies/{policy_id}/rules", token=ADMIN).json()["items"]
    return found


def decide(web: Service, rule: dict[str, Any], action: str, **more: Any) -> dict[str, Any]:
    """Decide about the rule as emp-ada, in the version that was seen; return the rule afterwards."""
    path = f"/policies/{rule['policyId']}/rules/{rule['ruleId']}/{action}"
    answer = web.call("POST", path, "emp-ada", json={"version": rule["version"], **more}, token=ADMIN)
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


def check_problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """Check that the response is a problem with this status; return it."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == PROBLEM_JSON
    problem: dict[str, Any] = answer.json()
    return problem
