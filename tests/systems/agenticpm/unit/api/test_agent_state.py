"""Tests of the agent's state on the loop harness: waiting before its first turn, alive, and dead."""

from __future__ import annotations

from agenticpm.api.agent_state import Liveness, load_agent_state
from agenticpm.model import agent_settings, projects
from tests.systems.agenticpm.unit.workers.loop_harness import Harness


async def test_agent_waits_before_its_first_turn_and_is_dead_after_three_intervals(harness: Harness) -> None:
    await harness.create_project()
    state = await load_agent_state(harness.stores)
    assert state.liveness is Liveness.waiting
    assert "waits for its first turn (since 2026-02-03 21:05 UTC)" in state.says
    harness.clock.advance(46 * 60)
    assert (await load_agent_state(harness.stores)).liveness is Liveness.dead


async def test_new_project_does_not_revive_a_dead_agent(harness: Harness) -> None:
    await agent_settings.put(harness.stores, "polling_interval_minutes", 1)
    await harness.create_project()
    await harness.run_cycle()
    harness.clock.advance(209)
    assert (await load_agent_state(harness.stores)).liveness is Liveness.alive
    harness.clock.advance(100)
    await projects.create(harness.stores, name="New", source="jira", source_project_key="NEW")
    state = await load_agent_state(harness.stores)
    assert (state.liveness, state.heartbeat_age_s) == (Liveness.dead, 309)
    assert sorted(each.is_late for each in state.cycles) == [False, True]


async def test_agent_is_alive_after_a_cycle_of_its_only_active_project(harness: Harness) -> None:
    """One project is paused, and a new one has just had its first cycle."""

    one = await harness.create_project()
    await harness.run_cycle()
    harness.clock.advance(3600)
    await harness.create_project(name="New", source_project_key="NEW")
    await projects.change_status(harness.stores, one.id, "paused")
    await harness.run_turn()
    state = await load_agent_state(harness.stores)
    assert state.liveness is Liveness.alive and state.heartbeat_age_s == 0
