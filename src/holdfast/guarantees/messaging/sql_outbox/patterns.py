"""The access patterns of an SQL outbox: append, claim, mark, send, inspect, clean up.

Every statement that marks a row checks its owner: a relay that lost its claim changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.guarantees.messaging.messages import Backlog, OutboxMessage, SendOutboxMessages, UnsentMessage
from holdfast.guarantees.messaging.pattern_builder import PatternBuilder
from holdfast.guarantees.messaging.relay import RelayPatterns, RelaySettings
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema, SqlChange, SqlReturning, SqlRow, SqlRows

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


class ClaimedRow(SqlRow):
    """A row claimed by one relay; or one without its body that was found behind another and set aside."""

    id: int
    queue_name: str
    aggregate: str
    message_body: str
    correlation_id: str | None
    created_at: datetime
    is_behind: bool = False


class FailedRow(SqlRow):
    """A row whose failed attempt was recorded, and if it is dead now."""

    id: int
    is_dead: bool


class CounterSweep(SqlRow):
    """The number of removed counters, and the last aggregate examined; None at the end."""

    removed: int
    last: str | None


class SqlOutboxPatterns(RelayPatterns):
    """The patterns of one outbox in SQL, and the roles that need them.

    `channel` is the PostgreSQL channel that commits notify; it is also part of the messages' ids.
    """

    def __init__(
        self, schema: Schema, table: str, queues: Sequence[Queue[Any]], settings: RelaySettings
    ) -> None:
        self.settings = settings
        self.name, self.channel = f"{schema.name}.{table}", f"{schema.name}_{table}"
        self.queues = {queue.name: queue for queue in queues}
        self._schema = schema
        self._builder = PatternBuilder(settings.prefix, self.channel, self.name, settings.rate)
        build = self._builder.build
        message = OutboxMessage("outbox-1-0", queues[0].name, _AGGREGATE, "{}", None)
        self.append = build(1, "append", "Append a message about a change", self._append, ((message,), _TIME))
        times = (_TIME, _TIME, _TIME)
        self.claim = build(2, "claim", "Claim rows to send", self._claim, (_OWNER, *times, 25))
        self.mark_sent = build(3, "sent", "Mark sent rows", self._mark_sent, (_OWNER, (1,), _TIME))
        failure = (_OWNER, (1,), _TIME, "StoreFailed", False)
        purpose = "Keep failed rows for another attempt, or mark them dead"
        self.mark_failed = build(4, "failed", purpose, self._mark_failed, failure)
        purpose = "Release claimed rows that were not tried"
        self.release = build(5, "release", purpose, self._release, (_OWNER, (1,)))
        purpose = "Pending or dead rows, oldest first"
        self.waiting = build(6, "waiting", purpose, self._waiting, (0, 100))
        self.backlog = build(7, "backlog", "Number and age of unsent rows per queue", self._backlog)
        purpose = "Make dead rows pending again"
        self.redrive = build(8, "redrive", purpose, self._redrive, (_AGGREGATE, None, None))
        purpose = "Discard dead rows, so that later rows are sent"
        self.discard = build(9, "discard", purpose, self._discard, ((1,), _TIME))
        self.sweep = build(10, "sweep", "Remove old sent rows", self._sweep, (_TIME, 1000))
        purpose = "Remove idle counters"
        self.sweep_counters = build(11, "sweep_counters", purpose, self._sweep_counters, (_TIME, "", 1000))
        self.sends = {
            queue.name: self._build_send(number, queue)
            for number, queue in enumerate(queues, FIRST_SEND_NUMBER)
        }

        self.publisher = (self.append,)
        # A relay also reports its backlog.
        self.relay = (
            *(self.claim, self.mark_sent, self.mark_failed, self.release, self.backlog),
            *self.sends.values(),
        )
        reads, sweeps = (self.waiting, self.backlog), (self.sweep, self.sweep_counters)
        self.operator = (*reads, self.redrive, self.discard, *sweeps)

    def build_id(self, row_id: int, created_at: datetime) -> str:
        """Return the id of a row's message: the outbox, the row's id and its time.

        Two databases, or a recreated one, both count from one: without the time, the queue would drop the
        messages of the second as copies.
        """
        return f"{self.channel}-{row_id}-{int(created_at.timestamp() * 1_000_000)}"

    # --- enqueue --------------------------------------------------------------------------------------------

    def _append(self, messages: Sequence[OutboxMessage], at: datetime) -> SqlChange:
        # The id is taken while the counter's row is locked, and the lock lasts until the commit: of two
        # transactions that enqueue in one aggregate, the first to commit has the smaller number and id. The
        # notification is sent with the commit, or not at all.
        """Insert messages of one aggregate with its next numbers; the commit wakes the relays."""
        places = range(1, len(messages) + 1)
        rows = ", ".join(f"({place}, %(queue_name_{place})s, %(body_{place})s)" for place in places)
        text = f"""
