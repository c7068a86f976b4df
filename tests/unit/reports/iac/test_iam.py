"""IAM policies of the dispatch desk: each component may do what its patterns do, and nothing else.

The requests of the patterns are recorded and checked by a simulator.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast import (
    KEYS_ONLY,
    Attr,
    Component,
    Entity,
    Get,
    IndexKey,
    Key,
    Query,
    Rate,
    System,
    Table,
    attr,
    batch_get,
    pattern,
)
from holdfast.core.errors import DeclarationError
from holdfast.model.entities import BatchGet, SelectQuery
from holdfast.reports.iam import policies
from holdfast.reports.iam.policies import build_policy_files
from tests.unit.reports.dispatch_desk import SYSTEM
from tests.unit.reports.iac.iam_simulator import RequestedAction, is_allowed, record_actions_by_pattern

ONCE = Rate(per="test")


@pytest.fixture(scope="module")
def actions_by_pattern() -> dict[str, list[RequestedAction]]:
    """Record the actions that each pattern requests, by pattern id."""
    return asyncio.run(record_actions_by_pattern(SYSTEM))


def load_policies(component: str, system: System = SYSTEM) -> list[dict[str, Any]]:
    """Return the component's policies, parsed."""
    start = f"{system.name}-{component}"
    files = build_policy_files(system)
    return [json.loads(text) for name, text in files.items() if name.startswith(start)]


@pytest.mark.parametrize("component", SYSTEM.components, ids=lambda component: component.name)
def test_a_component_may_do_all_that_its_patterns_do(
    component: Component, actions_by_pattern: dict[str, list[RequestedAction]]
) -> None:
    policies = load_policies(component.name)

    for declared in component.patterns:
        assert actions_by_pattern[declared.id]
        for each in actions_by_pattern[declared.id]:
            assert is_allowed(policies, each), f"{component.name} cannot run {declared.id}: {each}"


@pytest.mark.parametrize("component", SYSTEM.components, ids=lambda component: component.name)
def test_a_component_may_not_run_a_pattern_of_others(
    component: Component, actions_by_pattern: dict[str, list[RequestedAction]]
) -> None:
    policies = load_policies(component.name)
    granted = [each for declared in component.patterns for each in actions_by_pattern[declared.id]]

    for other in set(SYSTEM.patterns) - set(component.patterns):
        if not all(_is_same_action(each, granted) for each in actions_by_pattern[other.id]):
            assert not all(is_allowed(policies, each) for each in actions_by_pattern[other.id]), (
                component.name,
                other.id,
            )


def _is_same_action(wanted: RequestedAction, granted: list[RequestedAction]) -> bool:
    """Return True if a granted action matches the wanted one on the same kind of key."""

    def normalize(each: RequestedAction) -> tuple[object, ...]:
        start = {key.split("#")[0] for key in each.context.get("dynamodb:LeadingKeys", [])}
        return (each.action, each.resource, each.resource == "table/Desk" and frozenset(start))

    return any(normalize(wanted) == normalize(each) for each in granted)


