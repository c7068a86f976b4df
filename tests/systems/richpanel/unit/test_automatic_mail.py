"""Mail that a program sent: bounces, automatic replies, newsletters and lists."""

from __future__ import annotations

import pytest

from richpanel.domain.mail.automatic import AutomaticKind, find_automatic_kind
from richpanel.domain.mail.message import MailMessage
from richpanel.domain.reading import read_message

PERSON = "Where is my order?"


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"auto-submitted": "auto-replied"}, AutomaticKind.auto_reply),
        ({"auto-submitted": "auto-generated; owner-email=a@b.example"}, AutomaticKind.auto_reply),
        ({"x-autoreply": "yes"}, AutomaticKind.auto_reply),
        ({"precedence": "auto_reply"}, AutomaticKind.auto_reply),
        ({"return-path": "<>", "from": "MAILER-DAEMON@mx.example"}, AutomaticKind.bounce),
        ({"x-failed-recipients": "ada@example.com"}, AutomaticKind.bounce),
        ({"list-unsubscribe": "<mailto:u@news.example>"}, AutomaticKind.newsletter),
        ({"precedence": "bulk"}, AutomaticKind.newsletter),
        (
            {"list-id": "<users.lists.example>", "list-post": "<mailto:users@lists.example>"},
            AutomaticKind.list,
        ),
        ({"precedence": "list"}, AutomaticKind.list),
        ({"auto-submitted": "no"}, None),
        ({"x-auto-response-suppress": "DR, OOF, AutoReply", "auto-submitted": "no"}, None),
        ({"list-id": "Help <help.shop.example>", "to": "help@shop.example", "precedence": "list"}, None),
        ({}, None),
    ],
)
def test_headers_tell_automatic_mail(headers: dict[str, str], kind: AutomaticKind | None) -> None:
    assert find_automatic_kind(MailMessage(body=PERSON, headers=headers), PERSON) is kind


def test_a_delivery_report_is_a_bounce() -> None:
    report = MailMessage(content_type="multipart/report", report_type="delivery-status")

    assert find_automatic_kind(report, "") is AutomaticKind.bounce


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Automatic reply: Your order", "I am away."),
        ("Abwesenheitsnotiz: Ihre Bestellung", "Ich bin im Urlaub."),
        ("Réponse automatique : commande", "Je suis absente."),
        ("Re: order", "I am out of the office until Monday. For urgent matters call Joan."),
        (
            "AW: Bestellung",
            "Ich bin bis 30. November nicht im Büro und lese keine E-Mails. In dringenden Fällen: Tel.",
        ),
        ("Re: uw bestelling", "Ik ben met vakantie tot en met 29 november en lees mijn mail niet."),
        ("自動返信", "休暇をいただいております。"),
    ],
)
def test_text_tells_an_automatic_reply_without_headers(subject: str, text: str) -> None:
    assert find_automatic_kind(MailMessage(subject=subject, body=text), text) is AutomaticKind.auto_reply


@pytest.mark.parametrize(
    "text",
    [
        "I'll be out of office from Friday, so could you send order 88321 to my home?",
        "I am on holiday until Monday. Can you hold the parcel?",
        "Please return my money.",
    ],
)
def test_a_person_who_is_away_is_a_person(text: str) -> None:
    assert find_automatic_kind(MailMessage(subject="Delivery", body=text), text) is None


def test_a_request_for_no_automatic_response_is_kept() -> None:
    mail = MailMessage(body=PERSON, headers={"x-auto-response-suppress": "OOF, AutoReply"})

    assert read_message(mail).refuses_auto_reply
    assert not read_message(MailMessage(body=PERSON)).refuses_auto_reply
