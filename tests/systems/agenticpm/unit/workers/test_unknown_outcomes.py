"""Tests of how `why` and the list of actions describe an action that failed or has an unknown outcome."""

from __future__ import annotations

from agenticpm.api import explain
from agenticpm.api.serializers import to_json
from holdfast.core.errors import ExternalServiceFailed
from tests.systems.agenticpm.unit.workers.loop_harness import HOLD_S, Harness


async def test_shows_attempts_error_and_lookup_time_of_an_unknown_outcome(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    harness.clock.advance(HOLD_S)
    harness.tracker.fails_after = ExternalServiceFailed("The answer was nonsense.", may_be_done=True)
    await harness.execute()
    (action,) = await harness.actions(project)
    line = (await explain.explain(harness.stores, f"{project.id}/{action.id}")).lines[-1]
    assert "may have been executed since 2026-02-03 21:50:00 UTC (1 attempt" in line
    assert "it is looked up before it is retried, at 2026-02-03 21:50:21 UTC" in line
    page = to_json(action)
    assert (page["attempts"], page["outcome"]) == (1, line)

    harness.tracker.fails_after = None
    harness.clock.advance(120)
    await harness.execute()
    (done,) = await harness.actions(project)
    assert to_json(done)["outcome"] == "Done at 2026-02-03 21:52:00 UTC."
    assert len(harness.tracker.ledger) == 1


async def test_shows_a_failed_attempt_as_to_be_retried(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    harness.clock.advance(HOLD_S)
    harness.tracker.fails = ExternalServiceFailed("Nobody answers there.", may_be_done=False)
    await harness.execute()
    (action,) = await harness.actions(project)
    outcome = to_json(action)["outcome"]
    assert outcome.startswith("It is not done yet (1 attempt") and "it is retried" in outcome
