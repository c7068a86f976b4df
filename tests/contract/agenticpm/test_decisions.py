"""Escalations on every engine: decided once, with the decision log, by index; lapsed; replaced."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.artefacts import load_content
from agenticpm.model.entities import Escalation, EscalationStatus
from agenticpm.model.escalations import decide, expire_due, list_of_project
from agenticpm.model.events import get_now
from holdfast import Stores
from holdfast.core.errors import Conflict
from tests.contract.agenticpm.conftest import Played
from tests.unit.agenticpm.sample_contents import PROJECT, HandClock
from tests.unit.agenticpm.sample_questions import ask


async def in_status(stores: Stores, status: EscalationStatus) -> list[Escalation]:
    return list((await stores.all(patterns.escalations_in(status))).items)


async def decided(stores: Stores) -> list[tuple[str, str]]:
    """The number and the title of each line of the decision log."""
    log = await stores.run(patterns.artefact(PROJECT, ArtefactType.decision_log))
    content = {"decisions": []} if log is None else await load_content(stores, log)
    return [(each["id"], each["title"]) for each in content["decisions"]]


@pytest.mark.proves("AP-20")
@pytest.mark.proves("AP-21")
@pytest.mark.proves("AP-X12")
def test_a_decision_moves_the_index_and_stands_in_the_log(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        assert await in_status(stores, EscalationStatus.pending) == [asked]
        clock.seconds += 60
        ended = await decide(stores, PROJECT, asked.id, "Rush", "we can staff it")
        assert await in_status(stores, EscalationStatus.pending) == []
        assert await in_status(stores, EscalationStatus.decided) == [ended]
        assert ended.to_item()["GSI1SK"] == asked.to_item()["GSI1SK"]
        assert await decided(stores) == [("D001", asked.title)]
        with pytest.raises(Conflict, match="is decided and cannot be decided"):
            await decide(stores, PROJECT, asked.id, "Delay")

    played(story)


@pytest.mark.proves("AP-21")
def test_of_two_deciders_at_once_one_decides(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        told = await asyncio.gather(
            *(decide(stores, PROJECT, asked.id, each) for each in ("Rush", "Delay")), return_exceptions=True
        )
        assert len([each for each in told if isinstance(each, Escalation)]) == 1
        assert len([each for each in told if isinstance(each, Conflict)]) == 1
        assert len(await decided(stores)) == 1

    played(story)


def test_decisions_on_several_questions_at_once_all_reach_the_log(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        questions = [await ask(stores, title=f"Question {each}") for each in range(3)]
        await asyncio.gather(*(decide(stores, PROJECT, each.id, "Delay") for each in questions))
        made = await decided(stores)
        assert [id for id, _ in made] == ["D001", "D002", "D003"]
        assert {title for _, title in made} == {each.title for each in questions}

    played(story)


def test_a_decision_is_tried_anew_where_another_wrote_the_log_meanwhile(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        first, second = await ask(stores, title="First"), await ask(stores, title="Second")
        transact = stores.transact

        async def overtaken(*writes: Any, token: str | None = None) -> None:
            monkeypatch.setattr(stores, "transact", transact)
            await decide(stores, PROJECT, second.id, "Rush")
            await transact(*writes, token=token)

        monkeypatch.setattr(stores, "transact", overtaken)
        await decide(stores, PROJECT, first.id, "Delay")
        assert await decided(stores) == [("D001", "Second"), ("D002", "First")]
        assert await in_status(stores, EscalationStatus.pending) == []

    played(story)


def test_a_question_lapses_or_is_replaced(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        lapses = await ask(stores, expires_at=get_now(clock) + timedelta(hours=1))
        clock.seconds += 1
        replaced = await ask(stores, subject="beta")
        clock.seconds += 1
        asked = await ask(stores, subject="beta")
        clock.seconds += 3600
        assert await expire_due(stores) == 1
        assert [(each.id, each.status.value) for each in await list_of_project(stores, PROJECT)] == [
            (lapses.id, "expired"),
            (replaced.id, "superseded"),
            (asked.id, "pending"),
        ]
        for each in (lapses, replaced):
            with pytest.raises(Conflict, match="cannot be decided"):
                await decide(stores, PROJECT, each.id, "Delay")

    played(story)
