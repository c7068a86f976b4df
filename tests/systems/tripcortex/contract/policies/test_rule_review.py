"""Rules of policies on a real PostgreSQL: proposals at ingestion, an administrator's decisions, and races."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from holdfast.core.errors import ConditionFailed, InvalidRequest, NotFound
from tests.postgres import connect
from tests.systems.tripcortex.contract.policies.knowledge_base import AXES, BEGAN, Base
from tests.systems.tripcortex.contract.policies.known_rules import (
    CAP,
    CAP_RAISED,
    ECONOMY,
    GIVEN,
    UNKNOWN,
    VAGUE,
    add_policy,
    make_parser,
    propose_known,
)
from tripcortex.domain.policy_rules.proposals import PolicyEntity
from tripcortex.domain.policy_rules.rules import PolicyRule, RuleScope
from tripcortex.model.policies import patterns
from tripcortex.model.policies import rules_patterns as rule_patterns
from tripcortex.model.policies.rules import RuleAction, RuleStatus, StoredRule
from tripcortex.model.policies.schema import Policy, PolicyStatus
from tripcortex.policies import rule_proposals
from tripcortex.policies.ingestion import ingest, replace, roll_back, roll_forward, sweep
from tripcortex.policies.rule_loader import load_confirmed_rules, load_serving_rules
from tripcortex.policies.rule_proposals import propose_again
from tripcortex.policies.rule_review import (
    BulkResult,
    Decider,
    RuleChanged,
    SeenRule,
    confirm,
    confirm_complete,
    confirm_several,
    edit,
    list_rules,
    load_rule,
    reject,
)
from tripcortex.policies.uploads import upload

MACHINE_READABLE = {"version": "1", "caps": [{"route": "domestic", "max_usd": 450}]}
ADA, BEN = Decider("emp-ada"), Decider("emp-ben", "Agreed in the meeting.")


@pytest.fixture(autouse=True)
def _clean(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete all policies, reset the clock, and read rules from `STATEMENTS`."""
    base.rows("DELETE FROM tripcortex.policies")
    base.clock.at = BEGAN
    monkeypatch.setattr(rule_proposals, "propose_rules", propose_known)


def add_edition(base: Base, document: Policy, *sentences: str) -> Policy:
    """Upload and ingest the next edition of a document; it serves."""
    base.clock.at += 60
    new = base.run(replace(base.stores, document.id, GIVEN))
    return base.run(ingest(base.stores, new.id, make_parser(*sentences), AXES))


def read_rules(base: Base, policy: Policy) -> dict[str, StoredRule]:
    """Return the rules of an edition by their quote."""
    return {each.quote or "": each for each in base.run(list_rules(base.stores, policy.id))}


def see(base: Base, policy: Policy, quote: str) -> SeenRule:
    """Return the rule with this quote in its current version."""
    rule = read_rules(base, policy)[quote]
    return SeenRule(policy.id, rule.rule_id, rule.version)


def list_deciding(base: Base) -> list[str]:
    """Return the quotes of the rules that decide about bookings now."""
    return [each.quote for each in base.run(load_confirmed_rules(base.stores))]


def list_actions(base: Base, rule: StoredRule) -> list[tuple[int, str, str | None]]:
    """Return version, action and person of each entry in a rule's log."""
    found = base.run(base.stores.run(rule_patterns.rule_changes(rule.policy_id, rule.rule_id)))
    return [(each.version, each.action.value, each.changed_by) for each in found]


# --- proposals ----------------------------------------------------------------------------------------------


def test_ingestion_proposes_rules_with_their_place_and_none_decides(base: Base) -> None:
    policy = add_policy(base, "Welcome to a hotel.", ECONOMY, CAP)
    rules = base.run(list_rules(base.stores, policy.id))
    assert [(each.quote, each.page, each.section, each.status) for each in rules] == [
        (ECONOMY, 1, "Rules", RuleStatus.proposed),
        (CAP, 1, "Rules", RuleStatus.proposed),
    ]
    assert list_deciding(base) == []
    assert [each.quote for each in base.run(load_serving_rules(base.stores)).proposed] == [ECONOMY, CAP]


