"""Request checks that every queues engine makes, by SQS's rules: names, sizes, characters and bounds.

Both engines call `check` before anything else, and `check_messages` once they know whether the queue is FIFO,
so that both refuse the same request with the same text. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import (
    MAX_MESSAGE_ATTRIBUTE_NAME_CHARS,
    MAX_MESSAGE_ATTRIBUTES,
    MAX_MESSAGE_BYTES,
    MAX_MESSAGE_DELAY_S,
    MAX_MESSAGE_RETENTION_S,
    MAX_MESSAGE_TOKEN_CHARS,
    MAX_QUEUE_BATCH,
    MAX_QUEUE_NAME_CHARS,
    MAX_RECEIVE_WAIT_S,
    MAX_RECEIVES,
    MAX_VISIBILITY_S,
    MIN_MESSAGE_RETENTION_S,
)
from holdfast.operations import queues as ops
from holdfast.operations.queues import Operation, OutgoingMessage, QueueDefinition

FIFO_SUFFIX: Final = ".fifo"
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?")
TOKEN: Final = re.compile(rf"[\x21-\x7e]{{1,{MAX_MESSAGE_TOKEN_CHARS}}}")
ATTRIBUTE_NAME: Final = re.compile(
    rf"(?!\.|(?i:aws\.|amazon\.))(?!.*\.\.)[A-Za-z0-9_.-]{{1,{MAX_MESSAGE_ATTRIBUTE_NAME_CHARS}}}(?<!\.)"
)
# SQS refuses characters that XML cannot carry.
INVALID_CHARACTER: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check(operation: Operation[Any]) -> None:
    """Raise `InvalidRequest` if SQS would refuse the operation whatever its queue is."""
    check_operation = CHECKS.get(type(operation))
    if check_operation is not None:
        check_operation(operation)


def canonicalize(definition: QueueDefinition) -> QueueDefinition:
    """Return the definition as engines compare it: without a dead-letter queue, `max_receives` has its
    default.
    """
    if definition.dead_letters is not None:
        return definition
    return msgspec.structs.replace(definition, max_receives=QueueDefinition(name="any").max_receives)


def check_messages(messages: Sequence[OutgoingMessage], definition: QueueDefinition) -> None:
    """Raise `InvalidRequest` for messages that this kind of queue (FIFO or standard) refuses."""
    for message in messages:
        if definition.fifo:
            _check_fifo_message(message, definition)
        elif message.group is not None or message.deduplication is not None:
            raise InvalidRequest(
                f"Invalid message for the queue {definition.name}, which is not FIFO: give it neither a "
                "group nor a deduplication id."
            )


def _check_fifo_message(message: OutgoingMessage, definition: QueueDefinition) -> None:
    """Require a group, and a deduplication id unless the queue makes one from the content; refuse a delay."""
    if message.group is None:
        raise InvalidRequest(
            f"Invalid message for the queue {definition.name}, which is FIFO: give it a group."
        )
    if message.deduplication is None and not definition.content_deduplication:
        raise InvalidRequest(
            f"Invalid message for the queue {definition.name}, which is FIFO and does not deduplicate by "
            "content: give it a deduplication id."
        )
    if message.delay_s is not None:
        raise InvalidRequest(
            f"Invalid message for the queue {definition.name}, which is FIFO: set the delay for the queue, "
            "not for a message."
        )


# --- definitions --------------------------------------------------------------------------------------------


def _check_definition(operation: ops.CreateQueue | ops.UpdateQueue) -> None:
    """Check name, FIFO suffix, bounds and dead-letter queue of a definition to create or update."""
    definition = operation.definition
    _check_queue_name(definition.name)
    if definition.fifo != definition.name.endswith(FIFO_SUFFIX):
        raise InvalidRequest(
            f"Invalid queue name {definition.name!r}: the name of a FIFO queue, and only of a FIFO queue, "
            "ends "
            f"in {FIFO_SUFFIX}."
        )
    if definition.content_deduplication and not definition.fifo:
        raise InvalidRequest(
            f"Invalid content_deduplication for the queue {definition.name}: only a FIFO queue deduplicates "
            "by content."
        )
    _check_integer("visibility_s", definition.visibility_s, 0, MAX_VISIBILITY_S)
    _check_integer("delay_s", definition.delay_s, 0, MAX_MESSAGE_DELAY_S)
    _check_integer("retention_s", definition.retention_s, MIN_MESSAGE_RETENTION_S, MAX_MESSAGE_RETENTION_S)
    _check_integer("max_receives", definition.max_receives, 1, MAX_RECEIVES)
    if definition.dead_letters is not None:
        _check_dead_letters(definition, definition.dead_letters)


def _check_dead_letters(definition: QueueDefinition, dead: str) -> None:
    """Require another queue of the same kind, FIFO or standard. `dead` is the dead-letter queue's name."""
    _check_queue_name(dead)
    if dead == definition.name:
        raise InvalidRequest(f"The queue {dead} is named as its own dead-letter queue: name another queue.")
    if dead.endswith(FIFO_SUFFIX) != definition.fifo:
        raise InvalidRequest(
            f"Invalid dead-letter queue {dead!r} of {definition.name}: expected a "
            f"{'FIFO' if definition.fifo else 'standard'} queue, as {definition.name} is."
        )


