"""Tests of mail signals: mails about a ticket or trouble are reported once, without personal data."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from agenticpm.domain.signals import detect_mail_signals
from agenticpm.domain.tickets import Evidence, MailMessage, MailPage, Signal, Snapshot
from tests.systems.agenticpm.unit.sample_snapshots import DAY, NOW, make_snapshot, make_ticket

SEEN = make_snapshot(make_ticket("MCU-142"))


def make_mail(subject: str, id: str = "m-1", **fields: Any) -> MailMessage:
    given: dict[str, Any] = {"id": id, "subject": subject, "received_at": NOW - DAY}
    return MailMessage(**given | fields)


def detect_mails(
    *mails: MailMessage, before: Snapshot = SEEN, now: datetime = NOW, **how: Any
) -> tuple[Snapshot, list[Signal]]:
    """Detect the signals of these mails in the project MCU."""
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
def test_reports_a_mail_about_a_ticket_or_about_trouble_in_the_project(
    subject: str, found: tuple[str, str] | None
) -> None:
    _, signals = detect_mails(make_mail(subject))
    assert [(each.subject, each.severity) for each in signals] == ([] if found is None else [found])


def test_uses_the_preview_but_does_not_store_it() -> None:
    _, signals = detect_mails(make_mail("Hello", preview="MCU-142 is at risk, call me"))
    assert signals[0].severity == "warning"
    assert "call me" not in signals[0].model_dump_json()


def test_evidence_is_the_mail_and_its_short_subject_without_personal_data() -> None:
    subject = "MCU-142 delayed, ask ada@example.com or +61 412 345 678\u202e " + "x" * 500
    _, signals = detect_mails(make_mail(subject))
    (evidence,) = signals[0].evidence
    assert (evidence.ticket, evidence.field, evidence.at) == ("m-1", "subject", NOW - DAY)
    assert evidence.after is not None and len(evidence.after) == 120
    assert evidence.after.startswith("MCU-142 delayed, ask ***@*** or ***-***-5678 xxx")
    assert "ada@" not in signals[0].model_dump_json()


def test_reports_each_mail_once_even_when_read_again() -> None:
    seen, signals = detect_mails(make_mail("MCU-142"), make_mail("MCU-142"))
    assert len(signals) == 1
    assert detect_mails(make_mail("MCU-142"), before=seen)[1] == []


def test_mails_beyond_the_limit_come_in_the_next_commit() -> None:
    mails = [make_mail("MCU-142", f"m-{n}") for n in range(5)]
    seen, signals = detect_mails(*mails, limit=3)
    assert [each.evidence[0].ticket for each in signals] == ["m-0", "m-1", "m-2"]
    _, signals = detect_mails(*mails, before=seen, limit=3)
    assert [each.evidence[0].ticket for each in signals] == ["m-3", "m-4"]


def test_forgets_mentions_after_thirty_days_and_ignores_older_mails() -> None:
    seen, _ = detect_mails(make_mail("MCU-142"))
    assert seen.mentions == {"m-1": NOW - DAY}
    seen, _ = detect_mails(before=seen, now=NOW + 28 * DAY)
    assert set(seen.mentions) == {"m-1"}
    seen, signals = detect_mails(make_mail("MCU-142"), before=seen, now=NOW + 30 * DAY)
    assert (seen.mentions, signals) == ({}, [])


def test_does_not_report_a_removed_mail() -> None:
    assert detect_mails(make_mail("MCU-142", is_removed=True))[1] == []


def test_finds_an_asana_ticket_by_its_number() -> None:
    before = make_snapshot(make_ticket("1204567890123456"))
    _, signals = detect_mails(make_mail("Re: 1204567890123456"), before=before)
    assert signals[0].subject == "1204567890123456"
    assert isinstance(signals[0].evidence[0], Evidence)
