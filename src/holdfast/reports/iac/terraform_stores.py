"""Build the Terraform blocks of queues, buckets and KMS keys from their definitions."""

from __future__ import annotations

from typing import Any, Final

from holdfast.model.objects import Bucket
from holdfast.model.objects import substitute_environment as put_in
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.operations.objects import BucketDefinition, LifecycleRule
from holdfast.operations.queues import QueueDefinition
from holdfast.reports.iac.hcl_writer import Block, Expression, Part, quote
from holdfast.reports.iac.infrastructure import (
    ALIAS_PREFIX,
    build_name_template,
    is_own_key,
    list_own_keys,
    map_to_distinct_names,
    to_snake_case,
)

# Marks the position of the environment: a text that no name can contain.
ENVIRONMENT_MARK: Final = "\0"
PREVENT_DESTROY: Final = Block("lifecycle", (), (("prevent_destroy", True),))


def build_queue_blocks(system: System) -> list[Block]:
    """Return the blocks of all queues; a dead-letter queue precedes its queue."""
    map_to_distinct_names((queue.name for queue in system.queues), to_snake_case, "queues")
    return [
        _build_queue(queue, definition)
        for queue in system.queues
        for definition in queue.definitions(ENVIRONMENT_MARK)
    ]


def build_bucket_blocks(system: System) -> list[Block]:
    """Return each bucket with the provider's separate resources: encryption, access, versions, lifetimes."""
    map_to_distinct_names((bucket.name for bucket in system.buckets), to_snake_case, "buckets")
    return [block for bucket in system.buckets for block in _build_bucket(system, bucket)]


def build_own_key_blocks(system: System) -> list[Block]:
    """Return the KMS keys that the system owns, each with its alias."""
    map_to_distinct_names(list_own_keys(system), get_own_key_name, "keys")
    blocks = []
    for alias in list_own_keys(system):
        name = get_own_key_name(alias)
        body: tuple[Part, ...] = (
            ("description", f"Encrypts the objects of {system.title or system.name}."),
            ("enable_key_rotation", True),
            PREVENT_DESTROY,
        )
        target = ("target_key_id", Expression(f"aws_kms_key.{name}.key_id"))
        blocks += [
            Block("resource", ("aws_kms_key", name), body),
            Block("resource", ("aws_kms_alias", name), (("name", interpolate_declared(alias)), target)),
        ]
    return blocks


def build_key_lookups(system: System) -> list[Block]:
    """Return data sources that look up the ARNs of the keys that buckets name but the module does not
    create.
    """
    keys = dict.fromkeys(bucket.kms_key for bucket in system.buckets if bucket.kms_key is not None)
    return [
        Block("data", ("aws_kms_key", to_snake_case(key)), (("key_id", key),))
        for key in keys
        if not is_own_key(key)
    ]


def get_own_key_name(alias: str) -> str:
    """Return the block name of a key: `pagw_s3` for `alias/pagw-s3-{environment}`."""
    return to_snake_case(put_in(alias.removeprefix(ALIAS_PREFIX), ""))


def get_key_reference(key: str) -> str:
    """Return the expression for the ARN of a bucket's key, created by the module or looked up."""
    if is_own_key(key):
        return f"aws_kms_key.{get_own_key_name(key)}.arn"
    return f"data.aws_kms_key.{to_snake_case(key)}.arn"


def build_store_outputs(system: System) -> dict[str, str]:
    """Return the outputs of queues and buckets, as an expression by name: names, URLs and ARNs."""
    found = {}
    for queue in system.queues:
        for dead in (False, True) if queue.max_receives is not None else (False,):
            name = get_queue_block_name(queue, dead=dead)
            found[f"{name}_queue_url"] = f"aws_sqs_queue.{name}.url"
            found[f"{name}_queue_arn"] = f"aws_sqs_queue.{name}.arn"
    for bucket in system.buckets:
        name = to_snake_case(bucket.name)
        found[f"{name}_bucket_name"] = f"aws_s3_bucket.{name}.bucket"
        found[f"{name}_bucket_arn"] = f"aws_s3_bucket.{name}.arn"
    return found


def get_queue_block_name(queue: Queue[Any], *, dead: bool = False) -> str:
    """Return the Terraform name of a queue, or of its dead-letter queue if `dead`."""
    return to_snake_case(queue.name, *(["dead", "letters"] if dead else []))


def interpolate_environment(text: str) -> Expression:
    """Return a quoted text in which the environment mark is replaced by the variable."""
    return Expression(
        '"' + "${var.environment}".join(quote(part)[1:-1] for part in text.split(ENVIRONMENT_MARK)) + '"'
    )


def interpolate_declared(text: str) -> Expression:
    """Return a quoted text in which `{environment}` is replaced by the variable."""
    return interpolate_environment(put_in(text, ENVIRONMENT_MARK))


