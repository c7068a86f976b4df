"""The review of files: exports of several kinds of Jira, mails, and what is no such file."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agenticpm.api.review_command import read_project, review_export
from agenticpm.domain.tickets import TicketStage
from agenticpm.integrations.mail_files import parse_mail
from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Explanation

NOW = "2026-03-10T10:00:00+01:00"
SPRINT = {"id": 9, "name": "Sprint 9", "state": "active", "startDate": "2026-03-05T08:00:00.000Z"}
JAVA_SPRINT = "com.atlassian.greenhopper.service.sprint.Sprint@1[id=9,state=ACTIVE,name=Sprint 9,goal=]"


def build_adf(*blocks: str) -> dict[str, Any]:
    paragraphs = [{"type": "paragraph", "content": [{"type": "text", "text": each}]} for each in blocks]
    return {"type": "doc", "version": 1, "content": paragraphs}


def build_issue(key: str = "ABC-1", **fields: Any) -> dict[str, Any]:
    status = {"name": "In Progress", "statusCategory": {"key": "indeterminate"}}
    times = {"created": "2026-03-01T10:00:00.000+0100", "updated": "2026-03-09T10:00:00.000+0100"}
    return {"key": key, "fields": {"summary": "Sort", "status": status, "assignee": None, **times, **fields}}


def write(tmp_path: Path, body: Any, name: str = "issues.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(body))
    return path


async def run(path: Path, **options: Any) -> dict[str, Any]:
    found = await review_export(path, now=NOW, **options)
    assert isinstance(found, Explanation)
    return dict(found.data)


async def test_prints_health_signals_and_proposals(tmp_path: Path) -> None:
    said = {"created": "2026-03-09T10:00:00.000+0100", "body": build_adf("Blocked by the bank.")}
    path = write(tmp_path, {"issues": [build_issue(comment={"comments": [said]}, duedate="2026-03-12")]})
    found = await run(path)
    assert found["health"] == "amber"
    assert [(each["kind"], each["severity"], each["ticket"]) for each in found["signals"]] == [
        ("blocked", "medium", "ABC-1"),
        ("due_soon", "low", "ABC-1"),
    ]
    assert "Blocked by the bank." in found["signals"][0]["evidence"]
    (item,) = found["raid"]
    assert set(item) == {"kind", "title", "quote", "ticket"}
    assert (item["quote"], item["ticket"]) == ("Blocked by the bank.", "ABC-1")


async def test_prints_lines_for_a_person(tmp_path: Path) -> None:
    found = await review_export(write(tmp_path, {"issues": [build_issue(duedate="2026-03-09")]}), now=NOW)
    assert found.lines[0] == "Health: amber"
    assert any(each.startswith("  [medium] overdue: ABC-1") for each in found.lines)


@pytest.mark.parametrize("value", [[SPRINT], [JAVA_SPRINT]])
def test_finds_sprint_points_and_flag_by_their_shape(tmp_path: Path, value: Any) -> None:
    fields = {"customfield_1": value, "customfield_2": 5, "customfield_3": [{"value": "Impediment"}]}
    project = read_project(write(tmp_path, {"issues": [build_issue(**fields)]}))
    (item,) = project.items
    assert (item.sprints, item.points, item.is_flagged) == (("9", "Sprint 9"), Decimal(5), True)
    assert [(each.name, each.state) for each in project.sprints] == [("Sprint 9", "active")]


def test_accepts_what_is_missing_or_malformed(tmp_path: Path) -> None:
    odd = {
        "key": "ABC-2",
        "fields": {"summary": None, "duedate": "soon", "labels": None, "issuelinks": [None]},
    }
    late = build_issue("ABC-3", status={"name": "Erledigt"}, duedate="2026-03-01T00:00:00.000+0000")
    first, second = read_project(write(tmp_path, [odd, late])).items
    assert (first.stage, first.due) == (TicketStage.to_do, None)
    assert (second.stage, str(second.due)) == (TicketStage.done, "2026-03-01")


def test_one_status_name_has_one_stage(tmp_path: Path) -> None:
    done = {"name": "Live", "statusCategory": {"key": "done"}}
    stray = {"name": "Live", "statusCategory": {"key": "new"}}
    issues = [build_issue(f"ABC-{number}", status=done) for number in range(3)]
    items = read_project(write(tmp_path, {"issues": [*issues, build_issue("ABC-9", status=stray)]})).items
    assert {each.stage for each in items} == {TicketStage.done}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"values": []}, "expected a Jira search result"),
        ({"issues": [{"id": "1"}]}, "issue 0 has no key or no fields"),
        ("text", "expected a Jira search result"),
    ],
)
async def test_refuses_what_is_no_search_result(tmp_path: Path, body: Any, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        await run(write(tmp_path, body))


async def test_refuses_unreadable_files_and_times(tmp_path: Path) -> None:
    path = write(tmp_path, {"issues": []})
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InvalidRequest, match="expected JSON"):
        await run(tmp_path / "bad.json")
    with pytest.raises(InvalidRequest, match="Cannot read"):
        await run(tmp_path / "none.json")
    with pytest.raises(InvalidRequest, match="expected a list of Agile sprints"):
        await run(path, sprints=path)
    with pytest.raises(InvalidRequest, match="expected a folder"):
        await run(path, mails=path)
    with pytest.raises(InvalidRequest, match="ISO 8601"):
        await review_export(path, now="tomorrow")


async def test_reads_mails_without_what_they_quote(tmp_path: Path) -> None:
    html = "<p>There is a risk that the hall is closed.</p><blockquote>There is a risk of rain.</blockquote>"
    mail = f"From: ann@example.com\nSubject: Hall\nContent-Type: text/html; charset=utf-8\n\n{html}"
    (tmp_path / "1.eml").write_text(mail)
    found = await run(write(tmp_path, {"issues": []}), mails=tmp_path)
    assert [(each["kind"], each["quote"], each["ticket"]) for each in found["raid"]] == [
        ("risk", "There is a risk that the hall is closed.", None)
    ]


def test_reads_mails_in_any_encoding() -> None:
    body = "Date: nonsense\nContent-Type: text/plain; charset=unknown-8\n\nGr\u00fc\u00dfe".encode("latin-1")
    found = parse_mail(body, "1.eml")
    assert found.at is None
    assert found.text.startswith("Gr")
    assert parse_mail(b"Auto-Submitted: auto-replied\n\nI am away.", "2.eml").is_automatic
