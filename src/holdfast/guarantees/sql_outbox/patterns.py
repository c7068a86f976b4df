"""The access patterns of an outbox in SQL: to announce, to claim and mark what is sent, to send, to look, to tend.

Whose row it is, is in every statement that marks one: a publisher that lost its claim changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.guarantees.sql_outbox.rows import Announced, Backlog, Claimed, Failed, SendRows, WaitingRow
from holdfast.model import Operation, Pattern, Queue, Rate, Schema, SqlChange, SqlReturning, SqlRows
from holdfast.model.patterns import Example

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

# The sends have their numbers behind those of the statements.
FIRST_SEND: Final = 11
_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)
_AGGREGATE: Final = "a-1"
_OWNER: Final = "01KGJ000000000000000000000"


class SqlOutboxPatterns:
    """`append` is for who announces, `claim`, `sent`, `failed`, `release` and `sends` for publishers."""

    def __init__(
        self,
        schema: Schema,
        table: str,
        queues: Sequence[Queue[Any]],
        prefix: str,
        rate: Rate,
        *,
        channel: str,
    ) -> None:
        self._schema, self._table, self._channel = schema, f"{schema.name}.{table}", channel
        self._spoken, self._prefix, self._rate = channel, prefix, rate
        self._queues = tuple(queue.name for queue in queues)
        self.append = self._append()
        self.claim, self.sent, self.failed = self._claim(), self._sent(), self._failed()
        self.release = self._release()
        self.waiting, self.backlog = self._waiting(), self._backlog()
        self.redrive, self.discard, self.sweep = self._redrive(), self._discard(), self._sweep()
        self.sends: Mapping[str, Pattern[[tuple[Claimed, ...]], SendRows]] = {
            queue.name: self._send(FIRST_SEND + place, queue) for place, queue in enumerate(queues)
        }

    def _made(
        self, number: int, purpose: str, function: Callable[P, O], *, example: Example
    ) -> Pattern[P, O]:
        name = f"{self._spoken}_{function.__name__}"
        id = f"{self._prefix}{number}"
        return made_pattern(
            function, id, name, f"{purpose} ({self._table})", rate=self._rate, example=example
        )

    # --- announcing -----------------------------------------------------------------------------------------

    def _append(self) -> Pattern[[Announced], SqlChange]:
        # The counter's row stays locked until the commit, and only then is the id taken: of two transactions that
        # announce in one aggregate, the one that commits first has the smaller of both. The notice is given with the
        # commit, or not at all.
        text = f"""
WITH numbered AS (
    INSERT INTO {self._table}_counter AS counter (aggregate, last) VALUES (%(aggregate)s, 1)
    ON CONFLICT (aggregate) DO UPDATE SET last = counter.last + 1
    RETURNING counter.last
)
INSERT INTO {self._table} (
    queue_name, message_body, aggregate, sequence_number, correlation_id, created_at, next_attempt_at
)
SELECT %(queue_name)s, %(body)s, %(aggregate)s, numbered.last, %(correlation_id)s, %(at)s, %(at)s
FROM numbered
RETURNING pg_notify(%(channel)s, '')"""

        def append(announced: Announced) -> SqlChange:
            parameters = {**announced.model_dump(), "channel": self._channel}
            return SqlChange(self._schema, text, parameters).expecting(1)

        example = Announced(
            queue_name=self._queues[0], aggregate=_AGGREGATE, body="{}", correlation_id=None, at=_TIME
        )
        return self._made(1, "Announce a change", append, example=(example,))

    # --- publishing -----------------------------------------------------------------------------------------

    def _claim(self) -> Pattern[[str, datetime, datetime, int], SqlReturning[Claimed]]:
        # A head is the first that waits of its aggregate for its queue. The lock on it stands for all behind it, which
        # nobody claims without it; what is seen of a row is looked at again once it is locked. Who claims again under
        # the same name, because the answer was lost, is given the same rows.
        text = f"""
