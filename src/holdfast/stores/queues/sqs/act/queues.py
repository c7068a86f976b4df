"""Create, change, delete, purge, list and describe queues at SQS."""

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
from holdfast.stores.queues.checks import canonical
from holdfast.stores.queues.sqs.definitions import attributes_of, definition_of, new_attributes_of
from holdfast.stores.queues.sqs.service import Service

LIST_PAGE: Final = 1000


async def create_queue(operation: CreateQueue, service: Service) -> None:
    wanted = canonical(operation.definition)
    attributes = new_attributes_of(wanted, await _dead_letters_arn(wanted, service))
    await service.ask("CreateQueue", QueueName=wanted.name, Attributes=attributes)
    # SQS compares only the attributes it was given: the others of an existing queue may differ.
    there = (await describe_queue(DescribeQueue(wanted.name), service)).definition
    if there != wanted:
        raise AlreadyExists(
            f"The queue {wanted.name} is there with another definition: change it with UpdateQueue, or "
            "choose another name."
        )


async def update_queue(operation: UpdateQueue, service: Service) -> None:
    wanted = canonical(operation.definition)
    attributes = attributes_of(wanted, await _dead_letters_arn(wanted, service))
    await service.ask("SetQueueAttributes", QueueUrl=await service.url(wanted.name), Attributes=attributes)


async def delete_queue(operation: DeleteQueue, service: Service) -> None:
    await service.ask("DeleteQueue", QueueUrl=await service.url(operation.queue))
    service.forget(operation.queue)


async def purge_queue(operation: PurgeQueue, service: Service) -> None:
    await service.ask("PurgeQueue", QueueUrl=await service.url(operation.queue))


async def list_queues(operation: ListQueues, service: Service) -> tuple[str, ...]:
    names: list[str] = []
    request: dict[str, Any] = {"MaxResults": LIST_PAGE}
    if operation.prefix:
        request["QueueNamePrefix"] = operation.prefix
    while True:
        answer = await service.ask("ListQueues", **request)
        names += [url.rpartition("/")[2] for url in answer.get("QueueUrls", ())]
        if not answer.get("NextToken"):
            return tuple(sorted(names))
        request["NextToken"] = answer["NextToken"]


async def describe_queue(operation: DescribeQueue, service: Service) -> QueueDescription:
    """Describe a queue. SQS does not report the age of the oldest message, which is a CloudWatch metric."""
    answer = await service.ask(
        "GetQueueAttributes", QueueUrl=await service.url(operation.queue), AttributeNames=["All"]
    )
    told = answer["Attributes"]
    return QueueDescription(
        definition=definition_of(operation.queue, told),
        visible=int(told["ApproximateNumberOfMessages"]),
        in_flight=int(told["ApproximateNumberOfMessagesNotVisible"]),
        delayed=int(told["ApproximateNumberOfMessagesDelayed"]),
    )


async def _dead_letters_arn(definition: QueueDefinition, service: Service) -> str | None:
    if definition.dead_letters is None:
        return None
    answer = await service.ask(
        "GetQueueAttributes",
        QueueUrl=await service.url(definition.dead_letters),
        AttributeNames=["QueueArn"],
    )
    arn: str = answer["Attributes"]["QueueArn"]
    return arn
