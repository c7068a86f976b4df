"""Queues, as a system declares them: what a message is, how it is grouped and told from a copy, and who gets what died.

    events = Queue("rp_mw_events", EventMessage, fifo=True, group=lambda m: m.conversation_id,
                   deduplication=lambda m: m.event_id)

    @pattern("Q1", "Take an event in", rate=Rate(per="event"), example=…)
    def enqueue(message: EventMessage) -> Send[EventMessage]:
        return events.send(message)

Messages are Pydantic documents, kept as JSON. The correlation id that is bound travels with each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from holdfast.correlation import correlation_id
from holdfast.errors import DeclarationError, InvalidRequest, MessageUnreadable
from holdfast.model.declaration import told
from holdfast.model.operations import EngineOperation
from holdfast.operations import queues as requests

M = TypeVar("M", bound=BaseModel)
M_co = TypeVar("M_co", bound=BaseModel, covariant=True)
R_co = TypeVar("R_co", covariant=True)

BATCH_MAX: Final = 10
CORRELATION: Final = "correlation"
ANNOUNCEMENT: Final = "announcement"
FIFO_ENDING: Final = ".fifo"
DEAD: Final = "-dead"
# SQS takes 80 characters, ending, environment and "-dead" included.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True, eq=False)
class Queue(Generic[M]):
    """Messages of one kind. `receives_max` is how often one is tried before it goes to the dead letters; None keeps it."""

    name: str
    message: type[M]
    fifo: bool = field(default=False, kw_only=True)
    group: Callable[[M], str] | None = field(default=None, kw_only=True)
    deduplication: Callable[[M], str] | None = field(default=None, kw_only=True)
    visibility_s: int = field(default=30, kw_only=True)
    delay_s: int = field(default=0, kw_only=True)
    retention_s: int = field(default=4 * 86400, kw_only=True)
    receives_max: int | None = field(default=5, kw_only=True)
    dead_retention_s: int = field(default=14 * 86400, kw_only=True)
    purpose: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DeclarationError(
                f"The queue {self.name!r} cannot be called so: a name has up to 60 letters, digits, hyphens and underscores."
            )
        if self.fifo and (self.group is None or self.deduplication is None):
            raise DeclarationError(
                f"The FIFO queue {self.name} must say how a message is grouped and told from a copy: "
                "give group=lambda message: … and deduplication=lambda message: …."
            )
        if not self.fifo and (self.group is not None or self.deduplication is not None):
            raise DeclarationError(f"The queue {self.name} has groups or deduplication: give fifo=True.")

    # --- names and definitions ------------------------------------------------------------------------------

    def physical_name(self, environment: str, *, dead: bool = False) -> str:
        """`events-prod.fifo`; the dead letters are in `events-dead-prod.fifo`."""
        scope = f"-{environment}" if environment else ""
        return f"{self.name}{DEAD if dead else ''}{scope}{FIFO_ENDING if self.fifo else ''}"

    def definitions(self, environment: str) -> tuple[requests.QueueDefinition, ...]:
        """What an engine is asked to make: the dead-letter queue first, where there is one."""
        own = requests.QueueDefinition(
            name=self.physical_name(environment),
            fifo=self.fifo,
            visibility_s=self.visibility_s,
            delay_s=self.delay_s,
            retention_s=self.retention_s,
            dead_letters=None if self.receives_max is None else self.physical_name(environment, dead=True),
            receives_max=self.receives_max or 1,
        )
        if self.receives_max is None:
            return (own,)
        dead = requests.QueueDefinition(
            name=self.physical_name(environment, dead=True),
            fifo=self.fifo,
            visibility_s=self.visibility_s,
            retention_s=self.dead_retention_s,
        )
        return (dead, own)

    # --- operations -----------------------------------------------------------------------------------------

    def send(self, message: M, *, delay_s: int | None = None) -> Send[M]:
        return Send(self, message, delay_s)

    def send_all(self, messages: Iterable[M]) -> SendAll[M]:
        """Up to ten, in this order."""
        return SendAll(self, tuple(messages))

    def receive(
        self, count: int = 1, *, wait_s: float = 0.0, visibility_s: float | None = None
    ) -> Receive[M]:
        return Receive(self, count, wait_s, visibility_s)

    def delete(self, *received: Received[M]) -> DeleteReceived[M]:
        return DeleteReceived(self, tuple(each.receipt for each in received))

    def hold(self, *received: Received[M], seconds: float) -> ChangeVisibility[M]:
        """Keeps them from others for so many seconds from now; 0 gives them back."""
        return ChangeVisibility(self, tuple(each.receipt for each in received), seconds)

    def outgoing(self, message: M, delay_s: int | None = None) -> requests.Outgoing:
        if not isinstance(message, self.message):
            raise InvalidRequest(
                f"The queue {self.name} takes {self.message.__name__}, and {type(message).__name__} was given."
            )
        correlation = correlation_id()
        return requests.Outgoing(
            body=message.model_dump_json(by_alias=True, exclude_none=True),
            group=self.group(message) if self.group else None,
            deduplication=self.deduplication(message) if self.deduplication else None,
            delay_s=delay_s,
            attributes={} if correlation is None else {CORRELATION: correlation},
        )


@dataclass(frozen=True)
class Received(Generic[M_co]):
    """A message in the hands of one receiver. `message` reads it, and raises `MessageUnreadable` where it cannot."""

    queue: str
    kind: type[M_co]
    incoming: requests.Incoming

    @cached_property
    def message(self) -> M_co:
        try:
            return self.kind.model_validate_json(self.incoming.body)
        except ValidationError as error:
            raise MessageUnreadable(self.queue, self.id, told(error)) from error

    @property
    def id(self) -> str:
        return self.incoming.id

    @property
    def receipt(self) -> str:
        return self.incoming.receipt

    @property
    def receives(self) -> int:
        """Which time it is received; 1 is the first."""
        return self.incoming.receives

    @property
    def sent_at(self) -> float:
        return self.incoming.sent_at

    @property
    def group(self) -> str | None:
        return self.incoming.group

    @property
    def correlation(self) -> str | None:
        return self.incoming.attributes.get(CORRELATION)

    @property
    def announcement(self) -> str:
        """The same however often an outbox sends it: what an inbox knows it by. Without an outbox, the queue's id."""
        return self.incoming.attributes.get(ANNOUNCEMENT, self.id)


