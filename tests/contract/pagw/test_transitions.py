"""Every change of a status, on the real database: what the table allows is done, everything else is refused."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from holdfast.core.errors import ConditionFailed
from pagw.domain.statuses import EARLY_ENDS, TERMINAL, Stage, Status, can_follow, get_predecessors
from pagw.model import patterns
from pagw.model.entities import RequestUpdate
from tests.contract.pagw.play import Play, play

ALONG = (
    Status.RECEIVED, Status.PARSED, Status.VALIDATED, Status.ENRICHED, Status.ATTACHMENTS_PROCESSED, Status.CONVERTED,
    Status.SUBMITTED, Status.RESPONSE_BUILT, Status.CALLBACK_SENT, Status.COMPLETED,
)  # fmt: skip
# Written out, and not taken from the table that it is to prove.
ALLOWED = {
    *itertools.pairwise(ALONG),
    (Status.CONVERTED, Status.PENDED),
    (Status.PENDED, Status.SUBMITTED),
    (Status.COMPLETED, Status.CANCELLED),
    # A payer that decides after all.
    (Status.FAILED, Status.SUBMITTED),
    *((now, end) for now in (*ALONG[:-1], Status.PENDED) for end in (Status.FAILED, Status.CANCELLED)),
}


@pytest.mark.proves("PG-X13")
def test_the_table_of_transitions_is_the_one_that_was_decided_on() -> None:
    assert len(Status) == 13
    assert {(now, then) for now in Status for then in Status if can_follow(now, then)} == ALLOWED
    assert {Status.COMPLETED, Status.FAILED, Status.CANCELLED} == TERMINAL and EARLY_ENDS < TERMINAL
    assert all(get_predecessors(then) for then in Status if then is not Status.RECEIVED)


@pytest.mark.proves("PG-X13")
@pytest.mark.proves("PG-X26")
@pytest.mark.proves("PG-X27")
def test_a_request_goes_to_every_status_that_may_follow_and_to_no_other_and_its_change_is_timed() -> None:
    async def story(told: Play) -> None:
        pairs = list(itertools.product(Status, Status))
        told.change(
            """INSERT INTO pagw.request_tracker (pagw_id, tenant, status, created_at, updated_at, due_at)
               SELECT pair.status || pair.number, 'acme', pair.status, %(at)s, %(at)s, %(at)s
               FROM unnest(%(statuses)s::text[]) WITH ORDINALITY AS pair (status, number)""",
            at=told.now,
            statuses=[now.value for now, _ in pairs],
        )
        for number, (now, then) in enumerate(pairs, 1):
            pagw_id, at = f"{now}{number}", told.now + timedelta(seconds=number)
            step = patterns.advance(pagw_id, now, then, Stage.done, at)
            if (now, then) in ALLOWED:
                await told.stores.run(step)
                expected = (then, at)
            else:
                with pytest.raises(ConditionFailed):
                    await told.stores.run(step)
                expected = (now, told.now)
            after = await told.request(pagw_id)
            assert (after.status, after.updated_at) == expected

    play(story)


@pytest.mark.proves("PG-X26")
@pytest.mark.proves("PG-X27")
@pytest.mark.proves("PG-23")
def test_who_comes_second_or_looks_at_an_old_status_changes_nothing_and_its_transaction_is_undone() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted()
        before = told.rows("SELECT count(*) FROM pagw.outbox")
        at = told.now + timedelta(seconds=5)
        step = patterns.advance(pagw_id, Status.VALIDATED, Status.ENRICHED, Stage.attachment_handler, at)
        await told.stores.run(step)
        with pytest.raises(ConditionFailed):
            await told.stores.transact(
                patterns.tell_answered(pagw_id), patterns.count_retry(pagw_id, "X", at), step
            )
        request = await told.request(pagw_id)
        assert (request.status, request.retry_count) == (Status.ENRICHED, 0)
        assert told.rows("SELECT count(*) FROM pagw.outbox") == before
        # Every other write of the tracker tells its time too.
        for seconds, write in enumerate(
            (
                patterns.note(
                    pagw_id, Status.ENRICHED, Stage.payer, at + timedelta(seconds=1), RequestUpdate()
                ),
                patterns.count_retry(pagw_id, "X", at + timedelta(seconds=2)),
            ),
            1,
        ):
            await told.stores.run(write)
            assert (await told.request(pagw_id)).updated_at == at + timedelta(seconds=seconds)

    play(story)
