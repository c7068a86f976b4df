"""The access patterns of an SQL outbox: append, claim, mark, send, inspect, clean up.

Every statement that marks a row checks its owner: a publisher that lost its claim changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.guarantees.messaging.sql_outbox.rows import (
    Backlog,
    ClaimedRow,
    CounterSweep,
    FailedRow,
    NewMessage,
    SendRows,
    UnsentRow,
)
from holdfast.guarantees.pattern_sets import build_pattern
from holdfast.model import Operation, Pattern, Queue, Rate, Schema, SqlChange, SqlReturning, SqlRows
from holdfast.model.patterns import Example

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

# The numbers of the send patterns follow those of the statements.
FIRST_SEND_NUMBER: Final = 12
# Rows that a claim examines for each row that it may claim.
LOOK_FACTOR: Final = 4
# As in the index of rows that may be sent.
_READY: Final = "NOT processed AND dead_at IS NULL AND NOT is_behind"
# A time later than any pause or claim can end was set by a wrong clock and is ignored.
_DUE: Final = (
    "dead_at IS NULL AND (next_attempt_at IS NULL OR next_attempt_at <= %(now)s OR next_attempt_at > "
    "%(beyond)s)"
)
_FREE: Final = (
    "(claimed_until IS NULL OR claimed_until <= %(now)s OR claimed_until > %(beyond)s "
    "OR claimed_by = %(owner)s)"
)
_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)
_AGGREGATE: Final = "a-1"
_OWNER: Final = "01KGJ000000000000000000000"


class SqlOutboxPatterns:
    """The patterns of one outbox.

    Writers need `append`; publishers need `claim`, `mark_sent`, `mark_failed`, `release` and `sends` (by
    queue name); operators the rest.
    """

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
        self._name_prefix, self._prefix, self._rate = channel, prefix, rate
        self._queues = tuple(queue.name for queue in queues)
        self.append = self._build_append()
        self.claim, self.mark_sent, self.mark_failed = (
            self._build_claim(),
            self._build_mark_sent(),
            self._build_mark_failed(),
        )
        self.release = self._build_release()
        self.waiting, self.backlog = self._build_waiting(), self._build_backlog()
        self.redrive, self.discard, self.sweep = (
            self._build_redrive(),
            self._build_discard(),
            self._build_sweep(),
        )
        self.sweep_counters = self._build_sweep_counters()
        self.sends: Mapping[str, Pattern[[tuple[ClaimedRow, ...]], SendRows]] = {
            queue.name: self._build_send(FIRST_SEND_NUMBER + place, queue)
            for place, queue in enumerate(queues)
        }

    def _build_pattern(
        self, number: int, name: str, purpose: str, function: Callable[P, O], *, example: Example
    ) -> Pattern[P, O]:
        """Build a pattern; its id is the prefix and `number`, its name begins with the channel."""
        id = f"{self._prefix}{number}"
        return build_pattern(
            function,
            id,
            f"{self._name_prefix}_{name}",
            f"{purpose} ({self._table})",
            rate=self._rate,
            example=example,
        )

    # --- enqueue --------------------------------------------------------------------------------------------

    def _build_append(self) -> Pattern[[NewMessage], SqlChange]:
        # The id is taken while the counter's row is locked, and the lock lasts until the commit: of two
        # transactions that enqueue in one aggregate, the first to commit has the smaller number and id. The
        # notification is sent with the commit, or not at all.
        """Build the insert of a message with its aggregate's next number; its commit wakes the publishers."""
        text = f"""
WITH numbered AS (
    INSERT INTO {self._table}_counter AS counter (aggregate, last, used_at) VALUES (%(aggregate)s, 1, %(at)s)
    ON CONFLICT (aggregate) DO UPDATE SET last = counter.last + 1, used_at = %(at)s
    RETURNING counter.last
)
INSERT INTO {self._table} (queue_name, message_body, aggregate, sequence_number, correlation_id, created_at)
SELECT %(queue_name)s, %(body)s, %(aggregate)s, numbered.last, %(correlation_id)s, %(at)s
FROM numbered
RETURNING pg_notify(%(channel)s, '')"""

        def append(announced: NewMessage) -> SqlChange:
            parameters = {**announced.model_dump(), "channel": self._channel}
            return SqlChange(self._schema, text, parameters).expect_rows(1)

        example = NewMessage(
            queue_name=self._queues[0], aggregate=_AGGREGATE, body="{}", correlation_id=None, at=_TIME
        )
        return self._build_pattern(1, "append", "Append a message about a change", append, example=(example,))

    # --- publish --------------------------------------------------------------------------------------------

    def _build_claim(self) -> Pattern[[str, datetime, datetime, datetime, int], SqlReturning[ClaimedRow]]:
        # A lane is the unsent rows of one aggregate for one queue. New rows are examined once, at most
        # `looked` of them: the first of a lane is claimed together with those behind it; a row behind a
        # blocked one is set aside. Lanes with rows set aside are found by an index walk from lane to lane,
        # which skips the rows in between. So a round costs by the number of waiting lanes and new rows, not
        # by the rows behind a dead one.
        #
        # The lock on the first row protects all behind it, since they are claimed only with it; its state is
        # checked again once it is locked. A comparison of three columns in place of two equalities makes the
        # planner use the index of the lanes. A publisher that repeats its claim after a lost answer gets the
        # same rows.
        """Build the claim of up to `batch` due rows for `owner`, in order per lane (an aggregate and a
        queue).

        It also returns rows that it set aside because an earlier row of their lane is not sent (`is_behind`).
        """
        text = f"""
WITH RECURSIVE seen AS (
    (SELECT id, aggregate, queue_name FROM {self._table}
     WHERE {_READY} AND next_attempt_at IS NULL AND queue_name = ANY(%(queues)s) AND {_FREE}
     ORDER BY next_attempt_at, id LIMIT %(looked)s)
    UNION ALL
    (SELECT id, aggregate, queue_name FROM {self._table}
     WHERE {_READY} AND next_attempt_at <= %(now)s AND queue_name = ANY(%(queues)s) AND {_FREE}
     ORDER BY next_attempt_at, id LIMIT %(looked)s)
    UNION ALL
    (SELECT id, aggregate, queue_name FROM {self._table}
     WHERE {_READY} AND next_attempt_at > %(beyond)s AND queue_name = ANY(%(queues)s) AND {_FREE}
     ORDER BY next_attempt_at, id LIMIT %(looked)s)
), walked AS (
    (SELECT aggregate, queue_name FROM {self._table} WHERE is_behind AND NOT processed
     ORDER BY aggregate, queue_name LIMIT 1)
    UNION ALL
    SELECT next.aggregate, next.queue_name FROM walked CROSS JOIN LATERAL (
        SELECT aggregate, queue_name FROM {self._table}
        WHERE is_behind AND NOT processed AND (aggregate, queue_name) > (walked.aggregate, walked.queue_name)
        ORDER BY aggregate, queue_name LIMIT 1
    ) AS next
), firsts AS MATERIALIZED (
    SELECT first.id, first.aggregate, first.queue_name, first.is_due FROM (
        SELECT aggregate, queue_name FROM seen UNION SELECT aggregate, queue_name FROM walked
    ) AS lane CROSS JOIN LATERAL (
        SELECT id, aggregate, queue_name, {_DUE} AND {_FREE} AS is_due FROM {self._table}
        WHERE NOT processed AND (aggregate, queue_name, id) >= (lane.aggregate, lane.queue_name, 0)
        ORDER BY aggregate, queue_name, id LIMIT 1
    ) AS first
), heads AS MATERIALIZED (
    SELECT id, aggregate, queue_name FROM {self._table}
    WHERE id = ANY(ARRAY(SELECT firsts.id FROM firsts WHERE firsts.is_due ORDER BY firsts.id))
      AND NOT processed AND queue_name = ANY(%(queues)s) AND {_DUE} AND {_FREE}
    ORDER BY id LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT lane.id FROM heads CROSS JOIN LATERAL (
        SELECT member.id, bool_and(
            member.aggregate = heads.aggregate AND member.queue_name = heads.queue_name AND member.is_due
        ) OVER (ORDER BY member.aggregate, member.queue_name, member.id) AS goes FROM (
            SELECT id, aggregate, queue_name, {_DUE} AND {_FREE} AS is_due FROM {self._table}
            WHERE NOT processed AND (aggregate, queue_name, id) >= (heads.aggregate, heads.queue_name,
                heads.id)
            ORDER BY aggregate, queue_name, id LIMIT %(batch)s
        ) AS member
    ) AS lane
    WHERE lane.goes ORDER BY lane.id LIMIT %(batch)s
), aside AS MATERIALIZED (
    SELECT id FROM {self._table}
    WHERE NOT processed AND id = ANY(ARRAY(
        SELECT seen.id FROM seen JOIN firsts ON firsts.aggregate = seen.aggregate
            AND firsts.queue_name = seen.queue_name
        WHERE seen.id <> firsts.id AND (NOT firsts.is_due OR firsts.id IN (SELECT heads.id FROM heads))
          AND seen.id NOT IN (SELECT chosen.id FROM chosen)
    ))
    FOR UPDATE SKIP LOCKED
)
UPDATE {self._table} AS taken SET
    claimed_by = CASE WHEN picked.is_aside THEN taken.claimed_by ELSE %(owner)s END,
    claimed_until = CASE WHEN picked.is_aside THEN taken.claimed_until ELSE %(until)s::timestamptz END,
    is_behind = taken.is_behind OR picked.is_aside
FROM (SELECT id, FALSE AS is_aside FROM chosen UNION ALL SELECT id, TRUE FROM aside) AS picked
WHERE taken.id = picked.id AND NOT taken.processed
RETURNING taken.id, taken.queue_name, taken.aggregate, taken.correlation_id, taken.created_at,
    CASE WHEN picked.is_aside THEN '' ELSE taken.message_body END AS message_body, picked.is_aside
        AS is_behind"""

        def claim(
            owner: str, now: datetime, until: datetime, beyond: datetime, batch: int
        ) -> SqlReturning[ClaimedRow]:
            times = {"now": now, "until": until, "beyond": beyond}
            counts = {"batch": batch, "looked": LOOK_FACTOR * batch}
            parameters = {"owner": owner, **times, **counts, "queues": self._queues}
            return SqlReturning(self._schema, text, parameters, ClaimedRow, is_idempotent=True)

        return self._build_pattern(
            2, "claim", "Claim rows to send", claim, example=(_OWNER, _TIME, _TIME, _TIME, 25)
        )

    def _build_mark_sent(self) -> Pattern[[str, tuple[int, ...], datetime], SqlChange]:
        """Build the update that marks an owner's rows as sent."""
        text = f"""
UPDATE {self._table} SET processed = TRUE, processed_at = %(now)s, claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""

        def mark_sent(owner: str, ids: tuple[int, ...], now: datetime) -> SqlChange:
            return SqlChange(self._schema, text, {"owner": owner, "ids": ids, "now": now}, is_idempotent=True)

        return self._build_pattern(3, "sent", "Mark sent rows", mark_sent, example=(_OWNER, (1,), _TIME))

    def _build_mark_failed(self) -> Pattern[..., SqlReturning[FailedRow]]:
        """Build the update that counts a failed attempt: the row is retried after a pause, or dead."""
        text = f"""
