"""Contract tests of escalations on every table engine: decided once with the log, expired, superseded."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.artefacts import load_content
from agenticpm.model.entities import Escalation, EscalationStatus
from agenticpm.model.events import get_now
from agenticpm.workers.escalations import decide, expire_due, list_of_project
from holdfast import Stores
from holdfast.core.errors import Conflict
from tests.systems.agenticpm.unit.samples import ManualClock
from tests.systems.agenticpm.unit.workers.sample_questions import create_escalation
from tests.systems.agenticpm.unit.writers.sample_contents import PROJECT


async def list_in_status(stores: Stores, status: EscalationStatus) -> list[Escalation]:
    return list((await stores.all(patterns.escalations_in(status))).items)


async def list_decisions(stores: Stores) -> list[tuple[str, str]]:
    """Return the number and the title of each entry of the decision log."""
    log = await stores.run(patterns.artefact(PROJECT, ArtefactType.decision_log))
    content = {"decisions": []} if log is None else await load_content(stores, log)
    return [(each["id"], each["title"]) for each in content["decisions"]]


@pytest.mark.proves("AP-20", "AP-21", "AP-X12")
async def test_decision_changes_the_index_status_and_is_logged_once(
    stores: Stores, clock: ManualClock
) -> None:
    question = await create_escalation(stores)
    assert await list_in_status(stores, EscalationStatus.pending) == [question]
    clock.seconds += 60
    ended = await decide(stores, PROJECT, question.id, "Rush", " we can staff it ")
    assert (ended.user_decision, ended.user_notes) == ("Rush", "we can staff it")
    assert ended.decided_at == get_now(clock)
    assert await list_in_status(stores, EscalationStatus.pending) == []
    assert await list_in_status(stores, EscalationStatus.decided) == [ended]
    assert ended.to_item()["GSI1PK"] == "ESCALATION#decided"
    assert ended.to_item()["GSI1SK"] == question.to_item()["GSI1SK"]
    assert await list_decisions(stores) == [("D001", question.title)]
    with pytest.raises(Conflict, match="is decided and cannot be decided"):
        await decide(stores, PROJECT, question.id, "Delay")


@pytest.mark.proves("AP-21")
async def test_one_of_two_concurrent_deciders_wins(stores: Stores) -> None:
    question = await create_escalation(stores)
    results = await asyncio.gather(
        *(decide(stores, PROJECT, question.id, each) for each in ("Rush", "Delay")), return_exceptions=True
    )
    assert len([each for each in results if isinstance(each, Escalation)]) == 1
    assert len([each for each in results if isinstance(each, Conflict)]) == 1
    assert len(await list_decisions(stores)) == 1


async def test_log_contains_all_concurrent_decisions(stores: Stores) -> None:
    questions = [await create_escalation(stores, title=f"Question {each}") for each in range(3)]
    await asyncio.gather(*(decide(stores, PROJECT, each.id, "Delay") for each in questions))
    made = await list_decisions(stores)
    assert [id for id, _ in made] == ["D001", "D002", "D003"]
    assert {title for _, title in made} == {each.title for each in questions}


async def test_retries_a_decision_when_the_log_changed_in_between(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another decision is committed just before the first transaction; both are in the log."""
    first, second = (
        await create_escalation(stores, title="First"),
        await create_escalation(stores, title="Second"),
    )
    transact = stores.transact

    async def overtaken(*writes: Any, token: str | None = None) -> None:
        monkeypatch.setattr(stores, "transact", transact)
        await decide(stores, PROJECT, second.id, "Rush")
        await transact(*writes, token=token)

    monkeypatch.setattr(stores, "transact", overtaken)
    await decide(stores, PROJECT, first.id, "Delay")
    assert await list_decisions(stores) == [("D001", "Second"), ("D002", "First")]
    assert await list_in_status(stores, EscalationStatus.pending) == []


async def test_expired_or_superseded_escalation_cannot_be_decided(stores: Stores, clock: ManualClock) -> None:
    lapses = await create_escalation(stores, expires_at=get_now(clock) + timedelta(hours=1))
    clock.seconds += 1
    replaced = await create_escalation(stores, subject="beta")
    clock.seconds += 1
    question = await create_escalation(stores, subject="beta")
    clock.seconds += 3600
    assert await expire_due(stores) == 1
    assert [(each.id, each.status.value) for each in await list_of_project(stores, PROJECT)] == [
        (lapses.id, "expired"),
        (replaced.id, "superseded"),
        (question.id, "pending"),
    ]
    for each, why in ((lapses, "is expired"), (replaced, f"it is superseded by {question.id}")):
        with pytest.raises(Conflict, match=f"cannot be decided.*{why}|{why} and cannot be decided"):
            await decide(stores, PROJECT, each.id, "Delay")
