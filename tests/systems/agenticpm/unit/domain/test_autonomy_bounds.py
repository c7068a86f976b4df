"""Tests of the limits of autonomy: permission by project state, lapsed reasons, sanitized outgoing texts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agenticpm.domain.addresses import LINK_REMOVED
from agenticpm.domain.autonomy import (
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
from agenticpm.domain.tickets import Evidence, Signal, SignalKind, TicketStage
from tests.systems.agenticpm.unit.domain.test_autonomy import OVERDUE, PROJECT, make_project
from tests.systems.agenticpm.unit.sample_snapshots import NOW, make_snapshot, make_ticket


@pytest.mark.parametrize("by_person", [True, False])
def test_approval_does_not_override_a_missing_project(by_person: bool) -> None:
    assert "no longer exists" in (find_refusal(None, COMMENT, is_approved=by_person) or "")


@pytest.mark.parametrize("named", [[], [MAIL], "comment", None, {"comment": True}])
def test_unlisted_action_needs_approval(named: Any) -> None:
    of = make_project(config={"allowed_actions": named})
    assert "allowed_actions" in (find_refusal(of, COMMENT) or "")
    assert find_refusal(of, COMMENT, is_approved=True) is None


# --- lapsed reasons -----------------------------------------------------------------------------------------


def make_detail(kind: SignalKind, **evidence: Any) -> dict[str, Any]:
    """Make the detail of a comment on MCU-1 that a signal of this kind caused."""
    rests_on = Evidence(ticket="MCU-1", field="f", **evidence)
    signal = Signal(kind=kind, subject="MCU-1", summary="s", evidence=(rests_on,))
    return {"kind": COMMENT, "ticket": "MCU-1", "text": "t", "because": build_signal_detail(signal)}


HOUR = timedelta(hours=1)
STALE = make_detail(SignalKind.stale, at=NOW - HOUR)
IN_PROGRESS: dict[str, Any] = {"stage": TicketStage.in_progress, "updated_at": NOW - HOUR}


@pytest.mark.parametrize(
    ("detail", "holds", "gone"),
    [
        (make_detail(SignalKind.blocked), {"is_blocked": True}, {"is_blocked": False}),
        (
            make_detail(SignalKind.blocked),
            {"is_blocked": True},
            {"is_blocked": True, "stage": TicketStage.done},
        ),
        (STALE, IN_PROGRESS, IN_PROGRESS | {"updated_at": NOW}),
        (STALE, IN_PROGRESS, IN_PROGRESS | {"stage": TicketStage.to_do}),
        (make_detail(SignalKind.missing_criteria), {"has_criteria": False}, {"has_criteria": True}),
        (
            make_detail(SignalKind.missing_criteria),
            {"has_criteria": False},
            {"has_criteria": False, "stage": TicketStage.done},
        ),
    ],
)
def test_comment_lapses_with_its_reason(
    detail: dict[str, Any], holds: dict[str, Any], gone: dict[str, Any]
) -> None:
    """`holds` are the ticket's fields while the reason holds, `gone` those when it no longer does."""
    assert find_lapsed_reason(make_snapshot(make_ticket("MCU-1", **holds)), detail) is None
    assert "MCU-1" in (find_lapsed_reason(make_snapshot(make_ticket("MCU-1", **gone)), detail) or "")


def test_ticket_missing_from_a_complete_snapshot_is_gone() -> None:
    """Its absence from a partial snapshot says nothing."""
    seen, detail = make_snapshot(make_ticket("MCU-2")), make_detail(SignalKind.blocked)
    assert find_lapsed_reason(seen, detail) is not None
    assert find_lapsed_reason(seen.model_copy(update={"is_partial": True}), detail) is None


def test_reason_holds_without_evidence_against_it() -> None:
    """Without a snapshot, without a reason, and for a mail."""
    assert find_lapsed_reason(None, make_detail(SignalKind.blocked)) is None
    assert find_lapsed_reason(make_snapshot(), {"kind": COMMENT, "ticket": "MCU-1", "text": "t"}) is None
    assert (
        find_lapsed_reason(make_snapshot(), {"kind": MAIL, "because": build_signal_detail(OVERDUE)}) is None
    )


# --- outgoing texts -----------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X14")
def test_does_not_mail_links_from_tickets_to_stakeholders() -> None:
    bait = "R001 (Account locked, sign in at https://evil.example/login or write to it@evil.example) was due"
    mail = propose(PROJECT, OVERDUE.model_copy(update={"summary": bait, "subject": "www.evil.example"}))
    assert isinstance(mail, Proposal)
    sent = parse_mail(mail.detail)
    assert "evil" not in sent.text + sent.subject + mail.description
    assert LINK_REMOVED in sent.text and LINK_REMOVED in sent.subject
    assert "Please update its state" in sent.text


def test_mail_subject_is_one_line_for_any_project_name() -> None:
    mail = propose(make_project(name="Member\r\nBcc: evil@example.com"), OVERDUE)
    assert isinstance(mail, Proposal)
    assert parse_mail(mail.detail).subject.isprintable()


@pytest.mark.parametrize(
    "to", [["a,evil@b.example"], ["a@b.example", "Ada <a@b.example>"], ["a@b.example\nBcc: c@d.example"]]
)
def test_does_not_mail_several_addresses_in_one(to: list[str]) -> None:
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
def test_describes_an_action_by_its_effect(detail: dict[str, Any], says: str) -> None:
    assert describe_action(detail) == says
