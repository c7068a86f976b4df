"""The course of a request as an operator sees it: monitoring, the stuck and the late, replay, its end in all stores."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from pagw.demo.sample.bundles import DEFAULT_PAYER
from pagw.demo.sandbox.payer_rules import DENIED, MODIFIED, PENDED_APPROVED, RequestedItem
from pagw.demo.sandbox.payer_state import AuthorizationRequest
from pagw.domain.statuses import Stage, Status
from pagw.model import files
from pagw.model.audit import Actor
from pagw.model.entities import QUEUES, audit_event, fhir_response
from pagw.model.patterns import STAGE_QUEUES, submission
from pagw.model.registries import get_payer
from pagw.ops import monitoring, request_replay
from pagw.ops.annual_report import build_annual_report, format_report
from pagw.ops.registry import register_payer
from pagw.workers.intake import build_idempotency_key
from tests.contract.pagw.play import Play, play

ANN = Actor("user", "ann")


async def call_back(told: Play, pagw_id: str) -> None:
    """The payer makes up its mind, and its callback comes in by its own door."""
    decided = told.payer.state.decide(pagw_id)
    assert decided is not None
    await told.called_back(decided.to_json())


@pytest.mark.proves("PG-46")
@pytest.mark.proves("PG-57")
@pytest.mark.proves("PG-28")
@pytest.mark.proves("PG-44")
@pytest.mark.proves("PG-X14")
def test_a_request_that_ends_is_ended_in_all_four_stores_and_its_audit_is_in_the_audit_bucket() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted(key="k-1")
        told.clock.move(hours=1)  # into the next month
        await told.settle()
        request = await told.request(pagw_id)
        assert (request.status, request.stage, request.decision) == (
            Status.COMPLETED,
            Stage.done,
            "approved",
        )
        assert request.completed_at is not None

        answer = await told.stores.run(files.response(request.created_at, pagw_id))
        assert request.s3_response_key == fhir_response.build_key(
            created_at=request.created_at, pagw_id=pagw_id
        )
        assert request.s3_response_key.startswith(f"202611/{pagw_id}/"), (
            "by its month, though it ended in December"
        )

        record = await told.stores.run(submission(build_idempotency_key("acme", "k-1")))
        assert record is not None and record.expires_at is not None
        assert record.response_hash == hashlib.sha256(answer.body).hexdigest()
        assert record.response_key == request.s3_response_key and record.status_code == 202
        assert record.expires_at.timestamp() == pytest.approx(told.clock.now() + 48 * 3600, abs=1)

        audit = told.rows(
            "SELECT event_subtype, service_name, timestamp, event_uuid FROM pagw.audit_log WHERE pagw_id = %s ORDER BY id",
            pagw_id,
        )
        assert [each[0] for each in audit] == [
            "VALIDATED", "ENRICHED", "ATTACHMENTS_PROCESSED", "CONVERTED", "SUBMITTED", "RESPONSE_BUILT",
            "CALLBACK_SENT", "COMPLETED",
        ]  # fmt: skip
        for subtype, service, at, uuid in audit:
            kept = await told.stores.run(
                audit_event.get(created_at=at, service=service, pagw_id=pagw_id, uuid=uuid)
            )
            assert kept.info.key == f"{at:%Y%m}/{at:%Y%m%d}/{service}/{at:%H}/{pagw_id}_{uuid}.json"
            assert json.loads(kept.body)["event_subtype"] == subtype

        queues = told.rows(
            "SELECT queue_name FROM pagw.outbox WHERE aggregate = %s AND queue_name <> 'pagw-audit-queue' ORDER BY id",
            pagw_id,
        )
        document = (
            "request-enricher", "attachment-handler", "request-converter", "api-connector", "response-builder",
            "callback-handler", "subscription-handler",
        )  # fmt: skip
        assert [each[0] for each in queues] == [f"pagw-{stage}-queue" for stage in document]
        assert [queue.name for queue in QUEUES.values()] == [f"pagw-{stage}-queue" for stage in document]
        assert [each[1] for each in audit[1:]] == [f"pas{stage.replace('-', '')}" for stage in document]

    play(story)


@pytest.mark.proves("PG-52")
@pytest.mark.proves("PG-X25")
def test_the_documents_queries_count_what_is_done_and_the_corrected_ones_do_not() -> None:
    async def story(told: Play) -> None:
        for _ in range(2):
            await told.accepted()
        told.clock.move(seconds=40)
        await told.settle()
        pended = await told.accepted(items=(PENDED_APPROVED,))
        await told.settle()
        waiting = await told.accepted()
        operator = told.operator

        by_status = {each.status: each.count for each in await operator.run(monitoring.requests_by_status())}
        assert by_status == {"COMPLETED": 2, "PENDED": 1, "VALIDATED": 1}
        assert (await operator.run(monitoring.requests_by_status()))[0].status == "COMPLETED", "most first"
        active = {each.status: each.count for each in await operator.run(monitoring.active_by_status())}
        assert active == {"PENDED": 1, "VALIDATED": 1}

        pending = await operator.run(monitoring.outbox_pending())
        told.change("UPDATE pagw.outbox SET dead_at = created_at WHERE aggregate = %s", waiting)
        again = await operator.run(monitoring.outbox_pending())
        assert pending is not None and pending == again and pending.count == 2
        standing = await monitoring.get_status(operator, 30)
        assert (standing.outbox_waiting, standing.outbox_dead) == (0, 2)

        average = await operator.run(monitoring.average_seconds())
        assert average is not None and average.seconds == pytest.approx(40, abs=1.5)
        told.clock.move(hours=2)
        await call_back(told, pended)
        await told.settle()
        slow = await operator.run(monitoring.average_seconds())
        spread = await monitoring.get_status(operator, 30)
        assert slow is not None and slow.seconds is not None and slow.seconds > 2000
        assert spread.median_s == pytest.approx(40, abs=1.5), "waiting for a payer is not ours"

    play(story)


def test_finds_what_is_stuck_and_not_what_waits_for_its_payer() -> None:
    async def story(told: Play) -> None:
        pended = await told.accepted(items=(PENDED_APPROVED,))
        await told.settle()
        stuck = await told.accepted()
        await told.settle(until=Stage.request_converter)
        await told.lose(Stage.request_converter)
        told.clock.move(minutes=31)
        await told.settle()
        standing = await monitoring.get_status(told.operator, 30)
        assert (standing.stuck, standing.overdue) == (1, 0)
        since = (await told.request(stuck)).updated_at + timedelta(seconds=1)
        found = await told.operator.run(monitoring.stuck_since(since))
        assert [each.pagw_id for each in found] == [stuck]

        # Its payer is asked, and has not decided.
        assert await request_replay.replay(told.operator, pended, ANN) is Stage.api_connector
        await told.settle()
        assert (await told.request(pended)).status is Status.PENDED
        assert await request_replay.replay(told.operator, stuck, ANN) is Stage.request_converter
        assert await request_replay.replay(told.operator, stuck, ANN) is Stage.request_converter
        await told.settle()
        assert (await told.request(stuck)).status is Status.COMPLETED
        assert len([each for each in told.payer.ledger if each.get("reference") == stuck]) == 1
        with pytest.raises(InvalidRequest, match="COMPLETED"):
            await request_replay.replay(told.operator, stuck, ANN)
        with pytest.raises(NotFound):
            await request_replay.replay(told.operator, "PAGW-01JBEXAMPLE000000000000000", ANN)
        replays = told.rows(
            "SELECT actor_id, pagw_id FROM pagw.audit_log WHERE event_type = 'REPLAY' ORDER BY id"
        )
        assert replays == [("ann", pended), ("ann", stuck), ("ann", stuck)]

    play(story)


def test_a_pended_request_whose_callback_was_lost_goes_on_by_the_one_that_was_kept() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted(items=(PENDED_APPROVED,))
        await told.settle()
        await call_back(told, pagw_id)
        await told.lose(Stage.callback_handler)
        await told.settle()
        assert (await told.request(pagw_id)).status is Status.PENDED
        assert await request_replay.replay(told.operator, pagw_id, ANN) is Stage.callback_handler
        await told.settle()
        request = await told.request(pagw_id)
        assert (request.status, request.decision) == (Status.COMPLETED, "approved")
        assert request.metadata["callback"] == "001"

    play(story)


def test_a_failed_request_goes_on_from_where_it_failed_when_the_reason_is_gone() -> None:
    async def story(told: Play) -> None:
        payer = await get_payer(told.stores, DEFAULT_PAYER)
        assert payer is not None
        pagw_id = await told.accepted()
        await register_payer(told.operator, payer.model_copy(update={"format": "x12-278"}), ANN)
        await told.settle()
        failed = await told.request(pagw_id)
        assert (failed.status, failed.error_code) == (Status.FAILED, "FORMAT_NOT_BUILT")
        assert failed.metadata["failedAt"] == Status.ATTACHMENTS_PROCESSED

        # At once: the cache has forgotten the payer as it was.
        await register_payer(told.operator, payer, ANN)
        assert await request_replay.replay(told.operator, pagw_id, ANN) is Stage.request_converter
        again = await told.request(pagw_id)
        assert (again.status, again.completed_at, again.error_code) == (
            Status.ATTACHMENTS_PROCESSED,
            None,
            None,
        )
        await told.settle()
        assert (await told.request(pagw_id)).status is Status.COMPLETED

    play(story)


def test_a_request_that_its_payer_refused_for_good_is_asked_for_again_by_a_replay() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted()
        desk = told.payer.state
        desk.act(
            AuthorizationRequest(reference=pagw_id, kind="submit", items=[RequestedItem(sequence=1)]),
            {"other": True},
            "",
            0.0,
        )
        await told.settle()
        failed = await told.request(pagw_id)
        assert failed.status is Status.FAILED and failed.metadata["failedAt"] == Status.CONVERTED
        desk.authorizations.pop(pagw_id)  # somebody at the payer has taken it back
        assert await request_replay.replay(told.operator, pagw_id, ANN) is Stage.api_connector
        await told.settle()
        assert (await told.request(pagw_id)).status is Status.COMPLETED

    play(story)


def test_reports_a_year_of_decisions_by_urgency_with_shares_and_times() -> None:
    async def story(told: Play) -> None:
        for code, urgency in ((DENIED, "standard"), (MODIFIED, "standard"), ("99213", "standard")):
            await told.accepted(items=(code,), urgency=urgency)
        await told.accepted(urgency="expedited")
        await told.settle()
        late = await told.accepted(items=(PENDED_APPROVED,), urgency="expedited")
        await told.settle()
        told.clock.move(hours=72, minutes=30)
        overdue = await told.operator.run(monitoring.due_before(told.now))
        assert [each.pagw_id for each in overdue] == [late]
        assert (await monitoring.get_status(told.operator, 30)).overdue == 1
        await call_back(told, late)
        await told.settle()

        report = await build_annual_report(told.operator, 2026)
        standard, expedited = report.standard, report.expedited
        assert report.not_known_here
        assert (standard.decided, standard.approved, standard.modified, standard.denied) == (3, 1, 1, 1)
        assert (standard.approved_percent, standard.denied_percent) == (66.7, 33.3)
        assert (standard.limit_hours, expedited.limit_hours) == (168, 72)
        assert (expedited.decided, expedited.approved, expedited.decided_in_time) == (2, 2, 1)
        assert expedited.average_hours == pytest.approx(36.25, abs=0.01)
        assert expedited.median_hours == pytest.approx(36.25, abs=0.01)
        assert (await build_annual_report(told.operator, 2025)).standard.decided == 0
        assert (await build_annual_report(told.operator, 2026, "OTHER")).expedited.decided == 0
        lines = format_report(report)
        assert "standard requests: 3" in lines and "  within 72 h: 1 of 2" in lines
        with pytest.raises(InvalidRequest, match="Invalid year"):
            await build_annual_report(told.operator, 12)

    play(story)


def test_every_stage_has_the_queue_of_its_name() -> None:
    for stage, queue in STAGE_QUEUES.items():
        assert queue.queue.name == f"pagw-{stage}-queue"
        assert queue.queue.fifo
