"""The access patterns of an outbox in SQL: to announce, to claim and mark what is sent, to send, to look, to tend.

Whose row it is, is in every statement that marks one: a publisher that lost its claim changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.guarantees.sql_outbox.rows import (
    Announced,
    Backlog,
    Claimed,
    CountersLooked,
    Failed,
    SendRows,
    WaitingRow,
)
from holdfast.model import Operation, Pattern, Queue, Rate, Schema, SqlChange, SqlReturning, SqlRows
from holdfast.model.patterns import Example

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

# The sends have their numbers behind those of the statements.
FIRST_SEND: Final = 12
# How many rows a claim looks at for each that it may claim.
LOOKED_FACTOR: Final = 4
# As the index of what may be sent has it.
_READY: Final = "NOT processed AND dead_at IS NULL AND NOT is_behind"
# A time that lies beyond any pause and any claim was set by a clock that went wrong: it counts for nothing.
_DUE: Final = "dead_at IS NULL AND (next_attempt_at IS NULL OR next_attempt_at <= %(now)s OR next_attempt_at > %(beyond)s)"
_FREE: Final = "(claimed_until IS NULL OR claimed_until <= %(now)s OR claimed_until > %(beyond)s OR claimed_by = %(owner)s)"
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
        self.sweep_counters = self._sweep_counters()
        self.sends: Mapping[str, Pattern[[tuple[Claimed, ...]], SendRows]] = {
            queue.name: self._send(FIRST_SEND + place, queue) for place, queue in enumerate(queues)
        }

    def _made(
        self, number: int, name: str, purpose: str, function: Callable[P, O], *, example: Example
    ) -> Pattern[P, O]:
        id = f"{self._prefix}{number}"
        return made_pattern(
            function,
            id,
            f"{self._spoken}_{name}",
            f"{purpose} ({self._table})",
            rate=self._rate,
            example=example,
        )

    # --- announcing -----------------------------------------------------------------------------------------

    def _append(self) -> Pattern[[Announced], SqlChange]:
        # The counter's row stays locked until the commit, and only then is the id taken: of two transactions that
        # announce in one aggregate, the one that commits first has the smaller of both. The notice is given with the
        # commit, or not at all.
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

        def append(announced: Announced) -> SqlChange:
            parameters = {**announced.model_dump(), "channel": self._channel}
            return SqlChange(self._schema, text, parameters).expecting(1)

        example = Announced(
            queue_name=self._queues[0], aggregate=_AGGREGATE, body="{}", correlation_id=None, at=_TIME
        )
        return self._made(1, "append", "Announce a change", append, example=(example,))

    # --- publishing -----------------------------------------------------------------------------------------

    def _claim(self) -> Pattern[[str, datetime, datetime, datetime, int], SqlReturning[Claimed]]:
        # A lane is what waits of one aggregate for one queue. Rows that nobody looked at are looked at once, `looked` of
        # them at most: the first of a lane is claimed with those behind it, one that stands behind is set aside. Lanes
        # in which rows were set aside are found by a walk from lane to lane, which passes over however many there are.
        # So a round costs by the lanes that wait and by what is new, not by the rows behind a dead one.
        #
        # The lock on the first stands for all behind it, which nobody claims without it; what is seen of it is looked at
        # again once it is locked. Where a comparison of three columns stands for two equalities, it is for the planner:
        # no index but that of the lanes fits. Who claims again under the same name, because the answer was lost, is
        # given the same rows.
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
            WHERE NOT processed AND (aggregate, queue_name, id) >= (heads.aggregate, heads.queue_name, heads.id)
            ORDER BY aggregate, queue_name, id LIMIT %(batch)s
        ) AS member
    ) AS lane
    WHERE lane.goes ORDER BY lane.id LIMIT %(batch)s
), aside AS MATERIALIZED (
    SELECT id FROM {self._table}
    WHERE NOT processed AND id = ANY(ARRAY(
        SELECT seen.id FROM seen JOIN firsts ON firsts.aggregate = seen.aggregate AND firsts.queue_name = seen.queue_name
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
    CASE WHEN picked.is_aside THEN '' ELSE taken.message_body END AS message_body, picked.is_aside AS is_behind"""

        def claim(
            owner: str, now: datetime, until: datetime, beyond: datetime, batch: int
        ) -> SqlReturning[Claimed]:
            times = {"now": now, "until": until, "beyond": beyond}
            counts = {"batch": batch, "looked": LOOKED_FACTOR * batch}
            parameters = {"owner": owner, **times, **counts, "queues": self._queues}
            return SqlReturning(self._schema, text, parameters, Claimed, is_repeatable=True)

        return self._made(
            2, "claim", "Claim what is to be sent", claim, example=(_OWNER, _TIME, _TIME, _TIME, 25)
        )

    def _sent(self) -> Pattern[[str, tuple[int, ...], datetime], SqlChange]:
        text = f"""
UPDATE {self._table} SET processed = TRUE, processed_at = %(now)s, claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""

        def sent(owner: str, ids: tuple[int, ...], now: datetime) -> SqlChange:
            return SqlChange(self._schema, text, {"owner": owner, "ids": ids, "now": now}, is_repeatable=True)

        return self._made(3, "sent", "Mark what is with its queue", sent, example=(_OWNER, (1,), _TIME))

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
        return self._made(
            4, "failed", "Keep what was not sent for another try, or give it up", failed, example=example
        )

    def _release(self) -> Pattern[[str, tuple[int, ...]], SqlChange]:
        text = f"""
