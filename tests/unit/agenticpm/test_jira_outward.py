"""What goes to Jira: comments and moves, each found again by its reference; against the sandbox, over real HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenticpm.integrations.jira.adf import to_plain_text
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.web.sandbox_faults import Faults
from tests.unit.agenticpm.jira_play import HandClock, asked, make_sandbox

REFERENCE = "act:01KGN4:é/comment"


@pytest.mark.parametrize("expands_properties", [True, False])
def test_a_comment_is_found_again_by_its_reference(expands_properties: bool) -> None:
    sandbox = make_sandbox(expands_properties=expands_properties, max_page_size=2)
    issue = sandbox.data.find_issue("MCU-142")
    assert issue is not None
    for number in range(3):
        sandbox.data.add_comment(issue, {}, [], {"accountId": "somebody", "displayName": str(number)})

    async def ask(jira: JiraTracker) -> list[Any]:
        done = await jira.comment("MCU-142", "Any news?\n\nIt is late.", REFERENCE)
        await jira.comment("MCU-142", "Another", "other")
        return [
            done,
            await jira.find_comment("MCU-142", REFERENCE),
            await jira.find_comment("MCU-142", "never"),
        ]

    done, found, never = asked(sandbox, ask)
    assert done == found
    assert never is None
    effects = [(each["what"], each["ticket"], each["reference"]) for each in sandbox.ledger]
    assert effects == [("comment", "MCU-142", REFERENCE), ("comment", "MCU-142", "other")]
    assert to_plain_text(sandbox.ledger[0]["body"]) == "Any news?\nIt is late."


@pytest.mark.parametrize(
    ("wanted", "status"), [("In Review", "In Review"), ("done", "Done"), ("in_progress", "In Progress")]
)
def test_a_ticket_is_moved_to_a_status_or_a_stage(wanted: str, status: str) -> None:
    sandbox = make_sandbox()

    async def ask(jira: JiraTracker) -> list[Any]:
        done = await jira.move("MCU-150", wanted, REFERENCE)
        return [done, await jira.find_move("MCU-150", REFERENCE), await jira.find_move("MCU-150", "never")]

    done, found, never = asked(sandbox, ask)
    assert done == found
    assert done["status"] == status
    assert never is None
    issue = sandbox.data.find_issue("MCU-150")
    assert issue is not None
    assert issue["fields"]["status"]["name"] == status
    assert [(each["what"], each["status"], each["reference"]) for each in sandbox.ledger] == [
        ("transition", status, REFERENCE)
    ]


def test_a_later_move_leaves_the_trace_of_an_earlier_one() -> None:
    async def ask(jira: JiraTracker) -> Any:
        await jira.move("MCU-150", "In Progress", "first")
        await jira.move("MCU-150", "Done", "second")
        return await jira.find_move("MCU-150", "first")

    assert asked(make_sandbox(), ask)["status"] == "In Progress"


def test_a_ticket_that_is_there_already_is_left_there() -> None:
    sandbox = make_sandbox()
    outcome = asked(sandbox, lambda jira: jira.move("MCU-150", "to do", REFERENCE))
    assert outcome == {"status": "To Do", "transition": None}
    assert sandbox.ledger == []


def test_a_status_that_nothing_leads_to_is_refused_with_those_there_are() -> None:
    with pytest.raises(ExternalServiceRefused, match="In Progress, In Review, Blocked, Done"):
        asked(make_sandbox(), lambda jira: jira.move("MCU-150", "Nowhere", REFERENCE))


@pytest.mark.parametrize("faults", [Faults(failed_after=1.0), Faults(silent_after=1.0, silence_s=0.2)])
def test_an_effect_without_an_answer_is_found_by_looking(faults: Faults) -> None:
    sandbox = make_sandbox()

    async def ask(jira: JiraTracker) -> list[Any]:
        jira._client.http.timeout = 0.1
        sandbox.faults = faults
        for act in (jira.comment("MCU-142", "Hello", "c"), jira.move("MCU-142", "Done", "m")):
            with pytest.raises(ExternalServiceFailed) as failed:
                await act
            assert failed.value.may_be_done
        sandbox.faults = Faults()
        jira._client.http.timeout = 5
        return [await jira.find_comment("MCU-142", "c"), await jira.find_move("MCU-142", "m")]

    assert None not in asked(sandbox, ask)
    assert len(sandbox.ledger) == 2


def test_too_many_requests_leave_nothing_done() -> None:
    sandbox = make_sandbox(faults=Faults(too_many=1.0, retry_after_s=7))
    with pytest.raises(ExternalServiceFailed) as failed:
        asked(sandbox, lambda jira: jira.comment("MCU-142", "Hello", "c"))
    assert (failed.value.may_be_done, failed.value.retry_after_s, sandbox.ledger) == (False, 7.0, [])


def test_a_ticket_that_is_gone_is_refused_for_a_change_and_has_nothing_to_be_found() -> None:
    with pytest.raises(ExternalServiceRefused, match="does not exist"):
        asked(make_sandbox(), lambda jira: jira.comment("MCU-999", "Hello", "c"))
    with pytest.raises(ExternalServiceRefused, match="does not exist"):
        asked(make_sandbox(), lambda jira: jira.move("MCU-999", "Done", "m"))
    assert asked(make_sandbox(), lambda jira: jira.find_comment("MCU-999", "c")) is None
    assert asked(make_sandbox(), lambda jira: jira.find_move("MCU-999", "m")) is None


def test_an_empty_comment_is_refused() -> None:
    with pytest.raises(ExternalServiceRefused, match="can not be empty"):
        asked(make_sandbox(), lambda jira: jira.comment("MCU-142", " \n\n ", "c"))


@pytest.mark.parametrize("ticket", ["../../x", "MCU-1/comment", "", "MCU", "MCU-1?x=1"])
def test_what_is_no_key_of_a_ticket_never_reaches_an_address(ticket: str) -> None:
    with pytest.raises(ExternalServiceRefused, match="Invalid ticket key"):
        asked(make_sandbox(), lambda jira: jira.comment(ticket, "Hello", "c"))


def test_the_ledger_outlives_the_sandbox_and_effects_are_found_in_the_next(tmp_path: Path) -> None:
    async def act(jira: JiraTracker) -> None:
        await jira.comment("MCU-142", "Hello", "c")
        await jira.move("MCU-142", "Done", "m")

    async def look(jira: JiraTracker) -> list[Any]:
        return [await jira.find_comment("MCU-142", "c"), await jira.find_move("MCU-142", "m")]

    clock = HandClock()
    asked(make_sandbox(folder=tmp_path, clock=clock), act)
    second = make_sandbox(folder=tmp_path, clock=clock)
    assert None not in asked(second, look)
    assert [each["reference"] for each in second.ledger] == ["c", "m"]
