"""Messages to entries of SQS's batches, and received messages back.

A redriven message of a FIFO queue is sent under a deduplication id of its own (see `act/redriving.py`). Its
first deduplication id travels in the attribute `holdfast.deduplication`, and readers get that one.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.operations.queues import Incoming, Outgoing
from holdfast.stores.queues.sqs.definitions import name_of

DEDUPLICATION: Final = "holdfast.deduplication"
Entry = dict[str, Any]


def entry_of(number: int, message: Outgoing) -> Entry:
    entry: Entry = {"Id": str(number), "MessageBody": message.body}
    if message.attributes:
        entry["MessageAttributes"] = {
            name: {"DataType": "String", "StringValue": value} for name, value in message.attributes.items()
        }
    if message.group is not None:
        entry["MessageGroupId"] = message.group
    if message.deduplication is not None:
        entry["MessageDeduplicationId"] = message.deduplication
    if message.delay_s is not None:
        entry["DelaySeconds"] = message.delay_s
    return entry


def incoming_of(told: Entry) -> Incoming:
    system = told.get("Attributes", {})
    attributes = {
        name: value["StringValue"]
        for name, value in told.get("MessageAttributes", {}).items()
        if "StringValue" in value
    }
    deduplication = attributes.pop(DEDUPLICATION, None) or system.get("MessageDeduplicationId")
    sequence, source = system.get("SequenceNumber"), system.get("DeadLetterQueueSourceArn")
    return Incoming(
        id=told["MessageId"],
        receipt=told["ReceiptHandle"],
        body=told["Body"],
        sent_at=int(system["SentTimestamp"]) / 1000,
        receives=int(system["ApproximateReceiveCount"]),
        group=system.get("MessageGroupId"),
        deduplication=deduplication,
        sequence=None if sequence is None else int(sequence),
        attributes=attributes,
        died_in=None if source is None else name_of(source),
    )
