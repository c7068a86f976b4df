"""Tests of comments and moves in Jira, found again by reference, against the sandbox."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from agenticpm.integrations.jira.adf import to_plain_text
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.sandbox.jira import build_jira_app
from tests.systems.agenticpm.unit.integrations.jira_client import EMAIL, NOW, TOKEN, make_sandbox, open_jira
from tests.systems.agenticpm.unit.samples import ManualClock

REFERENCE = "act:01KGN4:é/comment"


@pytest.mark.parametrize("expands_properties", [True, False])
async def test_finds_a_comment_by_its_reference(expands_properties: bool) -> None:
    sandbox = make_sandbox(expands_properties=expands_properties, max_page_size=2)
    issue = sandbox.data.find_issue("MCU-142")
    assert issue is not None
    for number in range(3):
        sandbox.data.add_comment(issue, {}, [], {"accountId": "somebody", "displayName": str(number)})
    async with open_jira(sandbox) as jira:
        done = await jira.comment("MCU-142", "Any news?\n\nIt is late.", REFERENCE)
        await jira.comment("MCU-142", "Another", "other")
        done, found, never = [
            done,
            await jira.find_comment("MCU-142", REFERENCE),
            await jira.find_comment("MCU-142", "never"),
        ]
    assert done == found
    assert never is None
    effects = [(each["what"], each["ticket"], each["reference"]) for each in sandbox.ledger]
    assert effects == [("comment", "MCU-142", REFERENCE), ("comment", "MCU-142", "other")]
    assert to_plain_text(sandbox.ledger[0]["body"]) == "Any news?\nIt is late."


@pytest.mark.parametrize(
    ("wanted", "status"), [("In Review", "In Review"), ("done", "Done"), ("in_progress", "In Progress")]
)
async def test_moves_a_ticket_to_a_status_or_a_stage(wanted: str, status: str) -> None:
    sandbox = make_sandbox()
    async with open_jira(sandbox) as jira:
        done = await jira.move("MCU-150", wanted, REFERENCE)
        done, found, never = [
            done,
            await jira.find_move("MCU-150", REFERENCE),
            await jira.find_move("MCU-150", "never"),
        ]
    assert done == found
    assert done["status"] == status
    assert never is None
    issue = sandbox.data.find_issue("MCU-150")
    assert issue is not None
    assert issue["fields"]["status"]["name"] == status
    assert [(each["what"], each["status"], each["reference"]) for each in sandbox.ledger] == [
        ("transition", status, REFERENCE)
    ]


async def test_finds_an_earlier_move_after_a_later_one() -> None:
    async with open_jira(make_sandbox()) as jira:
        await jira.move("MCU-150", "In Progress", "first")
        await jira.move("MCU-150", "Done", "second")
        found = await jira.find_move("MCU-150", "first")
    assert found is not None and found["status"] == "In Progress"


async def test_leaves_a_ticket_that_already_has_the_status() -> None:
    sandbox = make_sandbox()
    async with open_jira(sandbox) as jira:
        outcome = await jira.move("MCU-150", "to do", REFERENCE)
    assert outcome == {"status": "To Do", "transition": None}
    assert sandbox.ledger == []


async def test_rejects_an_unreachable_status_and_lists_the_reachable_ones() -> None:
    with pytest.raises(ExternalServiceRefused, match="In Progress, In Review, Blocked, Done"):
        async with open_jira(make_sandbox()) as jira:
            await jira.move("MCU-150", "Nowhere", REFERENCE)


@pytest.mark.parametrize("faults", [Faults(failed_after=1.0), Faults(silent_after=1.0, silence_s=0.2)])
async def test_finds_a_comment_and_a_move_whose_answers_were_lost(faults: Faults) -> None:
    sandbox = make_sandbox()
    with serve_in_thread(build_jira_app(sandbox)) as url:
        async with httpx2.AsyncClient(base_url=url, auth=(EMAIL, TOKEN), timeout=0.1) as http:
            jira = JiraTracker(http, clock=sandbox.clock)
            sandbox.faults = faults
            for act in (jira.comment("MCU-142", "Hello", "c"), jira.move("MCU-142", "Done", "m")):
                with pytest.raises(ExternalServiceFailed) as failed:
                    await act
                assert failed.value.may_be_done
    sandbox.faults = Faults()
    async with open_jira(sandbox) as jira:
        assert None not in [await jira.find_comment("MCU-142", "c"), await jira.find_move("MCU-142", "m")]
    assert len(sandbox.ledger) == 2


async def test_rate_limited_request_has_no_effect() -> None:
    sandbox = make_sandbox(faults=Faults(too_many=1.0, retry_after_s=7))
    with pytest.raises(ExternalServiceFailed) as failed:
        async with open_jira(sandbox) as jira:
            await jira.comment("MCU-142", "Hello", "c")
    assert (failed.value.may_be_done, failed.value.retry_after_s, sandbox.ledger) == (False, 7.0, [])


async def test_rejects_a_change_of_a_missing_ticket_and_finds_nothing_there() -> None:
    async with open_jira(make_sandbox()) as jira:
        with pytest.raises(ExternalServiceRefused, match="does not exist"):
            await jira.comment("MCU-999", "Hello", "c")
        with pytest.raises(ExternalServiceRefused, match="does not exist"):
            await jira.move("MCU-999", "Done", "m")
        assert await jira.find_comment("MCU-999", "c") is None
        assert await jira.find_move("MCU-999", "m") is None


async def test_rejects_an_empty_comment() -> None:
    with pytest.raises(ExternalServiceRefused, match="can not be empty"):
        async with open_jira(make_sandbox()) as jira:
            await jira.comment("MCU-142", " \n\n ", "c")


@pytest.mark.parametrize("ticket", ["../../x", "MCU-1/comment", "", "MCU", "MCU-1?x=1"])
async def test_invalid_ticket_key_never_reaches_a_url(ticket: str) -> None:
    with pytest.raises(ExternalServiceRefused, match="Invalid ticket key"):
        async with open_jira(make_sandbox()) as jira:
            await jira.comment(ticket, "Hello", "c")


async def test_ledger_survives_the_sandbox_and_effects_are_found_in_the_next(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with open_jira(make_sandbox(folder=tmp_path, clock=clock)) as jira:
        await jira.comment("MCU-142", "Hello", "c")
        await jira.move("MCU-142", "Done", "m")
    second = make_sandbox(folder=tmp_path, clock=clock)
    async with open_jira(second) as jira:
        assert None not in [await jira.find_comment("MCU-142", "c"), await jira.find_move("MCU-142", "m")]
    assert [each["reference"] for each in second.ledger] == ["c", "m"]