WITH heads AS (
    SELECT head.id, head.aggregate, head.queue_name FROM {self._table} AS head
    WHERE NOT head.processed AND head.dead_at IS NULL AND head.queue_name = ANY(%(queues)s)
      AND head.next_attempt_at <= %(now)s
      AND (head.claimed_until IS NULL OR head.claimed_until <= %(now)s OR head.claimed_by = %(owner)s)
      AND NOT EXISTS (
          SELECT 1 FROM {self._table} AS before
          WHERE before.aggregate = head.aggregate AND before.queue_name = head.queue_name
            AND before.id < head.id AND NOT before.processed
      )
    ORDER BY head.id LIMIT %(batch)s
    FOR UPDATE OF head SKIP LOCKED
), chosen AS (
    SELECT behind.id FROM heads CROSS JOIN LATERAL (
        SELECT each.id FROM {self._table} AS each
        WHERE each.aggregate = heads.aggregate AND each.queue_name = heads.queue_name
          AND each.id >= heads.id AND NOT each.processed
        ORDER BY each.id LIMIT %(batch)s
    ) AS behind
    ORDER BY behind.id LIMIT %(batch)s
)
UPDATE {self._table} AS taken SET claimed_by = %(owner)s, claimed_until = %(until)s
FROM chosen WHERE taken.id = chosen.id AND NOT taken.processed
RETURNING {Claimed.columns("taken")}"""

        def claim(owner: str, now: datetime, until: datetime, batch: int) -> SqlReturning[Claimed]:
            parameters = {"owner": owner, "now": now, "until": until, "batch": batch, "queues": self._queues}
            return SqlReturning(self._schema, text, parameters, Claimed, is_repeatable=True)

        return self._made(2, "Claim what is to be sent", claim, example=(_OWNER, _TIME, _TIME, 25))

    def _sent(self) -> Pattern[[str, tuple[int, ...], datetime], SqlChange]:
        text = f"""
UPDATE {self._table} SET processed = TRUE, processed_at = %(now)s, claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""

        def sent(owner: str, ids: tuple[int, ...], now: datetime) -> SqlChange:
            return SqlChange(self._schema, text, {"owner": owner, "ids": ids, "now": now}, is_repeatable=True)

        return self._made(3, "Mark what is with its queue", sent, example=(_OWNER, (1,), _TIME))

    def _failed(self) -> Pattern[..., SqlReturning[Failed]]:
        text = f"""
UPDATE {self._table} SET
    retry_count = retry_count + 1, last_error = %(reason)s,
    next_attempt_at = %(now)s::timestamptz
        + make_interval(secs => LEAST(%(pause_s)s * power(2, LEAST(retry_count, 30)), %(pause_s_max)s)),
    dead_at = CASE WHEN %(is_hopeless)s::boolean OR retry_count + 1 >= %(tries_max)s THEN %(now)s::timestamptz END,
    claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed
RETURNING id, dead_at IS NOT NULL AS is_dead"""

        def failed(
            owner: str,
            ids: tuple[int, ...],
            now: datetime,
            *,
            reason: str,
            is_hopeless: bool,
            tries_max: int,
            pause_s: float,
            pause_s_max: float,
        ) -> SqlReturning[Failed]:
            parameters = {
                "owner": owner,
                "ids": ids,
                "now": now,
                "reason": reason,
                "is_hopeless": is_hopeless,
            }
            parameters |= {"tries_max": tries_max, "pause_s": pause_s, "pause_s_max": pause_s_max}
            return SqlReturning(self._schema, text, parameters, Failed, is_repeatable=True)

        example = {"owner": _OWNER, "ids": (1,), "now": _TIME, "reason": "StoreFailed", "is_hopeless": False}
        example |= {"tries_max": 5, "pause_s": 1.0, "pause_s_max": 300.0}
        return self._made(4, "Keep what was not sent for another try, or give it up", failed, example=example)

    def _release(self) -> Pattern[[str, tuple[int, ...]], SqlChange]:
        text = f"""
UPDATE {self._table} SET claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""

        def release(owner: str, ids: tuple[int, ...]) -> SqlChange:
            return SqlChange(self._schema, text, {"owner": owner, "ids": ids}, is_repeatable=True)

        return self._made(5, "Give back what was claimed and not tried", release, example=(_OWNER, (1,)))

    def _send(self, number: int, queue: Queue[Any]) -> Pattern[[tuple[Claimed, ...]], SendRows]:
        def send(rows: tuple[Claimed, ...]) -> SendRows:
            return SendRows(queue, self._channel, rows)

        send.__name__ = f"send_{queue.name.replace('-', '_')}"
        row = Claimed(
            id=1,
            queue_name=queue.name,
            aggregate=_AGGREGATE,
            message_body="{}",
            correlation_id=None,
            created_at=_TIME,
        )
        return self._made(number, f"Send announcements to {queue.name}", send, example=((row,),))

    # --- looking and tending --------------------------------------------------------------------------------

    def _waiting(self) -> Pattern[[int, int], SqlRows[WaitingRow]]:
        text = f"""