UPDATE {self._table} SET
    retry_count = retry_count + 1, last_error = %(reason)s,
    next_attempt_at = %(now)s::timestamptz
        + make_interval(secs => LEAST(%(pause_s)s * power(2, LEAST(retry_count, 30)), %(pause_s_max)s)),
    dead_at = CASE WHEN %(is_hopeless)s::boolean
        OR retry_count + 1 >= %(tries_max)s THEN %(now)s::timestamptz END,
    claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed
RETURNING id, dead_at IS NOT NULL AS is_dead"""

        def mark_failed(
            owner: str,
            ids: tuple[int, ...],
            now: datetime,
            *,
            reason: str,
            is_hopeless: bool,
            tries_max: int,
            pause_s: float,
            pause_s_max: float,
        ) -> SqlReturning[FailedRow]:
            parameters = {
                "owner": owner,
                "ids": ids,
                "now": now,
                "reason": reason,
                "is_hopeless": is_hopeless,
            }
            parameters |= {"tries_max": tries_max, "pause_s": pause_s, "pause_s_max": pause_s_max}
            return SqlReturning(self._schema, text, parameters, FailedRow, is_idempotent=True)

        example = {"owner": _OWNER, "ids": (1,), "now": _TIME, "reason": "StoreFailed", "is_hopeless": False}
        example |= {"tries_max": 5, "pause_s": 1.0, "pause_s_max": 300.0}
        return self._build_pattern(
            4,
            "failed",
            "Keep failed rows for another attempt, or mark them dead",
            mark_failed,
            example=example,
        )

    def _build_release(self) -> Pattern[[str, tuple[int, ...]], SqlChange]:
        """Build the update that ends an owner's claim on rows that were not tried."""
        text = f"""
UPDATE {self._table} SET claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""

        def release(owner: str, ids: tuple[int, ...]) -> SqlChange:
            return SqlChange(self._schema, text, {"owner": owner, "ids": ids}, is_idempotent=True)

        return self._build_pattern(
            5, "release", "Release claimed rows that were not tried", release, example=(_OWNER, (1,))
        )

    def _build_send(self, number: int, queue: Queue[Any]) -> Pattern[[tuple[ClaimedRow, ...]], SendRows]:
        """Build the pattern with this number that sends claimed rows to one queue."""

        def send(rows: tuple[ClaimedRow, ...]) -> SendRows:
            return SendRows(queue, self._channel, rows)

        name = f"send_{queue.name.replace('-', '_')}"
        row = ClaimedRow(
            id=1,
            queue_name=queue.name,
            aggregate=_AGGREGATE,
            message_body="{}",
            correlation_id=None,
            created_at=_TIME,
        )
        return self._build_pattern(number, name, f"Send messages to {queue.name}", send, example=((row,),))

    # --- inspection and cleanup -----------------------------------------------------------------------------

    def _build_waiting(self) -> Pattern[[int, int], SqlRows[UnsentRow]]:
        """Build the query of up to `count` unsent rows after an id, pending and dead, without their
        bodies.
        """
        text = f"""
