"""Mails that speak of a ticket or of trouble: each told once, without what identifies people."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from agenticpm.domain.signals import detect_mail_signals
from agenticpm.domain.tickets import Evidence, MailMessage, MailPage, Signal, Snapshot
from tests.unit.agenticpm.sample_snapshots import DAY, NOW, snapshot, ticket

SEEN = snapshot(ticket("MCU-142"))


def mail(subject: str, id: str = "m-1", **fields: Any) -> MailMessage:
    given: dict[str, Any] = {"id": id, "subject": subject, "received_at": NOW - DAY}
    return MailMessage(**given | fields)


def read(
    *mails: MailMessage, before: Snapshot = SEEN, now: datetime = NOW, **how: Any
) -> tuple[Snapshot, list[Signal]]:
    return detect_mail_signals(before, MailPage(messages=mails, checkpoint="c"), "MCU", now, **how)


@pytest.mark.parametrize(
    ("subject", "found"),
    [
        ("About mcu-142", ("MCU-142", "info")),
        ("MCU-142 will be late", ("MCU-142", "warning")),
        ("MCU: the vendor is delayed", ("MCU", "warning")),
        ("MCU-999 is blocked", ("MCU", "warning")),
        ("MCU lunch", None),
        ("The vendor is delayed", None),
        ("MCUX is delayed", None),
        ("XMCU-142 and MCU-1421", None),
    ],
)
def test_a_mail_is_told_that_names_a_ticket_or_the_project_with_trouble(
    subject: str, found: tuple[str, str] | None
) -> None:
    _, signals = read(mail(subject))
    assert [(each.subject, each.severity) for each in signals] == ([] if found is None else [found])


def test_the_preview_is_looked_at_and_not_kept() -> None:
    _, signals = read(mail("Hello", preview="MCU-142 is at risk, call me"))
    assert signals[0].severity == "warning"
    assert "call me" not in signals[0].model_dump_json()


def test_the_evidence_is_the_mail_and_its_subject_without_people_and_cut() -> None:
    subject = "MCU-142 delayed, ask ada@example.com or +61 412 345 678\u202e " + "x" * 500
    _, signals = read(mail(subject))
    (evidence,) = signals[0].evidence
    assert (evidence.ticket, evidence.field, evidence.at) == ("m-1", "subject", NOW - DAY)
    assert evidence.after is not None and len(evidence.after) == 120
    assert evidence.after.startswith("MCU-142 delayed, ask ***@*** or ***-***-5678 xxx")
    assert "ada@" not in signals[0].model_dump_json()


def test_each_mail_is_told_once_also_when_it_is_read_again() -> None:
    seen, signals = read(mail("MCU-142"), mail("MCU-142"))
    assert len(signals) == 1
    assert read(mail("MCU-142"), before=seen)[1] == []


def test_what_one_commit_has_no_room_for_comes_in_the_next() -> None:
    mails = [mail("MCU-142", f"m-{n}") for n in range(5)]
    seen, signals = read(*mails, limit=3)
    assert [each.evidence[0].ticket for each in signals] == ["m-0", "m-1", "m-2"]
    _, signals = read(*mails, before=seen, limit=3)
    assert [each.evidence[0].ticket for each in signals] == ["m-3", "m-4"]


def test_mentions_are_forgotten_after_thirty_days_and_older_mails_are_no_news() -> None:
    seen, _ = read(mail("MCU-142"))
    assert seen.mentions == {"m-1": NOW - DAY}
    seen, _ = read(before=seen, now=NOW + 28 * DAY)
    assert set(seen.mentions) == {"m-1"}
    seen, signals = read(mail("MCU-142"), before=seen, now=NOW + 30 * DAY)
    assert (seen.mentions, signals) == ({}, [])


def test_a_mail_that_was_removed_is_not_told() -> None:
    assert read(mail("MCU-142", is_removed=True))[1] == []


def test_a_ticket_of_asana_is_found_by_its_number() -> None:
    before = snapshot(ticket("1204567890123456"))
    _, signals = read(mail("Re: 1204567890123456"), before=before)
    assert signals[0].subject == "1204567890123456"
    assert isinstance(signals[0].evidence[0], Evidence)
