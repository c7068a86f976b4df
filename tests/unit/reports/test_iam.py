"""Policies: each component may do what its patterns do, on what they do it, and nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast import (
    KEYS_ONLY,
    Attr,
    BatchGet,
    Component,
    Entity,
    Get,
    IndexKey,
    Key,
    Query,
    Rate,
    SelectQuery,
    System,
    Table,
    attr,
    batch_get,
    pattern,
)
from holdfast.core.errors import DeclarationError
from holdfast.reports.iam import policies
from holdfast.reports.iam.policies import build_policy_files
from tests.unit.reports.dispatch_desk import SYSTEM
from tests.unit.reports.iam_simulator import Asked, allows, asked_by_pattern

ONCE = Rate(per="test")


@pytest.fixture(scope="module")
def asked() -> dict[str, list[Asked]]:
    return asyncio.run(asked_by_pattern(SYSTEM))


def policies_of(component: str, system: System = SYSTEM) -> list[dict[str, Any]]:
    start = f"{system.name}-{component}"
    files = build_policy_files(system)
    return [json.loads(text) for name, text in files.items() if name.startswith(start)]


@pytest.mark.parametrize("component", SYSTEM.components, ids=lambda component: component.name)
def test_a_component_may_do_all_that_its_patterns_do(
    component: Component, asked: dict[str, list[Asked]]
) -> None:
    policies = policies_of(component.name)

    for declared in component.patterns:
        assert asked[declared.id]
        for each in asked[declared.id]:
            assert allows(policies, each), f"{component.name} cannot run {declared.id}: {each}"


@pytest.mark.parametrize("component", SYSTEM.components, ids=lambda component: component.name)
def test_a_component_may_not_run_a_pattern_of_others(
    component: Component, asked: dict[str, list[Asked]]
) -> None:
    policies = policies_of(component.name)
    granted = [each for declared in component.patterns for each in asked[declared.id]]

    for other in set(SYSTEM.patterns) - set(component.patterns):
        if not all(_is_the_same(each, granted) for each in asked[other.id]):
            assert not all(allows(policies, each) for each in asked[other.id]), (component.name, other.id)


def _is_the_same(wanted: Asked, granted: list[Asked]) -> bool:
    """Whether something declared asks for the same thing of the same kind of key."""

    def seen(each: Asked) -> tuple[object, ...]:
        start = {key.split("#")[0] for key in each.context.get("dynamodb:LeadingKeys", [])}
        return (each.action, each.resource, each.resource == "table/Desk" and frozenset(start))

    return any(seen(wanted) == seen(each) for each in granted)


@pytest.mark.parametrize(
    ("component", "wish"),
    [
        ("api", Asked("GetItem", "table/Desk", {"dynamodb:LeadingKeys": ["SETTINGS"]})),
        ("api", Asked("Scan", "table/Desk")),
        ("api", Asked("UpdateItem", "table/Desk", {"dynamodb:LeadingKeys": ["DESK#north"]})),
        ("api", Asked("PutItem", "table/Agents", {"dynamodb:LeadingKeys": ["ada"]})),
        ("board", Asked("Query", "table/Desk", {"dynamodb:LeadingKeys": ["DESK#north"]})),
        (
            "board",
            Asked(
                "Query",
                "table/Desk/index/open-tickets",
                {"dynamodb:LeadingKeys": ["OPEN"], "dynamodb:Select": ["ALL_ATTRIBUTES"]},
            ),
        ),
        (
            "board",
            Asked(
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
            Asked(
                "Query",
                "table/Desk/index/open-tickets",
                {"dynamodb:LeadingKeys": ["CLOSED"], "dynamodb:Select": ["COUNT"]},
            ),
        ),
        ("ingest", Asked("PutItem", "table/.Readings", {"dynamodb:LeadingKeys": ["s1"]})),
        ("office", Asked("Scan", "table/Agents/index/by-team")),
        ("office", Asked("GetItem", "table/Desk", {"dynamodb:LeadingKeys": ["SETTINGS2"]})),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.action} {value.resource}",
)
def test_what_is_almost_granted_is_not(component: str, wish: Asked) -> None:
    assert not allows(policies_of(component), wish)


def test_no_action_and_no_resource_has_a_wildcard() -> None:
    for text in build_policy_files(SYSTEM).values():
        for statement in json.loads(text)["Statement"]:
            assert all("*" not in name for name in [*statement["Action"], *statement["Resource"]])


def test_a_count_grants_counting_only() -> None:
    [policy] = policies_of("api")
    [counting] = [each for each in policy["Statement"] if each["Resource"][0].endswith("open-tickets")]

    assert counting["Action"] == ["dynamodb:Query"]
    assert counting["Condition"]["StringEquals"] == {"dynamodb:Select": ["COUNT"]}


def test_a_write_that_only_stands_in_a_transaction_is_granted_only_there() -> None:
    [policy] = policies_of("api")
    on_agents = [each for each in policy["Statement"] if "dynamodb:UpdateItem" in each["Action"]]

    assert on_agents
    for statement in on_agents:
        enclosing = statement["Condition"]["ForAnyValue:StringEquals"]
        assert enclosing == {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}


def test_who_reads_a_table_with_lifetimes_may_ask_where_they_are_kept() -> None:
    for component, may in (("board", True), ("office", True), ("ingest", False)):
        assert allows(policies_of(component), Asked("DescribeTimeToLive", "table/Desk")) is may


def test_descriptions_stand_in_statements_of_their_own() -> None:
    for text in build_policy_files(SYSTEM).values():
        for statement in json.loads(text)["Statement"]:
            described = [action.startswith("dynamodb:Describe") for action in statement["Action"]]
            assert all(described) or not any(described)


def test_resources_name_the_environment_the_region_and_the_account() -> None:
    files = build_policy_files(SYSTEM, environment="prod", region="cn-north-1", account="123456789012")
    statements = json.loads(files["dispatch-ingest.json"])["Statement"]

    for statement in statements:
        assert statement["Resource"] == ["arn:aws-cn:dynamodb:cn-north-1:123456789012:table/prod.Readings"]


def test_a_place_that_is_not_named_stays_a_placeholder_that_grants_nothing() -> None:
    [policy] = policies_of("ingest")

    assert policy["Statement"][0]["Resource"] == ["arn:aws:dynamodb:REGION:ACCOUNT:table/.Readings"]


def test_a_component_without_patterns_has_no_policy() -> None:
    assert sorted(build_policy_files(SYSTEM)) == [
        "dispatch-api.json",
        "dispatch-board.json",
        "dispatch-ingest.json",
        "dispatch-office.json",
    ]


def test_the_same_system_gives_the_same_text() -> None:
    assert build_policy_files(SYSTEM) == build_policy_files(SYSTEM)
    assert all(text.endswith("}\n") for text in build_policy_files(SYSTEM).values())


def test_a_statement_id_names_every_action_that_it_allows() -> None:
    for component in SYSTEM.components:
        for policy in policies_of(component.name):
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


def system_of(*patterns: Any) -> System:
    worker = Component("worker", reads=patterns)
    return System("things", "Things.", (things,), patterns, (worker,))


def test_a_constant_with_a_wildcard_in_it_is_taken_literally() -> None:
    @pattern("T1", "One", rate=ONCE, example=("a",))
    def one(id: str) -> Get[Thing]:
        return Thing.of(id).get()

    [policy] = policies_of("worker", system_of(one))

    assert allows([policy], Asked("GetItem", "table/Things", {"dynamodb:LeadingKeys": ["*$?#a"]}))
    assert not allows([policy], Asked("GetItem", "table/Things", {"dynamodb:LeadingKeys": ["x$?#a"]}))


def test_a_wider_grant_makes_a_narrower_one_needless() -> None:
    @pattern("T1", "All of them", rate=ONCE, example=("k",))
    def of_kind(kind: str) -> Query[Thing]:
        return Thing.of_kind(kind).query()

    @pattern("T2", "Their ids", rate=ONCE, example=("k",))
    def ids(kind: str) -> SelectQuery[Thing]:
        return Thing.of_kind(kind).query().select(Thing.id)

    [policy] = policies_of("worker", system_of(of_kind, ids))

    [statement] = [each for each in policy["Statement"] if each["Action"] == ["dynamodb:Query"]]
    assert "Condition" not in statement


def test_what_a_selection_filters_by_may_be_named_too() -> None:
    @pattern("T1", "Large ones", rate=ONCE, example=("k",))
    def large(kind: str) -> SelectQuery[Thing]:
        return Thing.of_kind(kind).query().where(Thing.size > 3).select(Thing.id)

    [policy] = policies_of("worker", system_of(large))

    named = policy["Statement"][0]["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    assert named == ["PK", "id", "kind", "size"]


def test_an_example_that_shows_nothing_is_refused() -> None:
    @pattern("T1", "Some", rate=ONCE, example=([],))
    def some(ids: list[str]) -> BatchGet[Thing]:
        return batch_get(Thing.of(each).get() for each in ids)

    with pytest.raises(DeclarationError, match=r"T1 \(some\) builds an operation on no table"):
        build_policy_files(system_of(some))


def test_an_example_that_cannot_be_called_is_told() -> None:
    @pattern("T1", "One", rate=ONCE, example=())
    def one(id: str) -> Get[Thing]:
        return Thing.of(id).get()

    with pytest.raises(
        DeclarationError, match=r"T1 \(one\) builds no operation: .*missing a required argument"
    ):
        build_policy_files(system_of(one))


def test_components_that_would_share_a_file_are_refused() -> None:
    components = (Component("a b"), Component("a-b"))
    with pytest.raises(DeclarationError, match="both become"):
        build_policy_files(System("things", "Things.", (things,), (), components))


def test_a_policy_that_would_be_too_long_becomes_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "MAX_POLICY_CHARACTERS", 600)
    files = build_policy_files(SYSTEM)
    office = [name for name in files if name.startswith("dispatch-office")]

    assert office == ["dispatch-office.json", "dispatch-office-part-2.json"]
    for name in office:
        assert len(json.dumps(json.loads(files[name])["Statement"], separators=(",", ":"))) <= 620
