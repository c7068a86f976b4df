"""Queues, buckets and their keys as blocks of a Terraform module. What they are comes from their definitions."""

from __future__ import annotations

from typing import Any, Final

from holdfast.model.objects import Bucket
from holdfast.model.objects import in_environment as put_in
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.operations.objects import BucketDefinition, LifecycleRule
from holdfast.operations.queues import QueueDefinition
from holdfast.reports.hcl_text import Block, Expression, Part, quoted
from holdfast.reports.infrastructure import (
    ALIAS,
    distinct,
    in_environment,
    is_own_key,
    own_keys,
    snake_case,
)

# A text that no name can have in it, for the place of the environment.
ENVIRONMENT: Final = "\0"
KEPT: Final = Block("lifecycle", (), (("prevent_destroy", True),))


def queue_blocks(system: System) -> list[Block]:
    """The dead letters of a queue before it."""
    distinct((queue.name for queue in system.queues), snake_case, "queues")
    return [
        _queue(queue, definition) for queue in system.queues for definition in queue.definitions(ENVIRONMENT)
    ]


def bucket_blocks(system: System) -> list[Block]:
    """Each bucket, and what the provider keeps in resources of their own: encryption, access, versions, lifetimes."""
    distinct((bucket.name for bucket in system.buckets), snake_case, "buckets")
    return [block for bucket in system.buckets for block in _bucket(system, bucket)]


def own_key_blocks(system: System) -> list[Block]:
    """The keys that are the system's own, each with its alias."""
    distinct(own_keys(system), own_key_name, "keys")
    blocks = []
    for alias in own_keys(system):
        name = own_key_name(alias)
        body: tuple[Part, ...] = (
            ("description", f"Encrypts the objects of {system.title or system.name}."),
            ("enable_key_rotation", True),
            KEPT,
        )
        target = ("target_key_id", Expression(f"aws_kms_key.{name}.key_id"))
        blocks += [
            Block("resource", ("aws_kms_key", name), body),
            Block("resource", ("aws_kms_alias", name), (("name", said(alias)), target)),
        ]
    return blocks


def key_blocks(system: System) -> list[Block]:
    """The keys of others that buckets name, looked up for their ARNs."""
    keys = dict.fromkeys(bucket.kms_key for bucket in system.buckets if bucket.kms_key is not None)
    return [
        Block("data", ("aws_kms_key", snake_case(key)), (("key_id", key),))
        for key in keys
        if not is_own_key(key)
    ]


def own_key_name(alias: str) -> str:
    """`alias/pagw-s3-{environment}` is the key `pagw_s3`."""
    return snake_case(put_in(alias.removeprefix(ALIAS), ""))


def key_reference(key: str) -> str:
    if is_own_key(key):
        return f"aws_kms_key.{own_key_name(key)}.arn"
    return f"data.aws_kms_key.{snake_case(key)}.arn"


def store_outputs(system: System) -> dict[str, str]:
    found = {}
    for queue in system.queues:
        for dead in (False, True) if queue.receives_max is not None else (False,):
            name = queue_name(queue, dead=dead)
            found[f"{name}_queue_url"] = f"aws_sqs_queue.{name}.url"
            found[f"{name}_queue_arn"] = f"aws_sqs_queue.{name}.arn"
    for bucket in system.buckets:
        name = snake_case(bucket.name)
        found[f"{name}_bucket_name"] = f"aws_s3_bucket.{name}.bucket"
        found[f"{name}_bucket_arn"] = f"aws_s3_bucket.{name}.arn"
    return found


def queue_name(queue: Queue[Any], *, dead: bool = False) -> str:
    return snake_case(queue.name, *(["dead", "letters"] if dead else []))


def with_environment(text: str) -> Expression:
    """A text with the environment put into it."""
    return Expression(
        '"' + "${var.environment}".join(quoted(part)[1:-1] for part in text.split(ENVIRONMENT)) + '"'
    )


def said(text: str) -> Expression:
    """A declared text, with the environment put in where it has it."""
    return with_environment(put_in(text, ENVIRONMENT))


def _queue(queue: Queue[Any], definition: QueueDefinition) -> Block:
    is_dead = definition.name == queue.physical_name(ENVIRONMENT, dead=True)
    body: list[Part] = [
        ("name", with_environment(definition.name)),
        *([("fifo_queue", True)] if definition.fifo else []),
        ("visibility_timeout_seconds", definition.visibility_s),
        ("delay_seconds", definition.delay_s),
        ("message_retention_seconds", definition.retention_s),
        ("sqs_managed_sse_enabled", True),
    ]
    if definition.dead_letters is not None:
        target = f"aws_sqs_queue.{queue_name(queue, dead=True)}.arn"
        policy = f"{{ deadLetterTargetArn = {target}, maxReceiveCount = {definition.receives_max} }}"
        body.append(("redrive_policy", Expression(f"jsonencode({policy})")))
    return Block("resource", ("aws_sqs_queue", queue_name(queue, dead=is_dead)), (*body, KEPT))


