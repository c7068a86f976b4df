"""Retention on the step-by-step pipeline: orphaned files, legal holds, retention runs, erasure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from holdfast.core.errors import ConditionFailed, HoldfastError, InvalidRequest, NotFound
from holdfast.guarantees import build_retention_report, erase
from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED
from pagw.api.explain import file_info
from pagw.domain.statuses import Status
from pagw.model import files
from pagw.model.audit import Actor
from pagw.model.entities import RETENTION_YEARS, original_bundle
from pagw.model.patterns import INBOX, submission
from pagw.ops import legal_holds, retention
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers import schedules, sweeper
from pagw.workers.intake import SERVICE as INTAKE
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario
from tests.systems.pagw.idempotency_keys import build_idempotency_key

ANN = Actor("user", "ann")
ORPHAN = "PAGW-01JBEXAMPLE000000000000000"
SEVEN_YEARS = timedelta(days=7 * 365.25 + 1)


async def list_keys(pipeline: Pipeline, pagw_id: str = "") -> set[str]:
    """Return all keys of the bucket, or those of one request."""
    page = await pipeline.stores.run(original_bundle.list_objects())
    return {each.key for each in page.objects if pagw_id in each.key}


def count_events(pipeline: Pipeline, pagw_id: str) -> int:
    """Return the number of a request's audit rows."""
    [(count,)] = pipeline.rows("SELECT count(*) FROM pagw.audit_log WHERE pagw_id = %s", pagw_id)
    return int(count)


async def make_orphan(pipeline: Pipeline, pagw_id: str = ORPHAN) -> list[str]:
    """Store the files of a call that dies before it writes its rows."""
    await pipeline.stores.run(files.keep_bundle(b"{}", pipeline.now, pagw_id))
    await pipeline.stores.run(files.keep_parsed(b"{}", pipeline.now, pagw_id))
    return [each async for each in legal_holds.iterate_keys(pipeline.operator, pipeline.now, pagw_id)]


@pytest.mark.proves("PG-45")
async def test_sweeps_orphans_after_three_days_but_nothing_tracked_or_held() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        tracked = await pipeline.submit()
        await pipeline.settle()
        tracked_keys = await list_keys(pipeline, tracked)
        left = await make_orphan(pipeline)
        held = "PAGW-01JBHE1D00000000000000000"
        held_keys = await make_orphan(pipeline, held)
        await pipeline.stores.run(legal_holds.hold_file(held_keys[0], True))
        kept = await pipeline.stores.run(files.keep_subscription(b"{}", "acme", "lost"))
        assert len(left) == 2

        pipeline.clock.advance(hours=71)  # now December: the sweeper also checks the previous month
        assert (await sweeper.sweep(pipeline.sweeper)).files == 0
        young = await make_orphan(pipeline, "PAGW-01JBY0VNG00000000000000000")
        pipeline.clock.advance(hours=2)
        swept = await sweeper.sweep(pipeline.sweeper)
        assert (swept.files, swept.requests, swept.subscriptions) == (4, 2, 1)
        remains = await list_keys(pipeline)
        assert not remains & {*left, held_keys[1], kept.info.key}
        assert held_keys[0] in remains and set(young) <= remains
        assert len(tracked_keys) > 1 and tracked_keys <= remains
        assert (await sweeper.sweep(pipeline.sweeper)).files == 0
        events = pipeline.rows(
            "SELECT resource_id, details FROM pagw.audit_log WHERE event_type = 'SWEPT' ORDER BY id"
        )
        assert (ORPHAN, {"files": 2}) in events
        assert not await INBOX.is_taken(pipeline.stores, INTAKE, ORPHAN), "the inbox entry is removed"

    await run_scenario(scenario)


