"""A payer's decision after the first is kept, audited, shown and announced, whatever it says."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED
from pagw.domain.statuses import Stage, Status
from pagw.model import decision_patterns, files
from pagw.model.audit import Actor
from pagw.model.entities import StageMessage
from pagw.workers.responses import ResponseReader
from tests.systems.pagw.acceptance.test_exceptional_flows import (
    list_deliveries,
    receive_once,
    request_callback,
    settle_and_get_end,
    subscribe,
)
from tests.systems.pagw.acceptance.test_pas_payer import build_bundle, list_acted, notify, run_pas_scenario
from tests.systems.pagw.acceptance.test_pas_payer import submit as submit_to_pas
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario

ANN = Actor("user", "ann")
DENIAL: dict[str, Any] = {"reason": "The plan ended.", "reason_code": "0V"}


async def list_decisions(pipeline: Pipeline, pagw_id: str) -> list[tuple[int, str, str, bool]]:
    """Return number, source, outcome and contradiction of each decision in the history."""
    found = await pipeline.stores.run(decision_patterns.decisions_of("acme", pagw_id))
    return [(each.number, each.source, each.outcome, each.contradicts) for each in found]


async def read_outcome(pipeline: Pipeline, pagw_id: str, *, inquiry: bool = False) -> str:
    """Return the review action of the response's first item, as the provider reads it."""
    reader = ResponseReader(pipeline.stores.for_component("api"))
    answer = await reader.read_response(await pipeline.request(pagw_id), ANN, inquiry=inquiry)
    adjudication = answer["entry"][0]["resource"]["item"][0]["adjudication"][0]
    codes = [each for each in adjudication["extension"][0]["extension"] if "reviewActionCode" in each["url"]]
    return str(codes[0]["valueCodeableConcept"]["coding"][0]["code"])


async def test_opposite_decision_is_kept_audited_shown_and_announced() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await subscribe(pipeline, "sub-1")
        pagw_id = await pipeline.submit(items=(PENDED_APPROVED,))
        request_callback(pipeline, pagw_id)
        await pipeline.settle()
        await pipeline.call_back(pagw_id, "approved", authorization_number="AUTH1")
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        decided_at = (await pipeline.request(pagw_id)).decided_at
        pipeline.clock.advance(days=1)
        await pipeline.call_back(pagw_id, "denied", **DENIAL)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "denied")

        request = await pipeline.request(pagw_id)
        assert request.decided_at == decided_at, "the first decision stopped the clock"
        assert request.metadata["contradicted"] == "002"
        folder = f"{request.created_at:%Y%m}/{pagw_id}/response"
        assert request.s3_response_key == f"{folder}/fhir_claim_response_002.json"
        assert await list_decisions(pipeline, pagw_id) == [
            (1, "001", "approved", False),
            (2, "002", "denied", True),
        ]
        assert await read_outcome(pipeline, pagw_id) == "A3"
        assert await read_outcome(pipeline, pagw_id, inquiry=True) == "A3"
        first = await pipeline.stores.run(files.response(request.created_at, pagw_id))
        assert b'"A1"' in first.body, "the first response stays"
        assert list_deliveries(pipeline) == {
            "callback": (1, "COMPLETED"),
            "sub-1": (1, "COMPLETED"),
            "callback-002": (1, "COMPLETED"),
            "sub-1#d-002": (2, "COMPLETED"),
        }
        events = pipeline.rows(
            "SELECT event_subtype, resource_id, details ->> 'before', details ->> 'contradicts' "
            "FROM pagw.audit_log WHERE event_type = 'DECISION'"
        )
        assert events == [("denied", "002", "approved", "true")]

    await run_scenario(scenario)


async def test_each_notification_has_the_decision_that_it_announces() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        from pagw.workers.webhook_sender import restore_announced_state

        await subscribe(pipeline, "sub-1")
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        await pipeline.call_back(pagw_id, "denied", **DENIAL)
        await pipeline.call_back(pagw_id, "approved", authorization_number="AUTH2")
        await pipeline.settle()
        request = await pipeline.request(pagw_id)
        from pagw.model import delivery_patterns

        rows = await pipeline.stores.run(delivery_patterns.deliveries_of("acme", pagw_id))
        reader = ResponseReader(pipeline.stores.for_component("api"))
        seen = {}
        for row in rows:
            answer = await reader.read_response(restore_announced_state(row, request), ANN)
            seen[row.event_number] = '"A3"' in json.dumps(answer)
        assert seen == {1: False, 2: True, 3: False}
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")

    await run_scenario(scenario)


async def test_decision_that_says_the_same_again_changes_nothing() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await subscribe(pipeline, "sub-1")
        pagw_id = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle()
        await pipeline.call_back(pagw_id, "approved", authorization_number="AUTH1")
        await pipeline.settle()
        pipeline.clock.advance(hours=1)
        await pipeline.call_back(pagw_id, "approved", authorization_number="AUTH1")
        await pipeline.settle()
        assert list(list_deliveries(pipeline)) == ["sub-1"]
        assert len(await list_decisions(pipeline, pagw_id)) == 1
        assert set((await pipeline.request(pagw_id)).metadata["callbacks"]) == {"001", "002"}
        pipeline.clock.advance(hours=1)
        await pipeline.call_back(pagw_id, "approved", authorization_number="AUTH2")
        await pipeline.settle()
        assert list(list_deliveries(pipeline)) == ["sub-1", "sub-1#d-003"]
        assert (await list_decisions(pipeline, pagw_id))[1] == (2, "003", "approved", False)

    await run_scenario(scenario)


