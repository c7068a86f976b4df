"""What is kept and for how long: orphans and their sweeper, legal holds, retention, erasure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from holdfast.core.errors import ConditionFailed, HoldfastError, InvalidRequest, NotFound
from holdfast.guarantees import build_retention_report, erase
from pagw.api.explain import file_info
from pagw.demo.sandbox.payer_rules import PENDED_APPROVED
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
from pagw.workers.intake import build_idempotency_key
from tests.contract.pagw.play import Play, play

ANN = Actor("user", "ann")
ORPHAN = "PAGW-01JBEXAMPLE000000000000000"
SEVEN_YEARS = timedelta(days=7 * 365.25 + 1)


async def keys_of(told: Play, pagw_id: str = "") -> set[str]:
    """All keys of the bucket, or of one request."""
    page = await told.stores.run(original_bundle.list_objects())
    return {each.key for each in page.objects if pagw_id in each.key}


def events_of(told: Play, pagw_id: str) -> int:
    [(count,)] = told.rows("SELECT count(*) FROM pagw.audit_log WHERE pagw_id = %s", pagw_id)
    return int(count)


async def orphan(told: Play, pagw_id: str = ORPHAN) -> list[str]:
    """A call that dies between its files and its rows."""
    await told.stores.run(files.keep_bundle(b"{}", told.now, pagw_id))
    await told.stores.run(files.keep_parsed(b"{}", told.now, pagw_id))
    return [each async for each in legal_holds.iterate_keys(told.operator, told.now, pagw_id)]


@pytest.mark.proves("PG-45")
def test_sweeps_what_a_dead_call_left_after_three_days_and_nothing_that_is_tracked_or_held() -> None:
    async def story(told: Play) -> None:
        tracked = await told.accepted()
        await told.settle()
        tracked_keys = await keys_of(told, tracked)
        left = await orphan(told)
        held = "PAGW-01JBHE1D00000000000000000"
        held_keys = await orphan(told, held)
        await told.stores.run(legal_holds.hold_file(held_keys[0], True))
        kept = await told.stores.run(files.keep_subscription(b"{}", "acme", "lost"))
        assert len(left) == 2

        told.clock.move(hours=71)  # in December: the month before is looked through too
        assert (await sweeper.sweep(told.sweeper)).files == 0
        young = await orphan(told, "PAGW-01JBY0VNG00000000000000000")
        told.clock.move(hours=2)
        swept = await sweeper.sweep(told.sweeper)
        assert (swept.files, swept.requests, swept.subscriptions) == (4, 2, 1)
        remains = await keys_of(told)
        assert not remains & {*left, held_keys[1], kept.info.key}
        assert held_keys[0] in remains and set(young) <= remains
        assert len(tracked_keys) > 1 and tracked_keys <= remains
        assert (await sweeper.sweep(told.sweeper)).files == 0
        events = told.rows(
            "SELECT resource_id, details FROM pagw.audit_log WHERE event_type = 'SWEPT' ORDER BY id"
        )
        assert (ORPHAN, {"files": 2}) in events
        assert not await INBOX.is_taken(told.stores, INTAKE, ORPHAN), "its place is free again"

    play(story)


def test_a_sweeper_and_a_late_repeat_of_the_call_never_both_come_through() -> None:
    async def story(told: Play) -> None:
        left = await orphan(told)
        told.clock.move(hours=73)
        # The call has committed its rows after the sweeper saw none: its place in the inbox is taken, its row is there.
        await told.stores.run(INBOX.take(INTAKE, ORPHAN, told.now))
        told.change(
            """INSERT INTO pagw.request_tracker (pagw_id, tenant, status, due_at, created_at, updated_at)
               VALUES (%s, 'acme', 'VALIDATED', %s, %s, %s)""",
            ORPHAN, told.now, told.now, told.now,
        )  # fmt: skip
        assert await sweeper._sweep_request(told.sweeper, ORPHAN, left) == 0
        assert set(left) <= await keys_of(told)
        # A sweeper that died with the place taken: there is no row, and the next one goes on.
        told.change("DELETE FROM pagw.request_tracker")
        assert await sweeper._sweep_request(told.sweeper, ORPHAN, left) == 2
        # While a sweeper has the place, the call's transaction does not come through.
        await told.stores.run(INBOX.take(INTAKE, ORPHAN, told.now))
        with pytest.raises(ConditionFailed):
            await told.stores.run(INBOX.take(INTAKE, ORPHAN, told.now))

    play(story)


def test_forgets_messages_only_when_nothing_can_repeat_them() -> None:
    async def story(told: Play) -> None:
        await told.accepted()
        await told.settle()
        assert await sweeper.sweep_messages(told.sweeper) == (0, 0)
        told.clock.move(days=8)
        sent, taken = await sweeper.sweep_messages(told.sweeper)
        assert (sent, taken) == (15, 0)
        told.clock.move(days=23)
        assert await sweeper.sweep_messages(told.sweeper) == (0, 8)

    play(story)


@pytest.mark.proves("PG-X20")
@pytest.mark.proves("PG-1")
def test_removes_requests_seven_years_after_their_end_with_all_there_is_of_them_but_not_what_is_held() -> (
    None
):
    async def story(told: Play) -> None:
        old, held = await told.accepted(), await told.accepted()
        await told.settle()
        held_keys, steps = await keys_of(told, held), events_of(told, held)
        assert await legal_holds.place_hold(told.operator, held, "case 12", ANN) == len(held_keys) + steps
        told.clock.move(days=400)
        young = await told.accepted()
        await told.settle()
        told.clock.seconds += (SEVEN_YEARS - timedelta(days=400)).total_seconds()

        settings = PagwSettings()
        assert (settings.retention_years, RETENTION_YEARS) == (7, 7)
        counted = await retention.apply_retention(told.operator, settings, dry_run=True)
        assert (counted.requests, counted.held, counted.audit_rows) == (1, 1, steps)
        later = await retention.apply_retention(
            told.operator, replace(settings, retention_years=8), dry_run=True
        )
        assert (later.requests, later.audit_rows) == (0, 0)

        seen: list[tuple[int, int]] = []
        done = await retention.apply_retention(
            told.operator, settings, progress=lambda _, rows, whole: seen.append((rows, whole))
        )
        assert (done.requests, done.held, done.audit_rows) == (1, 1, steps)
        assert seen == [(1, 1)]
        assert told.rows("SELECT pagw_id FROM pagw.request_tracker ORDER BY pagw_id") == [(held,), (young,)]
        assert not await keys_of(told, old) and await keys_of(told, held) == held_keys
        for table in ("request_lookup", "audit_log"):
            found = told.rows(f"SELECT DISTINCT pagw_id FROM pagw.{table} WHERE pagw_id IS NOT NULL")
            assert {each for (each,) in found} == {held, young}
        assert told.rows("SELECT aggregate FROM pagw.outbox_counter WHERE aggregate LIKE %s", f"{old}%") == []
        [(details,)] = told.rows("SELECT details FROM pagw.audit_log WHERE event_type = 'RETENTION'")
        assert details == {"years": 7, "requests": [old]}

        # Lifted, the next run takes it: of its audit what is younger stays, for its own seven years.
        await told.settle()
        assert await legal_holds.lift_hold(told.operator, held, ANN) == len(held_keys) + steps + 1
        again = await retention.apply_retention(told.sweeper, settings)
        assert (again.requests, again.held, again.audit_rows) == (1, 0, steps + 1)
        lifted = told.rows("SELECT event_subtype FROM pagw.audit_log WHERE pagw_id = %s", held)
        assert lifted == [("lifted",)]

    play(story)


def test_a_run_of_retention_that_died_between_rows_and_files_is_finished_by_the_next() -> None:
    async def story(told: Play) -> None:
        # Pended for half a year: its files are in the month in which it was created.
        pagw_id = await told.accepted(items=(PENDED_APPROVED,))
        await told.settle()
        told.clock.move(days=180)
        await told.call_back(pagw_id)
        await told.settle()
        assert (await told.request(pagw_id)).status is Status.COMPLETED
        told.clock.seconds += SEVEN_YEARS.total_seconds()
        work = retention._RetentionRun(
            told.sweeper, retention.RetentionReport(told.now - retention.compute_span(7), 7, False), None
        )
        assert len(await work._remove_requests()) == 1
        left = await keys_of(told, pagw_id)
        assert len(left) > 1, "no row points at them"
        # One of them is held by nobody knows whom: it stays, and is not forgotten.
        await told.stores.run(legal_holds.hold_file(min(left), True))
        told.clock.move(days=100)
        await retention.apply_retention(told.sweeper, PagwSettings())
        assert await keys_of(told, pagw_id) == {min(left)}
        await told.stores.run(legal_holds.hold_file(min(left), False))
        await retention.apply_retention(told.sweeper, PagwSettings())
        assert not await keys_of(told, pagw_id)
        assert told.rows("SELECT * FROM pagw.forgotten") == []

    play(story)


def test_a_hold_covers_what_comes_later_and_cannot_be_placed_on_nothing() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted()
        first = len(await keys_of(told, pagw_id))
        assert await legal_holds.place_hold(told.operator, pagw_id, "case 12", ANN) == first
        assert await legal_holds.place_hold(told.operator, pagw_id, "case 13", ANN) == first, (
            "again is no error"
        )
        await told.settle()
        keys = await keys_of(told, pagw_id)
        assert len(keys) > first
        assert await legal_holds.renew_holds(told.sweeper) == len(keys) + events_of(told, pagw_id)
        for key in keys:
            assert (await told.operator.run(file_info(key))).held
        [row] = await told.operator.run(legal_holds.holds())
        assert (row.reason, row.placed_by) == ("case 12", "ann")
        with pytest.raises(InvalidRequest, match="reason"):
            await legal_holds.place_hold(told.operator, pagw_id, " ", ANN)
        with pytest.raises(NotFound):
            await legal_holds.place_hold(told.operator, ORPHAN, "case 12", ANN)
        with pytest.raises(NotFound, match="no legal hold"):
            await legal_holds.lift_hold(told.operator, ORPHAN, ANN)
        with pytest.raises(InvalidRequest, match="legal hold"):
            await erase(SYSTEM, told.stores, pagw_id)

    play(story)


def test_erases_a_request_that_has_ended_with_its_keys_and_files_and_leaves_its_audit() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted(key="erased")
        with pytest.raises(InvalidRequest, match="VALIDATED"):
            await erase(SYSTEM, told.stores, pagw_id)
        await told.settle()
        files_there = len(await keys_of(told))
        erasure = await erase(SYSTEM, told.stores, pagw_id)
        assert erasure.deleted["pagw-idempotency"] == 2
        assert erasure.deleted["pagw-requests"] == files_there
        assert await keys_of(told) == set()
        assert await told.stores.run(submission(build_idempotency_key("acme", "erased"))) is None
        assert told.rows("SELECT count(*) FROM pagw.request_tracker") == [(0,)]
        assert events_of(told, pagw_id) == 8
        left = await told.stores.run(files.keep_bundle(b"{}", told.now, pagw_id))
        await erase(SYSTEM, told.stores, pagw_id)
        assert left.info.key not in await keys_of(told)

    play(story)


async def removed_too_early(told: Play) -> None:
    async with told.sweeper.sql_transaction() as sql:
        await sql.run(retention.release_audit(told.now - timedelta(days=2)))
        await sql.run(retention.remove_audit(told.now, 10))


@pytest.mark.proves("PG-19")
def test_nobody_changes_the_audit_and_nobody_removes_of_it_what_is_not_over() -> None:
    async def story(told: Play) -> None:
        await told.accepted()
        for statement in (
            "UPDATE pagw.audit_log SET event_type = 'X'",
            "DELETE FROM pagw.audit_log",
            "TRUNCATE pagw.audit_log",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only grows"):
                told.change(statement)
        told.clock.move(days=1)
        async with told.sweeper.sql_transaction() as sql:
            await sql.run(retention.release_audit(told.now - timedelta(days=2)))
            assert await sql.run(retention.remove_audit(told.now - timedelta(days=2), 10)) == ()
        told.change("DELETE FROM pagw.request_tracker")
        with pytest.raises(HoldfastError, match="only grows"):
            await removed_too_early(told)
        assert told.rows("SELECT count(*) FROM pagw.audit_log") == [(1,)]
        # What was released in a transaction is not in the next one of the same connection.
        async with told.sweeper.sql_transaction() as sql:
            await sql.run(retention.release_audit(told.now))
        with pytest.raises(HoldfastError, match="only grows"):
            await told.sweeper.run(retention.remove_audit(told.now, 10))

    play(story)


def test_what_the_clock_does_is_done_by_the_sweeper_alone() -> None:
    async def story(told: Play) -> None:
        late = await told.accepted()
        await orphan(told)
        told.clock.move(days=8)
        for each in schedules.SCHEDULES:
            await each.run(told.sweeper)
        assert (await told.request(late)).status is Status.VALIDATED
        assert not await keys_of(told, ORPHAN)

    play(story)


@pytest.mark.proves("PG-36")
def test_everything_the_gateway_keeps_has_a_known_end() -> None:
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
        for each in build_retention_report(replace(SYSTEM, retention={}))
        if each.store == "sql" and each.problem
    ]
    assert "declare System(retention=…)" in without.problem