SELECT {UnsentRow.columns()} FROM {self._table}
WHERE NOT processed AND id > %(after)s ORDER BY id LIMIT %(count)s"""

        def waiting(after: int, count: int) -> SqlRows[UnsentRow]:
            return SqlRows(self._schema, text, {"after": after, "count": count}, UnsentRow)

        return self._build_pattern(
            6, "waiting", "Pending or dead rows, oldest first", waiting, example=(0, 100)
        )

    def _build_backlog(self) -> Pattern[[], SqlRows[Backlog]]:
        """Build the query that counts the unsent rows of each queue."""
        text = f"""
SELECT queue_name, count(*) FILTER (WHERE dead_at IS NULL) AS pending,
       count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead, min(created_at) AS oldest_at
FROM {self._table} WHERE NOT processed GROUP BY queue_name ORDER BY queue_name"""

        def backlog() -> SqlRows[Backlog]:
            return SqlRows(self._schema, text, {}, Backlog)

        return self._build_pattern(
            7, "backlog", "Number and age of unsent rows per queue", backlog, example=()
        )

    def _build_redrive(self) -> Pattern[[str | None, tuple[int, ...] | None, str | None], SqlChange]:
        """Build the update that makes dead rows pending again; None as a filter means all.

        It wakes the publishers.
        """
        text = f"""