WITH numbered AS (
    INSERT INTO {self.name}_counter AS counter (aggregate, last, used_at)
    VALUES (%(aggregate)s, %(count)s, %(at)s)
    ON CONFLICT (aggregate) DO UPDATE SET last = counter.last + %(count)s, used_at = %(at)s
    RETURNING counter.last
)
INSERT INTO {self.name} (queue_name, message_body, aggregate, sequence_number, correlation_id, created_at)
SELECT message.queue_name, message.body, %(aggregate)s, numbered.last - %(count)s + message.place,
    %(correlation_id)s, %(at)s
FROM numbered CROSS JOIN (VALUES {rows}) AS message (place, queue_name, body)
ORDER BY message.place
RETURNING pg_notify(%(channel)s, '')"""
        first = messages[0]
        parameters = {
            "at": at,
            "channel": self.channel,
            "correlation_id": first.correlation,
            "aggregate": first.aggregate,
            "count": len(messages),
            **{f"queue_name_{place}": each.queue_name for place, each in zip(places, messages, strict=True)},
            **{f"body_{place}": each.body for place, each in zip(places, messages, strict=True)},
        }
        return SqlChange(self._schema, text, parameters).expect_rows(len(messages))

    # --- relay ----------------------------------------------------------------------------------------------

    def _claim(
        self, owner: str, now: datetime, until: datetime, beyond: datetime, batch: int
    ) -> SqlReturning[ClaimedRow]:
        # A lane is the unsent rows of one aggregate for one queue. New rows are examined once, at most
        # `looked` of them: the first of a lane is claimed together with those behind it; a row behind a
        # blocked one is set aside. Lanes with rows set aside are found by an index walk from lane to lane,
        # which skips the rows in between. So a round costs by the number of waiting lanes and new rows, not
        # by the rows behind a dead one.
        #
        # The lock on the first row protects all behind it, since they are claimed only with it; its state is
        # checked again once it is locked. A comparison of three columns in place of two equalities makes the
        # planner use the index of the lanes. A relay that repeats its claim after a lost answer gets the
        # same rows.
        """Claim up to `batch` due rows for `owner`, in order per lane (an aggregate and a queue).

        It also returns rows that it set aside because an earlier row of their lane is not sent (`is_behind`).
        """
        text = f"""
WITH RECURSIVE seen AS (
    (SELECT id, aggregate, queue_name FROM {self.name}
     WHERE {_READY} AND next_attempt_at IS NULL AND queue_name = ANY(%(queues)s) AND {_FREE}
     ORDER BY next_attempt_at, id LIMIT %(looked)s)
    UNION ALL
    (SELECT id, aggregate, queue_name FROM {self.name}
     WHERE {_READY} AND next_attempt_at <= %(now)s AND queue_name = ANY(%(queues)s) AND {_FREE}
     ORDER BY next_attempt_at, id LIMIT %(looked)s)
    UNION ALL
    (SELECT id, aggregate, queue_name FROM {self.name}
     WHERE {_READY} AND next_attempt_at > %(beyond)s AND queue_name = ANY(%(queues)s) AND {_FREE}
     ORDER BY next_attempt_at, id LIMIT %(looked)s)
), walked AS (
    (SELECT aggregate, queue_name FROM {self.name} WHERE is_behind AND NOT processed
     ORDER BY aggregate, queue_name LIMIT 1)
    UNION ALL
    SELECT next.aggregate, next.queue_name FROM walked CROSS JOIN LATERAL (
        SELECT aggregate, queue_name FROM {self.name}
        WHERE is_behind AND NOT processed AND (aggregate, queue_name) > (walked.aggregate, walked.queue_name)
        ORDER BY aggregate, queue_name LIMIT 1
    ) AS next
), firsts AS MATERIALIZED (
    SELECT first.id, first.aggregate, first.queue_name, first.is_due FROM (
        SELECT aggregate, queue_name FROM seen UNION SELECT aggregate, queue_name FROM walked
    ) AS lane CROSS JOIN LATERAL (
        SELECT id, aggregate, queue_name, {_DUE} AND {_FREE} AS is_due FROM {self.name}
        WHERE NOT processed AND (aggregate, queue_name, id) >= (lane.aggregate, lane.queue_name, 0)
        ORDER BY aggregate, queue_name, id LIMIT 1
    ) AS first
), heads AS MATERIALIZED (
    SELECT id, aggregate, queue_name FROM {self.name}
    WHERE id = ANY(ARRAY(SELECT firsts.id FROM firsts WHERE firsts.is_due ORDER BY firsts.id))
      AND NOT processed AND queue_name = ANY(%(queues)s) AND {_DUE} AND {_FREE}
    ORDER BY id LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT lane.id FROM heads CROSS JOIN LATERAL (
        SELECT member.id, bool_and(
            member.aggregate = heads.aggregate AND member.queue_name = heads.queue_name AND member.is_due
        ) OVER (ORDER BY member.aggregate, member.queue_name, member.id) AS goes FROM (
            SELECT id, aggregate, queue_name, {_DUE} AND {_FREE} AS is_due FROM {self.name}
            WHERE NOT processed AND (aggregate, queue_name, id) >= (heads.aggregate, heads.queue_name,
                heads.id)
            ORDER BY aggregate, queue_name, id LIMIT %(batch)s
        ) AS member
    ) AS lane
    WHERE lane.goes ORDER BY lane.id LIMIT %(batch)s
), aside AS MATERIALIZED (
    SELECT id FROM {self.name}
    WHERE NOT processed AND id = ANY(ARRAY(
        SELECT seen.id FROM seen JOIN firsts ON firsts.aggregate = seen.aggregate
            AND firsts.queue_name = seen.queue_name
        WHERE seen.id <> firsts.id AND (NOT firsts.is_due OR firsts.id IN (SELECT heads.id FROM heads))
          AND seen.id NOT IN (SELECT chosen.id FROM chosen)
    ))
    FOR UPDATE SKIP LOCKED
)
UPDATE {self.name} AS taken SET
    claimed_by = CASE WHEN picked.is_aside THEN taken.claimed_by ELSE %(owner)s END,
    claimed_until = CASE WHEN picked.is_aside THEN taken.claimed_until ELSE %(until)s::timestamptz END,
    is_behind = taken.is_behind OR picked.is_aside
