"""R4 subscriptions with the R5 backport, their notifications, and the capability statement."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import build_request_bundle
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.outcomes import FhirRefused, select_errors
from pagw.domain.fhir.responses.capability_statement import build_capability_statement
from pagw.domain.fhir.responses.notifications import (
    build_handshake,
    build_heartbeat,
    build_notification,
    build_status_response,
    check_notification,
)
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.rules.structure import check_structure
from pagw.domain.fhir.subscriptions import (
    SubscriptionRequest,
    build_subscription_resource,
    parse_subscription,
)
from pagw.domain.fhir.urls import HEARTBEAT_PERIOD, TOPIC, TOPIC_CANONICAL
from tests.cases import all_cases
from tests.systems.pagw.unit.fhir.corruption import corrupt_copy
from tests.systems.pagw.unit.fhir.notable import select_notable

Json = dict[str, Any]
AT = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
URL = "https://gateway.example/fhir/Subscription/s-1"
ID = "5b7c8f5e-6c0e-4b53-9f3e-0a2f1d6b9c01"
REQUESTED = SubscriptionRequest(
    topic=TOPIC, organization="1993000003", endpoint="https://clinic.example/hook", heartbeat_s=3600
)


def build_resource() -> Json:
    return build_subscription_resource(REQUESTED, id="s-1", status="requested")


def build_changed_resource(path: str, value: Any) -> Json:
    """Return the Subscription with one value replaced. `path` names it, as in `channel/header`."""
    resource: Any = deepcopy(build_resource())
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split("/")]
    at = resource
    for step in steps:
        at = at[step]
    at[last] = value
    return dict(resource)


def test_parses_its_own_subscription_resource() -> None:
    assert check_structure(build_resource(), "Subscription") == []
    read = parse_subscription(build_resource())
    assert read == REQUESTED.model_copy(update={"reason": "Results of prior authorization"})


@all_cases(
    ("criterion", "system", "value"),
    [
        ("org-identifier=1993000003", None, "1993000003"),
        ("orgIdentifier=1993000003", None, "1993000003"),
        ("identifier=1993000003", None, "1993000003"),
        ("ClaimResponse?org-identifier=urn:example:org|A 1", "urn:example:org", "A 1"),
    ],
)
def test_filter_is_the_identifier_of_the_sending_organization(
    criterion: str, system: str | None, value: str
) -> None:
    read = parse_subscription(build_changed_resource("_criteria/extension/0/valueString", criterion))
    assert (read.organization_system, read.organization) == (system, value)


@all_cases(
    ("path", "value", "where"),
    [
        ("criteria", "http://example.org/another-topic", "Subscription.criteria"),
        (
            "_criteria",
            {"extension": [{"url": "urn:x", "valueString": "y"}]},
            "Subscription.criteria.extension",
        ),
        ("_criteria/extension/0/valueString", "patient=1", "Subscription.criteria.extension"),
        ("_criteria/extension/0/valueString", "org-identifier=", "Subscription.criteria.extension"),
        (
            "_criteria/extension/0/valueString",
            "org-identifier=1&patient=2",
            "Subscription.criteria.extension",
        ),
        ("channel/type", "email", "Subscription.channel.type"),
        ("channel/type", "websocket", "Subscription.channel.type"),
        ("channel/endpoint", "clinic.example/hook", "Subscription.channel.endpoint"),
        ("channel/endpoint", "https://user:word@clinic.example/hook", "Subscription.channel.endpoint"),
        ("channel/endpoint", "ftp://clinic.example/hook", "Subscription.channel.endpoint"),
        ("channel/payload", "application/fhir+xml", "Subscription.channel.payload"),
        ("channel/_payload/extension/0/valueCode", "id-only", "Subscription.channel.payload.extension"),
        ("channel/_payload/extension/0/valueCode", "empty", "Subscription.channel.payload.extension"),
        ("channel/header", ["Host: another.example"], "Subscription.channel.header"),
        ("channel/header", ["Authorization: a\r\nX-Evil: 1"], "Subscription.channel.header"),
        ("channel/header", ["no colon"], "Subscription.channel.header"),
        ("status", "error", "Subscription.status"),
        ("resourceType", "Claim", "Subscription"),
    ],
)
def test_refuses_an_unsupported_subscription_with_its_reason(path: str, value: Any, where: str) -> None:
    with pytest.raises(FhirRefused) as caught:
        parse_subscription(build_changed_resource(path, value))
    assert [issue.expression for issue in caught.value.issues] == [where]
    assert caught.value.status == 422


def test_corrupted_subscriptions_never_crash_the_parser_or_leak() -> None:
    random, mark = Random(7), "Zzyzxmark"
    whole = build_changed_resource("channel/header", ["Authorization: Bearer of-the-client"])
    refused: list[FhirRefused] = []
    for _ in range(300):
        try:
            parse_subscription(corrupt_copy(whole, random, mark))
        except FhirRefused as error:
            refused.append(error)
    assert len(refused) > 150
    assert not [error for error in refused if mark in json.dumps(error.to_outcome())]


def test_client_token_is_stored_for_sending_and_never_returned() -> None:
    read = parse_subscription(
        build_changed_resource("channel/header", ["Authorization: Bearer of-the-client"])
    )
    assert read.headers == ("Authorization: Bearer of-the-client",)
    assert "of-the-client" not in str(build_subscription_resource(read, id="s-1", status="active"))


def test_failed_subscription_reports_its_error() -> None:
    subscription = build_subscription_resource(
        REQUESTED, id="s-1", status="error", error="The endpoint did not answer."
    )
    assert subscription["status"] == "error" and subscription["error"] == "The endpoint did not answer."
    assert subscription["channel"]["extension"] == [{"url": HEARTBEAT_PERIOD, "valueUnsignedInt": 3600}]
    assert check_structure(subscription, "Subscription") == []


def build_answer() -> Json:
    """Build the response Bundle that a notification announces."""
    decision = Decision(outcome=Outcome.APPROVED, authorization_number="AUTH-77")
    return build_response_bundle(build_request_bundle(), decision, pagw_id="PAGW-1", created=AT)


def get_parameters(bundle: Json) -> dict[str, Json]:
    """Return the parameters of a notification's status, by name."""
    return {each["name"]: each for each in bundle["entry"][0]["resource"]["parameter"]}