def _build_queue(queue: Queue[Any], definition: QueueDefinition) -> Block:
    is_dead = definition.name == queue.physical_name(ENVIRONMENT_MARK, dead_letter=True)
    body: list[Part] = [
        ("name", interpolate_environment(definition.name)),
        *([("fifo_queue", True)] if definition.fifo else []),
        ("visibility_timeout_seconds", definition.visibility_s),
        ("delay_seconds", definition.delay_s),
        ("message_retention_seconds", definition.retention_s),
        ("sqs_managed_sse_enabled", True),
    ]
    if definition.dead_letters is not None:
        target = f"aws_sqs_queue.{get_queue_block_name(queue, dead=True)}.arn"
        policy = f"{{ deadLetterTargetArn = {target}, maxReceiveCount = {definition.max_receives} }}"
        body.append(("redrive_policy", Expression(f"jsonencode({policy})")))
    return Block(
        "resource", ("aws_sqs_queue", get_queue_block_name(queue, dead=is_dead)), (*body, PREVENT_DESTROY)
    )


def _build_bucket(system: System, bucket: Bucket) -> list[Block]:
    """Return the bucket and its separate resources, and a policy that requires TLS."""
    definition, name = bucket.definition(""), to_snake_case(bucket.name)
    of = ("bucket", Expression(f"aws_s3_bucket.{name}.id"))
    open_to_all = (
        "block_public_acls",
        "block_public_policy",
        "ignore_public_acls",
        "restrict_public_buckets",
    )
    own: list[Part] = [("bucket", _build_bucket_name(system, bucket))]
    own += [("object_lock_enabled", True)] if definition.holds else []
    parts: dict[str, tuple[Part, ...]] = {
        "aws_s3_bucket": (*own, PREVENT_DESTROY),
        "aws_s3_bucket_public_access_block": (of, *((each, True) for each in open_to_all)),
        "aws_s3_bucket_ownership_controls": (
            of,
            Block("rule", (), (("object_ownership", "BucketOwnerEnforced"),)),
        ),
        "aws_s3_bucket_server_side_encryption_configuration": (of, _build_encryption(bucket)),
    }
    if definition.noncurrent_version_days is not None:
        versions = Block("versioning_configuration", (), (("status", "Enabled"),))
        parts["aws_s3_bucket_versioning"] = (of, versions)
    if rules := _build_lifecycle_rules(definition):
        parts["aws_s3_bucket_lifecycle_configuration"] = (of, *rules)
    blocks = [Block("resource", (type, name), body) for type, body in parts.items()]
    return [*blocks, *_build_tls_only_policy(name)]


def _build_bucket_name(system: System, bucket: Bucket) -> Any:
    """Return the bucket's name: a template, or a lookup by environment if each environment has its own
    name.
    """
    if bucket.physical is None or not system.deployment.environments:
        return interpolate_environment(build_name_template(bucket, ENVIRONMENT_MARK))
    names = (
        f"{quote(each)} = {quote(bucket.physical_name(each))}" for each in system.deployment.environments
    )
    return Expression(f"{{ {', '.join(names)} }}[var.environment]")


def _build_tls_only_policy(name: str) -> list[Block]:
    """Return a bucket policy that denies requests without TLS; `name` is the bucket's Terraform name."""
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


def _build_encryption(bucket: Bucket) -> Block:
    """Return the encryption by S3's own key, or by KMS with the bucket's key if it names one."""
    by_default: list[Part] = [("sse_algorithm", "aws:kms" if bucket.encryption == "kms" else "AES256")]
    if bucket.kms_key is not None:
        by_default.append(("kms_master_key_id", Expression(get_key_reference(bucket.kms_key))))
    body: list[Part] = [("bucket_key_enabled", True)] if bucket.encryption == "kms" else []
    return Block("rule", (), (*body, Block("apply_server_side_encryption_by_default", (), tuple(by_default))))


def _build_lifecycle_rules(definition: BucketDefinition) -> list[Block]:
    """Return a rule for each lifetime of objects, and one for old versions."""
    rules = [
        _build_expiration_rule(number, rule) for number, rule in enumerate(definition.lifecycle, start=1)
    ]
    former = definition.noncurrent_version_days
    if former is not None:
        old = Block("noncurrent_version_expiration", (), (("noncurrent_days", former),))
        rules.append(_build_rule("old-versions", "", old))
    return rules


def _build_expiration_rule(number: int, rule: LifecycleRule) -> Block:
    return _build_rule(f"lifetime-{number}", rule.prefix, Block("expiration", (), (("days", rule.days),)))


def _build_rule(id: str, prefix: str, action: Block) -> Block:
    body: tuple[Part, ...] = (
        ("id", id),
        ("status", "Enabled"),
        Block("filter", (), (("prefix", prefix),)),
        action,
    )
    return Block("rule", (), body)
