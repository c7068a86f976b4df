"""IAM policies for queues and buckets of the post room: each component gets what its patterns request."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Component, System, pattern
from holdfast.model.objects import Bucket, PutObject
from holdfast.reports.iam.grants import EncryptionKey
from holdfast.reports.iam.policies import build_key_arn, build_policy_files
from tests.unit.reports.iac.iam_simulator import RequestedAction, is_allowed, record_actions_by_pattern
from tests.unit.reports.post_room import SYSTEM, enter, file_scan, take_in

SCAN = "letter-archive/scans/2026/01/02/l1.pdf"


@pytest.fixture(scope="module")
def actions_by_pattern() -> dict[str, list[RequestedAction]]:
    """Record the actions that each pattern requests, by pattern id."""
    return asyncio.run(record_actions_by_pattern(SYSTEM))


def load_policies(component: str, system: System = SYSTEM) -> list[dict[str, Any]]:
    files = build_policy_files(system)
    return [json.loads(text) for name, text in files.items() if name.startswith(f"{system.name}-{component}")]


def list_granted_actions(component: str, system: System = SYSTEM) -> set[str]:
    """Return all actions that the component's policies grant."""
    policies = load_policies(component, system)
    return {action for policy in policies for each in policy["Statement"] for action in each["Action"]}


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

    for other in set(SYSTEM.patterns) - set(component.patterns):
        assert not all(is_allowed(policies, each) for each in actions_by_pattern[other.id]), (
            component.name,
            other.id,
        )


@pytest.mark.parametrize(
    ("component", "wish"),
    [
        ("door", RequestedAction("sqs:ReceiveMessage", "letters.fifo")),
        ("door", RequestedAction("sqs:GetQueueUrl", "letters-dead.fifo")),
        ("clerk", RequestedAction("sqs:SendMessage", "letters.fifo")),
        ("clerk", RequestedAction("sqs:ReceiveMessage", "letters-dead.fifo")),
        ("clerk", RequestedAction("sqs:PurgeQueue", "letters.fifo")),
        ("clerk", RequestedAction("s3:GetObject", SCAN)),
        ("clerk", RequestedAction("s3:PutObject", "letter-archive/other/1.pdf")),
        ("clerk", RequestedAction("kms:Decrypt", "key/1", {"kms:ResourceAliases": ["alias/letters"]})),
        ("clerk", RequestedAction("kms:GenerateDataKey", "key/1", {"kms:ResourceAliases": ["alias/others"]})),
        ("archivist", RequestedAction("s3:PutObject", SCAN)),
        ("archivist", RequestedAction("s3:PutBucketPolicy", "letter-archive")),
    ],
    ids=lambda each: each if isinstance(each, str) else each.action,
)
def test_policies_deny_actions_that_no_pattern_needs(component: str, wish: RequestedAction) -> None:
    assert not is_allowed(load_policies(component), wish)


def test_sender_may_send_and_find_the_queue() -> None:
    assert list_granted_actions("door") == {"sqs:SendMessage", "sqs:GetQueueUrl", "sqs:GetQueueAttributes"}


def test_consumer_may_read_the_dead_letter_count() -> None:
    assert is_allowed(load_policies("clerk"), RequestedAction("sqs:GetQueueAttributes", "letters-dead.fifo"))


def test_append_without_read_grants_only_puts() -> None:
    appending = replace(SYSTEM, components=(Component("scribe", uses=(enter, file_scan)),))

    assert {each for each in list_granted_actions("scribe", appending) if "Describe" not in each} == {
        "dynamodb:PutItem",
        "s3:PutObject",
        "kms:GenerateDataKey",
    }


def test_listing_reader_may_list_only_its_own_prefix() -> None:
    listing = replace(SYSTEM, components=(Component("lister", uses=(SYSTEM.get_pattern("A4"),)),))
    policies = load_policies("lister", listing)

    assert is_allowed(
        policies, RequestedAction("s3:ListBucket", "letter-archive", {"s3:prefix": ["scans/2026/"]})
    )
    assert not is_allowed(
        policies, RequestedAction("s3:ListBucket", "letter-archive", {"s3:prefix": ["other/"]})
    )
    assert not is_allowed(policies, RequestedAction("s3:ListBucket", "letter-archive"))


def test_reader_of_an_object_learns_no_key_outside_its_prefix() -> None:
    reading = replace(SYSTEM, components=(Component("reader", uses=(SYSTEM.get_pattern("A2"),)),))
    policies = load_policies("reader", reading)

    # For a missing key S3 requires permission to list it, with the key as prefix.
    assert is_allowed(
        policies,
        RequestedAction("s3:ListBucket", "letter-archive", {"s3:prefix": ["scans/2026/01/02/l1.pdf"]}),
    )
    assert not is_allowed(
        policies, RequestedAction("s3:ListBucket", "letter-archive", {"s3:prefix": ["other/1.pdf"]})
    )
    assert not is_allowed(policies, RequestedAction("s3:ListBucket", "letter-archive"))


def test_deleter_of_an_object_may_check_that_the_bucket_exists() -> None:
    deleting = replace(SYSTEM, components=(Component("shredder", uses=(SYSTEM.get_pattern("A5"),)),))

    assert is_allowed(load_policies("shredder", deleting), RequestedAction("s3:ListBucket", "letter-archive"))


def test_resources_use_the_environments_names() -> None:
    files = build_policy_files(SYSTEM, environment="prod", region="eu-central-1", account="123456789012")

    assert '"arn:aws:sqs:eu-central-1:123456789012:letters-prod.fifo"' in files["postroom-door.json"]
    assert '"arn:aws:s3:::letter-archive-prod/scans/*"' in files["postroom-clerk.json"]
    assert '"arn:aws:sqs:eu-central-1:123456789012:letters-dead-prod.fifo"' in files["postroom-clerk.json"]


def test_bucket_with_the_services_key_needs_no_key_grant() -> None:
    bucket = Bucket("plain", encryption="kms")
    shelf = bucket.objects("all/{id}", content_type="text/plain")

    @pattern("P1", "Put", rate=take_in.rate, example=(b"a", "1"))
    def put(body: bytes, id: str) -> PutObject:
        return shelf.put(body, id=id)

    system = System(
        "plain", "Plain.", patterns=(put,), components=(Component("one", uses=(put,)),), buckets=(bucket,)
    )

    assert list_granted_actions("one", system) == {"s3:PutObject"}


def test_replacer_of_an_object_may_read_its_legal_hold() -> None:
    bucket = Bucket("replaced", legal_holds=True)
    shelf = bucket.objects("all/{id}", content_type="text/plain")

    @pattern("P1", "Put", rate=take_in.rate, example=(b"a", "1"))
    def put(body: bytes, id: str) -> PutObject:
        return shelf.put(body, create_only=False, id=id)

    system = System(
        "one", "One.", patterns=(put,), components=(Component("one", uses=(put,)),), buckets=(bucket,)
    )

    assert list_granted_actions("one", system) == {
        "s3:PutObject",
        "s3:GetObject",
        "s3:GetObjectLegalHold",
        "s3:ListBucket",
    }


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("1234", "arn:aws:kms:R:A:key/1234"),
        ("arn:aws:kms:R:B:key/1234", "arn:aws:kms:R:B:key/1234"),
        ("alias/letters", "arn:aws:kms:R:A:key/*"),
    ],
)
def test_key_arn_is_built_from_an_id_an_arn_or_an_alias(name: str, spelled: str) -> None:
    assert build_key_arn(EncryptionKey(name), "arn:aws:kms:R:A") == spelled
