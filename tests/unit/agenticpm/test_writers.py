"""Who writes an artefact: the model while the day's budget lasts, the rules where there is none or it is spent."""

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
from tests.unit.agenticpm.loop_play import Play, played


@dataclass
class Priced:
    """Writes as the rules do, and wants money for it."""

    usd: Decimal = Decimal("0.10")
    name: str = "priced"
    wrote: list[str] = field(default_factory=list)

    async def write(self, writing: Writing) -> Draft:
        self.wrote.append(writing.type)
        draft = await RulesWriter().write(writing)
        return draft.model_copy(update={"usd": self.usd, "writer": self.name})


def test_the_price_of_a_draft_is_on_the_days_bill_and_the_ladder_goes_down_to_rules() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        model, stores = Priced(), play.stores.for_component("loop")
        loop = Loop(stores, play.parties, Writers(stores, model))
        play.tracker.block("MCU-1")
        await play.cycle(loop)
        # Three drafts of 10 cents reach four fifths of 33 cents: the fourth is no delivery state, and by rules.
        assert len(model.wrote) == 3
        state = await budget.load_state(stores, await agent_settings.load(stores))
        assert (state.spent, state.level) == (Decimal("0.30"), BudgetLevel.reduced)
        play.tracker.block("MCU-2")
        await play.cycle(loop)
        assert model.wrote[3:] == [ArtefactType.delivery_state]
        play.tracker.block("MCU-3")
        cycle = await play.cycle(loop)
        assert len(model.wrote) == 4 and cycle.artefacts
        whys = [(each.detail or {})["why"] for each in await play.events(project, "artefact_updated")]
        assert {"written by priced", "written by rules"} == set(whys)
        reached = [each.event_type for each in await stores.all(patterns.recent_events())]
        assert reached.count("budget_reached") == 1

    played(story)


def test_what_costs_nothing_writes_no_bill() -> None:
    async def story(play: Play) -> None:
        await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        assert ("AGENT", "CONFIG#spend") not in await play.items()

    played(story)


def test_with_the_setting_rules_there_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(play: Play) -> None:
        monkeypatch.setenv("HOLDFAST_REASONER", "rules")
        async with open_writers(play.stores) as writers:
            assert writers.claude is None

    played(story)


@dataclass
class Nonsense:
    name: str = "nonsense"

    async def write(self, writing: Writing) -> Draft:
        return Draft(content={"overall_status": "purple"}, writer=self.name)


def test_what_a_writer_makes_up_is_not_stored_and_told_as_an_error() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.put("MCU-1")
        cycle = await play.cycle(play.loop(rules=Nonsense()))
        assert cycle.errors == ["artefacts"]
        assert len(await play.stores.all(patterns.artefacts(project.id))) == 0
        (error,) = await play.events(project, "error")
        assert (error.detail or {})["part"] == "artefacts"
        assert (await play.cycle()).errors == []
        assert len(await play.stores.all(patterns.artefacts(project.id))) == 4

    played(story)


def test_a_model_is_one_for_the_process_so_that_it_remembers_what_it_was_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(play: Play) -> None:
        monkeypatch.setenv("HOLDFAST_REASONER", "claude")
        monkeypatch.setenv("HOLDFAST_REASONER_URL", "http://127.0.0.1:9")
        async with open_writers(play.stores) as first, open_writers(play.stores) as second:
            assert isinstance(first.claude, ClaudeWriter)
            assert first.claude is second.claude

    played(story)