@pytest.mark.parametrize(
    ("component", "wish"),
    [
        ("api", RequestedAction("GetItem", "table/Desk", {"dynamodb:LeadingKeys": ["SETTINGS"]})),
        ("api", RequestedAction("Scan", "table/Desk")),
        ("api", RequestedAction("UpdateItem", "table/Desk", {"dynamodb:LeadingKeys": ["DESK#north"]})),
        ("api", RequestedAction("PutItem", "table/Agents", {"dynamodb:LeadingKeys": ["ada"]})),
        ("board", RequestedAction("Query", "table/Desk", {"dynamodb:LeadingKeys": ["DESK#north"]})),
        (
            "board",
            RequestedAction(
                "Query",
                "table/Desk/index/open-tickets",
                {"dynamodb:LeadingKeys": ["OPEN"], "dynamodb:Select": ["ALL_ATTRIBUTES"]},
            ),
        ),
        (
            "board",
            RequestedAction(
                "Query",
                "table/Desk/index/by-priority",
                {
                    "dynamodb:LeadingKeys": ["DESK#north"],
                    "dynamodb:Select": ["SPECIFIC_ATTRIBUTES"],
                    "dynamodb:Attributes": ["title", "assignee"],
                },
            ),
        ),
        (
            "board",
            RequestedAction(
                "Query",
                "table/Desk/index/open-tickets",
                {"dynamodb:LeadingKeys": ["CLOSED"], "dynamodb:Select": ["COUNT"]},
            ),
        ),
        ("ingest", RequestedAction("PutItem", "table/.Readings", {"dynamodb:LeadingKeys": ["s1"]})),
        ("office", RequestedAction("Scan", "table/Agents/index/by-team")),
        ("office", RequestedAction("GetItem", "table/Desk", {"dynamodb:LeadingKeys": ["SETTINGS2"]})),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.action} {value.resource}",
)
def test_policies_deny_requests_that_differ_slightly_from_granted_ones(
    component: str, wish: RequestedAction
) -> None:
    assert not is_allowed(load_policies(component), wish)


def test_no_action_and_no_resource_has_a_wildcard() -> None:
    for text in build_policy_files(SYSTEM).values():
        for statement in json.loads(text)["Statement"]:
            assert all("*" not in name for name in [*statement["Action"], *statement["Resource"]])


def test_count_pattern_grants_only_counting() -> None:
    [policy] = load_policies("api")
    [counting] = [each for each in policy["Statement"] if each["Resource"][0].endswith("open-tickets")]

    assert counting["Action"] == ["dynamodb:Query"]
    assert counting["Condition"]["StringEquals"] == {"dynamodb:Select": ["COUNT"]}


def test_grants_a_transaction_only_write_only_in_transactions() -> None:
    [policy] = load_policies("api")
    on_agents = [each for each in policy["Statement"] if "dynamodb:UpdateItem" in each["Action"]]

    assert on_agents
    for statement in on_agents:
        enclosing = statement["Condition"]["ForAnyValue:StringEquals"]
        assert enclosing == {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}


def test_reader_of_a_table_with_lifetimes_may_describe_its_ttl() -> None:
    for component, may in (("board", True), ("office", True), ("ingest", False)):
        assert (
            is_allowed(load_policies(component), RequestedAction("DescribeTimeToLive", "table/Desk")) is may
        )


def test_describe_actions_have_their_own_statements() -> None:
    for text in build_policy_files(SYSTEM).values():
        for statement in json.loads(text)["Statement"]:
            described = [action.startswith("dynamodb:Describe") for action in statement["Action"]]
            assert all(described) or not any(described)


def test_resources_contain_environment_region_and_account() -> None:
    files = build_policy_files(SYSTEM, environment="prod", region="cn-north-1", account="123456789012")
    statements = json.loads(files["dispatch-ingest.json"])["Statement"]

    for statement in statements:
        assert statement["Resource"] == ["arn:aws-cn:dynamodb:cn-north-1:123456789012:table/prod.Readings"]


def test_unnamed_region_or_account_stays_a_placeholder_that_grants_nothing() -> None:
    [policy] = load_policies("ingest")

    assert policy["Statement"][0]["Resource"] == ["arn:aws:dynamodb:REGION:ACCOUNT:table/.Readings"]


def test_a_component_without_patterns_has_no_policy() -> None:
    assert sorted(build_policy_files(SYSTEM)) == [
        "dispatch-api.json",
        "dispatch-board.json",
        "dispatch-ingest.json",
        "dispatch-office.json",
    ]


def test_policies_are_deterministic() -> None:
    assert build_policy_files(SYSTEM) == build_policy_files(SYSTEM)
    assert all(text.endswith("}\n") for text in build_policy_files(SYSTEM).values())


def test_a_statement_id_names_every_action_that_it_allows() -> None:
    for component in SYSTEM.components:
        for policy in load_policies(component.name):
            for statement in policy["Statement"]:
                for action in statement["Action"]:
                    assert action.partition(":")[2] in statement["Sid"]


