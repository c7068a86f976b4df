"""Status transitions on real PostgreSQL: allowed ones happen, all others are refused."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from holdfast.core.errors import ConditionFailed
from pagw.domain.statuses import EARLY_ENDS, TERMINAL, Stage, Status, can_follow, get_predecessors
from pagw.model import patterns
from pagw.model.entities import RequestUpdate
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario
from tests.systems.pagw.documented_order import STATUSES_AFTER_THE_PAYER, STATUSES_BEFORE_THE_PAYER

FORWARD = tuple(map(Status, STATUSES_BEFORE_THE_PAYER + STATUSES_AFTER_THE_PAYER))
ALLOWED = {
    *itertools.pairwise(FORWARD),
    (Status.CONVERTED, Status.PENDED),
    (Status.PENDED, Status.SUBMITTED),
    (Status.COMPLETED, Status.CANCELLED),
    # A payer that decides after a failure.
    (Status.FAILED, Status.SUBMITTED),
    *((now, end) for now in (*FORWARD[:-1], Status.PENDED) for end in (Status.FAILED, Status.CANCELLED)),
}


@pytest.mark.proves("PG-X13")
def test_transition_table_matches_the_design() -> None:
    assert len(Status) == len(FORWARD) + len((Status.PENDED, Status.FAILED, Status.CANCELLED))
    assert {(now, then) for now in Status for then in Status if can_follow(now, then)} == ALLOWED
    assert {Status.COMPLETED, Status.FAILED, Status.CANCELLED} == TERMINAL and EARLY_ENDS < TERMINAL
    assert all(get_predecessors(then) for then in Status if then is not Status.RECEIVED)


@pytest.mark.proves("PG-X13", "PG-X26", "PG-X27")
async def test_request_takes_only_allowed_transitions_and_records_the_time() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pairs = list(itertools.product(Status, Status))
        pipeline.execute(
            """INSERT INTO pagw.request_tracker (pagw_id, tenant, status, created_at, updated_at, due_at)
               SELECT pair.status || pair.number, 'acme', pair.status, %(at)s, %(at)s, %(at)s
               FROM unnest(%(statuses)s::text[]) WITH ORDINALITY AS pair (status, number)""",
            at=pipeline.now,
            statuses=[now.value for now, _ in pairs],
        )
        for number, (now, then) in enumerate(pairs, 1):
            pagw_id, at = f"{now}{number}", pipeline.now + timedelta(seconds=number)
            step = patterns.advance(pagw_id, now, then, Stage.done, at)
            if (now, then) in ALLOWED:
                await pipeline.stores.run(step)
                expected = (then, at)
            else:
                with pytest.raises(ConditionFailed):
                    await pipeline.stores.run(step)
                expected = (now, pipeline.now)
            after = await pipeline.request(pagw_id)
            assert (after.status, after.updated_at) == expected

    await run_scenario(scenario)


@pytest.mark.proves("PG-X26", "PG-X27", "PG-23")
async def test_stale_status_rolls_back_its_transaction_and_writes_record_the_time() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        before = pipeline.rows("SELECT count(*) FROM pagw.outbox")
        at = pipeline.now + timedelta(seconds=5)
        step = patterns.advance(pagw_id, Status.VALIDATED, Status.ENRICHED, Stage.attachment_handler, at)
        await pipeline.stores.run(step)
        with pytest.raises(ConditionFailed):
            await pipeline.stores.transact(
                patterns.tell_answered(pagw_id), patterns.count_retry(pagw_id, "X", at), step
            )
        request = await pipeline.request(pagw_id)
        assert (request.status, request.retry_count) == (Status.ENRICHED, 0)
        assert pipeline.rows("SELECT count(*) FROM pagw.outbox") == before
        # Every other write of the tracker records its time too.
        for seconds, write in enumerate(
            (
                patterns.note(
                    pagw_id, Status.ENRICHED, Stage.payer, at + timedelta(seconds=1), RequestUpdate()
                ),
                patterns.count_retry(pagw_id, "X", at + timedelta(seconds=2)),
            ),
            1,
        ):
            await pipeline.stores.run(write)
            assert (await pipeline.request(pagw_id)).updated_at == at + timedelta(seconds=seconds)

    await run_scenario(scenario)
