"""Handlers of the SQS engine that create, change, delete, purge, list and describe queues."""

from __future__ import annotations

from typing import Any, Final

from holdfast.core.errors import AlreadyExists
from holdfast.operations.queues import (
    CreateQueue,
    DeleteQueue,
    DescribeQueue,
    ListQueues,
    PurgeQueue,
    QueueDefinition,
    QueueDescription,
    UpdateQueue,
)
from holdfast.stores.queues.checks import canonicalize
from holdfast.stores.queues.sqs.definitions import parse_definition, to_attributes, to_new_queue_attributes
from holdfast.stores.queues.sqs.service import Service

LIST_PAGE: Final = 1000


async def create_queue(operation: CreateQueue, service: Service) -> None:
    """Create the queue; do nothing if it exists with the same definition.

    Raise `AlreadyExists` if it differs.
    """
    wanted = canonicalize(operation.definition)
    attributes = to_new_queue_attributes(wanted, await _get_dead_letter_queue_arn(wanted, service))
    await service.send("CreateQueue", QueueName=wanted.name, Attributes=attributes)
    # SQS compares only the attributes it was given: the others of an existing queue may differ.
    existing = (await describe_queue(DescribeQueue(wanted.name), service)).definition
    if existing != wanted:
        raise AlreadyExists(
            f"The queue {wanted.name} exists with another definition: change it with UpdateQueue, or choose "
            "another name."
        )


async def update_queue(operation: UpdateQueue, service: Service) -> None:
    """Replace the queue's attributes by those of the definition. Raise `NotFound` without the queue."""
    wanted = canonicalize(operation.definition)
    attributes = to_attributes(wanted, await _get_dead_letter_queue_arn(wanted, service))
    await service.send(
        "SetQueueAttributes", QueueUrl=await service.get_url(wanted.name), Attributes=attributes
    )


async def delete_queue(operation: DeleteQueue, service: Service) -> None:
    """Delete the queue and forget its cached URL."""
    await service.send("DeleteQueue", QueueUrl=await service.get_url(operation.queue))
    service.forget_url(operation.queue)


async def purge_queue(operation: PurgeQueue, service: Service) -> None:
    """Delete all messages of the queue. Raise `RetryLater` if SQS purged it within the last minute."""
    await service.send("PurgeQueue", QueueUrl=await service.get_url(operation.queue))


async def list_queues(operation: ListQueues, service: Service) -> tuple[str, ...]:
    """Return all names that begin with the prefix, sorted, read page by page."""
    names: list[str] = []
    request: dict[str, Any] = {"MaxResults": LIST_PAGE}
    if operation.prefix:
        request["QueueNamePrefix"] = operation.prefix
    while True:
        response = await service.send("ListQueues", **request)
        names += [url.rpartition("/")[2] for url in response.get("QueueUrls", ())]
        if not response.get("NextToken"):
            return tuple(sorted(names))
        request["NextToken"] = response["NextToken"]


async def describe_queue(operation: DescribeQueue, service: Service) -> QueueDescription:
    """Return the queue's definition and approximate counts.

    SQS does not report the age of the oldest message, which is a CloudWatch metric.
    """
    response = await service.send(
        "GetQueueAttributes", QueueUrl=await service.get_url(operation.queue), AttributeNames=["All"]
    )
    attributes = response["Attributes"]
    return QueueDescription(
        definition=parse_definition(operation.queue, attributes),
        visible=int(attributes["ApproximateNumberOfMessages"]),
        in_flight=int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        delayed=int(attributes["ApproximateNumberOfMessagesDelayed"]),
    )


async def _get_dead_letter_queue_arn(definition: QueueDefinition, service: Service) -> str | None:
    """Return the ARN of the definition's dead-letter queue, or None if it names none."""
    if definition.dead_letters is None:
        return None
    response = await service.send(
        "GetQueueAttributes",
        QueueUrl=await service.get_url(definition.dead_letters),
        AttributeNames=["QueueArn"],
    )
    arn: str = response["Attributes"]["QueueArn"]
    return arn