def test_statement_ids_are_unique_and_plain() -> None:
    for text in build_policy_files(SYSTEM).values():
        ids = [statement["Sid"] for statement in json.loads(text)["Statement"]]
        assert len(set(ids)) == len(ids)
        assert all(each.isalnum() for each in ids)


things = Table("Things", partition="PK")
by_kind = things.global_index("by-kind", "kind", "id", projection=KEYS_ONLY)


class Thing(Entity, table=things):
    id: Attr[str] = attr()
    kind: Attr[str] = attr(default="")
    size: Attr[int] = attr(default=0)
    of = Key("*$?#" + id)
    of_kind = IndexKey(by_kind, kind, id)


def make_system(*patterns: Any) -> System:
    """Build a system whose component `worker` runs these patterns."""
    worker = Component("worker", uses=(patterns,))
    return System("things", "Things.", tables=(things,), patterns=patterns, components=(worker,))


def test_wildcard_in_a_constant_is_taken_literally() -> None:
    @pattern("T1", "One", rate=ONCE, example=("a",))
    def one(id: str) -> Get[Thing]:
        return Thing.of(id).get()

    [policy] = load_policies("worker", make_system(one))

    assert is_allowed(
        [policy], RequestedAction("GetItem", "table/Things", {"dynamodb:LeadingKeys": ["*$?#a"]})
    )
    assert not is_allowed(
        [policy], RequestedAction("GetItem", "table/Things", {"dynamodb:LeadingKeys": ["x$?#a"]})
    )


def test_wider_grant_replaces_a_narrower_one() -> None:
    @pattern("T1", "All of them", rate=ONCE, example=("k",))
    def of_kind(kind: str) -> Query[Thing]:
        return Thing.of_kind(kind).query()

    @pattern("T2", "Their ids", rate=ONCE, example=("k",))
    def ids(kind: str) -> SelectQuery[Thing]:
        return Thing.of_kind(kind).query().select(Thing.id)

    [policy] = load_policies("worker", make_system(of_kind, ids))

    [statement] = [each for each in policy["Statement"] if each["Action"] == ["dynamodb:Query"]]
    assert "Condition" not in statement


def test_grants_the_attributes_that_a_selection_filters_by() -> None:
    @pattern("T1", "Large ones", rate=ONCE, example=("k",))
    def large(kind: str) -> SelectQuery[Thing]:
        return Thing.of_kind(kind).query().where(Thing.size > 3).select(Thing.id)

    [policy] = load_policies("worker", make_system(large))

    named = policy["Statement"][0]["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    assert named == ["PK", "id", "kind", "size"]


def test_rejects_an_example_on_no_table() -> None:
    @pattern("T1", "Some", rate=ONCE, example=([],))
    def some(ids: list[str]) -> BatchGet[Thing]:
        return batch_get(Thing.of(each).get() for each in ids)

    with pytest.raises(DeclarationError, match=r"T1 \(some\) builds an operation on no table"):
        build_policy_files(make_system(some))


def test_reports_an_example_that_cannot_be_called() -> None:
    @pattern("T1", "One", rate=ONCE, example=())
    def one(id: str) -> Get[Thing]:
        return Thing.of(id).get()

    with pytest.raises(
        DeclarationError, match=r"T1 \(one\) builds no operation: .*missing a required argument"
    ):
        build_policy_files(make_system(one))


def test_rejects_components_that_would_share_a_file() -> None:
    components = (Component("a b"), Component("a-b"))
    with pytest.raises(DeclarationError, match="both become"):
        build_policy_files(System("things", "Things.", tables=(things,), components=components))


def test_splits_a_policy_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "MAX_POLICY_CHARACTERS", 600)
    files = build_policy_files(SYSTEM)
    office = [name for name in files if name.startswith("dispatch-office")]

    assert office == ["dispatch-office.json", "dispatch-office-part-2.json"]
    for name in office:
        assert len(json.dumps(json.loads(files[name])["Statement"], separators=(",", ":"))) <= 620
