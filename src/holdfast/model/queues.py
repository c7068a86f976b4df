"""Declarations of queues, received messages, and the frozen operations on queues.

    events = Queue("rp_mw_events", EventMessage, fifo=True, group=lambda m: m.conversation_id,
                   deduplication=lambda m: m.event_id)

    @pattern("Q1", "Enqueue an event", rate=Rate(per="event"), example=…)
    def enqueue(message: EventMessage) -> Send[EventMessage]:
        return events.send(message)

Messages are Pydantic documents, stored as JSON. The current correlation id is sent with each message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import DeclarationError, InvalidRequest, MessageUnreadable
from holdfast.model.entities.declaration import format_error
from holdfast.model.operations import EngineOperation
from holdfast.model.patterns import Pattern, Rate
from holdfast.operations import queues as requests

__all__ = [
    "ChangeVisibility",
    "DeleteMessages",
    "Queue",
    "Receive",
    "ReceivedMessage",
    "Send",
    "SendBatch",
]

M = TypeVar("M", bound=BaseModel)
M_co = TypeVar("M_co", bound=BaseModel, covariant=True)
R_co = TypeVar("R_co", covariant=True)

MAX_BATCH: Final = 10
CORRELATION_ATTRIBUTE: Final = "correlation"
ANNOUNCEMENT_ATTRIBUTE: Final = "announcement"
FIFO_SUFFIX: Final = ".fifo"
DEAD_LETTER_SUFFIX: Final = "-dead"
# SQS allows 80 characters, including suffix, environment and "-dead".
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True, eq=False)
class Queue(Generic[M]):
    """A queue for messages of one type; a FIFO queue has groups and deduplication ids.

    After `max_receives` receives a message moves to the dead-letter queue; None disables that.
    """

    name: str
    message_type: type[M]
    fifo: bool = field(default=False, kw_only=True)
    group: Callable[[M], str] | None = field(default=None, kw_only=True)
    deduplication: Callable[[M], str] | None = field(default=None, kw_only=True)
    visibility_s: int = field(default=30, kw_only=True)
    delay_s: int = field(default=0, kw_only=True)
    retention_s: int = field(default=4 * 86400, kw_only=True)
    max_receives: int | None = field(default=5, kw_only=True)
    dead_retention_s: int = field(default=14 * 86400, kw_only=True)
    purpose: str = field(default="", kw_only=True)
    # The patterns of its consumers have the ids `{prefix}R`, `{prefix}D` and `{prefix}H`, or those of
    # `pattern_ids`; by default the queue's name and a word. `rate` is how often a message is received.
    prefix: str = field(default="", kw_only=True)
    pattern_ids: tuple[str, str, str] | None = field(default=None, kw_only=True)
    rate: Rate | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DeclarationError(
                f"Invalid queue name {self.name!r}: expected 1 to 60 letters, digits, hyphens and "
                "underscores."
            )
        if self.fifo and (self.group is None or self.deduplication is None):
            raise DeclarationError(
                f"The FIFO queue {self.name} needs a message group and a deduplication id: "
                "add group=lambda message: … and deduplication=lambda message: …."
            )
        if not self.fifo and (self.group is not None or self.deduplication is not None):
            raise DeclarationError(f"The queue {self.name} has groups or deduplication: add fifo=True.")

    # --- names and definitions ------------------------------------------------------------------------------

    def physical_name(self, environment: str, *, dead_letter: bool = False) -> str:
        """Return the queue's name in an environment, `events-prod.fifo`; of its dead-letter queue,
        `events-dead-prod.fifo`.
        """
        scope = f"-{environment}" if environment else ""
        return (
            f"{self.name}{DEAD_LETTER_SUFFIX if dead_letter else ''}{scope}{FIFO_SUFFIX if self.fifo else ''}"
        )

    def definitions(self, environment: str) -> tuple[requests.QueueDefinition, ...]:
        """Return the definitions that an engine creates: the dead-letter queue first, if there is one."""
        own = requests.QueueDefinition(
            name=self.physical_name(environment),
            fifo=self.fifo,
            visibility_s=self.visibility_s,
            delay_s=self.delay_s,
            retention_s=self.retention_s,
            dead_letters=None
            if self.max_receives is None
            else self.physical_name(environment, dead_letter=True),
            max_receives=self.max_receives or 1,
        )
        if self.max_receives is None:
            return (own,)
        dead = requests.QueueDefinition(
            name=self.physical_name(environment, dead_letter=True),
            fifo=self.fifo,
            visibility_s=self.visibility_s,
            retention_s=self.dead_retention_s,
        )
        return (dead, own)

    # --- patterns -------------------------------------------------------------------------------------------

    @cached_property
    def consumer(self) -> ConsumerPatterns:
        """The patterns of its consumers: receive, delete, change visibility."""
        ids = self.pattern_ids or (
            (f"{self.prefix}R", f"{self.prefix}D", f"{self.prefix}H")
            if self.prefix
            else (f"{self.name}-receive", f"{self.name}-delete", f"{self.name}-hold")
        )
        return ConsumerPatterns(self, ids, self.rate or Rate(per=f"message of {self.name}"))

    # --- operations -----------------------------------------------------------------------------------------

    def send(self, message: M, *, delay_s: int | None = None) -> Send[M]:
        """Build the send of one message, visible after `delay_s` seconds; None is the queue's delay."""
        return Send(self, message, delay_s)

    def send_batch(self, messages: Iterable[M]) -> SendBatch[M]:
        """Build the send of up to ten messages in this order."""
        return SendBatch(self, tuple(messages))

    def receive(
        self, count: int = 1, *, wait_s: float = 0.0, visibility_s: float | None = None
    ) -> Receive[M]:
        """Build the receive of up to `count` messages, waiting up to `wait_s` seconds for the first.

        They are hidden for `visibility_s` seconds; None is the queue's timeout.
        """
        return Receive(self, count, wait_s, visibility_s)

    def delete(self, *received: ReceivedMessage[M]) -> DeleteMessages[M]:
        """Build the deletion of received messages."""
        return DeleteMessages(self, tuple(each.receipt for each in received))

    def change_visibility(self, *received: ReceivedMessage[M], seconds: float) -> ChangeVisibility[M]:
        """Build the operation that hides received messages for `seconds` from now; 0 makes them visible at
        once.
        """
        return ChangeVisibility(self, tuple(each.receipt for each in received), seconds)

    def build_outgoing(self, message: M, delay_s: int | None = None) -> requests.OutgoingMessage:
        """Return a message in the form that engines send, with its group, deduplication id and correlation
        id.

        Raise `InvalidRequest` if the message is not of the queue's type.
        """
        if not isinstance(message, self.message_type):
            raise InvalidRequest(
                f"Invalid message for the queue {self.name}: expected a {self.message_type.__name__}, got a "
                f"{type(message).__name__}."
            )
        correlation = get_correlation_id()
        return requests.OutgoingMessage(
            body=message.model_dump_json(by_alias=True, exclude_none=True),
            group=self.group(message) if self.group else None,
            deduplication=self.deduplication(message) if self.deduplication else None,
            delay_s=delay_s,
            attributes={} if correlation is None else {CORRELATION_ATTRIBUTE: correlation},
        )


