"""From the rows to the queues: claimed in one short statement, sent while no transaction is open, marked in another.

A publisher that dies after a send and before the mark leaves a claim that runs out: another sends again, and the row's id
tells the queue that it is a copy. Nobody but the holder of the claim marks a row. One that slept through the end of its
claim can send what it was about to send once more, and never before what stands ahead of it: that was sent, or the row
behind it would not have been claimed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, Protocol

from holdfast.errors import (
    ComponentRefused,
    DeclarationError,
    HoldfastError,
    NotFound,
    RequestError,
    SendIncomplete,
)
from holdfast.guarantees.pattern_sets import moment
from holdfast.guarantees.sql_outbox.patterns import SqlOutboxPatterns
from holdfast.guarantees.sql_outbox.rows import Claimed, sends_of
from holdfast.model import Queue, Ulids
from holdfast.runtime import Stores
from holdfast.runtime.stores import together

REASON_CHARS_MAX: Final = 500

# Why rows were not sent, by their ids.
Failures = dict[int, HoldfastError]


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
        self.report = PublishReport()

    async def round(self) -> PublishReport:
        began = self._now()
        until = began + timedelta(seconds=self._outbox.lease_s)
        claimed = await self._stores.run(self._use.claim(self._owner, began, until, self._outbox.batch))
        self.report.claimed = len(claimed)
        self.report.more = len(claimed) >= self._outbox.batch
        left = await self._in_waves(self._lanes(claimed), began)
        if left:
            await self._stores.run(self._use.release(self._owner, tuple(row.id for row in left)))
        return self.report

    async def _in_waves(self, lanes: list[list[Claimed]], began: datetime) -> list[Claimed]:
        """The first of each lane, then the second of those whose first is sent, and so on. What was not tried.

        Two of one lane are never in one request: where a queue takes some messages of it and not others, the second
        would be there before the first.
        """
        not_tried: list[Claimed] = []
        place = 0
        while lanes:
            if place and self._now() - began > timedelta(seconds=self._outbox.lease_s / 2):
                self.report.more = True  # claimed anew, with time enough
                return not_tried + [row for lane in lanes for row in lane[place:]]
            failures = await self._wave([lane[place] for lane in lanes])
            stopped = [lane for lane in lanes if lane[place].id in failures]
            not_tried += [row for lane in stopped for row in lane[place + 1 :]]
            place += 1
            lanes = [lane for lane in lanes if lane not in stopped and len(lane) > place]
        return not_tried

    async def _wave(self, rows: list[Claimed]) -> Failures:
        by_queue: dict[str, list[Claimed]] = defaultdict(list)
        for row in rows:
            by_queue[row.queue_name].append(row)
        sends = [
            (queue, some)
            for queue, several in by_queue.items()
            for some in sends_of(self._queues[queue], self._outbox.channel, several)
        ]
        answers = await together(self._sent(queue, some) for queue, some in sends)
        failures = dict(chain.from_iterable(each.items() for each in answers))
        await self._mark(tuple(row.id for row in rows if row.id not in failures), failures)
        return failures

    async def _sent(self, queue: str, rows: tuple[Claimed, ...]) -> Failures:
        try:
            await self._stores.run(self._use.sends[queue](rows))
        except ComponentRefused:
            raise
        except SendIncomplete as error:
            return {rows[place].id: error for place in error.unsent}
        except HoldfastError as error:
            if len(rows) > 1 and _is_hopeless(error):
                # One of them is refused for what it is. Each alone gets the answer that is its own.
                alone = [await self._sent(queue, (row,)) for row in rows]
                return dict(chain.from_iterable(each.items() for each in alone))
            return dict.fromkeys([row.id for row in rows], error)
        return {}

    async def _mark(self, sent: tuple[int, ...], failures: Failures) -> None:
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


def _reason(error: HoldfastError) -> str:
    """Of the error and nothing of the message: rows and lists of them are read by people who may not read that."""
    return f"{type(error).__name__}: {error.message}"[:REASON_CHARS_MAX]


def _is_hopeless(error: HoldfastError) -> bool:
    """Refused for what it is: the same message will always be. A queue that is not there yet may come."""
    return isinstance(error, RequestError | DeclarationError) and not isinstance(error, NotFound)