@dataclass(frozen=True)
class QueueOperation(EngineOperation[R_co], Generic[M, R_co]):
    """What is common: the queue it is about."""

    store: ClassVar[str] = "queues"

    queue: Queue[M]

    @property
    def resource(self) -> str:
        return self.queue.name

    def _name(self, environment: str) -> str:
        return self.queue.physical_name(environment)


@dataclass(frozen=True)
class Send(QueueOperation[M, requests.Sent], Generic[M]):
    writes: ClassVar[bool] = True

    message: M
    delay_s: int | None = None

    kind = "SendMessage"

    def request(self, environment: str) -> requests.SendMessages:
        return requests.SendMessages(
            self._name(environment), (self.queue.outgoing(self.message, self.delay_s),), pattern=self.pattern
        )

    def answer(self, result: tuple[requests.Sent, ...]) -> requests.Sent:
        return result[0]


@dataclass(frozen=True)
class SendAll(QueueOperation[M, "tuple[requests.Sent, ...]"], Generic[M]):
    writes: ClassVar[bool] = True

    messages: tuple[M, ...]

    kind = "SendMessageBatch"

    def request(self, environment: str) -> requests.SendMessages:
        return requests.SendMessages(
            self._name(environment), tuple(map(self.queue.outgoing, self.messages)), pattern=self.pattern
        )

    def answer(self, result: tuple[requests.Sent, ...]) -> tuple[requests.Sent, ...]:
        return result


@dataclass(frozen=True)
class Receive(QueueOperation[M, "tuple[Received[M], ...]"], Generic[M]):
    """Receiving changes the queue (others no longer see the message), and so is declared among a component's writes."""

    writes: ClassVar[bool] = True

    count: int = 1
    wait_s: float = 0.0
    visibility_s: float | None = None

    kind = "ReceiveMessage"

    def request(self, environment: str) -> requests.ReceiveMessages:
        return requests.ReceiveMessages(
            self._name(environment), self.count, self.wait_s, self.visibility_s, pattern=self.pattern
        )

    def answer(self, result: tuple[requests.Incoming, ...]) -> tuple[Received[M], ...]:
        return tuple(Received(self.queue.name, self.queue.message, each) for each in result)


@dataclass(frozen=True)
class DeleteReceived(QueueOperation[M, None], Generic[M]):
    writes: ClassVar[bool] = True

    receipts: tuple[str, ...]

    kind = "DeleteMessage"

    def request(self, environment: str) -> requests.DeleteMessages:
        return requests.DeleteMessages(self._name(environment), self.receipts, pattern=self.pattern)

    def answer(self, result: None) -> None:
        return None


@dataclass(frozen=True)
class ChangeVisibility(QueueOperation[M, None], Generic[M]):
    writes: ClassVar[bool] = True

    receipts: tuple[str, ...]
    seconds: float

    kind = "ChangeMessageVisibility"

    def request(self, environment: str) -> requests.ChangeVisibility:
        return requests.ChangeVisibility(
            self._name(environment), self.receipts, self.seconds, pattern=self.pattern
        )

    def answer(self, result: None) -> None:
        return None
