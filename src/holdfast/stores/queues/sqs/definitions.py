"""A queue's definition to SQS's attributes, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.operations.queues import QueueDefinition
from holdfast.stores.queues.checks import FIFO_ENDING, canonical


def attributes_of(definition: QueueDefinition, dead_letters_arn: str | None) -> dict[str, str]:
    """Return the attributes that a queue accepts at any time. An empty policy removes the current one."""
    attributes = {
        "VisibilityTimeout": str(definition.visibility_s),
        "DelaySeconds": str(definition.delay_s),
        "MessageRetentionPeriod": str(definition.retention_s),
        "RedrivePolicy": "",
    }
    if dead_letters_arn is not None:
        policy = {"deadLetterTargetArn": dead_letters_arn, "maxReceiveCount": definition.receives_max}
        attributes["RedrivePolicy"] = json.dumps(policy)
    if definition.fifo:
        attributes["ContentBasedDeduplication"] = _flag(definition.content_deduplication)
    return attributes


def new_attributes_of(definition: QueueDefinition, dead_letters_arn: str | None) -> dict[str, str]:
    attributes = attributes_of(definition, dead_letters_arn)
    if dead_letters_arn is None:
        del attributes["RedrivePolicy"]
    return {**attributes, "FifoQueue": "true"} if definition.fifo else attributes


def definition_of(name: str, attributes: Mapping[str, Any]) -> QueueDefinition:
    policy = json.loads(attributes.get("RedrivePolicy") or "{}")
    dead = policy.get("deadLetterTargetArn")
    return canonical(
        QueueDefinition(
            name=name,
            fifo=name.endswith(FIFO_ENDING),
            visibility_s=int(attributes["VisibilityTimeout"]),
            delay_s=int(attributes["DelaySeconds"]),
            retention_s=int(attributes["MessageRetentionPeriod"]),
            content_deduplication=attributes.get("ContentBasedDeduplication") == "true",
            dead_letters=None if dead is None else name_of(dead),
            receives_max=int(policy.get("maxReceiveCount", 1)),
        )
    )


def name_of(arn: str) -> str:
    """Return the queue's name: `events.fifo` for `arn:aws:sqs:us-east-1:123456789012:events.fifo`."""
    return arn.rpartition(":")[2]


def _flag(value: bool) -> str:
    return "true" if value else "false"
