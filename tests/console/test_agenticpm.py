"""AgenticPM's pages in a browser: the inbox, a decision, reviews of held actions, the undo of an artefact."""

from __future__ import annotations

import itertools

import pytest
from playwright.sync_api import expect

from agenticpm.api import artefact_views
from agenticpm.domain.contents import ArtefactType
from agenticpm.model.entities import Action, Escalation, Project
from holdfast import Stores
from tests.systems.agenticpm.unit import samples

from .site import ConsoleSite
from .visitor import Visitor

APP = "/apps/agenticpm"
_NUMBERS = itertools.count()


@pytest.fixture
def project(site: ConsoleSite) -> Project:
    """Return a new project, which no other test shows."""
    number = next(_NUMBERS)

    async def create(stores: Stores) -> Project:
        return await samples.create_project(
            stores, name=f"Browser test {number}", source_project_key=f"BT{number}"
        )

    return site.act("agenticpm", create)


def hold_comment(site: ConsoleSite, project: Project) -> Action:
    async def hold(stores: Stores) -> Action:
        return await samples.hold_comment(stores, project)

    return site.act("agenticpm", hold)


def hold_mail(site: ConsoleSite, project: Project) -> Action:
    async def hold(stores: Stores) -> Action:
        return await samples.hold_mail(stores, project)

    return site.act("agenticpm", hold)


def ask(site: ConsoleSite, project: Project) -> Escalation:
    async def create(stores: Stores) -> Escalation:
        return await samples.create_escalation(stores, project)

    return site.act("agenticpm", create)


def test_the_inbox_shows_what_waits_and_grows_by_itself(
    site: ConsoleSite, visitor: Visitor, project: Project
) -> None:
    hold_comment(site, project)
    visitor.visit(f"{APP}/inbox")
    held = visitor.page.get_by_role("region", name="Held actions")
    expect(held.get_by_role("row").filter(has_text=project.name)).to_have_count(1)
    # The page follows its topic as soon as the stream is open.
    visitor.wait_until_live()
    hold_mail(site, project)

    expect(held.get_by_role("row").filter(has_text=project.name)).to_have_count(2)
    visitor.check("agenticpm-inbox")


def test_a_person_decides_a_question(site: ConsoleSite, visitor: Visitor, project: Project) -> None:
    question = ask(site, project)
    visitor.visit(f"{APP}/projects/{project.id}/escalations/{question.id}")
    visitor.check("agenticpm-question")

    visitor.page.get_by_label("Rush").check()
    visitor.page.get_by_label("Your reason").fill("The date is fixed")
    visitor.page.get_by_role("button", name="Decide").click()

    expect(visitor.page.get_by_text("Decided: Beta launch is at risk: Rush")).to_be_visible()
    visitor.visit(f"{APP}/projects/{project.id}/artefacts/decision_log")
    expect(visitor.page.get_by_text("The date is fixed")).to_be_visible()


def test_a_held_action_is_edited_and_approved(site: ConsoleSite, visitor: Visitor, project: Project) -> None:
    action = hold_mail(site, project)
    visitor.visit(f"{APP}/projects/{project.id}/actions/{action.id}")
    visitor.check("agenticpm-action")
    visitor.page.get_by_role("button", name="Reveal, and record it").click()

    visitor.page.get_by_label("Subject").fill("Design assets for the beta")
    visitor.page.get_by_role("button", name="Save changes").click()
    expect(visitor.page.get_by_text("Changed. It stays held")).to_be_visible()

    visitor.page.get_by_role("button", name="Approve").click()
    expect(visitor.page.get_by_text("Approved. The agent does it")).to_be_visible()


def test_a_held_action_is_cancelled_after_a_question(
    site: ConsoleSite, visitor: Visitor, project: Project
) -> None:
    action = hold_comment(site, project)
    visitor.visit(f"{APP}/projects/{project.id}/actions/{action.id}")

    visitor.page.get_by_role("button", name="Cancel the action").first.click()
    dialog = visitor.page.get_by_role("dialog", name="Cancel this action?")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(dialog).not_to_be_visible()
    visitor.page.get_by_role("button", name="Cancel the action").first.click()
    dialog.get_by_label("Reason").fill("Known")
    dialog.get_by_role("button", name="Cancel the action").click()

    expect(visitor.page.get_by_text("Cancelled. The agent never does it.")).to_be_visible()


def test_an_artefact_is_compared_and_undone(site: ConsoleSite, visitor: Visitor, project: Project) -> None:
    async def write_twice(stores: Stores) -> None:
        for version, title in enumerate(("The vendor may be late", "The vendor is late")):
            content = samples.make_raid_log(samples.make_risk("R001", title=title))
            await artefact_views.put(stores, project.id, ArtefactType.raid_log, content, version)

    site.act("agenticpm", write_twice)
    visitor.visit(f"{APP}/projects/{project.id}/artefacts/raid_log?view=changes")
    expect(visitor.page.get_by_role("deletion")).to_have_text("The vendor may be late")
    expect(visitor.page.get_by_role("insertion")).to_have_text("The vendor is late")
    visitor.check("agenticpm-artefact-changes")

    visitor.page.get_by_role("button", name="Undo version 2").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Undo").click()

    expect(visitor.page.get_by_text("Version 2 is undone: version 3")).to_be_visible()
    visitor.check("agenticpm-artefact")


def test_a_project_shows_health_artefacts_and_what_the_agent_did(visitor: Visitor) -> None:
    visitor.visit(f"{APP}/projects")
    visitor.check("agenticpm-projects")
    visitor.page.get_by_role("link", name="Member profile 1", exact=True).click()

    expect(visitor.page.get_by_role("heading", name="Health")).to_be_visible()
    expect(visitor.page.get_by_role("link", name="RAID log", exact=True)).to_be_visible()
    visitor.check("agenticpm-project")