FROM (SELECT id, FALSE AS is_aside FROM chosen UNION ALL SELECT id, TRUE FROM aside) AS picked
WHERE taken.id = picked.id AND NOT taken.processed
RETURNING taken.id, taken.queue_name, taken.aggregate, taken.correlation_id, taken.created_at,
    CASE WHEN picked.is_aside THEN '' ELSE taken.message_body END AS message_body, picked.is_aside
        AS is_behind"""
        times = {"now": now, "until": until, "beyond": beyond}
        counts = {"batch": batch, "looked": LOOK_FACTOR * batch}
        parameters = {"owner": owner, **times, **counts, "queues": tuple(self.queues)}
        return SqlReturning(self._schema, text, parameters, ClaimedRow, is_idempotent=True)

    def _mark_sent(self, owner: str, ids: tuple[int, ...], now: datetime) -> SqlChange:
        """Mark an owner's rows as sent."""
        text = f"""
UPDATE {self.name} SET processed = TRUE, processed_at = %(now)s, claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""
        return SqlChange(self._schema, text, {"owner": owner, "ids": ids, "now": now}, is_idempotent=True)

    def _mark_failed(
        self, owner: str, ids: tuple[int, ...], now: datetime, reason: str, is_permanent: bool
    ) -> SqlReturning[FailedRow]:
        """Count a failed attempt: the row is retried after a pause, or dead."""
        text = f"""
UPDATE {self.name} SET
    retry_count = retry_count + 1, last_error = %(reason)s,
    next_attempt_at = %(now)s::timestamptz + make_interval(
        secs => LEAST(%(retry_delay_s)s * power(2, LEAST(retry_count, 30)), %(max_retry_delay_s)s)
    ),
    dead_at = CASE WHEN %(is_permanent)s::boolean
        OR retry_count + 1 >= %(max_attempts)s THEN %(now)s::timestamptz END,
    claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed
RETURNING id, dead_at IS NOT NULL AS is_dead"""
        result = {"owner": owner, "ids": ids, "now": now, "reason": reason, "is_permanent": is_permanent}
        delays = {
            "retry_delay_s": self.settings.retry_delay_s,
            "max_retry_delay_s": self.settings.max_retry_delay_s,
        }
        parameters = {**result, **delays, "max_attempts": self.settings.max_attempts}
        return SqlReturning(self._schema, text, parameters, FailedRow, is_idempotent=True)

    def _release(self, owner: str, ids: tuple[int, ...]) -> SqlChange:
        """End an owner's claim on rows that were not tried."""
        text = f"""
UPDATE {self.name} SET claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""
        return SqlChange(self._schema, text, {"owner": owner, "ids": ids}, is_idempotent=True)

    def _build_send(
        self, number: int, queue: Queue[Any]
    ) -> Pattern[[tuple[OutboxMessage, ...]], SendOutboxMessages]:
        """Build the pattern with this number that sends messages to one queue."""

        def send(messages: tuple[OutboxMessage, ...]) -> SendOutboxMessages:
            return SendOutboxMessages(queue, messages)

        name, purpose = f"send_{queue.name.replace('-', '_')}", f"Send messages to {queue.name}"
        example = OutboxMessage("outbox-1-0", queue.name, _AGGREGATE, "{}", None)
        return self._builder.build(number, name, purpose, send, ((example,),))

    # --- inspection and cleanup -----------------------------------------------------------------------------

    def _waiting(self, after: int, count: int) -> SqlRows[UnsentMessage]:
        """Select up to `count` unsent rows after an id, pending and dead, without their bodies."""
        text = f"""
