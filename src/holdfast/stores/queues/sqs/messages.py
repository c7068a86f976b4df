"""Conversion of messages to the entries of SQS's batches, and of received entries back to messages.

A redriven message of a FIFO queue is sent under a deduplication id of its own (see `handlers/redrive.py`).
Its first deduplication id travels in the attribute `holdfast.deduplication`, and readers get that one.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.operations.queues import IncomingMessage, OutgoingMessage
from holdfast.stores.queues.sqs.definitions import parse_queue_name

DEDUPLICATION_ATTRIBUTE: Final = "holdfast.deduplication"
Entry = dict[str, Any]


def to_entry(number: int, message: OutgoingMessage) -> Entry:
    """Return the batch entry of a message; `number` is its position in the batch, which becomes the entry's
    id.
    """
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


def parse_incoming(entry: Entry) -> IncomingMessage:
    """Return the message of a received entry. Attributes that are not strings are left out."""
    system = entry.get("Attributes", {})
    attributes = {
        name: value["StringValue"]
        for name, value in entry.get("MessageAttributes", {}).items()
        if "StringValue" in value
    }
    deduplication = attributes.pop(DEDUPLICATION_ATTRIBUTE, None) or system.get("MessageDeduplicationId")
    sequence, source = system.get("SequenceNumber"), system.get("DeadLetterQueueSourceArn")
    return IncomingMessage(
        id=entry["MessageId"],
        receipt=entry["ReceiptHandle"],
        body=entry["Body"],
        sent_at=int(system["SentTimestamp"]) / 1000,
        receives=int(system["ApproximateReceiveCount"]),
        group=system.get("MessageGroupId"),
        deduplication=deduplication,
        sequence=None if sequence is None else int(sequence),
        attributes=attributes,
        died_in=None if source is None else parse_queue_name(source),
    )
