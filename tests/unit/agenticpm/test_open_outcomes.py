"""What people are told of an action whose outcome is open: the truth, in `why` and where the action is shown."""

from __future__ import annotations

from agenticpm.api import explain
from agenticpm.api.serializers import to_json
from holdfast.core.errors import ExternalServiceFailed
from tests.unit.agenticpm.loop_play import Play, played

HOLD_S = 30 * 60.0


def test_an_action_whose_outcome_is_open_is_told_with_its_attempts_its_error_and_when_it_is_looked_up() -> (
    None
):
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        play.clock.advance(HOLD_S)
        play.tracker.lost = ExternalServiceFailed("The answer was nonsense.", may_be_done=True)
        await play.execute()
        (action,) = await play.actions(project)
        told = (await explain.explain(play.stores, f"{project.id}/{action.id}")).lines[-1]
        assert "may have been executed since 2026-02-03 21:50:00 UTC (1 attempt" in told
        assert "it is looked up before it is retried, at 2026-02-03 21:50:20 UTC" in told
        page = to_json(action)
        assert (page["attempts"], page["outcome"]) == (1, told)

        play.tracker.lost = None
        play.clock.advance(120)
        await play.execute()
        (done,) = await play.actions(project)
        assert to_json(done)["outcome"] == "Done at 2026-02-03 21:52:00 UTC."
        assert len(play.tracker.ledger) == 1

    played(story)


def test_an_action_that_came_to_nothing_for_now_is_told_as_tried_and_to_be_tried_again() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        play.clock.advance(HOLD_S)
        play.tracker.fails = ExternalServiceFailed("Nobody answers there.", may_be_done=False)
        await play.execute()
        (action,) = await play.actions(project)
        told = to_json(action)["outcome"]
        assert told.startswith("It is not done yet (1 attempt") and "it is retried" in told

    played(story)
