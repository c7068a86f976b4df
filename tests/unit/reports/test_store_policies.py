"""Policies over queues and buckets: what each component asks for and nothing beside it."""

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
from tests.unit.reports.iam_simulator import Asked, allows, asked_by_pattern
from tests.unit.reports.post_room import SYSTEM, enter, file_scan, take_in

SCAN = "letter-archive/scans/2026/01/02/l1.pdf"


@pytest.fixture(scope="module")
def asked() -> dict[str, list[Asked]]:
    return asyncio.run(asked_by_pattern(SYSTEM))


def policies_of(component: str, system: System = SYSTEM) -> list[dict[str, Any]]:
    files = build_policy_files(system)
    return [json.loads(text) for name, text in files.items() if name.startswith(f"{system.name}-{component}")]


def granted(component: str, system: System = SYSTEM) -> set[str]:
    policies = policies_of(component, system)
    return {action for policy in policies for each in policy["Statement"] for action in each["Action"]}


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

    for other in set(SYSTEM.patterns) - set(component.patterns):
        assert not all(allows(policies, each) for each in asked[other.id]), (component.name, other.id)


@pytest.mark.parametrize(
    ("component", "wish"),
    [
        ("door", Asked("sqs:ReceiveMessage", "letters.fifo")),
        ("door", Asked("sqs:GetQueueUrl", "letters-dead.fifo")),
        ("clerk", Asked("sqs:SendMessage", "letters.fifo")),
        ("clerk", Asked("sqs:ReceiveMessage", "letters-dead.fifo")),
        ("clerk", Asked("sqs:PurgeQueue", "letters.fifo")),
        ("clerk", Asked("s3:GetObject", SCAN)),
        ("clerk", Asked("s3:PutObject", "letter-archive/other/1.pdf")),
        ("clerk", Asked("kms:Decrypt", "key/1", {"kms:ResourceAliases": ["alias/letters"]})),
        ("clerk", Asked("kms:GenerateDataKey", "key/1", {"kms:ResourceAliases": ["alias/others"]})),
        ("archivist", Asked("s3:PutObject", SCAN)),
        ("archivist", Asked("s3:PutBucketPolicy", "letter-archive")),
    ],
    ids=lambda each: each if isinstance(each, str) else each.action,
)
def test_what_no_pattern_needs_is_refused(component: str, wish: Asked) -> None:
    assert not allows(policies_of(component), wish)


def test_who_only_sends_may_send_and_find_the_queue() -> None:
    assert granted("door") == {"sqs:SendMessage", "sqs:GetQueueUrl", "sqs:GetQueueAttributes"}


def test_who_works_a_queue_off_sees_how_many_letters_died() -> None:
    assert allows(policies_of("clerk"), Asked("sqs:GetQueueAttributes", "letters-dead.fifo"))


def test_append_without_read_is_putting_and_nothing_else() -> None:
    appending = replace(SYSTEM, components=(Component("scribe", writes=(enter, file_scan)),))

    assert {each for each in granted("scribe", appending) if "Describe" not in each} == {
        "dynamodb:PutItem",
        "s3:PutObject",
        "kms:GenerateDataKey",
    }


def test_a_reader_that_only_lists_may_list_its_own_shelf() -> None:
    listing = replace(SYSTEM, components=(Component("lister", reads=(SYSTEM.get_pattern("A4"),)),))
    policies = policies_of("lister", listing)

    assert allows(policies, Asked("s3:ListBucket", "letter-archive", {"s3:prefix": ["scans/2026/"]}))
    assert not allows(policies, Asked("s3:ListBucket", "letter-archive", {"s3:prefix": ["other/"]}))
    assert not allows(policies, Asked("s3:ListBucket", "letter-archive"))


def test_who_reads_an_object_learns_of_no_key_outside_its_shelf() -> None:
    reading = replace(SYSTEM, components=(Component("reader", reads=(SYSTEM.get_pattern("A2"),)),))
    policies = policies_of("reader", reading)

    # For a key that is not there the service asks for the right to list it: the key is the prefix.
    assert allows(
        policies, Asked("s3:ListBucket", "letter-archive", {"s3:prefix": ["scans/2026/01/02/l1.pdf"]})
    )
    assert not allows(policies, Asked("s3:ListBucket", "letter-archive", {"s3:prefix": ["other/1.pdf"]}))
    assert not allows(policies, Asked("s3:ListBucket", "letter-archive"))


def test_who_deletes_an_object_may_look_whether_the_bucket_is_there() -> None:
    deleting = replace(SYSTEM, components=(Component("shredder", writes=(SYSTEM.get_pattern("A5"),)),))

    assert allows(policies_of("shredder", deleting), Asked("s3:ListBucket", "letter-archive"))


def test_names_are_those_of_the_environment() -> None:
    files = build_policy_files(SYSTEM, environment="prod", region="eu-central-1", account="123456789012")

    assert '"arn:aws:sqs:eu-central-1:123456789012:letters-prod.fifo"' in files["postroom-door.json"]
    assert '"arn:aws:s3:::letter-archive-prod/scans/*"' in files["postroom-clerk.json"]
    assert '"arn:aws:sqs:eu-central-1:123456789012:letters-dead-prod.fifo"' in files["postroom-clerk.json"]


def test_a_bucket_under_the_services_own_key_needs_no_grant_on_a_key() -> None:
    bucket = Bucket("plain", encryption="kms")
    shelf = bucket.objects("all/{id}", content_type="text/plain")

    @pattern("P1", "Put", rate=take_in.rate, example=(b"a", "1"))
    def put(body: bytes, id: str) -> PutObject:
        return shelf.put(body, id=id)

    system = System("plain", "Plain.", (), (put,), (Component("one", writes=(put,)),), buckets=(bucket,))

    assert granted("one", system) == {"s3:PutObject"}


def test_who_replaces_an_object_may_look_whether_it_is_held() -> None:
    bucket = Bucket("replaced", legal_holds=True)
    shelf = bucket.objects("all/{id}", content_type="text/plain")

    @pattern("P1", "Put", rate=take_in.rate, example=(b"a", "1"))
    def put(body: bytes, id: str) -> PutObject:
        return shelf.put(body, create_only=False, id=id)

    system = System("one", "One.", (), (put,), (Component("one", writes=(put,)),), buckets=(bucket,))

    assert granted("one", system) == {
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
def test_a_key_is_named_by_its_id_its_arn_or_by_a_condition_on_its_alias(name: str, spelled: str) -> None:
    assert build_key_arn(EncryptionKey(name), "arn:aws:kms:R:A") == spelled