class ConsumerPatterns:
    """The patterns with which workers consume one queue. `ids` are those of its attributes, in their order.

    `rate` is how often a message is received, `hold_rate` how often its visibility is changed, by default the
    same. `name_prefix` distinguishes the patterns' names from those of other queues.
    """

    def __init__(
        self,
        queue: Queue[Any],
        ids: tuple[str, str, str],
        rate: Rate,
        *,
        hold_rate: Rate | None = None,
        name_prefix: str = "",
    ) -> None:
        def receive(count: int, wait_s: float) -> Receive[Any]:
            return queue.receive(count, wait_s=wait_s)

        # The examples of these two have no message, because only a receive creates one.
        def delete(*received: ReceivedMessage[Any]) -> DeleteMessages[Any]:
            return queue.delete(*received)

        def hold(received: ReceivedMessage[Any] | None, seconds: float) -> ChangeVisibility[Any]:
            return queue.change_visibility(*(() if received is None else (received,)), seconds=seconds)

        for function in (receive, delete, hold):
            function.__name__ = f"{name_prefix}{function.__name__}"
        self.receive = Pattern(receive, ids[0], f"Receive from {queue.name}", rate, (1, 0.0))
        self.delete = Pattern(delete, ids[1], f"Delete a processed message of {queue.name}", rate, ())
        self.change_visibility = Pattern(
            hold,
            ids[2],
            f"Extend the visibility timeout of a message of {queue.name}, or release it",
            hold_rate or rate,
            (None, 30.0),
        )

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        """All three patterns."""
        return (self.receive, self.delete, self.change_visibility)


