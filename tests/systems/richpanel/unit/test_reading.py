"""Messages as they are read: language, subject, requests for a person, and risks in the sender's own "
"words."""

from __future__ import annotations

import pytest

from holdfast.ai import UNKNOWN, Classification
from richpanel.domain.human_requests import asks_for_person
from richpanel.domain.language import find_language
from richpanel.domain.mail.message import MailMessage
from richpanel.domain.reading import read_message, read_text
from richpanel.domain.risks import Risk, find_risk_words
from richpanel.domain.routing import Team, choose_team, get_likeliest_team

# --- language -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Where is my order?"),
        ("en", "refund???"),
        ("en", "thx"),
        ("en", "order 10482"),
        ("en", "Klarna declined"),
        ("en", "WHERE IS MY ORDER"),
        ("de", "Wo ist mein Paket?"),
        ("de", "Stornierung"),
        ("de", "WO IST MEINE BESTELLUNG"),
        ("de", "der newsletter-code geht nicht, da steht „code not applicable to your basket“"),
        ("fr", "Où en est ma commande ?"),
        ("es", "No ha llegado nada"),
        ("it", "Dove si trova il mio pacco?"),
        ("nl", "Waar blijft mijn bestelling"),
        ("pt", "cadê meu pedido"),
        ("pl", "Gdzie jest moja paczka"),
        ("ja", "ご注文はどこですか"),
        ("ru", "Где мой заказ?"),
        ("ko", "제 주문은 어디에 있나요"),
    ],
)
def test_recognises_the_language_of_short_messages(language: str, text: str) -> None:
    assert find_language(text) == language


def test_the_quoted_history_does_not_decide_the_language() -> None:
    quoted = "On Mon, 16 Nov 2026, Shop <a@b.example> wrote:\n> Hello, we sent your order today."
    mail = f"Danke, hat geklappt.\n\n{quoted}"

    assert read_text(mail).language == "de"


def test_a_message_in_another_language_goes_to_a_person() -> None:
    routing = choose_team(read_text("Wo ist meine Bestellung 48213?"), Classification(UNKNOWN, 0.0))

    assert routing.team is Team.triage and "written in de" in routing.reason


# --- subject and form ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", ["Re: ", "AW: ", "Fwd: ", "WG: ", "TR: ", "RE[2]: ", "Odp: ", "返信: ", "[Ticket 12] Re: "]
)
def test_the_subject_of_a_reply_is_not_the_senders(prefix: str) -> None:
    reading = read_text("Thanks!", f"{prefix}Your order 48213")

    assert reading.subject == "" and reading.order_candidates == ()
    assert read_text("Thanks!", "My order 48213").order_candidates != ()


def test_the_fields_of_a_contact_form_are_left_out() -> None:
    form = "Name: Kay Dixon\nPhone: 07700 900334\nTopic: Payment\nMessage:\ncharged me TWICE for order 92814"

    assert read_text(form).text == "charged me TWICE for order 92814"


def test_automatic_mail_has_no_order_numbers() -> None:
    mail = MailMessage(body="order 48213", headers={"auto-submitted": "auto-replied"})

    assert read_message(mail).order_candidates == ()


# --- people -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "I want to speak to a person",
        "can i talk to someone?",
        "Please have somebody call me",
        "Would a member of your staff please ring me?",
        "agent please",
        "no more bots",
        "I'd rather not explain it all to a machine",
        "i want to talk to somebody who actually works there",
    ],
)
def test_a_request_for_a_person_is_recognised(text: str) -> None:
    assert asks_for_person(text)


@pytest.mark.parametrize(
    "text",
    [
        "Where is my order?",
        "I already spoke to your colleague, thanks",
        "The washing machine does not start",
        "My agent number is on the box",
        "a person of 1.80 m should take which size?",
    ],
)
def test_other_mentions_of_people_are_not_requests(text: str) -> None:
    assert not asks_for_person(text)


# --- risks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "risk"),
    [
        ("someone bought things with my card", Risk.fraud_suspected),
        ("I never placed this order.", Risk.fraud_suspected),
        ("There is a charge on my statement I don't recognise", Risk.fraud_suspected),
        ("Das war ich nicht, jemand hat mein Konto benutzt", Risk.fraud_suspected),
        ("Ik heb helemaal niets besteld!", Risk.fraud_suspected),
        ("To nie ja zmieniłam ten adres!", Risk.fraud_suspected),
        ("han comprado con mi tarjeta y yo no he sido", Risk.fraud_suspected),
        ("身に覚えのない請求があります", Risk.fraud_suspected),
        ("My bank opened a case, paypal claim 123", Risk.chargeback),
        ("meine Bank hat die Lastschrift zurückgegeben", Risk.chargeback),
        ("The charger caught fire", Risk.safety),
        ("my daughter had an allergic reaction", Risk.safety),
        ("病院でアレルギー反応と診断されました", Risk.safety),
        ("You will hear from my lawyer", Risk.legal_threat),
        ("je vais porter plainte", Risk.legal_threat),
    ],
)
def test_finds_risks_in_many_words_and_languages(text: str, risk: Risk) -> None:
    assert risk in find_risk_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "is your site safe to pay on?",
        "at that fraudulently good price I bought two",
        "My bank's fraud filter stopped it. All fine now.",
        "Is the heater dangerous if left on?",
        "my daughter is allergic so i'd rather ask before i buy",
        "Is the fire pit safe on wood, or would it burn the boards?",
        "art deco lamp in brand new condition, explore more llamas",
        "a box of truffles",
        "¿Cómo te llamas?",
        "the stitches of the bag came loose",
    ],
)
def test_harmless_sentences_are_no_risk(text: str) -> None:
    assert find_risk_words(text) == frozenset()


def test_risks_in_quoted_text_do_not_count() -> None:
    quoted = "On 16 Nov 2026, Ada <ada@example.com> wrote:\n> This is fraud, I call my lawyer."
    mail = f"Thanks, all good.\n\n{quoted}"

    assert find_risk_words(read_text(mail).content) == frozenset()


# --- teams --------------------------------------------------------------------------------------------------


def test_the_intents_of_one_team_count_together() -> None:
    unsure = Classification(
        "product_question", 0.4, (("order_status", 0.3), ("delivery_problem", 0.25), ("complaint", 0.05))
    )

    team, confidence = get_likeliest_team(unsure)
    assert team is Team.orders and confidence == pytest.approx(0.55)


def test_what_is_out_of_scope_has_no_team() -> None:
    found = Classification(UNKNOWN, 0.7, (("out_of_scope", 0.7), ("complaint", 0.3)))

    assert get_likeliest_team(found)[0] is None
    assert choose_team(read_text("who won the match"), found).team is Team.triage