def test_notification_carries_the_whole_answer_under_a_stable_id() -> None:
    first = build_notification(build_answer(), subscription_url=URL, event_number=3, at=AT, id=ID)
    assert select_notable(check_notification(first)) == []
    assert first == build_notification(build_answer(), subscription_url=URL, event_number=3, at=AT, id=ID)
    values = get_parameters(first)
    assert values["type"]["valueCode"] == "event-notification" and values["topic"]["valueCanonical"] == TOPIC
    event = {each["name"]: each for each in values["notification-event"]["part"]}
    assert event["event-number"]["valueString"] == "3"
    assert event["focus"]["valueReference"]["reference"] == first["entry"][1]["fullUrl"]
    assert first["id"] == ID and first["entry"][1]["resource"] == build_answer()


def test_handshakes_heartbeats_and_status_carry_no_answer() -> None:
    shaken = build_handshake(subscription_url=URL, at=AT, id=ID)
    beaten = build_heartbeat(subscription_url=URL, events=7, at=AT, id=ID)
    asked_for = build_status_response(subscription_url=URL, status="active", events=7, at=AT, id=ID)
    kinds = [get_parameters(each)["type"]["valueCode"] for each in (shaken, beaten, asked_for)]
    assert kinds == ["handshake", "heartbeat", "query-status"]
    assert get_parameters(beaten)["events-since-subscription-start"]["valueString"] == "7"
    for each in (shaken, beaten):
        assert check_notification(each) == [] and len(each["entry"]) == 1
    assert check_structure(asked_for, "Bundle") == []
    assert asked_for["total"] == len(asked_for["entry"]) == 1


@all_cases("lost", ["focus", "timestamp", "event-number"])
def test_rejects_a_notification_with_an_incomplete_event(lost: str) -> None:
    notification = build_notification(build_answer(), subscription_url=URL, event_number=1, at=AT, id=ID)
    event = get_parameters(notification)["notification-event"]
    event["part"] = [each for each in event["part"] if each["name"] != lost]
    assert select_errors(check_notification(notification))


def test_rejects_a_notification_without_focus_or_status() -> None:
    notification = build_notification(build_answer(), subscription_url=URL, event_number=1, at=AT, id=ID)
    for entries in ([notification["entry"][0]], [notification["entry"][1]], []):
        assert select_errors(check_notification({**notification, "entry": entries}))
    assert select_errors(check_notification({**notification, "type": "collection"}))


def test_capability_statement_names_operations_and_topic() -> None:
    statement = build_capability_statement("https://gateway.example/fhir/", "1.2.3", AT)
    assert check_structure(statement, "CapabilityStatement") == []
    assert (statement["fhirVersion"], statement["format"], statement["kind"]) == (
        "4.0.1",
        ["json"],
        "instance",
    )
    assert statement["implementation"]["url"] == "https://gateway.example/fhir"
    claim, subscription = statement["rest"][0]["resource"]
    assert [each["name"] for each in claim["operation"]] == ["submit", "inquire"]
    assert subscription["extension"] == [{"url": TOPIC_CANONICAL, "valueCanonical": TOPIC}]
    assert {each["code"] for each in subscription["interaction"]} >= {"create", "update", "delete"}
