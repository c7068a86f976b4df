"""Tests of the choice of the writer on the loop harness: the model while the budget lasts, else the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Draft, Writing
from agenticpm.domain.writers.rules import RulesWriter
from agenticpm.integrations.claude.writer import ClaudeWriter
from agenticpm.model import agent_settings, budget, patterns
from agenticpm.model.budget import BudgetLevel
from agenticpm.workers.loop import Loop
from agenticpm.workers.writers import Writers, open_writers
from tests.systems.agenticpm.unit.workers.loop_harness import Harness


@dataclass
class PaidWriter:
    """A writer that writes like the rules, and costs money."""

    usd: Decimal = Decimal("0.10")
    name: str = "priced"
    wrote: list[str] = field(default_factory=list)

    async def write(self, writing: Writing) -> Draft:
        self.wrote.append(writing.type)
        draft = await RulesWriter().write(writing)
        return draft.model_copy(update={"usd": self.usd, "writer": self.name})


async def test_charges_a_draft_to_the_daily_budget_and_degrades_to_rules(harness: Harness) -> None:
    """First all artefacts by the model, then only the delivery state, then none."""
    project = await harness.create_project()
    model, stores = PaidWriter(), harness.stores.for_component("loop")
    loop = Loop(stores, harness.clients, Writers(stores, model))
    harness.tracker.block("MCU-1")
    await harness.run_cycle(loop)
    # Three drafts of 10 cents reach four fifths of 33 cents: the fourth is not a delivery state, so rules
    # write it.
    assert len(model.wrote) == 3
    state = await budget.load_state(stores, await agent_settings.load(stores))
    assert (state.spent, state.level) == (Decimal("0.30"), BudgetLevel.reduced)
    harness.tracker.block("MCU-2")
    await harness.run_cycle(loop)
    assert model.wrote[3:] == [ArtefactType.delivery_state]
    harness.tracker.block("MCU-3")
    cycle = await harness.run_cycle(loop)
    assert len(model.wrote) == 4 and cycle.artefacts
    whys = [(each.detail or {})["why"] for each in await harness.events(project, "artefact_updated")]
    assert {"written by priced", "written by rules"} == set(whys)
    reached = [each.event_type for each in await stores.all(patterns.recent_events())]
    assert reached.count("budget_reached") == 1


async def test_free_draft_writes_no_charge(harness: Harness) -> None:
    await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    assert ("AGENT", "CONFIG#spend") not in await harness.items()


async def test_setting_rules_uses_no_model(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_REASONER", "rules")
    async with open_writers(harness.stores) as writers:
        assert writers.claude is None


@dataclass
class InvalidWriter:
    """A writer whose draft does not fit any schema."""

    name: str = "nonsense"

    async def write(self, writing: Writing) -> Draft:
        return Draft(content={"overall_status": "purple"}, writer=self.name)


async def test_invalid_draft_is_not_stored_and_recorded_as_an_error(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.put("MCU-1")
    cycle = await harness.run_cycle(harness.make_loop(rules=InvalidWriter()))
    assert cycle.errors == ["artefacts"]
    assert len(await harness.stores.all(patterns.artefacts(project.id))) == 0
    (error,) = await harness.events(project, "error")
    assert (error.detail or {})["part"] == "artefacts"
    assert (await harness.run_cycle()).errors == []
    assert len(await harness.stores.all(patterns.artefacts(project.id))) == 4


async def test_claude_writer_is_shared_by_the_process(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_REASONER", "claude")
    monkeypatch.setenv("HOLDFAST_REASONER_URL", "http://127.0.0.1:9")
    async with open_writers(harness.stores) as first, open_writers(harness.stores) as second:
        assert isinstance(first.claude, ClaudeWriter)
        assert first.claude is second.claude
