"""Tests of escalations on stores in memory: creation, decision with the log, expiry, superseding, lists."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns
from agenticpm.model.entities import Artefact, Escalation, EscalationStatus, Event, ProjectId
from agenticpm.workers.escalations import MAX_ATTEMPTS, build_escalation, decide, expire_due, list_of_project
from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest, NotFound, RetryLater, TransactionCancelled
from tests.systems.agenticpm.unit.samples import NOON, ManualClock
from tests.systems.agenticpm.unit.workers.sample_questions import OPTIONS, create_escalation
from tests.systems.agenticpm.unit.writers.sample_contents import (
    DECISION_LOG,
    PROJECT,
    RAID_LOG,
    sample_project,
)

LOG = ArtefactType.decision_log
OTHER = ProjectId("7f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a12")


@pytest.fixture
async def stores(stores: Stores) -> Stores:
    await stores.run(patterns.create_project(sample_project()))
    return stores


async def reload_escalation(stores: Stores, asked: Escalation) -> Escalation:
    found = await stores.run(patterns.escalation(asked.project_id, asked.id))
    assert found is not None
    return found


async def list_in_status(stores: Stores, status: EscalationStatus) -> list[str]:
    """Return the ids of the escalations of all projects in a status."""
    return [each.id for each in (await stores.all(patterns.escalations_in(status))).items]


async def get_decision_log(stores: Stores) -> Artefact | None:
    return await stores.run(patterns.artefact(PROJECT, LOG))


async def list_decisions(stores: Stores) -> list[dict[str, Any]]:
    """Return the entries of the decision log."""
    log = await get_decision_log(stores)
    return [] if log is None else list((await artefacts.load_content(stores, log))["decisions"])


async def list_events(stores: Stores, type: str) -> list[Event]:
    """Return the project's events of this type, newest first."""
    found = (await stores.all(patterns.project_events(PROJECT))).items
    return [each for each in found if each.event_type == type]


# --- creation -----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-20", "AP-X12")
async def test_stores_an_escalation_as_the_document_defines_it(stores: Stores) -> None:
    question = await create_escalation(stores)
    item = (await reload_escalation(stores, question)).to_item()
    assert item == {
        "PK": f"PROJECT#{PROJECT}",
        "SK": f"ESCALATION#{question.id}",
        "id": question.id,
        "projectId": PROJECT,
        "title": "Beta launch is at risk",
        "context": {"milestone": "Beta launch", "days_late": 21},
        "options": [
            {"option": "Delay", "pros": ["Lower risk"], "cons": ["Four weeks later"]},
            {"option": "Rush", "pros": ["On time"], "cons": ["Quality"]},
        ],
        "agentRecommendation": "Delay",
        "agentRationale": "The vendor migration takes three weeks",
        "status": "pending",
        "createdAt": "2026-02-04T01:00:00.000Z",
        "GSI1PK": "ESCALATION#pending",
        "GSI1SK": f"2026-02-04T01:00:00.000Z#{question.id}",
    }
    (event,) = await list_events(stores, "escalation_created")
    assert event.detail == {"escalationId": question.id, "options": ["Delay", "Rush"]}