@pytest.mark.parametrize(
    "stage", [Stage.response_builder, Stage.callback_handler, Stage.subscription_handler]
)
async def test_decision_that_overtakes_the_first_is_announced_after_it(stage: Stage) -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await subscribe(pipeline, "sub-1")
        pagw_id = await pipeline.submit()
        # The first decision is still on its way when the second arrives, whose own message is lost.
        await pipeline.settle(until=stage)
        await pipeline.call_back(pagw_id, "denied", **DENIAL)
        if stage is not Stage.subscription_handler:
            handler = pipeline.handlers[Stage.callback_handler]
            message = StageMessage(
                pagw_id=pagw_id,
                tenant="acme",
                stage=Stage.callback_handler,
                occasion="payer-001",
                callback_key="001",
            )
            await handler.handle(receive_once(message))
        assert await settle_until_decided(pipeline, pagw_id) == (Status.COMPLETED, "denied")
        assert list_deliveries(pipeline) == {"sub-1": (1, "COMPLETED"), "sub-1#d-001": (2, "COMPLETED")}
        assert await list_decisions(pipeline, pagw_id) == [
            (1, "answer", "approved", False),
            (2, "001", "denied", True),
        ]

    await run_scenario(scenario)


async def settle_until_decided(pipeline: Pipeline, pagw_id: str) -> tuple[Status, str | None]:
    """Run the stages, again after a pause if one asks for it, and return status and decision."""
    from holdfast.core.errors import RetryLater

    for _ in range(3):
        try:
            return await settle_and_get_end(pipeline, pagw_id)
        except RetryLater:
            # The callback waits until the first decision is announced.
            await pipeline.drain(Stage.subscription_handler)
            pipeline.clock.advance(minutes=2)
    raise AssertionError("the stages do not settle")


async def test_decision_after_a_cancellation_is_kept_and_announced() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await subscribe(pipeline, "sub-1")
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        pipeline.execute(
            "UPDATE pagw.request_tracker SET status = 'CANCELLED', completed_at = %s WHERE pagw_id = %s",
            pipeline.now,
            pagw_id,
        )
        await pipeline.call_back(pagw_id, "denied", **DENIAL)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.CANCELLED, "denied")
        assert list_deliveries(pipeline)["sub-1#d-001"] == (2, "CANCELLED")
        assert await read_outcome(pipeline, pagw_id, inquiry=True) == "A3"

    await run_scenario(scenario)


async def test_older_or_undecided_callback_does_not_replace_the_decision() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await subscribe(pipeline, "sub-1")
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        await pipeline.call_back(pagw_id, "pended", "pended")
        await pipeline.settle()
        assert await list_decisions(pipeline, pagw_id) == [
            (1, "answer", "approved", False),
            (2, "001", "pended", False),
        ]
        assert (await pipeline.request(pagw_id)).decision == "approved"
        assert list(list_deliveries(pipeline)) == ["sub-1"]

    await run_scenario(scenario)


async def test_refused_request_that_its_payer_decides_all_the_same_is_resumed() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle(until=Stage.api_connector)
        await pipeline.lose_messages(Stage.api_connector)
        pipeline.execute(
            "UPDATE pagw.request_tracker SET status = 'FAILED', error_code = 'x', completed_at = %s, "
            "metadata = metadata || jsonb_build_object('failedAt', 'CONVERTED') WHERE pagw_id = %s",
            pipeline.now,
            pagw_id,
        )
        await pipeline.call_back(pagw_id, "denied", **DENIAL)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "denied")

    await run_scenario(scenario)


async def test_payer_of_the_other_format_revises_its_decision_too() -> None:
    async def scenario(pipeline: Pipeline, sandbox: Any) -> None:
        await subscribe(pipeline, "sub-1")
        pagw_id = await submit_to_pas(pipeline, build_bundle("P-1"))
        sandbox.state.revise(pagw_id)
        assert await notify(pipeline, sandbox, pagw_id) == [pagw_id]
        request = await pipeline.request(pagw_id)
        assert (request.status, request.decision) == (Status.COMPLETED, "denied")
        assert await list_decisions(pipeline, pagw_id) == [
            (1, "answer", "approved", False),
            (2, "001", "denied", True),
        ]
        found = sandbox.state.find(pagw_id)
        later = await pipeline.stores.run(files.later_response(request.created_at, pagw_id, "001"))
        from pagw.domain.fhir.exact_json import dump_exact

        assert later.body == dump_exact(found.build_response(with_traces=True))
        # The same decision in a new Bundle is a repeat.
        pipeline.clock.advance(hours=1)
        found.revision += 1
        await notify(pipeline, sandbox, pagw_id)
        assert len(await list_decisions(pipeline, pagw_id)) == 2
        assert list_acted(sandbox) == [pagw_id]

    await run_pas_scenario(scenario)


async def test_history_only_grows() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        for change in (
            "UPDATE pagw.decisions SET outcome = 'denied'",
            "DELETE FROM pagw.decisions",
        ):
            with pytest.raises(psycopg.Error, match="decisions only grow"):
                pipeline.execute(change)
        pipeline.execute("DELETE FROM pagw.request_tracker WHERE pagw_id = %s", pagw_id)
        assert pipeline.rows("SELECT count(*) FROM pagw.decisions") == [(0,)]

    await run_scenario(scenario)