async def test_keeps_the_file_of_a_subscription_under_a_legal_hold_and_audits_no_removal() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        kept = await pipeline.stores.run(files.keep_subscription(b"{}", "acme", "held"))
        await pipeline.stores.run(legal_holds.hold_file(kept.info.key, True))
        pipeline.clock.advance(hours=73)
        assert (await sweeper.sweep(pipeline.sweeper)).subscriptions == 0
        assert kept.info.key in await list_keys(pipeline)
        assert pipeline.rows("SELECT id FROM pagw.audit_log WHERE event_type = 'SWEPT'") == []

    await run_scenario(scenario)


async def test_sweeper_and_late_retry_exclude_each_other() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        left = await make_orphan(pipeline)
        pipeline.clock.advance(hours=73)
        # The call commits its rows after the sweeper found none: its inbox entry and its row exist.
        await pipeline.stores.run(INBOX.take(INTAKE, ORPHAN, pipeline.now))
        pipeline.execute(
            """INSERT INTO pagw.request_tracker (pagw_id, tenant, status, due_at, created_at, updated_at)
               VALUES (%s, 'acme', 'VALIDATED', %s, %s, %s)""",
            ORPHAN, pipeline.now, pipeline.now, pipeline.now,
        )  # fmt: skip
        assert await sweeper._sweep_request(pipeline.sweeper, ORPHAN, left) == 0
        assert set(left) <= await list_keys(pipeline)
        # A sweeper died holding the inbox entry: there is no row, and the next sweeper continues.
        pipeline.execute("DELETE FROM pagw.request_tracker")
        assert await sweeper._sweep_request(pipeline.sweeper, ORPHAN, left) == 2
        # While a sweeper holds the inbox entry, the call's transaction fails.
        await pipeline.stores.run(INBOX.take(INTAKE, ORPHAN, pipeline.now))
        with pytest.raises(ConditionFailed):
            await pipeline.stores.run(INBOX.take(INTAKE, ORPHAN, pipeline.now))

    await run_scenario(scenario)


async def test_sweeps_outbox_rows_after_a_week_and_inbox_rows_after_a_month() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await pipeline.submit()
        await pipeline.settle()
        assert await sweeper.sweep_messages(pipeline.sweeper) == (0, 0)
        pipeline.clock.advance(days=8)
        sent, taken = await sweeper.sweep_messages(pipeline.sweeper)
        assert (sent, taken) == (15, 0)
        pipeline.clock.advance(days=23)
        assert await sweeper.sweep_messages(pipeline.sweeper) == (0, 8)

    await run_scenario(scenario)


@pytest.mark.proves("PG-X20", "PG-1")
async def test_removes_requests_seven_years_after_their_end_unless_held() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        old, held = await pipeline.submit(), await pipeline.submit()
        await pipeline.settle()
        held_keys, steps = await list_keys(pipeline, held), count_events(pipeline, held)
        assert await legal_holds.place_hold(pipeline.operator, held, "case 12", ANN) == len(held_keys) + steps
        pipeline.clock.advance(days=400)
        young = await pipeline.submit()
        await pipeline.settle()
        pipeline.clock.seconds += (SEVEN_YEARS - timedelta(days=400)).total_seconds()

        settings = PagwSettings()
        assert (settings.retention_years, RETENTION_YEARS) == (7, 7)
        counted = await retention.apply_retention(pipeline.operator, settings, dry_run=True)
        assert (counted.requests, counted.held, counted.audit_rows) == (1, 1, steps)
        later = await retention.apply_retention(
            pipeline.operator, replace(settings, retention_years=8), dry_run=True
        )
        assert (later.requests, later.audit_rows) == (0, 0)

        seen: list[tuple[int, int]] = []
        done = await retention.apply_retention(
            pipeline.operator, settings, progress=lambda _, rows, whole: seen.append((rows, whole))
        )
        assert (done.requests, done.held, done.audit_rows) == (1, 1, steps)
        assert seen == [(1, 1)]
        assert pipeline.rows("SELECT pagw_id FROM pagw.request_tracker ORDER BY pagw_id") == [
            (held,),
            (young,),
        ]
        assert not await list_keys(pipeline, old) and await list_keys(pipeline, held) == held_keys
        for table in ("request_lookup", "audit_log"):
            found = pipeline.rows(f"SELECT DISTINCT pagw_id FROM pagw.{table} WHERE pagw_id IS NOT NULL")
            assert {each for (each,) in found} == {held, young}
        assert (
            pipeline.rows("SELECT aggregate FROM pagw.outbox_counter WHERE aggregate LIKE %s", f"{old}%")
            == []
        )
        [(details,)] = pipeline.rows("SELECT details FROM pagw.audit_log WHERE event_type = 'RETENTION'")
        assert details == {"years": 7, "requests": [old]}

        # Once lifted, the next run removes it. Younger audit rows stay for seven years of their own.
        await pipeline.settle()
        assert await legal_holds.lift_hold(pipeline.operator, held, ANN) == len(held_keys) + steps + 1
        again = await retention.apply_retention(pipeline.sweeper, settings)
        assert (again.requests, again.held, again.audit_rows) == (1, 0, steps + 1)
        lifted = pipeline.rows("SELECT event_subtype FROM pagw.audit_log WHERE pagw_id = %s", held)
        assert lifted == [("lifted",)]

    await run_scenario(scenario)


