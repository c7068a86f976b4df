"""The sender's own words in a mail: without quotations, signatures and disclaimers."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from richpanel.domain.mail.html_text import convert_html
from richpanel.domain.mail.message import parse_mail
from richpanel.domain.mail.quoted_text import remove_quoted_text
from richpanel.domain.mail.signatures import remove_signature

OWN = "The lamp arrived broken. Can you send a new one?"
QUOTED = "Hello, your order #48213 is on its way. I want to speak to a person."


# --- quotations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "history",
    [
        f"On Mon, Nov 16, 2026 at 10:15 PM Shop <help@shop.example> wrote:\n\n> {QUOTED}",
        f"On Mon, Nov 16, 2026 at 10:15 PM Casa Brisa Assistant\n<info@casabrisa.example> wrote:\n> {QUOTED}",
        f"On 16/11/2026 10:15, Shop wrote:\n{QUOTED}",
        f"Am 16.11.2026 um 22:15 schrieb Shop:\n> {QUOTED}",
        f"Am Mo., 16. Nov. 2026 um 22:15 Uhr schrieb Shop <help@shop.example>:\n> {QUOTED}",
        f"Le lun. 16 nov. 2026 à 22:15, Shop <help@shop.example> a écrit :\n> {QUOTED}",
        f"El lun, 16 nov 2026 a las 22:15, Shop\n(<help@shop.example>) escribió:\n> {QUOTED}",
        f"Il giorno lun 16 nov 2026 alle ore 22:15 Shop <help@shop.example> ha scritto:\n> {QUOTED}",
        f"Op ma 16 nov 2026 om 22:15 schreef Shop <help@shop.example>:\n> {QUOTED}",
        f"Em seg., 16 de nov. de 2026 às 22:15, Shop <help@shop.example> escreveu:\n> {QUOTED}",
        f"pon., 16 lis 2026 o 22:15 Shop <help@shop.example>\nnapisał(a):\n> {QUOTED}",
        f"2026年11月16日(月) 22:15 Shop <help@shop.example>:\n> {QUOTED}",
        f"From: Shop <help@shop.example>\nSent: Monday, 16 November 2026 22:15\nTo: Ada\nSubject: "
        f"Order\n\n{QUOTED}",
        f"________________________________\nVon: Shop\nGesendet: Montag\nAn: Ada\nBetreff: Order\n\n{QUOTED}",
        f"*De :* Shop\n*Envoyé :* lundi\n*À :* Ada\n*Objet :* Commande\n\n{QUOTED}",
        f"差出人: Shop\n送信日時: 2026年11月16日\n宛先: Ada\n件名: 注文\n\n{QUOTED}",
        f"-----Original Message-----\nFrom: Shop\n\n{QUOTED}",
        f"---- Ursprüngliche Nachricht ----\n{QUOTED}",
        f"---------- Forwarded message ---------\nFrom: Shop\n{QUOTED}",
        f"Begin forwarded message:\n\nFrom: Shop\n\n{QUOTED}",
        f"##- Please type your reply above this line -##\n\n{QUOTED}",
    ],
)
def test_removes_history_of_many_clients_and_languages(history: str) -> None:
    assert remove_quoted_text(f"{OWN}\n\n{history}") == OWN


def test_keeps_a_line_that_ends_directly_above_the_history() -> None:
    mail = f"On Monday I ordered a lamp.\nOn Tue, 17 Nov 2026, Shop <a@b.example> wrote:\n> {QUOTED}"

    assert remove_quoted_text(mail) == "On Monday I ordered a lamp."


def test_keeps_answers_between_and_below_quoted_lines() -> None:
    answers = "> Which colour?\nGreen.\n\n> Which size?\nLarge."
    mail = f"On 16 Nov 2026, at 10:15, Shop <a@b.example> wrote:\n{answers}"

    assert remove_quoted_text(mail) == "Green.\n\nLarge."


@pytest.mark.parametrize(
    "text",
    [
        "On Monday I wrote: where is it? No answer.",
        "From: London\nI would like it sent from there.",
        "My list:\n- one lamp\n- two chairs\n--- that is all I need ---- ok",
        "To be honest: I am not happy.\nDate: do you have one?",
    ],
)
def test_keeps_text_that_only_resembles_history(text: str) -> None:
    assert remove_quoted_text(text) == text


# --- signatures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ending",
    [
        "Kind regards\nAda Lovelace",
        "Best,\nAda",
        "Thanks, Ada",
        "Many thanks in advance!\n\nAda Lovelace\n+44 20 7946 0855",
        "Mit freundlichen Grüßen\ni. A. Petra Lohse\nTel. 040 66969 330",
        "Viele Grüße und vielen Dank\nPetra",
        "Cordialement,\n\nClaire Dubreuil\n14 rue des Tanneurs, 69005 Lyon",
        "Saludos,\nMarta",
        "Cordiali saluti\nChiara Fontana",
        "Met vriendelijke groet,\nRick van Dam",
        "Atenciosamente,\nJoão",
        "Pozdrawiam\nAnna Nowak",
        "よろしくお願いいたします。\n------------------\n株式会社みなと商店",
        "-- \nAda Lovelace\nAnalyst",
        "Sent from my iPhone",
        "Von meinem iPhone gesendet",
        "Get Outlook for iOS",
        "This e-mail is confidential and intended solely for the addressee. If you received it in error, "
        "delete it.",
        "Diese E-Mail ist vertraulich und nur für den Adressaten bestimmt.",
        "Ce message est confidentiel et destiné à son seul destinataire.",
        "Ada Lovelace\nHead of Analysis\nt: 01632 960188 | e: ada@example.com",
    ],
)
def test_removes_closings_signatures_and_disclaimers(ending: str) -> None:
    assert remove_signature(f"{OWN}\n\n{ending}") == OWN


def test_removes_the_name_of_the_sender_below_the_last_line() -> None:
    assert remove_signature(f"{OWN}\nada", "Ada Lovelace") == OWN


@pytest.mark.parametrize(
    "text",
    [
        "Thanks!",
        "Thanks. Also, where is my other order?",
        f"{OWN}\n\nThanks.\n\nOne more thing: do you ship to Norway?",
        f"{OWN}\n\nOrder 48213",
        "Which one do I get?\n\nMoss green",
        "Best shop ever",
    ],
)
def test_keeps_text_that_only_resembles_a_signature(text: str) -> None:
    assert remove_signature(text) == text


# --- MIME and HTML ------------------------------------------------------------------------------------------


def test_reads_the_plain_part_and_leaves_attachments_out() -> None:
    mail = EmailMessage()
    mail["Subject"] = "Größe"
    mail["From"] = "Ada <ada@example.com>"
    mail.set_content(OWN)
    mail.add_alternative(f"<p>{OWN}</p>", subtype="html")
    mail.add_attachment("order 99999", filename="note.txt")
    inner = EmailMessage()
    inner.set_content(QUOTED)
    mail.add_attachment(inner)

    found = parse_mail(mail.as_bytes())
    assert (found.subject, found.body.strip(), found.sender_name) == ("Größe", OWN, "Ada")


def test_reads_html_if_the_plain_part_is_empty() -> None:
    mail = EmailMessage()
    mail.set_content("\n")
    mail.add_alternative(f"<html><body><p>{OWN}</p></body></html>", subtype="html")

    assert parse_mail(mail.as_bytes()).body == OWN


@pytest.mark.parametrize(
    ("charset", "content"),
    [
        ("iso-8859-1", "It costs 5 €".encode("cp1252")),
        ("unknown-charset", "It costs 5 €".encode()),
        ("utf-8", "It costs 5 €".encode("cp1252")),
    ],
)
def test_decodes_what_clients_declare_wrongly(charset: str, content: bytes) -> None:
    head = f"Subject: =?{charset}?q?ok?=\nContent-Type: text/plain; charset={charset}\n\n"

    assert parse_mail(head.encode() + content).body == "It costs 5 €"


@pytest.mark.parametrize(
    "raw", [b"", b"\xff\xfe\x00", b"Subject: =?utf-8?b?!!!?=\n\nx", b"Content-Type: a\n\n\x00"]
)
def test_broken_mail_is_read_without_an_error(raw: bytes) -> None:
    parse_mail(raw)


@pytest.mark.parametrize(
    "html",
    [
        f'<div>{OWN}</div><div class="gmail_quote"><div class="gmail_attr">On Mon, 16 Nov 2026, Shop '
        f"&lt;a@b.example&gt; wrote:<br></div><blockquote>{QUOTED}</blockquote></div>",
        f'<p>{OWN}</p><div id="appendonsend"></div><div id="divRplyFwdMsg">From: Shop</div><p>{QUOTED}</p>',
        f'<div>{OWN}</div><blockquote type="cite">{QUOTED}</blockquote>',
        f'<div>{OWN}</div><div class="yahoo_quoted"><p>{QUOTED}</p></div>',
        f'<div>{OWN}</div><div name="quote">Gesendet: Montag<br>{QUOTED}</div>',
        f'<div>{OWN}</div><div class="gmail_signature">Ada<br>Analyst</div>',
        f'<style>p {{color: red}}</style><span style="display:none">{QUOTED}</span><p>{OWN}</p>',
    ],
)
def test_html_has_only_the_senders_words(html: str) -> None:
    assert remove_signature(remove_quoted_text(convert_html(f"<html><body>{html}</body></html>"))) == OWN


def test_html_keeps_lines_paragraphs_and_lists() -> None:
    html = "<p>One<br>two&nbsp; three</p><ul><li>a</li><li>b</li></ul><div>four</div>"

    assert convert_html(html) == "One\ntwo three\n\n- a\n- b\n\nfour"


def test_deeply_nested_html_is_read() -> None:
    assert convert_html("<div>" * 5000 + OWN + "</div>" * 5000) == OWN
