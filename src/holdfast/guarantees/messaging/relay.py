"""The relay of an outbox: claims messages, sends them to their queues, and marks them sent or failed.

The same for every storage. Nothing is locked and no transaction is open while a message is sent.

A lane is the messages that must stay in order: those of one aggregate for one queue. Queues are independent,
and each request is marked as soon as it is answered: a slow queue neither delays another nor lets its claims
expire. A request without an answer within a quarter of the claim has failed, and after half of it no new
request starts.

A relay that dies between a send and the mark leaves a claim that expires: another sends again, and the queue
recognises the copy by the message's id. Only the holder of the claim marks a message. A relay that slept past
the end of its claim can repeat what it was about to send, but never overtake an earlier message: that one was
sent, or the message behind it would not have been claimed.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

from holdfast.core.errors import (
    ComponentRefused,
    DeclarationError,
    HoldfastError,
    NotFound,
    OutcomeUnknown,
    RequestError,
    SendIncomplete,
    error_label,
)
from holdfast.guarantees.messaging.messages import OutboxMessage, SendOutboxMessages, split_requests
from holdfast.guarantees.messaging.pattern_builder import BuiltPatterns
from holdfast.guarantees.pattern_sets import Patterns
from holdfast.model.patterns import Pattern, Rate
from holdfast.model.queues import Queue
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import Stores

R = TypeVar("R")

MAX_REASON_CHARS: Final = 500

# Shares of a claim: the time for one answer, and the time after which no request starts. Together they leave
# time to mark sent messages.
ANSWER_SHARE: Final = 0.25
START_SHARE: Final = 0.5


@dataclass
class RelayReport:
    """Counts of one relay. `more` means that messages are left to claim: relay again at once.

    `claimed`, `sent`, `failed` and `died` count messages. In tables, `blocked` aggregates wait behind a dead
    message, and another relay has the `busy` ones.
    """

    claimed: int = 0
    sent: int = 0
    failed: int = 0
    died: int = 0
    blocked: int = 0
    busy: int = 0
    more: bool = False


@dataclass(eq=False, kw_only=True)
class RelaySettings:
    """The settings of an outbox. The ids of its patterns begin with `prefix`.

    `batch_size` is the number of messages claimed at a time, in a table per aggregate. A relay that does not
    mark its messages within `lease_s` seconds loses them; choose it several times longer than a send takes. A
    schedule relays every `poll_s` seconds. A failed send is retried after a pause that grows from
    `retry_delay_s` to `max_retry_delay_s`. After `max_attempts`, or at once if the queue refuses the message
    permanently, the message is dead, and the later ones of its lane wait until it is redriven or discarded.
    """

    prefix: str
    rate: Rate
    # About four hours, with pauses that double from one second to five minutes.
    max_attempts: int = 55
    lease_s: float = 30.0
    retry_delay_s: float = 1.0
    max_retry_delay_s: float = 300.0
    batch_size: int = 25
    poll_s: float = 5.0


@dataclass(eq=False)
class Claim:
    """The right of one relay to send the messages of some lanes until a time."""

    owner: str
    started_at: datetime
    lease_s: float
    lanes: Sequence[Sequence[OutboxMessage]] = ()
    # The messages that are neither sent nor failed.
    untried: set[OutboxMessage] = field(default_factory=set)
    # True if a mark finds that another relay has taken over.
    is_lost: bool = False
    started_s: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, stores: Stores, lease_s: float) -> Claim:
        """Return a claim of a new owner that starts now."""
        return cls(UlidGenerator(stores.clock).new(), stores.now(), lease_s)

    @property
    def until(self) -> datetime:
        return self.started_at + timedelta(seconds=self.lease_s)

    def can_send(self, now: datetime) -> bool:
        """Return False if the claim is lost, or if half of its time has passed by the wall clock or by the
        monotonic one.
        """
        passed_s = max((now - self.started_at).total_seconds(), time.monotonic() - self.started_s)
        return not self.is_lost and passed_s <= START_SHARE * self.lease_s


class RelayPatterns(BuiltPatterns):
    """The patterns of an outbox. `sends` are those that send, by queue; the others are attributes."""

    queues: Mapping[str, Queue[Any]]
    sends: Mapping[str, Pattern[[tuple[OutboxMessage, ...]], SendOutboxMessages]]
    # The patterns of each role.
    publisher: Patterns
    relay: Patterns
    operator: Patterns

    def __iter__(self) -> Iterator[Pattern[..., Any]]:
        return iter((*super().__iter__(), *self.sends.values()))


class RelayStorage(Protocol):
    """Where the messages of an outbox are stored."""

    def claim(self, report: RelayReport) -> AsyncGenerator[Claim, None]:
        """Yield claims of messages that are due; complete the report with what is not claimed."""

    async def mark_sent(self, claim: Claim, messages: Sequence[OutboxMessage]) -> bool:
        """Mark messages as sent; return False if another relay has taken some of them over."""

    async def mark_failed(
        self, claim: Claim, messages: Sequence[OutboxMessage], reason: str, is_permanent: bool
    ) -> Sequence[bool]:
        """Count a failed attempt and set the time of the next one, or mark the message dead.

        Return for each message that was not taken over whether it is dead now.
        """

    async def release(self, claim: Claim) -> None:
        """End the claim, so that other relays can claim the untried messages."""


class Relay:
    """One relay of the messages that are due."""

    def __init__(self, storage: RelayStorage, pattern_set: RelayPatterns, stores: Stores) -> None:
        self._storage, self._pattern_set, self._stores = storage, pattern_set, stores
        self._report = RelayReport()

    async def run(self) -> RelayReport:
        """Send the messages of each claim, mark them, and return the counts."""
        async with aclosing(self._storage.claim(self._report)) as claims:
            async for claim in claims:
                await self._send_claim(claim)
        return self._report

    async def _send_claim(self, claim: Claim) -> None:
        """Send the messages of a claim, to all queues concurrently; release those that were not tried."""
        by_queue: dict[str, list[Sequence[OutboxMessage]]] = defaultdict(list)
        for lane in claim.lanes:
            by_queue[lane[0].queue_name].append(lane)
        claim.untried = set(chain.from_iterable(claim.lanes))
        self._report.claimed += len(claim.untried)
        try:
            await _gather_all(self._send_in_waves(claim, queue, lanes) for queue, lanes in by_queue.items())
        finally:
            await self._storage.release(claim)

    async def _send_in_waves(
        self, claim: Claim, queue: str, lanes: Sequence[Sequence[OutboxMessage]]
    ) -> None:
        """Send the first message of each lane, then the second of those whose first was sent, and so on.

        Two messages of one lane are never in one request: if the queue accepts only some messages of it, the
        second could arrive before the first.
        """
        while lanes:
            requests = split_requests(self._pattern_set.queues[queue], [lane[0] for lane in lanes])
            answers = await _gather_all(self._send_and_mark(claim, queue, some) for some in requests)
            sent = set(chain.from_iterable(answers))
            lanes = [lane[1:] for lane in lanes if lane[0] in sent and len(lane) > 1]

    async def _send_and_mark(
        self, claim: Claim, queue: str, messages: tuple[OutboxMessage, ...]
    ) -> Iterable[OutboxMessage]:
        """Send the messages in one request and mark each by the answer; return those that were sent.

        If the claim is half over, send nothing. If the queue refuses the whole request permanently, send each
        message alone.
        """
        if not claim.can_send(self._stores.now()):
            self._report.more = True  # another claim covers them, with enough time
            return ()
        failures = await self._send(claim, queue, messages)
        if (
            len(messages) > 1
            and len(failures) == len(messages)
            and all(map(_is_permanent, failures.values()))
        ):
            # One message is refused permanently. Send each alone to find out which.
            alone = [await self._send_and_mark(claim, queue, (each,)) for each in messages]
            return chain.from_iterable(alone)
        sent = tuple(each for each in messages if each not in failures)
        await self._mark(claim, sent, failures)
        return sent

    async def _send(
        self, claim: Claim, queue: str, messages: tuple[OutboxMessage, ...]
    ) -> dict[OutboxMessage, HoldfastError]:
        """Send the messages in one request, and return the errors of unsent ones.

        A message without an answer in time may have been sent.
        """
        patience_s = ANSWER_SHARE * claim.lease_s
        limit = asyncio.timeout(patience_s)
        try:
            async with limit:
                await self._stores.run(self._pattern_set.sends[queue](messages))
        except ComponentRefused:
            raise
        except SendIncomplete as error:
            return {messages[place]: error for place in error.unsent}
        except HoldfastError as error:
            return dict.fromkeys(messages, error)
        except TimeoutError:
            if not limit.expired():
                raise
            is_fifo = self._pattern_set.queues[queue].fifo
            late = OutcomeUnknown(
                f"The queue gave no answer within {patience_s:g} s.", safe_to_repeat=is_fifo
            )
            return dict.fromkeys(messages, late)
        return {}

    async def _mark(
        self, claim: Claim, sent: Sequence[OutboxMessage], failures: Mapping[OutboxMessage, HoldfastError]
    ) -> None:
        """Mark the sent messages and the failed ones, and add them to the report."""
        # Before they are marked: if that fails, they are not released to be sent again at once.
        claim.untried -= {*sent, *failures}
        if sent:
            claim.is_lost |= not await self._storage.mark_sent(claim, sent)
            self._report.sent += len(sent)
        by_reason: dict[tuple[str, bool], list[OutboxMessage]] = defaultdict(list)
        for message, error in failures.items():
            by_reason[_format_reason(error), _is_permanent(error)].append(message)
        for (reason, is_permanent), messages in by_reason.items():
            marked = await self._storage.mark_failed(claim, messages, reason, is_permanent)
            self._report.failed += len(marked)
            self._report.died += sum(marked)


async def _gather_all(work: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Run all concurrently, each to its end, then raise the first error, or return the results in order."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    for each in answers:
        if isinstance(each, BaseException):
            raise each
    return [each for each in answers if not isinstance(each, BaseException)]


def _format_reason(error: HoldfastError) -> str:
    """Return the error's label and message, cut to `MAX_REASON_CHARS`; an error does not quote a queue
    message's body.
    """
    return f"{error_label(error)}: {error.message}"[:MAX_REASON_CHARS]


def _is_permanent(error: HoldfastError) -> bool:
    """Return True if a retry cannot succeed: the message itself is refused.

    A missing queue may still be created.
    """
    return isinstance(error, RequestError | DeclarationError) and not isinstance(error, NotFound)