async def test_next_retention_run_finishes_an_interrupted_one() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        # Pended for half a year: its files are under the month of its creation.
        pagw_id = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle()
        pipeline.clock.advance(days=180)
        await pipeline.call_back(pagw_id)
        await pipeline.settle()
        assert (await pipeline.request(pagw_id)).status is Status.COMPLETED
        pipeline.clock.seconds += SEVEN_YEARS.total_seconds()
        work = retention._RetentionRun(
            pipeline.sweeper,
            retention.RetentionReport(pipeline.now - retention.compute_span(7), 7, False),
            None,
        )
        assert len(await work._remove_requests()) == 1
        left = await list_keys(pipeline, pagw_id)
        assert len(left) > 1, "files remain although no row references them"
        # A file with a hold of unknown origin stays and is retried later.
        await pipeline.stores.run(legal_holds.hold_file(min(left), True))
        pipeline.clock.advance(days=100)
        await retention.apply_retention(pipeline.sweeper, PagwSettings())
        assert await list_keys(pipeline, pagw_id) == {min(left)}
        await pipeline.stores.run(legal_holds.hold_file(min(left), False))
        await retention.apply_retention(pipeline.sweeper, PagwSettings())
        assert not await list_keys(pipeline, pagw_id)
        assert pipeline.rows("SELECT * FROM pagw.forgotten") == []

    await run_scenario(scenario)


async def test_legal_hold_covers_later_files_and_needs_an_existing_request() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        first = len(await list_keys(pipeline, pagw_id))
        assert await legal_holds.place_hold(pipeline.operator, pagw_id, "case 12", ANN) == first
        assert await legal_holds.place_hold(pipeline.operator, pagw_id, "case 13", ANN) == first, (
            "placing a hold again is not an error"
        )
        await pipeline.settle()
        keys = await list_keys(pipeline, pagw_id)
        assert len(keys) > first
        assert await legal_holds.renew_holds(pipeline.sweeper) == len(keys) + count_events(pipeline, pagw_id)
        for key in keys:
            assert (await pipeline.operator.run(file_info(key))).held
        [row] = await pipeline.operator.run(legal_holds.holds())
        assert (row.reason, row.placed_by) == ("case 12", "ann")
        with pytest.raises(InvalidRequest, match="reason"):
            await legal_holds.place_hold(pipeline.operator, pagw_id, " ", ANN)
        with pytest.raises(NotFound):
            await legal_holds.place_hold(pipeline.operator, ORPHAN, "case 12", ANN)
        with pytest.raises(NotFound, match="no legal hold"):
            await legal_holds.lift_hold(pipeline.operator, ORPHAN, ANN)
        with pytest.raises(InvalidRequest, match="legal hold"):
            await erase(SYSTEM, pipeline.stores, pagw_id)

    await run_scenario(scenario)


