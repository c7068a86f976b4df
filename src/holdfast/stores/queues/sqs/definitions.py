"""Conversion of a queue's definition to SQS's queue attributes, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.operations.queues import QueueDefinition
from holdfast.stores.queues.checks import FIFO_SUFFIX, canonicalize


def to_attributes(definition: QueueDefinition, dead_letters_arn: str | None) -> dict[str, str]:
    """Return the attributes that an existing queue accepts.

    An empty redrive policy removes the current one.
    """
    attributes = {
        "VisibilityTimeout": str(definition.visibility_s),
        "DelaySeconds": str(definition.delay_s),
        "MessageRetentionPeriod": str(definition.retention_s),
        "RedrivePolicy": "",
    }
    if dead_letters_arn is not None:
        policy = {"deadLetterTargetArn": dead_letters_arn, "maxReceiveCount": definition.max_receives}
        attributes["RedrivePolicy"] = json.dumps(policy)
    if definition.fifo:
        attributes["ContentBasedDeduplication"] = _format_bool(definition.content_deduplication)
    return attributes


def to_new_queue_attributes(definition: QueueDefinition, dead_letters_arn: str | None) -> dict[str, str]:
    """Return the attributes for CreateQueue, which include the kind (FIFO or standard)."""
    attributes = to_attributes(definition, dead_letters_arn)
    if dead_letters_arn is None:
        del attributes["RedrivePolicy"]
    return {**attributes, "FifoQueue": "true"} if definition.fifo else attributes


def parse_definition(name: str, attributes: Mapping[str, Any]) -> QueueDefinition:
    """Return the canonical definition of the queue `name` from its attributes on SQS."""
    policy = json.loads(attributes.get("RedrivePolicy") or "{}")
    dead = policy.get("deadLetterTargetArn")
    return canonicalize(
        QueueDefinition(
            name=name,
            fifo=name.endswith(FIFO_SUFFIX),
            visibility_s=int(attributes["VisibilityTimeout"]),
            delay_s=int(attributes["DelaySeconds"]),
            retention_s=int(attributes["MessageRetentionPeriod"]),
            content_deduplication=attributes.get("ContentBasedDeduplication") == "true",
            dead_letters=None if dead is None else parse_queue_name(dead),
            max_receives=int(policy.get("maxReceiveCount", 1)),
        )
    )


def parse_queue_name(arn: str) -> str:
    """Return the queue's name: `events.fifo` for `arn:aws:sqs:us-east-1:123456789012:events.fifo`."""
    return arn.rpartition(":")[2]


def _format_bool(value: bool) -> str:
    return "true" if value else "false"