def _check_queue_name(name: str) -> None:
    """Raise `InvalidRequest` unless the name is valid for SQS."""
    if not _is_text(name) or not QUEUE_NAME.fullmatch(name) or len(name) > MAX_QUEUE_NAME_CHARS:
        raise InvalidRequest(
            f"Invalid queue name {name!r}: expected 1 to {MAX_QUEUE_NAME_CHARS} letters, digits, hyphens and "
            f"underscores, which may end in {FIFO_SUFFIX}."
        )


# --- messages -----------------------------------------------------------------------------------------------


def _check_send(operation: ops.SendMessages) -> None:
    """Check every message of the batch, the batch's count and its size in bytes."""
    _check_queue_name(operation.queue)
    _check_batch_size(operation.messages, "messages")
    for message in operation.messages:
        if type(message) is not OutgoingMessage:
            raise InvalidRequest(
                f"Invalid message to send: expected an OutgoingMessage, not a {type(message).__name__}."
            )
        _check_message(message)
    size = sum(map(count_message_bytes, operation.messages))
    if size > MAX_MESSAGE_BYTES:
        raise InvalidRequest(
            f"{size:,} bytes are too many: a message with its attributes, and a batch, has up to "
            f"{MAX_MESSAGE_BYTES:,}. Store large content in an object and send its key."
        )


def count_message_bytes(message: OutgoingMessage) -> int:
    """Return the size as SQS counts it: the body, and the name, type and value of each attribute."""
    attributes = sum(
        len(name) + len("String") + len(value.encode()) for name, value in message.attributes.items()
    )
    return len(message.body.encode()) + attributes


def _check_message(message: OutgoingMessage) -> None:
    """Check body, group, deduplication id, delay and attributes of one message."""
    _check_text("the body of a message", message.body)
    for label, token in (("group", message.group), ("deduplication id", message.deduplication)):
        if token is not None and not (_is_text(token) and TOKEN.fullmatch(token)):
            raise InvalidRequest(
                f"Invalid {label} {token!r}: expected 1 to {MAX_MESSAGE_TOKEN_CHARS} printable ASCII "
                "characters without spaces. Use a hash of a longer one."
            )
    if message.delay_s is not None:
        _check_integer("delay_s", message.delay_s, 0, MAX_MESSAGE_DELAY_S)
    if not isinstance(message.attributes, Mapping):
        raise InvalidRequest("Invalid message attributes: expected a mapping of names to strings.")
    if len(message.attributes) > MAX_MESSAGE_ATTRIBUTES:
        raise InvalidRequest(f"A message has up to {MAX_MESSAGE_ATTRIBUTES} attributes.")
    for name, value in message.attributes.items():
        if not _is_text(name) or not ATTRIBUTE_NAME.fullmatch(name):
            raise InvalidRequest(
                f"Invalid message attribute name {name!r}: expected 1 to {MAX_MESSAGE_ATTRIBUTE_NAME_CHARS} "
                "letters, digits, underscores, hyphens and periods, without a period at either end, two in a "
                "row, or the prefix AWS. or Amazon."
            )
        _check_text(f"the attribute {name}", value)


def _check_text(label: str, text: str) -> None:
    """Raise `InvalidRequest` unless the text is a non-empty string of characters that XML can carry."""
    if not _is_text(text) or not text:
        raise InvalidRequest(f"{label.capitalize()} must be a non-empty string.")
    if found := INVALID_CHARACTER.search(text):
        raise InvalidRequest(
            f"{label.capitalize()} has the character U+{ord(found[0]):04X}, which XML and so SQS cannot "
            "carry. "
            "Encode it, as JSON does with \\u."
        )


# --- receives, receipts and redrives ------------------------------------------------------------------------