def test_json_of_a_policy_counts_as_confirmed_by_its_uploader(base: Base) -> None:
    policy = add_policy(base, ECONOMY, rules=MACHINE_READABLE)
    from_json = [each for each in base.run(list_rules(base.stores, policy.id)) if each.origin == "json"]
    assert from_json and all(each.status is RuleStatus.confirmed for each in from_json)
    assert {each.decided_by for each in from_json} == {"emp-7"}
    assert list_actions(base, from_json[0]) == [(1, "upload", "emp-7")]
    deciding = base.run(load_confirmed_rules(base.stores))
    assert [each.rule_id for each in deciding] == [each.rule_id for each in from_json]
    assert {(each.policy_id, each.file_name) for each in deciding} == {(str(policy.id), "policy.md")}


def test_a_json_that_is_not_a_policy_fails_the_ingestion_with_the_reason(base: Base) -> None:
    policy = add_policy(base, ECONOMY, rules={"cabin": "economy"})
    assert policy.status is PolicyStatus.failed
    assert policy.error_message is not None and policy.error_message.startswith("Invalid travel policy:")


def test_a_failing_extraction_leaves_a_policy_without_proposals(
    base: Base, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(entities: object) -> tuple[PolicyRule, ...]:
        raise KeyError("a bug")

    monkeypatch.setattr(rule_proposals, "propose_rules", fail)
    policy = add_policy(base, ECONOMY)
    assert policy.serves and read_rules(base, policy) == {}
    assert f"policies rules propose {policy.id}" in caplog.text


def test_a_crash_before_the_commit_leaves_no_rules_and_the_next_attempt_stores_each_once(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """Stands for the end of the process."""

    def kill(*_: object) -> object:
        raise Killed

    waiting = base.run(upload(base.stores, GIVEN))
    with monkeypatch.context() as patch:
        patch.setattr(patterns, "set_serving", kill)
        with pytest.raises(Killed):
            base.run(ingest(base.stores, waiting.id, make_parser(ECONOMY, CAP), AXES))
    assert base.rows("SELECT count(*) FROM tripcortex.policy_rules") == [(0,)]
    base.clock.at += 600
    base.run(sweep(base.stores))
    done = base.run(ingest(base.stores, waiting.id, make_parser(ECONOMY, CAP), AXES))
    assert done.serves and set(read_rules(base, done)) == {ECONOMY, CAP}


def test_a_worker_that_lost_the_policy_stores_no_rules(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = base.run(upload(base.stores, GIVEN))

    def lose(entities: Iterable[PolicyEntity]) -> tuple[PolicyRule, ...]:
        base.rows("UPDATE tripcortex.policies SET version = version + 1 WHERE id = %s", waiting.id)
        return propose_known(entities)

    monkeypatch.setattr(rule_proposals, "propose_rules", lose)
    with pytest.raises(ConditionFailed):
        base.run(ingest(base.stores, waiting.id, make_parser(ECONOMY), AXES))
    assert base.rows("SELECT count(*) FROM tripcortex.policy_rules") == [(0,)]


def test_a_policy_whose_rules_take_long_to_read_is_not_taken_for_abandoned(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = base.run(upload(base.stores, GIVEN))

    def read_updated_at() -> object:
        return base.rows("SELECT updated_at FROM tripcortex.policies WHERE id = %s", waiting.id)[0][0]

    def read_slowly(entities: Iterable[PolicyEntity]) -> tuple[PolicyRule, ...]:
        began = read_updated_at()
        base.clock.at += 600
        while read_updated_at() == began:
            pass
        return propose_known(entities)

    monkeypatch.setattr(rule_proposals, "propose_rules", read_slowly)
    monkeypatch.setattr(rule_proposals, "HEARTBEAT_S", 0.01)
    ready = base.run(ingest(base.stores, waiting.id, make_parser(ECONOMY), AXES))
    assert ready.serves and set(read_rules(base, ready)) == {ECONOMY}


def test_rules_of_an_older_version_are_proposed_by_request_and_its_json_decides_until_then(
    base: Base,
) -> None:
    policy = add_policy(base, ECONOMY, rules=MACHINE_READABLE)
    deciding = base.run(load_confirmed_rules(base.stores))
    base.rows("DELETE FROM tripcortex.policy_rules")
    base.rows("DELETE FROM tripcortex.policy_rule_changes")
    base.rows("UPDATE tripcortex.policies SET rules_proposed_at = NULL")
    assert base.run(load_confirmed_rules(base.stores)) == deciding
    base.run(propose_again(base.stores, policy.id))
    assert base.run(load_confirmed_rules(base.stores)) == deciding
    assert read_rules(base, policy)[ECONOMY].status is RuleStatus.proposed


def test_proposing_again_keeps_decisions_and_replaces_what_is_undecided(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = add_policy(base, ECONOMY, CAP)
    base.run(confirm(base.stores, see(base, policy, ECONOMY), ADA))
    monkeypatch.setattr(rule_proposals, "propose_rules", lambda entities: ())
    base.run(propose_again(base.stores, policy.id))
    assert set(read_rules(base, policy)) == {ECONOMY}
    assert list_deciding(base) == [ECONOMY]


def test_a_policy_that_is_not_ready_is_not_read_again(base: Base) -> None:
    waiting = base.run(upload(base.stores, GIVEN))
    with pytest.raises(InvalidRequest, match="is not ready"):
        base.run(propose_again(base.stores, waiting.id))


# --- decisions ----------------------------------------------------------------------------------------------


def test_a_confirmed_rule_decides_and_a_rejected_one_does_not(base: Base) -> None:
    policy = add_policy(base, ECONOMY, CAP)
    confirmed = base.run(confirm(base.stores, see(base, policy, ECONOMY), ADA))
    rejected = base.run(reject(base.stores, see(base, policy, CAP), BEN))
    assert (confirmed.status, confirmed.decided_by, confirmed.version) == ("confirmed", "emp-ada", 2)
    assert rejected.status is RuleStatus.rejected
    assert list_deciding(base) == [ECONOMY]
    assert base.run(load_serving_rules(base.stores)).proposed == ()
    assert list_actions(base, rejected) == [(2, "reject", "emp-ben")]
    base.run(reject(base.stores, see(base, policy, ECONOMY), BEN))
    assert list_deciding(base) == []


def test_an_edited_rule_decides_with_its_changes_and_keeps_its_quote(base: Base) -> None:
    policy = add_policy(base, CAP)
    changes = {"amount_usd": "700", "scope": {"levels": ["VP"]}}
    edited = base.run(edit(base.stores, see(base, policy, CAP), changes, ADA))
    [rule] = base.run(load_confirmed_rules(base.stores))
    assert (rule.amount_usd, rule.scope, rule.quote) == (Decimal(700), RuleScope(levels=("VP",)), CAP)
    assert rule.rule_id == edited.rule_id
    assert Decimal(edited.proposed["amount_usd"]) == 500
    # Confirming again does not undo the edit.
    base.run(confirm(base.stores, see(base, policy, CAP), BEN))
    assert base.run(load_confirmed_rules(base.stores))[0].amount_usd == 700
    assert list_actions(base, edited) == [(2, "edit", "emp-ada"), (3, "confirm", "emp-ben")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "The change is empty"),
        ({"quote": "Anything goes."}, "Invalid change of quote"),
        ({"amount": 5}, "unknown member amount"),
        ({"scope": {"hours": {"below": 6}}}, "unknown member scope.hours.below"),
        ({"cabin": "couch"}, "Invalid rule: cabin"),
        ({"amount_usd": None}, "fare_cap needs amount_usd"),
        ({"effect": "unknown"}, "it was not understood"),
    ],
)
def test_an_edit_that_is_not_a_rule_changes_nothing(
    base: Base, changes: dict[str, Any], message: str
) -> None:
    policy = add_policy(base, CAP)
    before = read_rules(base, policy)
    with pytest.raises(InvalidRequest, match=message):
        base.run(edit(base.stores, see(base, policy, CAP), changes, ADA))
    assert read_rules(base, policy) == before


def test_a_statement_that_was_not_understood_cannot_be_confirmed(base: Base) -> None:
    policy = add_policy(base, UNKNOWN)
    with pytest.raises(InvalidRequest, match="not understood"):
        base.run(confirm(base.stores, see(base, policy, UNKNOWN), ADA))


def test_of_two_administrators_one_decides_and_the_other_learns_who_did(base: Base) -> None:
    policy = add_policy(base, CAP)
    seen = see(base, policy, CAP)

    async def decide_at_once() -> list[object]:
        return list(
            await asyncio.gather(
                confirm(base.stores, seen, ADA),
                edit(base.stores, seen, {"amount_usd": 700}, BEN),
                reject(base.stores, seen, Decider("emp-cyd")),
                return_exceptions=True,
            )
        )

    done = base.run(decide_at_once())
    [winner] = [each for each in done if isinstance(each, StoredRule)]
    losers = [each for each in done if isinstance(each, RuleChanged)]
    assert len(losers) == 2 and {each.http_status for each in losers} == {409}
    for each in losers:
        assert f"version 2, {winner.status.value} by {winner.decided_by}" in str(each)
        assert "Read the rule, then decide again." in str(each)
    assert len(list_actions(base, winner)) == 1
    assert read_rules(base, policy)[CAP] == winner


def test_several_rules_are_confirmed_one_by_one_with_the_outcome_of_each(base: Base) -> None:
    policy = add_policy(base, ECONOMY, CAP, UNKNOWN)
    stale = see(base, policy, CAP)
    base.run(reject(base.stores, stale, BEN))
    missing = SeenRule(policy.id, "no-such-rule", 1)
    seen = [stale, see(base, policy, ECONOMY), missing, see(base, policy, UNKNOWN)]
    done = base.run(confirm_several(base.stores, seen, ADA))
    assert [type(each.error) for each in done] == [RuleChanged, type(None), NotFound, InvalidRequest]
    assert list_deciding(base) == [ECONOMY]


def test_confirming_all_complete_rules_leaves_incomplete_and_decided_ones(base: Base) -> None:
    policy = add_policy(base, ECONOMY, CAP, VAGUE, UNKNOWN)
    base.run(reject(base.stores, see(base, policy, CAP), BEN))
    done: Sequence[BulkResult] = base.run(confirm_complete(base.stores, policy.id, ADA))
    assert [each.rule_id for each in done] == [read_rules(base, policy)[ECONOMY].rule_id]
    assert {quote: each.status.value for quote, each in read_rules(base, policy).items()} == {
        ECONOMY: "confirmed",
        CAP: "rejected",
        VAGUE: "proposed",
        UNKNOWN: "proposed",
    }


def test_unknown_policies_and_rules_are_not_found(base: Base) -> None:
    policy = add_policy(base, ECONOMY)
    with pytest.raises(NotFound, match="List the policies"):
        base.run(list_rules(base.stores, UUID(int=7)))
    with pytest.raises(NotFound, match="List the policy's rules"):
        base.run(load_rule(base.stores, policy.id, "nothing"))
    with pytest.raises(NotFound):
        base.run(reject(base.stores, SeenRule(policy.id, "nothing", 1), ADA))


def test_a_reason_is_logged_and_bounded(base: Base) -> None:
    policy = add_policy(base, ECONOMY)
    rule = base.run(confirm(base.stores, see(base, policy, ECONOMY), BEN))
    [change] = base.run(base.stores.run(rule_patterns.rule_changes(policy.id, rule.rule_id)))
    assert (change.action, change.reason) == (RuleAction.confirm, "Agreed in the meeting.")
    assert change.rule == rule.rule and change.changed_at == rule.decided_at
    with pytest.raises(InvalidRequest, match="at most 500 characters"):
        base.run(reject(base.stores, see(base, policy, ECONOMY), Decider("emp-ada", "x" * 501)))


# --- editions -----------------------------------------------------------------------------------------------


def test_the_next_edition_repeats_decisions_and_proposes_what_changed(base: Base) -> None:
    first = add_policy(base, ECONOMY, CAP, VAGUE)
    base.run(confirm(base.stores, see(base, first, ECONOMY), ADA))
    base.run(confirm(base.stores, see(base, first, CAP), ADA))
    base.run(reject(base.stores, see(base, first, VAGUE), BEN))
    second = add_edition(base, first, "A new hotel.", ECONOMY, CAP_RAISED, VAGUE)
    rules = read_rules(base, second)
    assert {quote: each.status.value for quote, each in rules.items()} == {
        ECONOMY: "confirmed",
        CAP_RAISED: "proposed",
        VAGUE: "rejected",
    }
    assert rules[ECONOMY].decided_by == "emp-ada"
    assert list_actions(base, rules[ECONOMY]) == [(1, "carry", "emp-ada")]
    assert list_deciding(base) == [ECONOMY]


def test_the_next_edition_repeats_an_edit(base: Base) -> None:
    first = add_policy(base, CAP)
    base.run(edit(base.stores, see(base, first, CAP), {"amount_usd": 700}, ADA))
    second = add_edition(base, first, "A new hotel.", CAP)
    [rule] = base.run(load_confirmed_rules(base.stores))
    assert (rule.amount_usd, rule.policy_id) == (Decimal(700), str(second.id))


def test_each_edition_keeps_its_own_decisions_when_it_serves_again(base: Base) -> None:
    first = add_policy(base, ECONOMY, CAP)
    base.run(confirm(base.stores, see(base, first, ECONOMY), ADA))
    second = add_edition(base, first, ECONOMY, CAP_RAISED)
    base.run(confirm(base.stores, see(base, second, CAP_RAISED), ADA))
    base.run(reject(base.stores, see(base, second, ECONOMY), ADA))
    assert list_deciding(base) == [CAP_RAISED]
    base.run(roll_back(base.stores, first.document_id))
    assert list_deciding(base) == [ECONOMY]
    base.run(roll_forward(base.stores, first.document_id))
    assert list_deciding(base) == [CAP_RAISED]


def test_a_decision_waits_until_another_change_of_the_document_is_committed(base: Base) -> None:
    """Otherwise an edition that becomes ready could repeat a decision that has changed meanwhile."""
    policy = add_policy(base, ECONOMY)
    seen = see(base, policy, ECONOMY)

    async def decide() -> StoredRule:
        return await reject(base.stores, seen, BEN)

    async def decide_while_locked() -> StoredRule:
        with connect(base.url) as other, other.transaction():
            other.execute("SELECT id FROM tripcortex.policies FOR UPDATE")
            deciding = asyncio.create_task(decide())
            while not deciding.done() and await count_waiting(base) == 0:
                await asyncio.sleep(0)
            assert not deciding.done()
        return await deciding

    assert base.run(decide_while_locked()).status is RuleStatus.rejected


async def count_waiting(base: Base) -> int:
    """Return how many sessions of the database wait for a lock."""
    query = """SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()"""
    return int((await asyncio.to_thread(base.rows, query))[0][0])


def test_removing_a_policy_removes_its_rules_and_keeps_the_log(base: Base) -> None:
    policy = add_policy(base, ECONOMY)
    rule = base.run(confirm(base.stores, see(base, policy, ECONOMY), ADA))
    found = base.run(base.stores.run(patterns.policy(policy.id)))
    assert found is not None
    base.run(base.stores.run(patterns.delete_policy(policy.id, found.version)))
    assert base.rows("SELECT count(*) FROM tripcortex.policy_rules") == [(0,)]
    assert list_actions(base, rule) == [(2, "confirm", "emp-ada")]