UPDATE {self._table} SET claimed_by = NULL, claimed_until = NULL
WHERE id = ANY(%(ids)s::bigint[]) AND claimed_by = %(owner)s AND NOT processed"""

        def release(owner: str, ids: tuple[int, ...]) -> SqlChange:
            return SqlChange(self._schema, text, {"owner": owner, "ids": ids}, is_repeatable=True)

        return self._made(
            5, "release", "Give back what was claimed and not tried", release, example=(_OWNER, (1,))
        )

    def _send(self, number: int, queue: Queue[Any]) -> Pattern[[tuple[Claimed, ...]], SendRows]:
        def send(rows: tuple[Claimed, ...]) -> SendRows:
            return SendRows(queue, self._channel, rows)

        name = f"send_{queue.name.replace('-', '_')}"
        row = Claimed(
            id=1,
            queue_name=queue.name,
            aggregate=_AGGREGATE,
            message_body="{}",
            correlation_id=None,
            created_at=_TIME,
        )
        return self._made(number, name, f"Send announcements to {queue.name}", send, example=((row,),))

    # --- looking and tending --------------------------------------------------------------------------------

    def _waiting(self) -> Pattern[[int, int], SqlRows[WaitingRow]]:
        text = f"""
SELECT {WaitingRow.columns()} FROM {self._table}
WHERE NOT processed AND id > %(after)s ORDER BY id LIMIT %(count)s"""

        def waiting(after: int, count: int) -> SqlRows[WaitingRow]:
            return SqlRows(self._schema, text, {"after": after, "count": count}, WaitingRow)

        return self._made(
            6, "waiting", "Announcements that wait, or were given up, oldest first", waiting, example=(0, 100)
        )

    def _backlog(self) -> Pattern[[], SqlRows[Backlog]]:
        text = f"""
SELECT queue_name, count(*) FILTER (WHERE dead_at IS NULL) AS pending,
       count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead, min(created_at) AS oldest_at
FROM {self._table} WHERE NOT processed GROUP BY queue_name ORDER BY queue_name"""

        def backlog() -> SqlRows[Backlog]:
            return SqlRows(self._schema, text, {}, Backlog)

        return self._made(7, "backlog", "How much waits for each queue, and since when", backlog, example=())

    def _redrive(self) -> Pattern[[str | None, tuple[int, ...] | None, str | None], SqlChange]:
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

        return self._made(
            8, "redrive", "Let what was given up go out again", redrive, example=(_AGGREGATE, None, None)
        )

    def _discard(self) -> Pattern[[tuple[int, ...], datetime], SqlChange]:
        text = f"""
UPDATE {self._table} SET
    processed = TRUE, processed_at = %(now)s, last_error = 'Discarded. ' || COALESCE(last_error, '')
WHERE id = ANY(%(ids)s::bigint[]) AND NOT processed AND dead_at IS NOT NULL
RETURNING pg_notify(%(channel)s, '')"""

        def discard(ids: tuple[int, ...], now: datetime) -> SqlChange:
            return SqlChange(self._schema, text, {"ids": ids, "now": now, "channel": self._channel})

        return self._made(
            9, "discard", "Never send what was given up, and go on behind it", discard, example=((1,), _TIME)
        )

    def _sweep(self) -> Pattern[[datetime, int], SqlChange]:
        text = f"""
DELETE FROM {self._table} WHERE id IN (
    SELECT id FROM {self._table} WHERE processed AND processed_at < %(before)s
    ORDER BY processed_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)"""

        def sweep(before: datetime, count: int) -> SqlChange:
            return SqlChange(self._schema, text, {"before": before, "count": count}, is_repeatable=True)

        return self._made(10, "sweep", "Remove what was sent long ago", sweep, example=(_TIME, 1000))

    def _sweep_counters(self) -> Pattern[[datetime, str, int], SqlReturning[CountersLooked]]:
        # Whoever announces has the counter's row locked: it is passed over. One that was used since it was seen is looked
        # at again once it is locked, and stays.
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
    DELETE FROM {self._table}_counter WHERE aggregate = ANY(ARRAY(SELECT idle.aggregate FROM idle)) RETURNING aggregate
)
SELECT (SELECT count(*) FROM removed) AS removed, (SELECT max(looked.aggregate) FROM looked) AS last"""

        def sweep_counters(before: datetime, after: str, count: int) -> SqlReturning[CountersLooked]:
            parameters = {"before": before, "after": after, "count": count}
            return SqlReturning(self._schema, text, parameters, CountersLooked, is_repeatable=True)

        return self._made(
            11, "sweep_counters", "Remove counters of long ago", sweep_counters, example=(_TIME, "", 1000)
        )