def _check_receive(operation: ops.ReceiveMessages) -> None:
    """Check queue name, count, wait and visibility timeout."""
    _check_queue_name(operation.queue)
    _check_integer("count", operation.count, 1, MAX_QUEUE_BATCH)
    _check_number("wait_s", operation.wait_s, 0, MAX_RECEIVE_WAIT_S)
    if operation.visibility_s is not None:
        _check_number("visibility_s", operation.visibility_s, 0, MAX_VISIBILITY_S)


def _check_receipts(operation: ops.DeleteMessages | ops.ChangeVisibility) -> None:
    """Check queue name, number and type of the receipts, and the new visibility timeout."""
    _check_queue_name(operation.queue)
    _check_batch_size(operation.receipts, "receipts")
    for receipt in operation.receipts:
        if not _is_text(receipt):
            raise InvalidRequest(
                f"Invalid receipt {receipt!r}: expected the string that came with the message."
            )
    if isinstance(operation, ops.ChangeVisibility):
        _check_number("seconds", operation.seconds, 0, MAX_VISIBILITY_S)


def _check_redrive(operation: ops.Redrive) -> None:
    """Require two different queues of the same kind, by their names, and a count from 1, if one is given."""
    _check_queue_name(operation.source)
    _check_queue_name(operation.target)
    if operation.source == operation.target:
        raise InvalidRequest(f"The redrive of {operation.source} targets the same queue: name another one.")
    if operation.source.endswith(FIFO_SUFFIX) != operation.target.endswith(FIFO_SUFFIX):
        raise InvalidRequest(
            f"Invalid redrive from {operation.source} to {operation.target}: both queues must be FIFO, or "
            "both standard."
        )
    if operation.count is not None:
        _check_integer("count", operation.count, 1, None)
    if operation.ids is not None:
        _check_ids(operation.ids)
    if operation.group is not None and not _is_text(operation.group):
        raise InvalidRequest(f"Invalid group {operation.group!r}: expected the text of a message group.")


def _check_discard(operation: ops.DiscardMessages) -> None:
    _check_queue_name(operation.queue)
    _check_ids(operation.ids)


def _check_ids(ids: Sequence[object]) -> None:
    """Raise `InvalidRequest` unless there is at least one id, and each is a text."""
    if not ids or not all(map(_is_text, ids)):
        raise InvalidRequest("Invalid message ids: expected at least one, as shown for the message.")


def _check_browse(operation: ops.Browse) -> None:
    _check_queue_name(operation.queue)
    _check_integer("count", operation.count, 1, None)


def _check_queue(operation: ops.DeleteQueue | ops.PurgeQueue | ops.DescribeQueue) -> None:
    _check_queue_name(operation.queue)


def _check_batch_size(entries: Sequence[object], label: str) -> None:
    """Raise `InvalidRequest` unless there are 1 to 10 entries; `label` names them in the error."""
    if not 1 <= len(entries) <= MAX_QUEUE_BATCH:
        raise InvalidRequest(f"Invalid batch of {len(entries)} {label}: expected 1 to {MAX_QUEUE_BATCH}.")


def _check_integer(label: str, value: object, low: int, high: int | None) -> None:
    """Raise `InvalidRequest` unless the value is an int from `low` to `high`; `high` None means no limit."""
    if type(value) is not int:
        raise InvalidRequest(f"Invalid {label}={value!r}: expected an integer.")
    _check_number(label, value, low, high)


def _check_number(label: str, value: float, low: int, high: int | None) -> None:
    """Raise `InvalidRequest` unless the value is an int or float from `low` to `high`; `high` None means no
    limit.
    """
    if type(value) not in (int, float) or not value >= low or (high is not None and not value <= high):
        bounds = f"from {low}" if high is None else f"between {low} and {high:,}"
        raise InvalidRequest(f"Invalid {label}={value!r}: expected a number {bounds}.")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


CHECKS: Final[dict[type[Operation[Any]], Callable[[Any], None]]] = {
    ops.CreateQueue: _check_definition,
    ops.UpdateQueue: _check_definition,
    ops.DeleteQueue: _check_queue,
    ops.PurgeQueue: _check_queue,
    ops.DescribeQueue: _check_queue,
    ops.SendMessages: _check_send,
    ops.ReceiveMessages: _check_receive,
    ops.DeleteMessages: _check_receipts,
    ops.ChangeVisibility: _check_receipts,
    ops.Redrive: _check_redrive,
    ops.DiscardMessages: _check_discard,
    ops.Browse: _check_browse,
}