UPDATE {self._table} SET dead_at = NULL, retry_count = 0, next_attempt_at = NULL
WHERE NOT processed AND dead_at IS NOT NULL
  AND (%(aggregate)s::text IS NULL OR aggregate = %(aggregate)s::text)
  AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
  AND (%(queue)s::text IS NULL OR queue_name = %(queue)s::text)
RETURNING pg_notify(%(channel)s, '')"""

        def redrive(aggregate: str | None, ids: tuple[int, ...] | None, queue: str | None) -> SqlChange:
            parameters = {"aggregate": aggregate, "ids": ids, "queue": queue, "channel": self._channel}
            return SqlChange(self._schema, text, parameters)

        return self._build_pattern(
            8, "redrive", "Make dead rows pending again", redrive, example=(_AGGREGATE, None, None)
        )

    def _build_discard(self) -> Pattern[[tuple[int, ...], datetime], SqlChange]:
        """Build the update that marks dead rows as processed without sending them.

        It wakes the publishers.
        """
        text = f"""
UPDATE {self._table} SET
    processed = TRUE, processed_at = %(now)s, last_error = 'Discarded. ' || COALESCE(last_error, '')
WHERE id = ANY(%(ids)s::bigint[]) AND NOT processed AND dead_at IS NOT NULL
RETURNING pg_notify(%(channel)s, '')"""

        def discard(ids: tuple[int, ...], now: datetime) -> SqlChange:
            return SqlChange(self._schema, text, {"ids": ids, "now": now, "channel": self._channel})

        return self._build_pattern(
            9, "discard", "Discard dead rows, so that later rows are sent", discard, example=((1,), _TIME)
        )

    def _build_sweep(self) -> Pattern[[datetime, int], SqlChange]:
        """Build the deletion of up to `count` rows that were processed before a time."""
        text = f"""
