"""How the agent is: before its first turn, at work, and when nobody was there for too long."""

from __future__ import annotations

from agenticpm.api.agent_state import Liveness, load_agent_state
from agenticpm.model import agent_settings, projects
from tests.unit.agenticpm.loop_play import Play, played


def test_before_its_first_turn_the_agent_waits_and_after_three_intervals_it_is_dead() -> None:
    async def story(play: Play) -> None:
        await play.project()
        state = await load_agent_state(play.stores)
        assert state.liveness is Liveness.waiting
        assert "waits for its first turn (since 2026-02-03 21:05 UTC)" in state.says
        play.clock.advance(46 * 60)
        assert (await load_agent_state(play.stores)).liveness is Liveness.dead

    played(story)


def test_a_project_that_came_after_its_end_does_not_bring_a_dead_agent_back() -> None:
    async def story(play: Play) -> None:
        await agent_settings.put(play.stores, "polling_interval_minutes", 1)
        await play.project()
        await play.cycle()
        play.clock.advance(209)
        assert (await load_agent_state(play.stores)).liveness is Liveness.alive
        play.clock.advance(100)
        await projects.create(play.stores, name="New", source="jira", source_project_key="NEW")
        state = await load_agent_state(play.stores)
        assert (state.liveness, state.heartbeat_age_s) == (Liveness.dead, 309)
        assert sorted(each.is_late for each in state.cycles) == [False, True]

    played(story)


def test_where_one_project_alone_is_late_the_agent_is_alive() -> None:
    async def story(play: Play) -> None:
        one = await play.project()
        await play.cycle()
        play.clock.advance(3600)
        await play.project(name="New", source_project_key="NEW")
        await projects.change_status(play.stores, one.id, "paused")
        await play.turn()
        state = await load_agent_state(play.stores)
        assert state.liveness is Liveness.alive and state.heartbeat_age_s == 0

    played(story)