async def test_erases_a_finished_request_and_keeps_its_audit() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit(key="erased")
        with pytest.raises(InvalidRequest, match="VALIDATED"):
            await erase(SYSTEM, pipeline.stores, pagw_id)
        await pipeline.settle()
        files_there = len(await list_keys(pipeline))
        erasure = await erase(SYSTEM, pipeline.stores, pagw_id)
        assert erasure.deleted["pagw-idempotency"] == 2
        assert erasure.deleted["pagw-requests"] == files_there
        assert await list_keys(pipeline) == set()
        assert await pipeline.stores.run(submission(build_idempotency_key("acme", "erased"))) is None
        assert pipeline.rows("SELECT count(*) FROM pagw.request_tracker") == [(0,)]
        assert count_events(pipeline, pagw_id) == 8
        left = await pipeline.stores.run(files.keep_bundle(b"{}", pipeline.now, pagw_id))
        await erase(SYSTEM, pipeline.stores, pagw_id)
        assert left.info.key not in await list_keys(pipeline)

    await run_scenario(scenario)


async def remove_audit_too_early(pipeline: Pipeline) -> None:
    """Try to remove audit rows that are younger than the time to which the transaction released them."""
    async with pipeline.sweeper.sql_transaction() as sql:
        await sql.run(retention.release_audit(pipeline.now - timedelta(days=2)))
        await sql.run(retention.remove_audit(pipeline.now, 10))


@pytest.mark.proves("PG-19")
async def test_audit_rejects_updates_and_early_deletion() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await pipeline.submit()
        for statement in (
            "UPDATE pagw.audit_log SET event_type = 'X'",
            "DELETE FROM pagw.audit_log",
            "TRUNCATE pagw.audit_log",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only grows"):
                pipeline.execute(statement)
        pipeline.clock.advance(days=1)
        async with pipeline.sweeper.sql_transaction() as sql:
            await sql.run(retention.release_audit(pipeline.now - timedelta(days=2)))
            assert await sql.run(retention.remove_audit(pipeline.now - timedelta(days=2), 10)) == ()
        pipeline.execute("DELETE FROM pagw.request_tracker")
        with pytest.raises(HoldfastError, match="only grows"):
            await remove_audit_too_early(pipeline)
        assert pipeline.rows("SELECT count(*) FROM pagw.audit_log") == [(1,)]
        # A release does not outlive its transaction.
        async with pipeline.sweeper.sql_transaction() as sql:
            await sql.run(retention.release_audit(pipeline.now))
        with pytest.raises(HoldfastError, match="only grows"):
            await pipeline.sweeper.run(retention.remove_audit(pipeline.now, 10))

    await run_scenario(scenario)


async def test_every_schedule_runs_with_the_sweepers_permissions() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        late = await pipeline.submit()
        await make_orphan(pipeline)
        pipeline.clock.advance(days=8)
        for each in schedules.SCHEDULES:
            await each.run(pipeline.sweeper)
        assert (await pipeline.request(late)).status is Status.VALIDATED
        assert not await list_keys(pipeline, ORPHAN)

    await run_scenario(scenario)


@pytest.mark.proves("PG-36")
def test_every_store_has_a_known_retention() -> None:
    rows = build_retention_report(SYSTEM)
    assert not [each for each in rows if each.problem]
    assert {each.store for each in rows} == {"tables", "queues", "objects", "sql"}
    [of_rows] = [each for each in rows if each.store == "sql"]
    assert (
        of_rows.seconds == 2557 * 86400 == retention.compute_span(7).total_seconds()
        and "PAGW_RETENTION_YEARS" in of_rows.why
    )
    [without] = [
        each
        for each in build_retention_report(replace(SYSTEM, privacy=replace(SYSTEM.privacy, retention={})))
        if each.store == "sql" and each.problem
    ]
    assert "declare Privacy(retention=…)" in without.problem