DELETE FROM {self._table} WHERE id IN (
    SELECT id FROM {self._table} WHERE processed AND processed_at < %(before)s
    ORDER BY processed_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)"""

        def sweep(before: datetime, count: int) -> SqlChange:
            return SqlChange(self._schema, text, {"before": before, "count": count}, is_idempotent=True)

        return self._build_pattern(10, "sweep", "Remove old sent rows", sweep, example=(_TIME, 1000))

    def _build_sweep_counters(self) -> Pattern[[datetime, str, int], SqlReturning[CounterSweep]]:
        # A transaction that enqueues holds the lock on its counter, which is skipped. A counter used since it
        # was examined is checked again under the lock, and stays.
        """Build the deletion of idle counters among the next `count` after an aggregate; it returns the last
        one examined.
        """
        text = f"""
WITH looked AS MATERIALIZED (
    SELECT aggregate FROM {self._table}_counter WHERE aggregate > %(after)s ORDER BY aggregate LIMIT %(count)s
), idle AS MATERIALIZED (
    SELECT counter.aggregate FROM {self._table}_counter AS counter
    WHERE counter.aggregate = ANY(ARRAY(SELECT looked.aggregate FROM looked)) AND counter.used_at < %(before)s
      AND NOT EXISTS (
          SELECT 1 FROM {self._table} AS waits
          WHERE waits.aggregate = counter.aggregate AND NOT waits.processed
      )
    FOR UPDATE OF counter SKIP LOCKED
), removed AS (
    DELETE FROM {self._table}_counter WHERE aggregate = ANY(ARRAY(SELECT idle.aggregate
        FROM idle)) RETURNING aggregate
)
SELECT (SELECT count(*) FROM removed) AS removed, (SELECT max(looked.aggregate) FROM looked) AS last"""

        def sweep_counters(before: datetime, after: str, count: int) -> SqlReturning[CounterSweep]:
            parameters = {"before": before, "after": after, "count": count}
            return SqlReturning(self._schema, text, parameters, CounterSweep, is_idempotent=True)

        return self._build_pattern(
            11, "sweep_counters", "Remove idle counters", sweep_counters, example=(_TIME, "", 1000)
        )