@pytest.mark.proves("AP-20", "AP-28")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"title": "  "}, "needs a title"),
        ({"options": []}, "needs options"),
        ({"options": [{"option": " "}]}, "has no name"),
        ({"options": [OPTIONS[0], OPTIONS[0]]}, "unique names"),
        ({"options": [{"option": "Delay", "pros": "Lower risk"}]}, "valid list"),
        ({"options": [{"pros": []}]}, "required"),
        ({"recommendation": "Cancel"}, r"'Cancel' is not one of its options \(Delay, Rush\)"),
        ({"expires_at": NOON}, "expected a future time"),
    ],
)
async def test_rejects_an_invalid_escalation(stores: Stores, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        await create_escalation(stores, **changes)
    assert await list_of_project(stores, PROJECT) == []


@pytest.mark.proves("AP-20")
async def test_new_escalation_supersedes_the_pending_one_on_the_same_subject(stores: Stores) -> None:
    first, other = (
        await create_escalation(stores, subject="beta"),
        await create_escalation(stores, subject="gamma"),
    )
    decided = await create_escalation(stores, subject="delta")
    await decide(stores, PROJECT, decided.id, "Rush")
    second = await create_escalation(stores, subject="beta")
    await create_escalation(stores, subject="delta")
    ended = await reload_escalation(stores, first)
    assert (ended.status, ended.superseded_by) == (EscalationStatus.superseded, second.id)
    assert await list_in_status(stores, EscalationStatus.superseded) == [first.id]
    assert (await reload_escalation(stores, other)).status is EscalationStatus.pending
    assert (await reload_escalation(stores, decided)).status is EscalationStatus.decided
    details = [each.detail for each in await list_events(stores, "escalation_created")]
    assert [each for each in details if each and each.get("supersedes") == [first.id]]


async def test_does_not_supersede_an_escalation_of_another_project(stores: Stores) -> None:
    theirs = await create_escalation(stores, OTHER, subject="beta")
    await create_escalation(stores, subject="beta")
    await create_escalation(stores, subject=None)
    assert (await reload_escalation(stores, theirs)).status is EscalationStatus.pending


async def test_escalation_decided_during_its_replacement_stays_decided(stores: Stores) -> None:
    first = await create_escalation(stores, subject="beta")
    writes = await build_escalation(
        stores, PROJECT, title="Again", context={}, options=OPTIONS, subject="beta"
    )
    await decide(stores, PROJECT, first.id, "Delay")
    with pytest.raises(TransactionCancelled):
        await stores.transact(*writes)
    assert [each.status for each in await list_of_project(stores, PROJECT)] == [EscalationStatus.decided]


# --- decisions ----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-21")
async def test_writes_the_decision_log_in_the_same_transaction(stores: Stores) -> None:
    question = await create_escalation(stores)
    with stores.meter_usage() as meter:
        await decide(stores, PROJECT, question.id, "Rush", "we can staff it", by="Damien")
    writes = [each for each in meter.usages if each.operation == "TransactWriteItems"]
    assert len(writes) == 1
    assert await list_decisions(stores) == [
        {
            "id": "D001",
            "title": "Beta launch is at risk",
            "context": "milestone: Beta launch; days_late: 21",
            "options_considered": [
                {"option": "Delay", "pros": ["Lower risk"], "cons": ["Four weeks later"]},
                {"option": "Rush", "pros": ["On time"], "cons": ["Quality"]},
            ],
            "decision": "Rush",
            "rationale": "we can staff it",
            "made_by": "Damien",
            "date": "2026-02-04T01:00:00Z",
            "status": "active",
            "related_raid_items": [],
        }
    ]
    (event,) = await list_events(stores, "escalation_decided")
    assert event.detail == {
        "escalationId": question.id,
        "decisionId": "D001",
        "decision": "Rush",
        "by": "Damien",
    }
    assert len(await list_events(stores, "artefact_updated")) == 1


async def test_next_decision_has_the_next_number_and_names_existing_risks(stores: Stores) -> None:
    await artefacts.update(stores, PROJECT, ArtefactType.raid_log, RAID_LOG, 0)
    await artefacts.update(stores, PROJECT, LOG, DECISION_LOG, 0)
    question = await create_escalation(
        stores, context={"summary": "Vendor A ends", "related_raid_items": ["R009", "R001", "R001", 7]}
    )
    await decide(stores, PROJECT, question.id, "Delay")
    first, second = await list_decisions(stores)
    assert first == DECISION_LOG["decisions"][0]
    assert (second["id"], second["context"]) == ("D002", "Vendor A ends")
    assert second["related_raid_items"] == ["R001"]
    log = await get_decision_log(stores)
    assert log is not None
    assert (log.version, log.previous_version) == (2, DECISION_LOG)


@pytest.mark.parametrize(
    ("choice", "why"), [("Delay", "The vendor migration takes three weeks"), ("Rush", "")]
)
async def test_rationale_is_the_agents_when_its_advice_is_taken_without_notes(
    stores: Stores, choice: str, why: str
) -> None:
    question = await create_escalation(stores)
    await decide(stores, PROJECT, question.id, choice)
    (made,) = await list_decisions(stores)
    assert (made["decision"], made["rationale"], made["made_by"]) == (choice, why, "user")


async def test_escalation_stays_pending_when_the_log_is_always_contended(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = await create_escalation(stores)
    overtaken = 0
    transact = stores.transact

    async def overtaking(*writes: Any, token: str | None = None) -> None:
        nonlocal overtaken
        overtaken += 1
        log = await get_decision_log(stores)
        entry = {**DECISION_LOG["decisions"][0], "id": f"D{overtaken:03}", "related_raid_items": []}
        content = {"decisions": [entry]}
        await transact(*await artefacts.build_update(stores, PROJECT, LOG, content, seen=log))
        await transact(*writes, token=token)

    monkeypatch.setattr(stores, "transact", overtaking)
    with pytest.raises(RetryLater, match="nothing was decided"):
        await decide(stores, PROJECT, question.id, "Delay")
    assert overtaken == MAX_ATTEMPTS
    assert (await reload_escalation(stores, question)).status is EscalationStatus.pending


async def test_rejects_an_unknown_option(stores: Stores) -> None:
    """Also a decision without the person who made it. Nothing changes."""

    question = await create_escalation(stores)
    with pytest.raises(InvalidRequest, match=r"Invalid decision 'delay'.*: expected one of Delay, Rush"):
        await decide(stores, PROJECT, question.id, "delay")
    with pytest.raises(InvalidRequest, match="the person who made it"):
        await decide(stores, PROJECT, question.id, "Delay", by=" ")
    assert await reload_escalation(stores, question) == question
    assert await get_decision_log(stores) is None


async def test_rejects_a_decision_on_a_missing_escalation(stores: Stores) -> None:
    question = await create_escalation(stores)
    with pytest.raises(NotFound, match="Escalation .* not found"):
        await decide(stores, OTHER, question.id, "Delay")
    with pytest.raises(InvalidRequest, match="expected a UUID"):
        await decide(stores, PROJECT, "nonsense", "Delay")


# --- expiry and lists ---------------------------------------------------------------------------------------


async def test_rejects_a_decision_after_expiry_even_before_the_sweep(
    stores: Stores, clock: ManualClock
) -> None:
    question = await create_escalation(stores, expires_at=NOON + timedelta(hours=1))
    clock.seconds += 3600
    with pytest.raises(Conflict, match="expired at 2026-02-04T02:00:00Z"):
        await decide(stores, PROJECT, question.id, "Delay")
    assert (await reload_escalation(stores, question)).status is EscalationStatus.pending
    assert await expire_due(stores) == 1
    with pytest.raises(Conflict, match="is expired and cannot be decided"):
        await decide(stores, PROJECT, question.id, "Delay")


@pytest.mark.proves("AP-20")
async def test_sweep_expires_due_escalations_of_all_projects_page_by_page(
    stores: Stores, clock: ManualClock
) -> None:
    due = [
        await create_escalation(stores, (PROJECT, OTHER)[each % 2], expires_at=NOON + timedelta(hours=1))
        for each in range(patterns.PAGE + 5)
    ]
    later = await create_escalation(stores, expires_at=NOON + timedelta(hours=2))
    never = await create_escalation(stores)
    assert await expire_due(stores) == 0
    clock.seconds += 3600
    assert await expire_due(stores) == len(due)
    assert await expire_due(stores) == 0
    assert sorted(await list_in_status(stores, EscalationStatus.expired)) == sorted(each.id for each in due)
    assert sorted(await list_in_status(stores, EscalationStatus.pending)) == sorted([later.id, never.id])
    assert len(await list_events(stores, "escalation_expired")) == (patterns.PAGE + 5 + 1) // 2


@pytest.mark.proves("AP-X13", "AP-39")
async def test_lists_the_escalations_of_a_project_by_time(stores: Stores, clock: ManualClock) -> None:
    questions = []
    for _ in range(10):
        questions.append(await create_escalation(stores))
        clock.seconds += 1
    await create_escalation(stores, OTHER)
    assert [each.id for each in await list_of_project(stores, PROJECT)] == [each.id for each in questions]
