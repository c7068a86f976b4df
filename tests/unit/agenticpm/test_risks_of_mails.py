"""Risks from mails: one for a thread, ended when it falls silent, and never too many."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from agenticpm.domain.mail_signals import detect_mail_signals
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import MailMessage, MailPage, Snapshot, Writing
from agenticpm.domain.writers.raid_log import MAIL_RISKS_MAX, build_raid_log
from tests.unit.agenticpm.sample_snapshots import DAY, NOW, item, snapshot, ticket

SEEN = snapshot(*(ticket(f"MCU-{number}") for number in range(30)))


def received(*subjects: str, before: Snapshot = SEEN, at: datetime = NOW - DAY) -> Snapshot:
    count = len(before.mentions)
    mails = [
        MailMessage(id=f"m-{count + n}", subject=subject, received_at=at)
        for n, subject in enumerate(subjects)
    ]
    return detect_mail_signals(before, MailPage(messages=tuple(mails), checkpoint="c"), "MCU", at + DAY)[0]


def log_of(
    seen: Snapshot, previous: dict[str, Any] | None = None, now: datetime = NOW
) -> list[dict[str, Any]]:
    writing = Writing(type="raid_log", previous=previous, snapshot=seen, signals=(), raid_log=None, now=now)
    items: list[dict[str, Any]] = build_raid_log(writing, Thresholds())["items"]
    return items


def references(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["source_reference"], each["status"]) for each in items]


def test_mails_about_one_ticket_are_one_risk_also_when_more_come() -> None:
    seen = received(*["Re: MCU-1 will be delayed"] * 12)
    items = log_of(seen)
    assert references(items) == [("mail:MCU-1", "open")]
    more = received("MCU-1 is late, and urgent", before=seen, at=NOW)
    assert log_of(more, {"items": items}) == items


@pytest.mark.parametrize(
    "answer", ["Re: MCU: vendor delayed", "RE: Fwd: mcu: Vendor delayed", "AW[2]: MCU: vendor delayed"]
)
def test_mails_about_the_project_are_joined_by_their_subject(answer: str) -> None:
    assert references(log_of(received("MCU: vendor delayed", answer))) == [
        ("mail:MCU mcu: vendor delayed", "open")
    ]
    assert len(log_of(received("MCU: vendor delayed", "MCU: budget at risk"))) == 2


def test_the_risk_ends_when_no_mail_came_for_two_weeks_and_a_later_mail_raises_it_anew() -> None:
    seen = received("MCU-1 will be late")
    items = log_of(seen)
    reply = received("Re: MCU-1 will be late", before=seen, at=NOW + 5 * DAY)
    assert log_of(reply, {"items": items}, NOW + 18 * DAY) == items
    ended = log_of(reply, {"items": items}, NOW + 19 * DAY)
    assert (ended[0]["status"], ended[0]["resolution"]) == ("resolved", "No mail spoke of it for 14 days")
    assert log_of(reply, {"items": ended}, NOW + 20 * DAY) == ended
    again = received("MCU-1 is late again", before=reply, at=NOW + 21 * DAY)
    assert references(log_of(again, {"items": ended}, NOW + 21 * DAY)) == [
        ("mail:MCU-1", "resolved"),
        ("mail:MCU-1", "open"),
    ]


def test_a_risk_that_somebody_works_on_is_theirs_to_end() -> None:
    items = [log_of(received("MCU-1 will be late"))[0] | {"status": "mitigating"}]
    assert log_of(SEEN, {"items": items}, NOW + 90 * DAY) == items


def test_few_risks_of_mails_are_open_at_once_and_the_others_wait() -> None:
    seen = received(*(f"MCU-{number} is delayed" for number in range(MAIL_RISKS_MAX + 2)))
    items = log_of(seen)
    assert len(items) == MAIL_RISKS_MAX
    assert log_of(seen, {"items": items}) == items
    over = {"status": "closed", "resolution": "All is well", "resolved_date": "2026-02-11T09:00:00Z"}
    after = log_of(seen, {"items": [items[0] | over, *items[1:]]})
    assert [each["id"] for each in after][MAIL_RISKS_MAX:] == ["R011"]


def test_people_may_have_as_many_as_they_like_and_other_risks_are_raised_beside() -> None:
    own = [item(f"R{number:03}", source_reference=None) for number in range(1, 20)]
    stuck = snapshot(ticket("MCU-1"), ticket("MCU-2", is_blocked=True))
    items = log_of(received("MCU-1 is late", before=stuck), {"items": own})
    assert [each[0] for each in references(items)[19:]] == ["MCU-2", "mail:MCU-1"]