def _bucket(system: System, bucket: Bucket) -> list[Block]:
    definition, name = bucket.definition(""), snake_case(bucket.name)
    of = ("bucket", Expression(f"aws_s3_bucket.{name}.id"))
    open_to_all = (
        "block_public_acls",
        "block_public_policy",
        "ignore_public_acls",
        "restrict_public_buckets",
    )
    own: list[Part] = [("bucket", _bucket_name(system, bucket))]
    own += [("object_lock_enabled", True)] if definition.holds else []
    parts: dict[str, tuple[Part, ...]] = {
        "aws_s3_bucket": (*own, KEPT),
        "aws_s3_bucket_public_access_block": (of, *((each, True) for each in open_to_all)),
        "aws_s3_bucket_ownership_controls": (
            of,
            Block("rule", (), (("object_ownership", "BucketOwnerEnforced"),)),
        ),
        "aws_s3_bucket_server_side_encryption_configuration": (of, _encryption(bucket)),
    }
    if definition.former_version_days is not None:
        versions = Block("versioning_configuration", (), (("status", "Enabled"),))
        parts["aws_s3_bucket_versioning"] = (of, versions)
    if rules := _lifecycle(definition):
        parts["aws_s3_bucket_lifecycle_configuration"] = (of, *rules)
    blocks = [Block("resource", (type, name), body) for type, body in parts.items()]
    return [*blocks, *_only_by_tls(name)]


def _bucket_name(system: System, bucket: Bucket) -> Any:
    if bucket.physical is None or not system.environments:
        return with_environment(in_environment(bucket, ENVIRONMENT))
    names = (f"{quoted(each)} = {quoted(bucket.physical_name(each))}" for each in system.environments)
    return Expression(f"{{ {', '.join(names)} }}[var.environment]")


def _only_by_tls(name: str) -> list[Block]:
    """Nobody is answered who asks in the clear."""
    arn = f"aws_s3_bucket.{name}.arn"
    refusal: tuple[Part, ...] = (
        ("sid", "OnlyByTls"),
        ("effect", "Deny"),
        ("actions", ["s3:*"]),
        ("resources", [Expression(arn), Expression(f'"${{{arn}}}/*"')]),
        Block("principals", (), (("type", "*"), ("identifiers", ["*"]))),
        Block(
            "condition",
            (),
            (("test", "Bool"), ("variable", "aws:SecureTransport"), ("values", ["false"])),
        ),
    )
    document = f"{name}_only_by_tls"
    policy = Expression(f"data.aws_iam_policy_document.{document}.json")
    return [
        Block("data", ("aws_iam_policy_document", document), (Block("statement", (), refusal),)),
        Block(
            "resource",
            ("aws_s3_bucket_policy", name),
            (("bucket", Expression(f"aws_s3_bucket.{name}.id")), ("policy", policy)),
        ),
    ]


def _encryption(bucket: Bucket) -> Block:
    by_default: list[Part] = [("sse_algorithm", "aws:kms" if bucket.encryption == "kms" else "AES256")]
    if bucket.kms_key is not None:
        by_default.append(("kms_master_key_id", Expression(key_reference(bucket.kms_key))))
    body: list[Part] = [("bucket_key_enabled", True)] if bucket.encryption == "kms" else []
    return Block("rule", (), (*body, Block("apply_server_side_encryption_by_default", (), tuple(by_default))))


def _lifecycle(definition: BucketDefinition) -> list[Block]:
    rules = [_expiry(number, rule) for number, rule in enumerate(definition.lifecycle, start=1)]
    former = definition.former_version_days
    if former is not None:
        old = Block("noncurrent_version_expiration", (), (("noncurrent_days", former),))
        rules.append(_rule("old-versions", "", old))
    return rules


def _expiry(number: int, rule: LifecycleRule) -> Block:
    return _rule(f"lifetime-{number}", rule.prefix, Block("expiration", (), (("days", rule.days),)))


def _rule(id: str, prefix: str, what: Block) -> Block:
    body: tuple[Part, ...] = (
        ("id", id),
        ("status", "Enabled"),
        Block("filter", (), (("prefix", prefix),)),
        what,
    )
    return Block("rule", (), body)
