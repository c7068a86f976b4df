"""Queues and buckets of the post room in CloudFormation, Terraform, the page and the pattern list."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.reports.docs.mermaid import draw_access, draw_entities
from holdfast.reports.docs.system_page import render_system_page
from holdfast.reports.iac.cloudformation import build_template
from holdfast.reports.iac.system_tree import compute_max_environment_length
from holdfast.reports.iac.terraform import render_module
from holdfast.reports.pattern_list import build_pattern_rows
from tests.unit.reports import dispatch_desk
from tests.unit.reports.docs.test_system_page import ENTITY_LINES, FLOW_LINES, find_unknown_lines
from tests.unit.reports.iac.validators import get_resources
from tests.unit.reports.post_room import SYSTEM, Letter, archive, letters, notices

TEMPLATE = build_template(SYSTEM)
FILES = render_module(SYSTEM)


def get_properties(logical: str, template: dict[str, Any] = TEMPLATE) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][logical]["Properties"]
    return found


def test_fifo_queue_has_its_dead_letter_queue() -> None:
    queue, dead = get_properties("LettersQueue"), get_properties("LettersDeadLettersQueue")

    assert queue == {
        "QueueName": {"Fn::Sub": "letters-${Environment}.fifo"},
        "FifoQueue": True,
        "VisibilityTimeout": 60,
        "DelaySeconds": 0,
        "MessageRetentionPeriod": 4 * 86400,
        "SqsManagedSseEnabled": True,
        "RedrivePolicy": {
            "deadLetterTargetArn": {"Fn::GetAtt": ["LettersDeadLettersQueue", "Arn"]},
            "maxReceiveCount": 3,
        },
    }
    assert dead["QueueName"] == {"Fn::Sub": "letters-dead-${Environment}.fifo"}
    assert (dead["FifoQueue"], dead["MessageRetentionPeriod"]) == (True, 14 * 86400)
    assert "RedrivePolicy" not in dead


def test_a_standard_queue_is_not_fifo_and_has_its_delay() -> None:
    queue = get_properties("NoticesQueue")

    assert "FifoQueue" not in queue
    assert (queue["QueueName"], queue["DelaySeconds"]) == ({"Fn::Sub": "notices-${Environment}"}, 5)


def test_queue_without_dead_letters_has_no_dead_letter_queue() -> None:
    alone = replace(SYSTEM, queues=(Queue("alone", Letter, max_receives=None),), patterns=(), components=())
    template = build_template(alone)

    assert "RedrivePolicy" not in get_properties("AloneQueue", template)
    assert "AloneDeadLettersQueue" not in template["Resources"]
    assert not [name for name in template["Resources"] if "Dead" in name]


def test_bucket_is_encrypted_private_and_expires_its_objects() -> None:
    bucket = get_properties("LetterArchiveBucket")

    assert bucket["BucketName"] == {"Fn::Sub": "letter-archive-${Environment}"}
    assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"] == [
        {
            "BucketKeyEnabled": True,
            "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "alias/letters"},
        }
    ]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["LifecycleConfiguration"]["Rules"][0] == {
        "Id": "lifetime-1",
        "Status": "Enabled",
        "Prefix": "scans/",
        "ExpirationInDays": 90,
    }


def test_legal_holds_use_object_lock_with_versions_and_old_versions_expire() -> None:
    bucket = get_properties("LetterArchiveBucket")

    assert bucket["ObjectLockEnabled"] is True
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["LifecycleConfiguration"]["Rules"][-1]["NoncurrentVersionExpiration"] == {
        "NoncurrentDays": 1
    }


def test_a_plain_bucket_has_neither_key_nor_lock_nor_lifetimes() -> None:
    plain = replace(SYSTEM, buckets=(Bucket("plain"),), patterns=(), components=())
    bucket = get_properties("PlainBucket", build_template(plain))

    assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"] == [
        {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    ]
    assert not bucket.keys() & {"ObjectLockEnabled", "VersioningConfiguration", "LifecycleConfiguration"}


def test_queues_and_buckets_are_retained_when_the_stack_is_deleted() -> None:
    kept = [
        each
        for each in TEMPLATE["Resources"].values()
        if each["Type"] in ("AWS::SQS::Queue", "AWS::S3::Bucket")
    ]

    assert len(kept) == 5
    assert {(each["DeletionPolicy"], each["UpdateReplacePolicy"]) for each in kept} == {("Retain", "Retain")}


def test_alarms_watch_dead_letters_and_old_messages() -> None:
    died = get_properties("LettersDeadApproximateNumberOfMessagesVisibleAlarm")
    waits = get_properties("LettersApproximateAgeOfOldestMessageAlarm")

    assert (died["Namespace"], died["Threshold"], died["Statistic"]) == ("AWS/SQS", 0, "Maximum")
    assert died["Dimensions"] == [
        {"Name": "QueueName", "Value": {"Fn::GetAtt": ["LettersDeadLettersQueue", "QueueName"]}}
    ]
    assert died["AlarmName"] == {
        "Fn::Sub": "letters-dead-${Environment}.fifo-ApproximateNumberOfMessagesVisible"
    }
    assert waits["Threshold"] == 2 * 86400


def test_policies_name_queues_and_keys_by_reference() -> None:
    statements = get_properties("ClerkPolicy")["PolicyDocument"]["Statement"]
    found = {action: each["Resource"] for each in statements for action in each["Action"]}

    assert found["sqs:ReceiveMessage"] == [{"Fn::GetAtt": ["LettersQueue", "Arn"]}]
    assert found["s3:PutObject"] == [{"Fn::Sub": "${LetterArchiveBucket.Arn}/scans/*"}]
    assert found["kms:GenerateDataKey"] == [
        {"Fn::Sub": "arn:${AWS::Partition}:kms:${AWS::Region}:${AWS::AccountId}:key/*"}
    ]
    assert found["sqs:GetQueueUrl"] == [
        {"Fn::GetAtt": ["LettersQueue", "Arn"]},
        {"Fn::GetAtt": ["LettersDeadLettersQueue", "Arn"]},
        {"Fn::GetAtt": ["NoticesQueue", "Arn"]},
    ]


def test_outputs_name_queues_and_buckets() -> None:
    outputs = TEMPLATE["Outputs"]

    assert outputs["LettersQueueUrl"] == {"Value": {"Ref": "LettersQueue"}}
    assert outputs["LettersDeadLettersQueueArn"] == {
        "Value": {"Fn::GetAtt": ["LettersDeadLettersQueue", "Arn"]}
    }
    assert outputs["LetterArchiveBucketName"] == {"Value": {"Ref": "LetterArchiveBucket"}}


def test_environment_pattern_allows_only_what_every_store_name_allows() -> None:
    of_tables = build_template(dispatch_desk.SYSTEM)["Parameters"]["Environment"]["AllowedPattern"]
    of_queues = build_template(replace(SYSTEM, buckets=(), patterns=(), components=()))["Parameters"][
        "Environment"
    ]

    assert of_tables == "[a-zA-Z0-9_.-]{1,32}"
    assert of_queues["AllowedPattern"] == "[a-zA-Z0-9_-]{1,32}"
    assert TEMPLATE["Parameters"]["Environment"]["AllowedPattern"] == "[a-z0-9-]{1,32}"


def test_long_name_leaves_little_room_for_the_environment() -> None:
    queue = Queue("q" * 60, Letter, fifo=True, group=lambda m: m.to, deduplication=lambda m: m.id)
    room = compute_max_environment_length(replace(SYSTEM, queues=(queue,), patterns=(), components=()))

    assert len(queue.physical_name("e" * room, dead_letter=True)) == 80


def test_module_has_queue_and_bucket_files_only_if_declared() -> None:
    assert {"queues.tf", "buckets.tf"} <= FILES.keys()
    assert not {"queues.tf", "buckets.tf"} & render_module(dispatch_desk.SYSTEM).keys()


def test_terraform_creates_the_same_queues() -> None:
    queues = get_resources(FILES["queues.tf"], "aws_sqs_queue")

    assert sorted(queues) == ["letters", "letters_dead_letters", "notices", "notices_dead_letters"]
    assert queues["letters"]["name"] == "letters-${var.environment}.fifo"
    assert queues["letters"]["fifo_queue"] is True
    assert queues["letters"]["sqs_managed_sse_enabled"] is True
    assert "aws_sqs_queue.letters_dead_letters.arn" in queues["letters"]["redrive_policy"]
    assert "maxReceiveCount = 3" in queues["letters"]["redrive_policy"]
    assert "fifo_queue" not in queues["notices"]
    assert queues["notices"]["lifecycle"] == [{"prevent_destroy": True}]


def test_terraform_creates_the_same_bucket() -> None:
    text = FILES["buckets.tf"]
    [bucket] = get_resources(text, "aws_s3_bucket").values()
    [access] = get_resources(text, "aws_s3_bucket_public_access_block").values()
    [encryption] = get_resources(text, "aws_s3_bucket_server_side_encryption_configuration").values()
    [lifecycle] = get_resources(text, "aws_s3_bucket_lifecycle_configuration").values()
    [versions] = get_resources(text, "aws_s3_bucket_versioning").values()

    assert (bucket["bucket"], bucket["object_lock_enabled"]) == ("letter-archive-${var.environment}", True)
    assert {value for name, value in access.items() if name != "bucket"} == {True}
    [by_default] = encryption["rule"][0]["apply_server_side_encryption_by_default"]
    assert by_default["sse_algorithm"] == "aws:kms"
    assert by_default["kms_master_key_id"] == "${data.aws_kms_key.alias_letters.arn}"
    assert lifecycle["rule"][0]["expiration"] == [{"days": 90}]
    assert lifecycle["rule"][0]["filter"] == [{"prefix": "scans/"}]
    assert versions["versioning_configuration"] == [{"status": "Enabled"}]


def test_terraform_watches_the_dead_letters() -> None:
    alarms = get_resources(FILES["alarms.tf"], "aws_cloudwatch_metric_alarm")
    died = alarms["letters_dead_approximate_number_of_messages_visible"]

    assert died["namespace"] == "AWS/SQS"
    assert died["dimensions"] == {"QueueName": "${aws_sqs_queue.letters_dead_letters.name}"}


def test_page_describes_queues_messages_and_dead_letters() -> None:
    page = render_system_page(SYSTEM)

    assert "## Queues\n\n### letters\n\nLetters, in order for each who gets some.\n" in page
    assert "| dead letters | after 3 attempts, in `letters-dead-{environment}.fifo`, kept 14 days |" in page
    assert "| `pages` | `pages` | `int` | yes |" in page
    assert "| clerk | Works letters off. |  | L5, N1, A1, L2, L3, L4 | letters | tidy (every 60 s) |" in page


def test_page_describes_buckets_keys_and_expiry() -> None:
    page = render_system_page(SYSTEM)

    assert "## Buckets\n\n### letter-archive\n" in page
    row = "| `scans/{created_at:%Y/%m/%d}/{letter_id}.pdf` | application/pdf | 90 days after it was put |"
    assert row in page


def test_page_without_queues_does_not_mention_them() -> None:
    page = render_system_page(dispatch_desk.SYSTEM)

    assert not re.search("queue|bucket|consumes", page, re.IGNORECASE)


def test_diagram_leads_from_a_component_over_the_queue_to_its_consumer() -> None:
    flow = draw_access(SYSTEM)
    names = dict(re.findall(r'^    (\w+)[\[(]+"(.*?)"[\])]+$', flow, re.MULTILINE))
    arrows = {(names[start], names[end]) for start, end in re.findall(r"(\w+) --> (\w+)", flow)}

    way = ["door", "L1 take_in", "letters", "L2 receive", "clerk"]
    assert set(pairwise(way)) <= arrows
    assert ("A1 file_scan", "letter-archive (bucket)") in arrows
    assert find_unknown_lines(flow, FLOW_LINES) == []
    assert find_unknown_lines(draw_entities(SYSTEM), ENTITY_LINES) == []


def test_row_names_the_store_and_the_queue_or_bucket() -> None:
    rows = {row.id: row.to_json() for row in build_pattern_rows(SYSTEM)}

    assert [rows["L1"][name] for name in ("store", "operation", "table", "index")] == [
        "queues",
        "SendMessage",
        letters.name,
        None,
    ]
    assert (rows["N2"]["table"], rows["A2"]["store"], rows["A2"]["table"]) == (
        notices.name,
        "objects",
        archive.name,
    )
    assert (rows["L5"]["store"], rows["L5"]["table"]) == ("tables", "Register")
    assert json.dumps(list(rows.values()))