@dataclass(frozen=True)
class ReceivedMessage(Generic[M_co]):
    """A received message. `message` decodes it and raises `MessageUnreadable` if that fails."""

    queue: str
    message_type: type[M_co]
    incoming: requests.IncomingMessage

    @cached_property
    def message(self) -> M_co:
        """The decoded message; raises `MessageUnreadable` if it does not fit its type."""
        try:
            return self.message_type.model_validate_json(self.incoming.body)
        except ValidationError as error:
            raise MessageUnreadable(self.queue, self.id, format_error(error)) from error

    @property
    def id(self) -> str:
        return self.incoming.id

    @property
    def receipt(self) -> str:
        return self.incoming.receipt

    @property
    def receive_count(self) -> int:
        """How many times the message was received; 1 for the first."""
        return self.incoming.receives

    @property
    def sent_at(self) -> float:
        return self.incoming.sent_at

    @property
    def group(self) -> str | None:
        return self.incoming.group

    @property
    def correlation_id(self) -> str | None:
        return self.incoming.attributes.get(CORRELATION_ATTRIBUTE)

    @property
    def announcement_id(self) -> str:
        """The id that stays the same however often an outbox sends the message; an inbox deduplicates by it.

        Without an outbox it is the queue's message id.
        """
        return self.incoming.attributes.get(ANNOUNCEMENT_ATTRIBUTE, self.id)


@dataclass(frozen=True)
class QueueOperation(EngineOperation[R_co], Generic[M, R_co]):
    """An operation on one queue."""

    store: ClassVar[str] = "queues"

    queue: Queue[M]

    @property
    def resource(self) -> str:
        return self.queue.name

    def _get_physical_name(self, environment: str) -> str:
        return self.queue.physical_name(environment)


@dataclass(frozen=True)
class Send(QueueOperation[M, requests.SentMessage], Generic[M]):
    """Send one message."""

    writes: ClassVar[bool] = True

    message: M
    delay_s: int | None = None

    kind = "SendMessage"

    def build_request(self, environment: str) -> requests.SendMessages:
        return requests.SendMessages(
            self._get_physical_name(environment),
            (self.queue.build_outgoing(self.message, self.delay_s),),
            pattern=self.pattern,
        )

    def decode_result(self, result: tuple[requests.SentMessage, ...]) -> requests.SentMessage:
        return result[0]


@dataclass(frozen=True)
class SendBatch(QueueOperation[M, "tuple[requests.SentMessage, ...]"], Generic[M]):
    """Send several messages in one request."""

    writes: ClassVar[bool] = True

    messages: tuple[M, ...]

    kind = "SendMessageBatch"

    def build_request(self, environment: str) -> requests.SendMessages:
        return requests.SendMessages(
            self._get_physical_name(environment),
            tuple(map(self.queue.build_outgoing, self.messages)),
            pattern=self.pattern,
        )

    def decode_result(self, result: tuple[requests.SentMessage, ...]) -> tuple[requests.SentMessage, ...]:
        return result


@dataclass(frozen=True)
class Receive(QueueOperation[M, "tuple[ReceivedMessage[M], ...]"], Generic[M]):
    """Receive messages. It writes, because it hides them from other consumers."""

    writes: ClassVar[bool] = True

    count: int = 1
    wait_s: float = 0.0
    visibility_s: float | None = None

    kind = "ReceiveMessage"

    def build_request(self, environment: str) -> requests.ReceiveMessages:
        return requests.ReceiveMessages(
            self._get_physical_name(environment),
            self.count,
            self.wait_s,
            self.visibility_s,
            pattern=self.pattern,
        )

    def decode_result(self, result: tuple[requests.IncomingMessage, ...]) -> tuple[ReceivedMessage[M], ...]:
        return tuple(ReceivedMessage(self.queue.name, self.queue.message_type, each) for each in result)


@dataclass(frozen=True)
class DeleteMessages(QueueOperation[M, None], Generic[M]):
    """Delete received messages by their receipts."""

    writes: ClassVar[bool] = True

    receipts: tuple[str, ...]

    kind = "DeleteMessage"

    def build_request(self, environment: str) -> requests.DeleteMessages:
        return requests.DeleteMessages(
            self._get_physical_name(environment), self.receipts, pattern=self.pattern
        )

    def decode_result(self, result: None) -> None:
        return None


@dataclass(frozen=True)
class ChangeVisibility(QueueOperation[M, None], Generic[M]):
    """Hide received messages for some seconds from now."""

    writes: ClassVar[bool] = True

    receipts: tuple[str, ...]
    seconds: float

    kind = "ChangeMessageVisibility"

    def build_request(self, environment: str) -> requests.ChangeVisibility:
        return requests.ChangeVisibility(
            self._get_physical_name(environment), self.receipts, self.seconds, pattern=self.pattern
        )

    def decode_result(self, result: None) -> None:
        return None