SELECT '{self.name}' AS outbox, queue_name AS queue, aggregate, sequence_number AS sequence, 0 AS part,
    id::text AS id, CASE WHEN dead_at IS NULL THEN 'pending' ELSE 'dead' END AS status,
    created_at, retry_count AS attempts, last_error AS reason
FROM {self.name} AS unsent WHERE NOT processed AND unsent.id > %(after)s ORDER BY unsent.id LIMIT %(count)s"""
        return SqlRows(self._schema, text, {"after": after, "count": count}, UnsentMessage)

    def _backlog(self) -> SqlRows[Backlog]:
        """Count the unsent rows of each queue."""
        text = f"""
SELECT queue_name, count(*) FILTER (WHERE dead_at IS NULL) AS pending,
       count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead, min(created_at) AS oldest_at
FROM {self.name} WHERE NOT processed GROUP BY queue_name ORDER BY queue_name"""
        return SqlRows(self._schema, text, {}, Backlog)

    def _redrive(self, aggregate: str | None, ids: tuple[int, ...] | None, queue: str | None) -> SqlChange:
        """Make dead rows pending again and wake the relays; None as a filter means all."""
        text = f"""
UPDATE {self.name} SET dead_at = NULL, retry_count = 0, next_attempt_at = NULL
WHERE NOT processed AND dead_at IS NOT NULL
  AND (%(aggregate)s::text IS NULL OR aggregate = %(aggregate)s::text)
  AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
  AND (%(queue)s::text IS NULL OR queue_name = %(queue)s::text)
RETURNING pg_notify(%(channel)s, '')"""
        parameters = {"aggregate": aggregate, "ids": ids, "queue": queue, "channel": self.channel}
        return SqlChange(self._schema, text, parameters)

    def _discard(self, ids: tuple[int, ...], now: datetime) -> SqlChange:
        """Mark dead rows as processed without sending them, and wake the relays."""
        text = f"""
UPDATE {self.name} SET
    processed = TRUE, processed_at = %(now)s, last_error = 'Discarded. ' || COALESCE(last_error, '')
WHERE id = ANY(%(ids)s::bigint[]) AND NOT processed AND dead_at IS NOT NULL
RETURNING pg_notify(%(channel)s, '')"""
        return SqlChange(self._schema, text, {"ids": ids, "now": now, "channel": self.channel})

    def _sweep(self, before: datetime, count: int) -> SqlChange:
        """Delete up to `count` rows that were processed before a time."""
        text = f"""
DELETE FROM {self.name} WHERE id IN (
    SELECT id FROM {self.name} WHERE processed AND processed_at < %(before)s
    ORDER BY processed_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)"""
        return SqlChange(self._schema, text, {"before": before, "count": count}, is_idempotent=True)

    def _sweep_counters(self, before: datetime, after: str, count: int) -> SqlReturning[CounterSweep]:
        # A transaction that enqueues holds the lock on its counter, which is skipped. A counter used since it
        # was examined is checked again under the lock, and stays.
        """Delete idle counters among the next `count` after an aggregate; return the last one examined."""
        text = f"""
WITH looked AS MATERIALIZED (
    SELECT aggregate FROM {self.name}_counter WHERE aggregate > %(after)s ORDER BY aggregate LIMIT %(count)s
), idle AS MATERIALIZED (
    SELECT counter.aggregate FROM {self.name}_counter AS counter
    WHERE counter.aggregate = ANY(ARRAY(SELECT looked.aggregate FROM looked)) AND counter.used_at < %(before)s
      AND NOT EXISTS (
          SELECT 1 FROM {self.name} AS waits
          WHERE waits.aggregate = counter.aggregate AND NOT waits.processed
      )
    FOR UPDATE OF counter SKIP LOCKED
), removed AS (
    DELETE FROM {self.name}_counter WHERE aggregate = ANY(ARRAY(SELECT idle.aggregate
        FROM idle)) RETURNING aggregate
)
SELECT (SELECT count(*) FROM removed) AS removed, (SELECT max(looked.aggregate) FROM looked) AS last"""
        parameters = {"before": before, "after": after, "count": count}
        return SqlReturning(self._schema, text, parameters, CounterSweep, is_idempotent=True)
