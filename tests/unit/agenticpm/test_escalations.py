"""Questions to a person: asked, decided once and with the decision log, lapsed, replaced, and listed by time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns
from agenticpm.model.entities import Artefact, Escalation, EscalationStatus, Event, ProjectId
from agenticpm.model.escalations import MAX_ATTEMPTS, build_escalation, decide, expire_due, list_of_project
from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest, NotFound, RetryLater, TransactionCancelled
from tests.unit.agenticpm.sample_contents import BEGAN, DECISION_LOG, PROJECT, RAID_LOG, HandClock, tell
from tests.unit.agenticpm.sample_questions import OPTIONS, ask

LOG = ArtefactType.decision_log
OTHER = ProjectId("7f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a12")


async def kept(stores: Stores, asked: Escalation) -> Escalation:
    found = await stores.run(patterns.escalation(asked.project_id, asked.id))
    assert found is not None
    return found


async def in_status(stores: Stores, status: EscalationStatus) -> list[str]:
    return [each.id for each in (await stores.all(patterns.escalations_in(status))).items]


async def decision_log(stores: Stores) -> Artefact | None:
    return await stores.run(patterns.artefact(PROJECT, LOG))


async def decisions(stores: Stores) -> list[dict[str, Any]]:
    log = await decision_log(stores)
    return [] if log is None else list((await artefacts.load_content(stores, log))["decisions"])


async def events(stores: Stores, type: str) -> list[Event]:
    found = (await stores.all(patterns.project_events(PROJECT))).items
    return [each for each in found if each.event_type == type]


# --- asked --------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-20")
@pytest.mark.proves("AP-X12")
def test_a_question_is_kept_as_the_document_has_it() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        item = (await kept(stores, asked)).to_item()
        assert item == {
            "PK": f"PROJECT#{PROJECT}",
            "SK": f"ESCALATION#{asked.id}",
            "id": asked.id,
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
            "GSI1SK": f"2026-02-04T01:00:00.000Z#{asked.id}",
        }
        (told,) = await events(stores, "escalation_created")
        assert told.detail == {"escalationId": asked.id, "options": ["Delay", "Rush"]}

    tell(story)


@pytest.mark.proves("AP-20")
@pytest.mark.proves("AP-28")
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
        ({"expires_at": BEGAN}, "expected a future time"),
    ],
)
def test_a_question_that_nobody_could_decide_is_refused(changes: dict[str, Any], why: str) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        with pytest.raises(InvalidRequest, match=why):
            await ask(stores, **changes)
        assert await list_of_project(stores, PROJECT) == []

    tell(story)


@pytest.mark.proves("AP-20")
def test_a_new_question_about_the_same_ends_the_one_that_is_pending() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        first, other = await ask(stores, subject="beta"), await ask(stores, subject="gamma")
        decided = await ask(stores, subject="delta")
        await decide(stores, PROJECT, decided.id, "Rush")
        second = await ask(stores, subject="beta")
        await ask(stores, subject="delta")
        ended = await kept(stores, first)
        assert (ended.status, ended.superseded_by) == (EscalationStatus.superseded, second.id)
        assert await in_status(stores, EscalationStatus.superseded) == [first.id]
        assert (await kept(stores, other)).status is EscalationStatus.pending
        assert (await kept(stores, decided)).status is EscalationStatus.decided
        told = [each.detail for each in await events(stores, "escalation_created")]
        assert [each for each in told if each and each.get("supersedes") == [first.id]]

    tell(story)


def test_a_question_of_another_project_is_left_alone() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        theirs = await ask(stores, OTHER, subject="beta")
        await ask(stores, subject="beta")
        await ask(stores, subject=None)
        assert (await kept(stores, theirs)).status is EscalationStatus.pending

    tell(story)


def test_a_question_that_was_decided_while_it_was_to_be_replaced_stays_decided() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        first = await ask(stores, subject="beta")
        writes = await build_escalation(
            stores, PROJECT, title="Again", context={}, options=OPTIONS, subject="beta"
        )
        await decide(stores, PROJECT, first.id, "Delay")
        with pytest.raises(TransactionCancelled):
            await stores.transact(*writes)
        assert [each.status for each in await list_of_project(stores, PROJECT)] == [EscalationStatus.decided]

    tell(story)


# --- decided ------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-21")
@pytest.mark.proves("AP-X12")
def test_a_decision_sets_status_choice_time_and_index_and_leaves_its_place_in_time() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        clock.seconds += 3600
        ended = await decide(stores, PROJECT, asked.id, "Rush", " we can staff it ")
        assert await kept(stores, asked) == ended
        item = ended.to_item()
        assert (item["status"], item["userDecision"], item["userNotes"]) == (
            "decided",
            "Rush",
            "we can staff it",
        )
        assert item["decidedAt"] == "2026-02-04T02:00:00.000Z"
        assert item["GSI1PK"] == "ESCALATION#decided"
        assert item["GSI1SK"] == asked.to_item()["GSI1SK"]
        assert await in_status(stores, EscalationStatus.decided) == [asked.id]
        assert await in_status(stores, EscalationStatus.pending) == []

    tell(story)


@pytest.mark.proves("AP-21")
def test_a_decision_stands_in_the_decision_log_in_the_same_transaction() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        with stores.meter_usage() as meter:
            await decide(stores, PROJECT, asked.id, "Rush", "we can staff it", by="Damien")
        writes = [each for each in meter.usages if each.operation == "TransactWriteItems"]
        assert len(writes) == 1
        assert await decisions(stores) == [
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
        (told,) = await events(stores, "escalation_decided")
        assert told.detail == {
            "escalationId": asked.id,
            "decisionId": "D001",
            "decision": "Rush",
            "by": "Damien",
        }
        assert len(await events(stores, "artefact_updated")) == 1

    tell(story)


def test_the_next_decision_has_the_next_number_and_names_the_risks_that_exist() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await artefacts.update(stores, PROJECT, ArtefactType.raid_log, RAID_LOG, 0)
        await artefacts.update(stores, PROJECT, LOG, DECISION_LOG, 0)
        asked = await ask(
            stores, context={"summary": "Vendor A ends", "related_raid_items": ["R009", "R001", "R001", 7]}
        )
        await decide(stores, PROJECT, asked.id, "Delay")
        first, second = await decisions(stores)
        assert first == DECISION_LOG["decisions"][0]
        assert (second["id"], second["context"]) == ("D002", "Vendor A ends")
        assert second["related_raid_items"] == ["R001"]
        log = await decision_log(stores)
        assert log is not None
        assert (log.version, log.previous_version) == (2, DECISION_LOG)

    tell(story)


@pytest.mark.parametrize(
    ("choice", "why"), [("Delay", "The vendor migration takes three weeks"), ("Rush", "")]
)
def test_without_notes_the_reason_is_the_agents_where_its_advice_was_taken(choice: str, why: str) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        await decide(stores, PROJECT, asked.id, choice)
        (made,) = await decisions(stores)
        assert (made["decision"], made["rationale"], made["made_by"]) == (choice, why, "user")

    tell(story)


@pytest.mark.proves("AP-21")
def test_a_decided_one_cannot_be_decided_again() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        ended = await decide(stores, PROJECT, asked.id, "Rush")
        with pytest.raises(
            Conflict, match="is decided and cannot be decided: 'Rush' was chosen at 2026-02-04T01"
        ):
            await decide(stores, PROJECT, asked.id, "Delay")
        assert await kept(stores, asked) == ended
        assert len(await decisions(stores)) == 1
        assert len(await events(stores, "escalation_decided")) == 1

    tell(story)


@pytest.mark.proves("AP-21")
def test_of_two_deciders_at_once_one_decides() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        told = await asyncio.gather(
            *(decide(stores, PROJECT, asked.id, each) for each in ("Rush", "Delay", "Rush")),
            return_exceptions=True,
        )
        assert len([each for each in told if isinstance(each, Escalation)]) == 1
        assert len([each for each in told if isinstance(each, Conflict)]) == 2
        assert [each["decision"] for each in await decisions(stores)] == [
            (await kept(stores, asked)).user_decision
        ]

    tell(story)


def test_decisions_on_several_questions_at_once_all_reach_the_log() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        questions = [await ask(stores, title=f"Question {each}") for each in range(4)]
        await asyncio.gather(*(decide(stores, PROJECT, each.id, "Delay") for each in questions))
        made = await decisions(stores)
        assert [each["id"] for each in made] == ["D001", "D002", "D003", "D004"]
        assert {each["title"] for each in made} == {each.title for each in questions}

    tell(story)


def test_a_log_that_is_always_written_by_others_leaves_the_question_pending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        overtaken = 0
        transact = stores.transact

        async def overtaking(*writes: Any, token: str | None = None) -> None:
            nonlocal overtaken
            overtaken += 1
            log = await decision_log(stores)
            entry = {**DECISION_LOG["decisions"][0], "id": f"D{overtaken:03}", "related_raid_items": []}
            content = {"decisions": [entry]}
            await transact(*await artefacts.build_update(stores, PROJECT, LOG, content, seen=log))
            await transact(*writes, token=token)

        monkeypatch.setattr(stores, "transact", overtaking)
        with pytest.raises(RetryLater, match="nothing was decided"):
            await decide(stores, PROJECT, asked.id, "Delay")
        assert overtaken == MAX_ATTEMPTS
        assert (await kept(stores, asked)).status is EscalationStatus.pending

    tell(story)


def test_what_is_none_of_the_options_cannot_be_chosen() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        with pytest.raises(InvalidRequest, match=r"Invalid decision 'delay'.*: expected one of Delay, Rush"):
            await decide(stores, PROJECT, asked.id, "delay")
        with pytest.raises(InvalidRequest, match="the person who made it"):
            await decide(stores, PROJECT, asked.id, "Delay", by=" ")
        assert await kept(stores, asked) == asked
        assert await decision_log(stores) is None

    tell(story)


def test_a_question_that_is_not_there_cannot_be_decided() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores)
        with pytest.raises(NotFound, match="Escalation .* not found"):
            await decide(stores, OTHER, asked.id, "Delay")
        with pytest.raises(InvalidRequest, match="expected a UUID"):
            await decide(stores, PROJECT, "nonsense", "Delay")

    tell(story)


def test_a_question_that_was_replaced_cannot_be_decided() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        first = await ask(stores, subject="beta")
        second = await ask(stores, subject="beta")
        with pytest.raises(
            Conflict, match=f"is superseded and cannot be decided: it is superseded by {second.id}"
        ):
            await decide(stores, PROJECT, first.id, "Delay")

    tell(story)


# --- lapsed, listed -----------------------------------------------------------------------------------------


def test_what_is_past_its_time_cannot_be_decided_though_no_sweep_has_come() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = await ask(stores, expires_at=BEGAN + timedelta(hours=1))
        clock.seconds += 3600
        with pytest.raises(Conflict, match="expired at 2026-02-04T02:00:00Z"):
            await decide(stores, PROJECT, asked.id, "Delay")
        assert (await kept(stores, asked)).status is EscalationStatus.pending
        assert await expire_due(stores) == 1
        with pytest.raises(Conflict, match="is expired and cannot be decided"):
            await decide(stores, PROJECT, asked.id, "Delay")

    tell(story)


@pytest.mark.proves("AP-20")
def test_a_sweep_ends_what_is_due_in_all_projects_page_after_page() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        due = [
            await ask(stores, (PROJECT, OTHER)[each % 2], expires_at=BEGAN + timedelta(hours=1))
            for each in range(patterns.PAGE + 5)
        ]
        later = await ask(stores, expires_at=BEGAN + timedelta(hours=2))
        never = await ask(stores)
        assert await expire_due(stores) == 0
        clock.seconds += 3600
        assert await expire_due(stores) == len(due)
        assert await expire_due(stores) == 0
        assert sorted(await in_status(stores, EscalationStatus.expired)) == sorted(each.id for each in due)
        assert sorted(await in_status(stores, EscalationStatus.pending)) == sorted([later.id, never.id])
        assert len(await events(stores, "escalation_expired")) == (patterns.PAGE + 5 + 1) // 2

    tell(story)


@pytest.mark.proves("AP-X13")
@pytest.mark.proves("AP-39")
def test_the_questions_of_a_project_come_by_time() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        asked = []
        for _ in range(10):
            asked.append(await ask(stores))
            clock.seconds += 1
        await ask(stores, OTHER)
        assert [each.id for each in await list_of_project(stores, PROJECT)] == [each.id for each in asked]

    tell(story)
