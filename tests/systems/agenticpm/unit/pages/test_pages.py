"""The pages of AgenticPM in the console: what they show, whom they let decide, and what a lost race says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agenticpm.api import action_reviews, artefact_views, escalation_views
from agenticpm.domain.contents import ArtefactType
from agenticpm.model.entities import EscalationStatus
from agenticpm.pages.inbox import build_inbox_topic
from holdfast import Stores
from holdfast.console.model import AUDIT, AuditPhase, ConsoleAudit
from holdfast.core.errors import Conflict
from holdfast.guarantees import OnceStatus
from tests.console_client import USER_NAME, ConsoleClient, open_console_client
from tests.systems.agenticpm.unit import samples

APP = "/apps/agenticpm"


async def list_entries(console: ConsoleClient) -> list[ConsoleAudit]:
    """Return what the console recorded today."""
    day = console.own.now().date().isoformat()
    return list(await console.own.all(AUDIT.pattern_set.history(day)))


async def read_overview(console: ConsoleClient) -> str:
    """Return the overview once the console has taken its first sample."""
    async with asyncio.timeout(30):
        while "to decide" not in (page := await console.get("/")):
            await asyncio.sleep(0.1)
    return page


@pytest.fixture
async def console(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores) as client:
        yield client


@pytest.fixture
async def viewer(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores, roles=["agenticpm:viewer"]) as client:
        yield client


async def test_an_empty_inbox_says_what_would_appear(console: ConsoleClient) -> None:
    page = await console.get(f"{APP}/inbox")

    assert "Nothing is held" in page
    assert "No question is pending" in page


async def test_the_inbox_lists_questions_and_held_actions_of_all_projects(
    stores: Stores, console: ConsoleClient
) -> None:
    project = await samples.create_project(stores)
    await samples.create_escalation(stores, project)
    await samples.hold_comment(stores, project)

    page = await console.get(f"{APP}/inbox")

    assert "Beta launch is at risk" in page
    assert "Delay (recommended)" in page
    assert "Comment on MCU-142" in page
    assert "Member profile" in page


async def test_questions_are_counted_among_the_work_for_a_person(stores: Stores) -> None:
    project = await samples.create_project(stores)
    question = await samples.create_escalation(stores, project)
    await samples.create_escalation(stores, project, title="Which date?")
    await escalation_views.decide(stores, project.id, question.id, "Delay", by="grace")

    async with open_console_client(stores) as console:
        page = await console.get("/work?system=agenticpm")
        overview = await read_overview(console)
    assert f'<a href="{APP}/inbox">1 question to decide</a>' in page
    assert "1 to decide" in overview


async def test_an_escalation_shows_evidence_and_the_consequence_of_each_option(
    stores: Stores, console: ConsoleClient
) -> None:
    project = await samples.create_project(stores)
    escalation = await samples.create_escalation(stores, project)

    page = await console.get(f"{APP}/projects/{project.id}/escalations/{escalation.id}")

    assert "MCU-142" in page and "In Progress" in page and "Blocked" in page
    assert "Nothing is cut" in page and "Later" in page
    assert page.count("What follows") == 2


async def test_a_decision_is_logged_under_the_name_of_the_signed_in_user(
    stores: Stores, console: ConsoleClient
) -> None:
    project = await samples.create_project(stores)
    escalation = await samples.create_escalation(stores, project)

    page = await console.post(
        f"{APP}/projects/{project.id}/escalations/{escalation.id}/decide",
        decision="Rush",
        notes="The date is fixed",
    )

    assert "Decided: Beta launch is at risk: Rush" in page
    decided = await escalation_views.get_escalation(stores, project.id, escalation.id)
    assert decided.status is EscalationStatus.decided
    log = await artefact_views.get_artefact(stores, project.id, ArtefactType.decision_log)
    (decision,) = (await artefact_views.load_with_content(stores, log))["content"]["decisions"]
    assert (decision["made_by"], decision["rationale"]) == (USER_NAME, "The date is fixed")


async def test_whoever_decides_second_is_told_what_was_chosen(stores: Stores, console: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    escalation = await samples.create_escalation(stores, project)
    await escalation_views.decide(stores, project.id, escalation.id, "Delay", by="grace")

    page = await console.post(
        f"{APP}/projects/{project.id}/escalations/{escalation.id}/decide", decision="Rush"
    )

    assert "'Delay' was chosen" in page
    decided = await escalation_views.get_escalation(stores, project.id, escalation.id)
    assert decided.user_decision == "Delay"


async def test_a_review_is_recorded_before_it_is_made_and_its_outcome_afterwards(
    stores: Stores, console: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_comment(stores, project)
    before: list[ConsoleAudit] = []

    async def lose(*_: Any, **__: Any) -> None:
        before.extend(await list_entries(console))
        raise Conflict("Somebody was faster.")

    monkeypatch.setattr(action_reviews, "approve", lose)
    page = f"{APP}/projects/{project.id}/actions/{action.id}"
    await console.post(f"{page}/approve", revision=str(action.revision))

    intent = before[-1]
    assert (intent.action, intent.phase, intent.target) == (
        "approve",
        AuditPhase.INTENT,
        f"action {action.id}",
    )
    outcome = (await list_entries(console))[-1]
    assert (outcome.action, outcome.phase) == ("approve", AuditPhase.OUTCOME)
    assert outcome.result is not None and not outcome.result.ok


async def test_approving_an_action_makes_it_due(stores: Stores, console: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_comment(stores, project)

    page = await console.post(
        f"{APP}/projects/{project.id}/actions/{action.id}/approve", revision=str(action.revision)
    )

    assert "Approved." in page
    approved = await action_reviews.get_action(stores, project.id, action.id)
    assert approved.reviewed_by == USER_NAME
    assert approved.held_until is not None and approved.held_until <= stores.now()


async def test_an_edit_replaces_the_text_and_keeps_the_hold(stores: Stores, console: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_mail(stores, project)
    page = f"{APP}/projects/{project.id}/actions/{action.id}"

    answer = await console.post(
        f"{page}/edit",
        seen=action.payload_sha256,
        to="lead@acme.example, second@acme.example",
        subject="Design assets",
        text="When will they come?\r\nWe wait.",
    )

    assert "Changed. It stays held" in answer
    edited = await action_reviews.get_action(stores, project.id, action.id)
    assert edited.status is OnceStatus.HELD
    assert edited.detail is not None
    assert edited.detail["to"] == ["lead@acme.example", "second@acme.example"]
    assert edited.detail["text"] == "When will they come?\nWe wait."


async def test_an_edit_of_what_somebody_else_changed_is_refused(
    stores: Stores, console: ConsoleClient
) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_comment(stores, project)
    await action_reviews.edit(stores, project.id, action.id, by="grace", detail={"text": "Hers"})

    page = await console.post(
        f"{APP}/projects/{project.id}/actions/{action.id}/edit", seen=action.payload_sha256, text="Mine"
    )

    assert "Somebody changed this action" in page
    assert "Hers" in page
    kept = await action_reviews.get_action(stores, project.id, action.id)
    assert (kept.detail or {})["text"] == "Hers"


async def test_an_unsendable_edit_says_what_is_wrong(stores: Stores, console: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_mail(stores, project)

    page = await console.post(
        f"{APP}/projects/{project.id}/actions/{action.id}/edit",
        seen=action.payload_sha256,
        to="nobody",
        subject="Design assets",
        text="When?",
    )

    assert "to must be a list of mail addresses" in page


async def test_a_cancelled_action_is_never_done_and_its_page_says_so(
    stores: Stores, console: ConsoleClient
) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_comment(stores, project)

    await console.post(
        f"{APP}/projects/{project.id}/actions/{action.id}/cancel",
        reason="Known",
        revision=str(action.revision),
    )

    page = await console.get(f"{APP}/projects/{project.id}/actions/{action.id}")
    assert "It was cancelled and is never executed" in page
    again = await console.post(
        f"{APP}/projects/{project.id}/actions/{action.id}/approve", revision=str(action.revision)
    )
    assert "Approved" not in again


async def test_a_refused_action_can_be_reopened(stores: Stores, console: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_comment(stores, project)
    await action_reviews.approve(stores, project.id, action.id, by="grace")
    await samples.refuse_action(stores, await action_reviews.get_action(stores, project.id, action.id))

    refused = await action_reviews.get_action(stores, project.id, action.id)
    page = await console.post(
        f"{APP}/projects/{project.id}/actions/{action.id}/reopen", revision=str(refused.revision)
    )

    assert "Reopened" in page
    assert (await action_reviews.get_action(stores, project.id, action.id)).status is OnceStatus.HELD


async def test_an_artefact_shows_its_changes_and_can_be_undone_once(
    stores: Stores, console: ConsoleClient
) -> None:
    project = await samples.create_project(stores)
    first = samples.make_raid_log(samples.make_risk("R001"))
    second = samples.make_raid_log(samples.make_risk("R001", title="The vendor is late"))
    await artefact_views.put(stores, project.id, ArtefactType.raid_log, first, 0)
    await artefact_views.put(stores, project.id, ArtefactType.raid_log, second, 1)
    page = f"{APP}/projects/{project.id}/artefacts/raid_log"

    changes = await console.get(f"{page}?view=changes")
    assert "<del>The vendor may be late</del>" in changes
    assert "<ins>The vendor is late</ins>" in changes

    undone = await console.post(f"{page}/undo", version="2")
    assert "Version 2 is undone: version 3" in undone
    assert "The vendor may be late" in undone

    late = await console.post(f"{page}/undo", version="2")
    assert "Nothing was undone" in late
    assert (await artefact_views.get_artefact(stores, project.id, ArtefactType.raid_log)).version == 3


async def test_a_viewer_sees_no_buttons_and_may_not_decide(stores: Stores, viewer: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    escalation = await samples.create_escalation(stores, project)
    action = await samples.hold_mail(stores, project)
    question = f"{APP}/projects/{project.id}/escalations/{escalation.id}"

    assert "Approve" not in await viewer.get(f"{APP}/inbox")
    assert "you need the role operator" in await viewer.get(question)
    refused = await viewer.post(f"{question}/decide", status=403, decision="Rush")

    assert "the role operator for agenticpm" in refused
    pending = await escalation_views.get_escalation(stores, project.id, escalation.id)
    assert pending.status is EscalationStatus.pending
    for review in ("approve", "edit", "cancel", "reopen"):
        await viewer.post(f"{APP}/projects/{project.id}/actions/{action.id}/{review}", status=403)
    await viewer.post(f"{APP}/projects/{project.id}/artefacts/raid_log/undo", status=403, version="1")


async def test_recipients_are_masked_until_they_are_revealed_and_that_is_recorded(
    stores: Stores, console: ConsoleClient
) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_mail(stores, project)
    page = f"{APP}/projects/{project.id}/actions/{action.id}"
    masked = await console.get(page)
    assert "lead@acme.example" not in masked
    assert "Reveal the personal data to edit it" in masked

    revealed = await console.post("/reveal/agenticpm", page=page)

    assert 'value="lead@acme.example"' in revealed
    (entry,) = [each for each in await list_entries(console) if each.action == "reveal"]
    assert (entry.user, entry.system) == (USER_NAME, "agenticpm")


async def test_a_viewer_cannot_reveal(stores: Stores, viewer: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    action = await samples.hold_mail(stores, project)
    page = f"{APP}/projects/{project.id}/actions/{action.id}"

    assert "lead@acme.example" not in await viewer.get(page)
    await viewer.post("/reveal/agenticpm", status=403, page=page)


@pytest.mark.parametrize("review", ["approve", "cancel"])
async def test_nobody_decides_about_what_they_did_not_see(
    stores: Stores, console: ConsoleClient, review: str
) -> None:
    project = await samples.create_project(stores)
    seen = await samples.hold_comment(stores, project)
    await action_reviews.edit(stores, project.id, seen.id, by="grace", detail={"text": "Hers"})

    page = await console.post(
        f"{APP}/projects/{project.id}/actions/{seen.id}/{review}", revision=str(seen.revision)
    )

    assert "Somebody changed action" in page
    assert "Hers" in page
    assert (await action_reviews.get_action(stores, project.id, seen.id)).status is OnceStatus.HELD


async def test_titles_and_summaries_are_masked(stores: Stores, viewer: ConsoleClient) -> None:
    project = await samples.create_project(stores)
    await samples.create_escalation(stores, project, title="Ask ada@acme.example")

    assert "ada@acme.example" not in await viewer.get(f"{APP}/inbox")
    assert "ada@acme.example" not in await viewer.get(f"{APP}/projects/{project.id}")


async def test_a_user_of_another_system_does_not_find_the_pages(stores: Stores) -> None:
    async with open_console_client(stores, roles=["pagw:operator"]) as stranger:
        assert "No system 'agenticpm' here" in await stranger.get(f"{APP}/inbox", status=404)


async def test_texts_of_a_tracker_are_shown_as_text(stores: Stores, console: ConsoleClient) -> None:
    project = await samples.create_project(stores, name="<script>alert(1)</script>")

    response = await console.get_raw(f"{APP}/projects/{project.id}")

    assert "<script>alert(1)" not in response
    assert "&lt;script&gt;alert(1)" in response


async def test_the_topic_of_the_inbox_changes_with_a_review(stores: Stores) -> None:
    project = await samples.create_project(stores)
    topic = build_inbox_topic(stores)
    empty = await topic.read()
    action = await samples.hold_comment(stores, project)
    held = await topic.read()
    await action_reviews.edit(stores, project.id, action.id, by="ada", detail={"text": "Other"})

    assert len({empty, held, await topic.read()}) == 3


async def test_unknown_ids_say_where_to_look(console: ConsoleClient, stores: Stores) -> None:
    project = await samples.create_project(stores)

    page = await console.get(f"{APP}/projects/{project.id}/escalations/{project.id}", status=404)

    assert "List the project's escalations" in page
