"""Operation of requests, on the step-by-step pipeline: monitoring, replay, report, completion."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, MODIFIED, PENDED_APPROVED, RequestedItem
from holdfast_demo.pagw.sandbox.payer_state import AuthorizationRequest
from pagw.domain.statuses import Stage, Status
from pagw.model import files
from pagw.model.audit import Actor
from pagw.model.entities import QUEUES, audit_event, fhir_response
from pagw.model.patterns import submission
from pagw.model.registries import get_payer
from pagw.ops import monitoring, request_replay
from pagw.ops.annual_report import build_annual_report, format_report
from pagw.ops.registry import register_payer
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario
from tests.systems.pagw.documented_order import AUDITED_BEFORE_THE_PAYER, STAGES, STATUSES_AFTER_THE_PAYER
from tests.systems.pagw.idempotency_keys import build_idempotency_key

ANN = Actor("user", "ann")


async def call_back(pipeline: Pipeline, pagw_id: str) -> None:
    """Make the payer decide and deliver its callback."""
    decided = pipeline.payer.state.decide(pagw_id)
    assert decided is not None
    await pipeline.send_callback(decided.to_json())


@pytest.mark.proves("PG-46", "PG-57", "PG-28", "PG-44", "PG-X14")
async def test_finished_request_is_complete_in_all_stores_and_its_audit_archived() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit(key="k-1")
        pipeline.clock.advance(hours=1)  # December
        await pipeline.settle()
        request = await pipeline.request(pagw_id)
        assert (request.status, request.stage, request.decision) == (
            Status.COMPLETED,
            Stage.done,
            "approved",
        )
        assert request.completed_at is not None

        answer = await pipeline.stores.run(files.response(request.created_at, pagw_id))
        assert request.s3_response_key == fhir_response.build_key(
            created_at=request.created_at, pagw_id=pagw_id
        )
        assert request.s3_response_key.startswith(f"202611/{pagw_id}/"), (
            "the key has the month of creation, although the request ended in December"
        )

        record = await pipeline.stores.run(submission(build_idempotency_key("acme", "k-1")))
        assert record is not None and record.expires_at is not None
        assert record.response_hash == hashlib.sha256(answer.body).hexdigest()
        assert record.response_key == request.s3_response_key and record.status_code == 202
        assert record.expires_at.timestamp() == pytest.approx(pipeline.clock.now() + 48 * 3600, abs=1)

        audit = pipeline.rows(
            "SELECT event_subtype, service_name, timestamp, event_uuid FROM pagw.audit_log WHERE pagw_id = "
            "%s ORDER BY id",
            pagw_id,
        )
        assert tuple(each[0] for each in audit) == AUDITED_BEFORE_THE_PAYER + STATUSES_AFTER_THE_PAYER
        for subtype, service, at, uuid in audit:
            kept = await pipeline.stores.run(
                audit_event.get(created_at=at, service=service, pagw_id=pagw_id, uuid=uuid)
            )
            assert kept.info.key == f"{at:%Y%m}/{at:%Y%m%d}/{service}/{at:%H}/{pagw_id}_{uuid}.json"
            assert json.loads(kept.body)["event_subtype"] == subtype

        queues = pipeline.rows(
            "SELECT queue_name FROM pagw.outbox WHERE aggregate = %s AND queue_name <> 'pagw-audit-queue' "
            "ORDER BY id",
            pagw_id,
        )
        assert [each[0] for each in queues] == [f"pagw-{stage}-queue" for stage in STAGES]
        assert [queue.name for queue in QUEUES.values()] == [f"pagw-{stage}-queue" for stage in STAGES]
        assert [each[1] for each in audit[1:]] == [f"pas{stage.replace('-', '')}" for stage in STAGES]

    await run_scenario(scenario)


@pytest.mark.proves("PG-52", "PG-X25")
async def test_corrected_queries_leave_out_finished_requests() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        for _ in range(2):
            await pipeline.submit()
        pipeline.clock.advance(seconds=40)
        await pipeline.settle()
        pended = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle()
        waiting = await pipeline.submit()
        operator = pipeline.operator

        by_status = {each.status: each.count for each in await operator.run(monitoring.requests_by_status())}
        assert by_status == {"COMPLETED": 2, "PENDED": 1, "VALIDATED": 1}
        assert (await operator.run(monitoring.requests_by_status()))[0].status == "COMPLETED", (
            "the highest count comes first"
        )
        active = {each.status: each.count for each in await operator.run(monitoring.active_by_status())}
        assert active == {"PENDED": 1, "VALIDATED": 1}

        pending = await operator.run(monitoring.outbox_pending())
        pipeline.execute("UPDATE pagw.outbox SET dead_at = created_at WHERE aggregate = %s", waiting)
        again = await operator.run(monitoring.outbox_pending())
        assert pending is not None and pending == again and pending.count == 2
        standing = await monitoring.get_status(operator, 30)
        assert (standing.outbox_waiting, standing.outbox_dead) == (0, 2)

        average = await operator.run(monitoring.average_seconds())
        assert average is not None and average.seconds == pytest.approx(40, abs=1.5)
        pipeline.clock.advance(hours=2)
        await call_back(pipeline, pended)
        await pipeline.settle()
        slow = await operator.run(monitoring.average_seconds())
        spread = await monitoring.get_status(operator, 30)
        assert slow is not None and slow.seconds is not None and slow.seconds > 2000
        assert spread.median_s == pytest.approx(40, abs=1.5), "time spent waiting for a payer does not count"

    await run_scenario(scenario)


async def test_finds_stuck_requests_but_not_those_waiting_for_a_payer() -> None:
    """A replay completes a stuck request once, asks the payer about a pended one, and is audited."""

    async def scenario(pipeline: Pipeline) -> None:
        pended = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle()
        stuck = await pipeline.submit()
        await pipeline.settle(until=Stage.request_converter)
        await pipeline.lose_messages(Stage.request_converter)
        pipeline.clock.advance(minutes=31)
        await pipeline.settle()
        standing = await monitoring.get_status(pipeline.operator, 30)
        assert (standing.stuck, standing.overdue) == (1, 0)
        since = (await pipeline.request(stuck)).updated_at + timedelta(seconds=1)
        found = await pipeline.operator.run(monitoring.stuck_since(since))
        assert [each.pagw_id for each in found] == [stuck]

        # The payer is asked and has not decided yet.
        assert await request_replay.replay(pipeline.operator, pended, ANN) is Stage.api_connector
        await pipeline.settle()
        assert (await pipeline.request(pended)).status is Status.PENDED
        assert await request_replay.replay(pipeline.operator, stuck, ANN) is Stage.request_converter
        assert await request_replay.replay(pipeline.operator, stuck, ANN) is Stage.request_converter
        await pipeline.settle()
        assert (await pipeline.request(stuck)).status is Status.COMPLETED
        assert len([each for each in pipeline.payer.ledger if each.get("reference") == stuck]) == 1
        with pytest.raises(InvalidRequest, match="COMPLETED"):
            await request_replay.replay(pipeline.operator, stuck, ANN)
        with pytest.raises(NotFound):
            await request_replay.replay(pipeline.operator, "PAGW-01JBEXAMPLE000000000000000", ANN)
        replays = pipeline.rows(
            "SELECT actor_id, pagw_id FROM pagw.audit_log WHERE event_type = 'REPLAY' ORDER BY id"
        )
        assert replays == [("ann", pended), ("ann", stuck), ("ann", stuck)]

    await run_scenario(scenario)


async def test_replay_recovers_a_lost_callback_from_its_stored_file() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle()
        await call_back(pipeline, pagw_id)
        await pipeline.lose_messages(Stage.callback_handler)
        await pipeline.settle()
        assert (await pipeline.request(pagw_id)).status is Status.PENDED
        assert await request_replay.replay(pipeline.operator, pagw_id, ANN) is Stage.callback_handler
        await pipeline.settle()
        request = await pipeline.request(pagw_id)
        assert (request.status, request.decision) == (Status.COMPLETED, "approved")
        assert request.metadata["callback"] == "001"

    await run_scenario(scenario)


async def test_replay_resumes_a_failed_request_once_the_cause_is_fixed() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        payer = await get_payer(pipeline.stores, DEFAULT_PAYER)
        assert payer is not None
        pagw_id = await pipeline.submit()
        await register_payer(pipeline.operator, payer.model_copy(update={"format": "x12-278"}), ANN)
        await pipeline.settle()
        failed = await pipeline.request(pagw_id)
        assert (failed.status, failed.error_code) == (Status.FAILED, "FORMAT_NOT_BUILT")
        assert failed.metadata["failedAt"] == Status.ATTACHMENTS_PROCESSED

        # Effective at once: registering a payer removes its cache entry.
        await register_payer(pipeline.operator, payer, ANN)
        assert await request_replay.replay(pipeline.operator, pagw_id, ANN) is Stage.request_converter
        again = await pipeline.request(pagw_id)
        assert (again.status, again.completed_at, again.error_code) == (
            Status.ATTACHMENTS_PROCESSED,
            None,
            None,
        )
        await pipeline.settle()
        assert (await pipeline.request(pagw_id)).status is Status.COMPLETED

    await run_scenario(scenario)


async def test_replay_asks_the_payer_again_after_a_final_refusal() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        desk = pipeline.payer.state
        desk.act(
            AuthorizationRequest(reference=pagw_id, kind="submit", items=[RequestedItem(sequence=1)]),
            {"other": True},
            "",
            0.0,
        )
        await pipeline.settle()
        failed = await pipeline.request(pagw_id)
        assert failed.status is Status.FAILED and failed.metadata["failedAt"] == Status.CONVERTED
        desk.authorizations.pop(pagw_id)  # withdrawn at the payer
        assert await request_replay.replay(pipeline.operator, pagw_id, ANN) is Stage.api_connector
        await pipeline.settle()
        assert (await pipeline.request(pagw_id)).status is Status.COMPLETED

    await run_scenario(scenario)


async def test_reports_yearly_decisions_by_urgency() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        for code, urgency in ((DENIED, "standard"), (MODIFIED, "standard"), ("99213", "standard")):
            await pipeline.submit(items=(code,), urgency=urgency)
        await pipeline.submit(urgency="expedited")
        await pipeline.settle()
        late = await pipeline.submit(items=(PENDED_APPROVED,), urgency="expedited")
        await pipeline.settle()
        pipeline.clock.advance(hours=72, minutes=30)
        overdue = await pipeline.operator.run(monitoring.due_before(pipeline.now))
        assert [each.pagw_id for each in overdue] == [late]
        assert (await monitoring.get_status(pipeline.operator, 30)).overdue == 1
        await call_back(pipeline, late)
        await pipeline.settle()

        report = await build_annual_report(pipeline.operator, 2026)
        standard, expedited = report.standard, report.expedited
        assert report.not_known_here
        assert (standard.decided, standard.approved, standard.modified, standard.denied) == (3, 1, 1, 1)
        assert (standard.approved_percent, standard.denied_percent) == (66.7, 33.3)
        assert (standard.limit_hours, expedited.limit_hours) == (168, 72)
        assert (expedited.decided, expedited.approved, expedited.decided_in_time) == (2, 2, 1)
        assert expedited.average_hours == pytest.approx(36.25, abs=0.01)
        assert expedited.median_hours == pytest.approx(36.25, abs=0.01)
        assert (await build_annual_report(pipeline.operator, 2025)).standard.decided == 0
        assert (await build_annual_report(pipeline.operator, 2026, "OTHER")).expedited.decided == 0
        lines = format_report(report)
        assert "standard requests: 3" in lines and "  within 72 h: 1 of 2" in lines
        with pytest.raises(InvalidRequest, match="Invalid year"):
            await build_annual_report(pipeline.operator, 12)

    await run_scenario(scenario)


def test_every_stage_has_a_queue_of_its_name() -> None:
    for stage, queue in QUEUES.items():
        assert queue.name == f"pagw-{stage}-queue"
        assert queue.fifo
