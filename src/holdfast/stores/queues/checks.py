"""Checks of a request that need no queue: names, sizes, characters and bounds, by SQS's rules.

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
    MESSAGE_ATTRIBUTE_NAME_CHARS_MAX,
    MESSAGE_ATTRIBUTES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGE_DELAY_S_MAX,
    MESSAGE_RETENTION_S_MAX,
    MESSAGE_RETENTION_S_MIN,
    MESSAGE_TOKEN_CHARS_MAX,
    QUEUE_BATCH_MAX,
    QUEUE_NAME_CHARS_MAX,
    RECEIVE_WAIT_S_MAX,
    RECEIVES_MAX,
    VISIBILITY_S_MAX,
)
from holdfast.operations import queues as ops
from holdfast.operations.queues import Operation, Outgoing, QueueDefinition

FIFO_ENDING: Final = ".fifo"
NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?")
TOKEN: Final = re.compile(rf"[\x21-\x7e]{{1,{MESSAGE_TOKEN_CHARS_MAX}}}")
ATTRIBUTE_NAME: Final = re.compile(
    rf"(?!\.|(?i:aws\.|amazon\.))(?!.*\.\.)[A-Za-z0-9_.-]{{1,{MESSAGE_ATTRIBUTE_NAME_CHARS_MAX}}}(?<!\.)"
)
# SQS refuses characters that XML cannot carry.
UNPRINTABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check(operation: Operation[Any]) -> None:
    judge = CHECKS.get(type(operation))
    if judge is not None:
        judge(operation)


def canonical(definition: QueueDefinition) -> QueueDefinition:
    """Return the definition as engines compare it: the receive limit means nothing without a dead-letter
    queue.
    """
    if definition.dead_letters is not None:
        return definition
    return msgspec.structs.replace(definition, receives_max=QueueDefinition(name="any").receives_max)


def check_messages(messages: Sequence[Outgoing], definition: QueueDefinition) -> None:
    """Raise for messages that this kind of queue (FIFO or standard) refuses."""
    for message in messages:
        if definition.fifo:
            _check_fifo(message, definition)
        elif message.group is not None or message.deduplication is not None:
            raise InvalidRequest(
                f"The queue {definition.name} is not FIFO: a message has neither a group nor a deduplication "
                "id there."
            )


def _check_fifo(message: Outgoing, definition: QueueDefinition) -> None:
    if message.group is None:
        raise InvalidRequest(f"The queue {definition.name} is FIFO: a message needs a group.")
    if message.deduplication is None and not definition.content_deduplication:
        raise InvalidRequest(
            f"The queue {definition.name} is FIFO and does not deduplicate by content: a message needs a "
            "deduplication id."
        )
    if message.delay_s is not None:
        raise InvalidRequest(
            f"The queue {definition.name} is FIFO: a delay is the queue's, not a single message's."
        )


# --- definitions --------------------------------------------------------------------------------------------


def _definition(operation: ops.CreateQueue | ops.UpdateQueue) -> None:
    definition = operation.definition
    _name(definition.name)
    if definition.fifo != definition.name.endswith(FIFO_ENDING):
        raise InvalidRequest(
            f"The queue {definition.name}: the name of a FIFO queue, and only of one, ends in {FIFO_ENDING}."
        )
    if definition.content_deduplication and not definition.fifo:
        raise InvalidRequest(f"The queue {definition.name} is not FIFO: it cannot deduplicate by content.")
    _whole("visibility_s", definition.visibility_s, 0, VISIBILITY_S_MAX)
    _whole("delay_s", definition.delay_s, 0, MESSAGE_DELAY_S_MAX)
    _whole("retention_s", definition.retention_s, MESSAGE_RETENTION_S_MIN, MESSAGE_RETENTION_S_MAX)
    _whole("receives_max", definition.receives_max, 1, RECEIVES_MAX)
    if definition.dead_letters is not None:
        _dead_letters(definition, definition.dead_letters)


def _dead_letters(definition: QueueDefinition, dead: str) -> None:
    _name(dead)
    if dead == definition.name:
        raise InvalidRequest(f"The queue {dead} cannot be its own dead-letter queue.")
    if dead.endswith(FIFO_ENDING) != definition.fifo:
        raise InvalidRequest(
            f"The dead-letter queue of {definition.name} must be of its kind: "
            f"{'FIFO' if definition.fifo else 'standard'}."
        )


def _name(name: str) -> None:
    if not _is_text(name) or not NAME.fullmatch(name) or len(name) > QUEUE_NAME_CHARS_MAX:
        raise InvalidRequest(
            f"{name!r} cannot be the name of a queue: it has 1 to {QUEUE_NAME_CHARS_MAX} letters, digits, "
            "hyphens and "
            f"underscores, and may end in {FIFO_ENDING}."
        )


# --- messages -----------------------------------------------------------------------------------------------


def _send(operation: ops.SendMessages) -> None:
    _name(operation.queue)
    _batch(operation.messages, "messages")
    for message in operation.messages:
        if type(message) is not Outgoing:
            raise InvalidRequest(
                f"A message to send is an Outgoing, and this one is a {type(message).__name__}."
            )
        _message(message)
    size = sum(map(message_bytes, operation.messages))
    if size > MESSAGE_BYTES_MAX:
        raise InvalidRequest(
            f"{size:,} bytes are too many: a message with its attributes, and a batch, has up to "
            f"{MESSAGE_BYTES_MAX:,}. "
            "Keep large content in an object and send its key."
        )


def message_bytes(message: Outgoing) -> int:
    """Return the size as SQS counts it: the body, and the name, type and value of each attribute."""
    attributes = sum(
        len(name) + len("String") + len(value.encode()) for name, value in message.attributes.items()
    )
    return len(message.body.encode()) + attributes


def _message(message: Outgoing) -> None:
    _text("the body of a message", message.body)
    for what, token in (("group", message.group), ("deduplication id", message.deduplication)):
        if token is not None and not (_is_text(token) and TOKEN.fullmatch(token)):
            raise InvalidRequest(
                f"{token!r} cannot be a {what}: it has 1 to {MESSAGE_TOKEN_CHARS_MAX} letters, digits and "
                "signs of "
                "ASCII, without spaces. Take a hash of what is longer."
            )
    if message.delay_s is not None:
        _whole("delay_s", message.delay_s, 0, MESSAGE_DELAY_S_MAX)
    if not isinstance(message.attributes, Mapping):
        raise InvalidRequest("The attributes of a message are a mapping of names to texts.")
    if len(message.attributes) > MESSAGE_ATTRIBUTES_MAX:
        raise InvalidRequest(f"A message has up to {MESSAGE_ATTRIBUTES_MAX} attributes.")
    for name, value in message.attributes.items():
        if not _is_text(name) or not ATTRIBUTE_NAME.fullmatch(name):
            raise InvalidRequest(f"{name!r} cannot be the name of a message attribute.")
        _text(f"the attribute {name}", value)


def _text(what: str, text: str) -> None:
    if not _is_text(text) or not text:
        raise InvalidRequest(f"{what.capitalize()} must be text, and not empty.")
    if found := UNPRINTABLE.search(text):
        raise InvalidRequest(
            f"{what.capitalize()} has the character U+{ord(found[0]):04X}, which XML and so SQS cannot "
            "carry: "
            "encode it, as JSON does with \\u."
        )


# --- receiving and what follows -----------------------------------------------------------------------------


def _receive(operation: ops.ReceiveMessages) -> None:
    _name(operation.queue)
    _whole("count", operation.count, 1, QUEUE_BATCH_MAX)
    _number("wait_s", operation.wait_s, 0, RECEIVE_WAIT_S_MAX)
    if operation.visibility_s is not None:
        _number("visibility_s", operation.visibility_s, 0, VISIBILITY_S_MAX)


def _receipts(operation: ops.DeleteMessages | ops.ChangeVisibility) -> None:
    _name(operation.queue)
    _batch(operation.receipts, "receipts")
    for receipt in operation.receipts:
        if not _is_text(receipt):
            raise InvalidRequest(f"A receipt is the text that came with the message, and not {receipt!r}.")
    if isinstance(operation, ops.ChangeVisibility):
        _number("seconds", operation.seconds, 0, VISIBILITY_S_MAX)


def _redrive(operation: ops.Redrive) -> None:
    _name(operation.source)
    _name(operation.target)
    if operation.source == operation.target:
        raise InvalidRequest(f"{operation.source} cannot be redriven into itself.")
    if operation.source.endswith(FIFO_ENDING) != operation.target.endswith(FIFO_ENDING):
        raise InvalidRequest("Messages are redriven from FIFO to FIFO, or from standard to standard.")
    if operation.count is not None:
        _whole("count", operation.count, 1, None)


def _browse(operation: ops.Browse) -> None:
    _name(operation.queue)
    _whole("count", operation.count, 1, None)


def _queue(operation: ops.DeleteQueue | ops.PurgeQueue | ops.DescribeQueue) -> None:
    _name(operation.queue)


def _batch(entries: Sequence[object], what: str) -> None:
    if not 1 <= len(entries) <= QUEUE_BATCH_MAX:
        raise InvalidRequest(f"A batch has 1 to {QUEUE_BATCH_MAX} {what}, and this one has {len(entries)}.")


def _whole(what: str, value: object, low: int, high: int | None) -> None:
    if type(value) is not int:
        raise InvalidRequest(f"{what} must be a whole number, and is {value!r}.")
    _number(what, value, low, high)


def _number(what: str, value: float, low: int, high: int | None) -> None:
    if type(value) not in (int, float) or not value >= low or (high is not None and not value <= high):
        bounds = f"from {low}" if high is None else f"between {low} and {high:,}"
        raise InvalidRequest(f"{what} must be {bounds}, and is {value!r}.")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


CHECKS: Final[dict[type[Operation[Any]], Callable[[Any], None]]] = {
    ops.CreateQueue: _definition,
    ops.UpdateQueue: _definition,
    ops.DeleteQueue: _queue,
    ops.PurgeQueue: _queue,
    ops.DescribeQueue: _queue,
    ops.SendMessages: _send,
    ops.ReceiveMessages: _receive,
    ops.DeleteMessages: _receipts,
    ops.ChangeVisibility: _receipts,
    ops.Redrive: _redrive,
    ops.Browse: _browse,
}
