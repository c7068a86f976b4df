"""Tests of RAID risks from mails: one per thread, resolved after silence, and limited in number."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from agenticpm.domain.mail_signals import detect_mail_signals
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import MailMessage, MailPage, Snapshot, Writing
from agenticpm.domain.writers.raid_log import MAX_MAIL_RISKS, build_raid_log
from tests.systems.agenticpm.unit.sample_snapshots import DAY, NOW, make_item, make_snapshot, make_ticket

SEEN = make_snapshot(*(make_ticket(f"MCU-{number}") for number in range(30)))


def receive_mails(*subjects: str, before: Snapshot = SEEN, at: datetime = NOW - DAY) -> Snapshot:
    """Return the snapshot after mails with these subjects were read."""
    count = len(before.mentions)
    mails = [
        MailMessage(id=f"m-{count + n}", subject=subject, received_at=at)
        for n, subject in enumerate(subjects)
    ]
    return detect_mail_signals(before, MailPage(messages=tuple(mails), checkpoint="c"), "MCU", at + DAY)[0]


def build_items(
    seen: Snapshot, previous: dict[str, Any] | None = None, now: datetime = NOW
) -> list[dict[str, Any]]:
    """Build the next RAID log and return its items."""
    writing = Writing(type="raid_log", previous=previous, snapshot=seen, signals=(), raid_log=None, now=now)
    items: list[dict[str, Any]] = build_raid_log(writing, Thresholds())["items"]
    return items


def get_references(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the source reference and status of each item."""
    return [(each["source_reference"], each["status"]) for each in items]


def test_mails_about_one_ticket_are_one_risk() -> None:
    seen = receive_mails(*["Re: MCU-1 will be delayed"] * 12)
    items = build_items(seen)
    assert get_references(items) == [("mail:MCU-1", "open")]
    more = receive_mails("MCU-1 is late, and urgent", before=seen, at=NOW)
    assert build_items(more, {"items": items}) == items


@pytest.mark.parametrize(
    "answer", ["Re: MCU: vendor delayed", "RE: Fwd: mcu: Vendor delayed", "AW[2]: MCU: vendor delayed"]
)
def test_groups_mails_about_the_project_by_subject(answer: str) -> None:
    assert get_references(build_items(receive_mails("MCU: vendor delayed", answer))) == [
        ("mail:MCU mcu: vendor delayed", "open")
    ]
    assert len(build_items(receive_mails("MCU: vendor delayed", "MCU: budget at risk"))) == 2


def test_risk_closes_after_two_silent_weeks_and_a_later_mail_raises_a_new_one() -> None:
    seen = receive_mails("MCU-1 will be late")
    items = build_items(seen)
    reply = receive_mails("Re: MCU-1 will be late", before=seen, at=NOW + 5 * DAY)
    assert build_items(reply, {"items": items}, NOW + 18 * DAY) == items
    ended = build_items(reply, {"items": items}, NOW + 19 * DAY)
    assert (ended[0]["status"], ended[0]["resolution"]) == ("resolved", "No mail spoke of it for 14 days")
    assert build_items(reply, {"items": ended}, NOW + 20 * DAY) == ended
    again = receive_mails("MCU-1 is late again", before=reply, at=NOW + 21 * DAY)
    assert get_references(build_items(again, {"items": ended}, NOW + 21 * DAY)) == [
        ("mail:MCU-1", "resolved"),
        ("mail:MCU-1", "open"),
    ]


def test_does_not_close_a_risk_that_a_person_works_on() -> None:
    items = [build_items(receive_mails("MCU-1 will be late"))[0] | {"status": "mitigating"}]
    assert build_items(SEEN, {"items": items}, NOW + 90 * DAY) == items


def test_limits_the_open_risks_from_mails() -> None:
    seen = receive_mails(*(f"MCU-{number} is delayed" for number in range(MAX_MAIL_RISKS + 2)))
    items = build_items(seen)
    assert len(items) == MAX_MAIL_RISKS
    assert build_items(seen, {"items": items}) == items
    over = {"status": "closed", "resolution": "All is well", "resolved_date": "2026-02-11T09:00:00Z"}
    after = build_items(seen, {"items": [items[0] | over, *items[1:]]})
    assert [each["id"] for each in after][MAX_MAIL_RISKS:] == ["R011"]


def test_limit_applies_neither_to_peoples_risks_nor_to_other_kinds() -> None:
    own = [make_item(f"R{number:03}", source_reference=None) for number in range(1, 20)]
    stuck = make_snapshot(make_ticket("MCU-1"), make_ticket("MCU-2", is_blocked=True))
    items = build_items(receive_mails("MCU-1 is late", before=stuck), {"items": own})
    assert [each[0] for each in get_references(items)[19:]] == ["MCU-2", "mail:MCU-1"]
