"""The publisher of an SQL outbox: claims rows, sends them to their queues, and marks them sent or failed.

The claim is one short statement, and rows are sent outside of any transaction.

Queues are independent, and each request is marked as soon as it is answered: a slow queue neither delays
another nor lets its claims expire. A request without an answer within a quarter of the claim has failed, and
after half of it no new request starts.

A publisher that dies between a send and the mark leaves a claim that expires: another sends again, and the
queue recognises the copy by the row's id. Only the holder of the claim marks a row. A publisher that slept
past the end of its claim can repeat what it was about to send, but never overtake an earlier row: that one
was sent, or the row behind it would not have been claimed.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
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
from holdfast.guarantees.messaging.sql_outbox.patterns import SqlOutboxPatterns
from holdfast.guarantees.messaging.sql_outbox.rows import ClaimedRow, split_requests
from holdfast.guarantees.pattern_sets import utc_now
from holdfast.model import Queue, UlidGenerator
from holdfast.runtime import Stores

R = TypeVar("R")

MAX_REASON_CHARS: Final = 500

# Shares of a claim: the time for one answer, and the time after which no request starts. Together they leave
# time to mark sent rows.
ANSWER_SHARE: Final = 0.25
START_SHARE: Final = 0.5

# The errors of unsent rows by id; None for rows that were not tried.
NotSent = dict[int, HoldfastError | None]


@dataclass
class PublishReport:
    """The result of one round. `more` means that rows are left to claim: run the next round at once."""

    claimed: int = 0
    sent: int = 0
    failed: int = 0
    died: int = 0
    more: bool = False


class PublisherSettings(Protocol):
    """The settings of an outbox that its publisher needs."""

    @property
    def channel(self) -> str: ...
    @property
    def queues(self) -> Sequence[Queue[Any]]: ...
    @property
    def pattern_set(self) -> SqlOutboxPatterns: ...
    @property
    def batch(self) -> int: ...
    @property
    def lease_s(self) -> float: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def pause_s(self) -> float: ...
    @property
    def max_pause_s(self) -> float: ...


class Publisher:
    """One round, with a claim under a new owner id."""

    def __init__(self, outbox: PublisherSettings, stores: Stores) -> None:
        self._outbox, self._pattern_set, self._stores = outbox, outbox.pattern_set, stores
        self._queues = {queue.name: queue for queue in outbox.queues}
        self._owner = UlidGenerator(stores.clock).new()
        self._started_at, self._started_s = self._now(), time.monotonic()
        self.report = PublishReport()

    async def run_round(self) -> PublishReport:
        """Claim up to a batch of rows, send them to their queues concurrently, mark them, and return the
        counts.
        """
        terms = self._outbox
        until = self._started_at + timedelta(seconds=terms.lease_s)
        # Later than any pause or claim can end.
        beyond = self._started_at + timedelta(seconds=2 * max(terms.lease_s, terms.max_pause_s))
        found = await self._stores.run(
            self._pattern_set.claim(self._owner, self._started_at, until, beyond, terms.batch)
        )
        by_queue: dict[str, list[ClaimedRow]] = defaultdict(list)
        for row in found:
            if not row.is_behind:
                by_queue[row.queue_name].append(row)
        self.report.claimed = sum(map(len, by_queue.values()))
        # Rows that were set aside let the next round look at others.
        self.report.more = self.report.claimed >= terms.batch or len(found) > self.report.claimed
        await _gather_all(self._send_in_waves(queue, rows) for queue, rows in by_queue.items())
        return self.report

    async def _send_in_waves(self, queue: str, rows: list[ClaimedRow]) -> None:
        """Send the first row of each lane, then the second of those whose first was sent, and so on; release
        the rest.

        Two rows of one lane are never in one request: if the queue accepts only some messages of it, the
        second could arrive before the first.
        """
        lanes, given_back = self._split_lanes(rows), []
        while lanes:
            not_sent = await self._send_wave(queue, [lane[0] for lane in lanes])
            given_back += [id for id, error in not_sent.items() if error is None]
            given_back += [row.id for lane in lanes if lane[0].id in not_sent for row in lane[1:]]
            lanes = [lane[1:] for lane in lanes if lane[0].id not in not_sent and len(lane) > 1]
        if given_back:
            await self._stores.run(self._pattern_set.release(self._owner, tuple(given_back)))

    async def _send_wave(self, queue: str, rows: list[ClaimedRow]) -> NotSent:
        """Send the rows in as many requests as needed, concurrently; return those that were not sent."""
        requests = split_requests(self._queues[queue], self._outbox.channel, rows)
        answers = await _gather_all(self._send_and_mark(queue, some) for some in requests)
        return dict(chain.from_iterable(each.items() for each in answers))

    async def _send_and_mark(self, queue: str, rows: tuple[ClaimedRow, ...]) -> NotSent:
        """Send the rows in one request and mark each by the answer; return those that were not sent.

        If the claim is half over, send nothing. If the queue refuses the whole request permanently, send each
        row alone.
        """
        if self._is_late():
            self.report.more = True  # the next round claims them again, with enough time
            return dict.fromkeys([row.id for row in rows])
        failures = await self._send(queue, rows)
        if len(rows) > 1 and len(failures) == len(rows) and all(map(_is_permanent, failures.values())):
            # One message is refused permanently. Send each alone to find out which.
            alone = [await self._send_and_mark(queue, (row,)) for row in rows]
            return dict(chain.from_iterable(each.items() for each in alone))
        await self._mark(tuple(row.id for row in rows if row.id not in failures), failures)
        return {**failures}

    async def _send(self, queue: str, rows: tuple[ClaimedRow, ...]) -> dict[int, HoldfastError]:
        """Send the rows in one request, and return the errors of unsent ones.

        A row without an answer in time may have been sent.
        """
        patience_s = ANSWER_SHARE * self._outbox.lease_s
        limit = asyncio.timeout(patience_s)
        try:
            async with limit:
                await self._stores.run(self._pattern_set.sends[queue](rows))
        except ComponentRefused:
            raise
        except SendIncomplete as error:
            return {rows[place].id: error for place in error.unsent}
        except HoldfastError as error:
            return dict.fromkeys([row.id for row in rows], error)
        except TimeoutError:
            if not limit.expired():
                raise
            late = OutcomeUnknown(
                f"The queue gave no answer within {patience_s:g} s.", safe_to_repeat=self._queues[queue].fifo
            )
            return dict.fromkeys([row.id for row in rows], late)
        return {}

    def _is_late(self) -> bool:
        """Return True if half of the claim's time has passed, by the wall clock or the monotonic one: no
        request may start.
        """
        passed_s = max((self._now() - self._started_at).total_seconds(), time.monotonic() - self._started_s)
        return passed_s > START_SHARE * self._outbox.lease_s

    async def _mark(self, sent: tuple[int, ...], failures: dict[int, HoldfastError]) -> None:
        """Mark the sent rows and the failed ones, and add them to the report."""
        if sent:
            await self._stores.run(self._pattern_set.mark_sent(self._owner, sent, self._now()))
            self.report.sent += len(sent)
        by_reason: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for id, error in failures.items():
            by_reason[_format_reason(error), _is_permanent(error)].append(id)
        for (reason, is_hopeless), ids in by_reason.items():
            await self._mark_failed(tuple(ids), reason, is_hopeless)

    async def _mark_failed(self, ids: tuple[int, ...], reason: str, is_hopeless: bool) -> None:
        """Record a failed attempt of these rows; `is_hopeless` rows are dead at once."""
        terms = self._outbox
        failed = await self._stores.run(
            self._pattern_set.mark_failed(
                self._owner,
                ids,
                self._now(),
                reason=reason,
                is_hopeless=is_hopeless,
                tries_max=terms.max_attempts,
                pause_s=terms.pause_s,
                pause_s_max=terms.max_pause_s,
            )
        )
        self.report.failed += len(failed)
        self.report.died += sum(each.is_dead for each in failed)

    def _split_lanes(self, rows: Sequence[ClaimedRow]) -> list[list[ClaimedRow]]:
        """Return the rows of each lane in order. On a queue without FIFO order each row is a lane."""
        lanes: dict[tuple[str, ...], list[ClaimedRow]] = defaultdict(list)
        for row in sorted(rows, key=lambda each: each.id):
            is_fifo = self._queues[row.queue_name].fifo
            lanes[(row.queue_name, row.aggregate) if is_fifo else (str(row.id),)].append(row)
        return list(lanes.values())

    def _now(self) -> datetime:
        return utc_now(self._stores.clock)


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
