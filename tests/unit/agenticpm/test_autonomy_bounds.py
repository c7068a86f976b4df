"""Where the agent's own will ends: what it may do as a project is now, what has lost its reason, and what goes out of a text
that somebody else wrote."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agenticpm.domain.addresses import LINK_REMOVED
from agenticpm.domain.autonomy import (
    ALLOWABLE,
    COMMENT,
    MAIL,
    MOVE,
    Proposal,
    build_signal_detail,
    describe_action,
    find_lapsed_reason,
    find_refusal,
    parse_mail,
    propose,
)
from agenticpm.domain.tickets import Evidence, Signal, SignalKind, Stage
from agenticpm.model.entities import Autonomy, Project, ProjectStatus
from tests.unit.agenticpm.sample_snapshots import NOW, snapshot, ticket
from tests.unit.agenticpm.test_autonomy import BLOCKED, OVERDUE, PROJECT, project

# --- what may be done ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_person", [True, False])
@pytest.mark.parametrize("kind", ALLOWABLE)
def test_at_the_tactical_level_of_an_active_project_what_is_allowed_may_be_done(
    kind: str, by_person: bool
) -> None:
    assert find_refusal(PROJECT, kind, is_approved=by_person) is None


@pytest.mark.parametrize("by_person", [True, False])
@pytest.mark.parametrize(
    ("of", "says"),
    [
        (None, "no longer exists"),
        (project(status=ProjectStatus.paused), "paused"),
        (project(status=ProjectStatus.archived), "archived"),
        (project(autonomy_level=Autonomy.monitoring), "monitoring"),
        (project(autonomy_level=Autonomy.artefact), "artefact"),
    ],
)
def test_nobodys_yes_goes_against_the_status_or_the_level(
    of: Project | None, says: str, by_person: bool
) -> None:
    assert says in (find_refusal(of, COMMENT, is_approved=by_person) or "")


@pytest.mark.parametrize("named", [[], [MAIL], "comment", None, {"comment": True}])
def test_what_the_list_does_not_name_needs_a_persons_yes(named: Any) -> None:
    of = project(config={"allowed_actions": named})
    assert "allowed_actions" in (find_refusal(of, COMMENT) or "")
    assert find_refusal(of, COMMENT, is_approved=True) is None


@pytest.mark.parametrize("kind", [MOVE, "delete", "close", "reassign"])
def test_what_cannot_be_allowed_is_not_allowed_by_naming_it(kind: str) -> None:
    assert find_refusal(project(config={"allowed_actions": [kind]}), kind) is not None


# --- what has lost its reason -------------------------------------------------------------------------------


def because(kind: SignalKind, **evidence: Any) -> dict[str, Any]:
    rests_on = Evidence(ticket="MCU-1", field="f", **evidence)
    signal = Signal(kind=kind, subject="MCU-1", summary="s", evidence=(rests_on,))
    return {"kind": COMMENT, "ticket": "MCU-1", "text": "t", "because": build_signal_detail(signal)}


HOUR = timedelta(hours=1)
STALE = because(SignalKind.stale, at=NOW - HOUR)
IN_PROGRESS: dict[str, Any] = {"stage": Stage.in_progress, "updated_at": NOW - HOUR}


@pytest.mark.parametrize(
    ("detail", "stands", "gone"),
    [
        (because(SignalKind.blocked), {"is_blocked": True}, {"is_blocked": False}),
        (because(SignalKind.blocked), {"is_blocked": True}, {"is_blocked": True, "stage": Stage.done}),
        (STALE, IN_PROGRESS, IN_PROGRESS | {"updated_at": NOW}),
        (STALE, IN_PROGRESS, IN_PROGRESS | {"stage": Stage.to_do}),
        (because(SignalKind.missing_criteria), {"has_criteria": False}, {"has_criteria": True}),
        (
            because(SignalKind.missing_criteria),
            {"has_criteria": False},
            {"has_criteria": False, "stage": Stage.done},
        ),
    ],
)
def test_a_comment_stands_and_falls_with_what_it_is_about(
    detail: dict[str, Any], stands: dict[str, Any], gone: dict[str, Any]
) -> None:
    assert find_lapsed_reason(snapshot(ticket("MCU-1", **stands)), detail) is None
    assert "MCU-1" in (find_lapsed_reason(snapshot(ticket("MCU-1", **gone)), detail) or "")


def test_a_ticket_that_is_not_in_what_was_seen_in_whole_is_gone() -> None:
    seen, detail = snapshot(ticket("MCU-2")), because(SignalKind.blocked)
    assert find_lapsed_reason(seen, detail) is not None
    assert find_lapsed_reason(seen.model_copy(update={"is_partial": True}), detail) is None


def test_where_nothing_tells_the_reason_stands() -> None:
    assert find_lapsed_reason(None, because(SignalKind.blocked)) is None
    assert find_lapsed_reason(snapshot(), {"kind": COMMENT, "ticket": "MCU-1", "text": "t"}) is None
    assert find_lapsed_reason(snapshot(), {"kind": MAIL, "because": build_signal_detail(OVERDUE)}) is None


# --- what goes out ------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X14")
def test_a_link_in_a_ticket_is_not_mailed_to_the_stakeholders() -> None:
    bait = "R001 (Account locked, sign in at https://evil.example/login or write to it@evil.example) was due"
    mail = propose(PROJECT, OVERDUE.model_copy(update={"summary": bait, "subject": "www.evil.example"}))
    assert isinstance(mail, Proposal)
    sent = parse_mail(mail.detail)
    assert "evil" not in sent.text + sent.subject + mail.description
    assert LINK_REMOVED in sent.text and LINK_REMOVED in sent.subject
    assert "Please update its state" in sent.text


def test_a_mail_has_a_subject_of_one_line_whatever_the_project_is_called() -> None:
    mail = propose(project(name="Member\r\nBcc: evil@example.com"), OVERDUE)
    assert isinstance(mail, Proposal)
    assert parse_mail(mail.detail).subject.isprintable()


@pytest.mark.parametrize(
    "to", [["a,evil@b.example"], ["a@b.example", "Ada <a@b.example>"], ["a@b.example\nBcc: c@d.example"]]
)
def test_what_is_more_than_one_address_is_not_mailed(to: list[str]) -> None:
    with pytest.raises(ValueError, match="not a mail address"):
        parse_mail({"to": to, "subject": "s", "text": "t"})


@pytest.mark.parametrize(
    ("detail", "says"),
    [
        ({"kind": COMMENT, "ticket": "MCU-1", "text": "Any\nnews?"}, "Comment on MCU-1: Any news?"),
        ({"kind": MOVE, "ticket": "MCU-1", "status": "Done"}, "Move MCU-1 to Done"),
        ({"kind": MAIL, "to": ["a@b.example"], "subject": "Late"}, "Mail a@b.example: Late"),
        (
            {"kind": MAIL, "to": ["a@x", "b@x", "c@x", "d@x", "e@x"], "subject": "Late"},
            "Mail a@x, b@x, c@x and 2 more: Late",
        ),
        ({"kind": MAIL, "to": None, "subject": "Late"}, "Mail nobody: Late"),
        ({"kind": "delete"}, "Unknown action kind (delete)"),
    ],
)
def test_an_action_is_described_by_what_it_does(detail: dict[str, Any], says: str) -> None:
    assert describe_action(detail) == says


def test_the_agent_proposes_no_move() -> None:
    for kind in SignalKind:
        found = propose(PROJECT, BLOCKED.model_copy(update={"kind": kind}))
        assert not isinstance(found, Proposal) or found.kind != MOVE