SELECT {WaitingRow.columns()} FROM {self._table}
WHERE NOT processed AND id > %(after)s ORDER BY id LIMIT %(count)s"""

        def waiting(after: int, count: int) -> SqlRows[WaitingRow]:
            return SqlRows(self._schema, text, {"after": after, "count": count}, WaitingRow)

        return self._made(
            6, "Announcements that wait, or were given up, oldest first", waiting, example=(0, 100)
        )

    def _backlog(self) -> Pattern[[], SqlRows[Backlog]]:
        text = f"""
SELECT queue_name, count(*) FILTER (WHERE dead_at IS NULL) AS pending,
       count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead, min(created_at) AS oldest_at
FROM {self._table} WHERE NOT processed GROUP BY queue_name ORDER BY queue_name"""

        def backlog() -> SqlRows[Backlog]:
            return SqlRows(self._schema, text, {}, Backlog)

        return self._made(7, "How much waits for each queue, and since when", backlog, example=())

    def _redrive(self) -> Pattern[[str | None, tuple[int, ...] | None, datetime], SqlChange]:
        text = f"""
UPDATE {self._table} SET dead_at = NULL, retry_count = 0, next_attempt_at = %(now)s
WHERE NOT processed AND dead_at IS NOT NULL
  AND (%(aggregate)s::text IS NULL OR aggregate = %(aggregate)s::text)
  AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
RETURNING pg_notify(%(channel)s, '')"""

        def redrive(aggregate: str | None, ids: tuple[int, ...] | None, now: datetime) -> SqlChange:
            parameters = {"aggregate": aggregate, "ids": ids, "now": now, "channel": self._channel}
            return SqlChange(self._schema, text, parameters)

        return self._made(8, "Let what was given up go out again", redrive, example=(_AGGREGATE, None, _TIME))

    def _discard(self) -> Pattern[[tuple[int, ...], datetime], SqlChange]:
        text = f"""
UPDATE {self._table} SET
    processed = TRUE, processed_at = %(now)s, last_error = 'Discarded. ' || COALESCE(last_error, '')
WHERE id = ANY(%(ids)s::bigint[]) AND NOT processed AND dead_at IS NOT NULL
RETURNING pg_notify(%(channel)s, '')"""

        def discard(ids: tuple[int, ...], now: datetime) -> SqlChange:
            return SqlChange(self._schema, text, {"ids": ids, "now": now, "channel": self._channel})

        return self._made(
            9, "Never send what was given up, and go on behind it", discard, example=((1,), _TIME)
        )

    def _sweep(self) -> Pattern[[datetime, int], SqlChange]:
        text = f"""
DELETE FROM {self._table} WHERE id IN (
    SELECT id FROM {self._table} WHERE processed AND processed_at < %(before)s
    ORDER BY processed_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)"""

        def sweep(before: datetime, count: int) -> SqlChange:
            return SqlChange(self._schema, text, {"before": before, "count": count}, is_repeatable=True)

        return self._made(10, "Remove what was sent long ago", sweep, example=(_TIME, 1000))
