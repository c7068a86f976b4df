"""From the rows to the queues: claimed in one short statement, sent while no transaction is open, marked in another.

Each queue goes its own way, and each request is marked as soon as it is answered: a queue that is slow holds up no other,
and lets nobody's claim run out. A request that is not answered within a quarter of the claim has failed, and after half
of it nothing more is begun.

A publisher that dies after a send and before the mark leaves a claim that runs out: another sends again, and the row's id
tells the queue that it is a copy. Nobody but the holder of the claim marks a row. One that slept through the end of its
claim can send what it was about to send once more, and never before what stands ahead of it: that was sent, or the row
behind it would not have been claimed.
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

from holdfast.errors import (
    ComponentRefused,
    DeclarationError,
    HoldfastError,
    NotFound,
    OutcomeUnknown,
    RequestError,
    SendIncomplete,
    error_label,
)
from holdfast.guarantees.pattern_sets import moment
from holdfast.guarantees.sql_outbox.patterns import SqlOutboxPatterns
from holdfast.guarantees.sql_outbox.rows import Claimed, sends_of
from holdfast.model import Queue, Ulids
from holdfast.runtime import Stores

R = TypeVar("R")

REASON_CHARS_MAX: Final = 500

# Of a claim: what the answer to one request may take, and after what nothing more is begun. Both together leave time to
# mark what was sent.
ANSWER_SHARE: Final = 0.25
BEGIN_SHARE: Final = 0.5

# Why rows were not sent, by their ids; None for those that were not tried.
NotSent = dict[int, HoldfastError | None]


@dataclass
class PublishReport:
    """What one round did. `more` says that there is something left to claim: go on at once."""

    claimed: int = 0
    sent: int = 0
    failed: int = 0
    died: int = 0
    more: bool = False


class Terms(Protocol):
    """What a publisher knows of its outbox."""

    @property
    def channel(self) -> str: ...
    @property
    def queues(self) -> Sequence[Queue[Any]]: ...
    @property
    def use(self) -> SqlOutboxPatterns: ...
    @property
    def batch(self) -> int: ...
    @property
    def lease_s(self) -> float: ...
    @property
    def tries_max(self) -> int: ...
    @property
    def pause_s(self) -> float: ...
    @property
    def pause_s_max(self) -> float: ...


class Publisher:
    """One round: a claim of its own, under a name that nobody had before."""

    def __init__(self, outbox: Terms, stores: Stores) -> None:
        self._outbox, self._use, self._stores = outbox, outbox.use, stores
        self._queues = {queue.name: queue for queue in outbox.queues}
        self._owner = Ulids(stores.clock).new()
        self._began, self._began_s = self._now(), time.monotonic()
        self.report = PublishReport()

    async def round(self) -> PublishReport:
        terms = self._outbox
        until = self._began + timedelta(seconds=terms.lease_s)
        # No pause and no claim reaches so far.
        beyond = self._began + timedelta(seconds=2 * max(terms.lease_s, terms.pause_s_max))
        found = await self._stores.run(self._use.claim(self._owner, self._began, until, beyond, terms.batch))
        by_queue: dict[str, list[Claimed]] = defaultdict(list)
        for row in found:
            if not row.is_behind:
                by_queue[row.queue_name].append(row)
        self.report.claimed = sum(map(len, by_queue.values()))
        # What was set aside made room for others to be looked at.
        self.report.more = self.report.claimed >= terms.batch or len(found) > self.report.claimed
        await _all(self._in_waves(queue, rows) for queue, rows in by_queue.items())
        return self.report

    async def _in_waves(self, queue: str, rows: list[Claimed]) -> None:
        """The first of each lane, then the second of those whose first is sent, and so on; the rest is given back.

        Two of one lane are never in one request: where a queue takes some messages of it and not others, the second
        would be there before the first.
        """
        lanes, given_back = self._lanes(rows), []
        while lanes:
            not_sent = await self._wave(queue, [lane[0] for lane in lanes])
            given_back += [id for id, error in not_sent.items() if error is None]
            given_back += [row.id for lane in lanes if lane[0].id in not_sent for row in lane[1:]]
            lanes = [lane[1:] for lane in lanes if lane[0].id not in not_sent and len(lane) > 1]
        if given_back:
            await self._stores.run(self._use.release(self._owner, tuple(given_back)))

    async def _wave(self, queue: str, rows: list[Claimed]) -> NotSent:
        requests = sends_of(self._queues[queue], self._outbox.channel, rows)
        answers = await _all(self._request(queue, some) for some in requests)
        return dict(chain.from_iterable(each.items() for each in answers))

    async def _request(self, queue: str, rows: tuple[Claimed, ...]) -> NotSent:
        """Sent, and marked as it was answered."""
        if self._is_late():
            self.report.more = True  # claimed anew, with time enough
            return dict.fromkeys([row.id for row in rows])
        failures = await self._answer(queue, rows)
        if len(rows) > 1 and len(failures) == len(rows) and all(map(_is_hopeless, failures.values())):
            # One of them is refused for what it is. Each alone gets the answer that is its own.
            alone = [await self._request(queue, (row,)) for row in rows]
            return dict(chain.from_iterable(each.items() for each in alone))
        await self._mark(tuple(row.id for row in rows if row.id not in failures), failures)
        return {**failures}

    async def _answer(self, queue: str, rows: tuple[Claimed, ...]) -> dict[int, HoldfastError]:
        """Why some were not sent. One that is not answered in time may have been."""
        patience_s = ANSWER_SHARE * self._outbox.lease_s
        limit = asyncio.timeout(patience_s)
        try:
            async with limit:
                await self._stores.run(self._use.sends[queue](rows))
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
        """By the clock of the claims, and by one that nobody sets back."""
        passed_s = max((self._now() - self._began).total_seconds(), time.monotonic() - self._began_s)
        return passed_s > BEGIN_SHARE * self._outbox.lease_s

    async def _mark(self, sent: tuple[int, ...], failures: dict[int, HoldfastError]) -> None:
        if sent:
            await self._stores.run(self._use.sent(self._owner, sent, self._now()))
            self.report.sent += len(sent)
        by_reason: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for id, error in failures.items():
            by_reason[_reason(error), _is_hopeless(error)].append(id)
        for (reason, is_hopeless), ids in by_reason.items():
            await self._fail(tuple(ids), reason, is_hopeless)

    async def _fail(self, ids: tuple[int, ...], reason: str, is_hopeless: bool) -> None:
        terms = self._outbox
        failed = await self._stores.run(
            self._use.failed(
                self._owner,
                ids,
                self._now(),
                reason=reason,
                is_hopeless=is_hopeless,
                tries_max=terms.tries_max,
                pause_s=terms.pause_s,
                pause_s_max=terms.pause_s_max,
            )
        )
        self.report.failed += len(failed)
        self.report.died += sum(each.is_dead for each in failed)

    def _lanes(self, rows: Sequence[Claimed]) -> list[list[Claimed]]:
        """What is sent one after the other. A queue that keeps no order itself needs none."""
        lanes: dict[tuple[str, ...], list[Claimed]] = defaultdict(list)
        for row in sorted(rows, key=lambda each: each.id):
            is_fifo = self._queues[row.queue_name].fifo
            lanes[(row.queue_name, row.aggregate) if is_fifo else (str(row.id),)].append(row)
        return list(lanes.values())

    def _now(self) -> datetime:
        return moment(self._stores.clock)


async def _all(work: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """All at the same time, and each to its end, whatever becomes of the others; then the first error is raised."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    for each in answers:
        if isinstance(each, BaseException):
            raise each
    return [each for each in answers if not isinstance(each, BaseException)]


def _reason(error: HoldfastError) -> str:
    """Of the error and nothing of the message: rows and lists of them are read by people who may not read that."""
    return f"{error_label(error)}: {error.message}"[:REASON_CHARS_MAX]


def _is_hopeless(error: HoldfastError) -> bool:
    """Refused for what it is: the same message will always be. A queue that is not there yet may come."""
    return isinstance(error, RequestError | DeclarationError) and not isinstance(error, NotFound)
