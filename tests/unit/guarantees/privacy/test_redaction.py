"""`redact`, `redact_excerpt` and `redact_value` on examples: what is masked, how, and what stays."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast.guarantees import IdentifierKind, Redactor, redact, redact_excerpt, redact_value
from holdfast.guarantees.privacy.redaction import phones
from holdfast.guarantees.privacy.redaction.redactor import MAX_PLAN_CHARS
from tests.cases import all_cases

LONG = 200_000


@pytest.mark.proves("RP-32")
@all_cases(
    "address",
    [
        "joe@example.com",
        "JOE.Bloggs+shop@mail.example.co.uk",
        "o'hara@example.com",
        '"joe bloggs"@example.com',
        "joe＠example.com",
        "joe﹫example。com",
        "ｊｏｅ@ｅｘａｍｐｌｅ．ｃｏｍ",
        "jo\u200be@exam\u00adple.com",
        "grüße@straße.de",
        "用户@例子.公司",
        "उदाहरण@उदाहरण.भारत",
        "joe@xn--bcher-kva.example",
        "joe@[192.168.0.1]",
        "joe@localhost",
        "jose\u0301@example.com",
        "joe%40example.com",
        "joe&#64;example.com",
        "joe&#x40;example.com",
        "joe&commat;example.com",
        "joe\\u0040example.com",
    ],
)
def test_masks_an_email(address: str) -> None:
    assert redact(f"write to {address} please") == "write to ***@*** please"


def test_masks_two_adjoining_addresses_with_one_mask() -> None:
    assert redact("a@b.comc@d.org") == "***@***"


@pytest.mark.proves("RP-33")
@all_cases(
    ("number", "kept"),
    [
        ("+44 20 7946 0958", "0958"),
        ("+442079460958", "0958"),
        ("0044 20 7946 0958", "0958"),
        ("011 44 20 7946 0958", "0958"),
        ("(415) 555-0132", "0132"),
        ("415-555-0132", "0132"),
        ("415.555.0132", "0132"),
        ("4155550132", "0132"),
        ("1-415-555-0132", "0132"),
        ("+1 415 555 0132 ext. 55", "0132"),
        ("(415) 555-0132 x123", "0132"),
        ("07911 123456", "3456"),
        ("01 23 45 67 89", "6789"),
        ("030 901820", "1820"),
        ("+49 (0)30 901820", "1820"),
        ("+86 138 1234 5678", "5678"),
        ("+91 98765 43210", "3210"),
        ("+55 11 91234-5678", "5678"),
        ("+999 1234 5678", "5678"),
        ("４１５－５５５－０１３２", "0132"),
        ("٤١٥-٥٥٥-٠١٣٢", "0132"),
        ("415\u200b-\u2060555\u00a00132", "0132"),
        ("415\u2013555\u20110132", "0132"),
        ("＋44 20 7946 0958", "0958"),
        ("030/901820", "1820"),
        ("0171/1234567", "4567"),
        ("415_555_0132", "0132"),
        ("415 5550132", "0132"),
    ],
)
def test_masks_a_phone_and_keeps_its_last_four_digits(number: str, kept: str) -> None:
    assert redact(f"ring {number} today") == f"ring ***-***-{kept} today"


def test_short_local_number_is_a_phone_if_the_sentence_says_so() -> None:
    assert redact("call me on 555-0132") == "call me on ***-***-0132"
    assert redact("sizes 100-2000") == "sizes 100-2000"


def test_masks_two_adjacent_phones_separately() -> None:
    assert redact("+44 20 7946 0958 415-555-0132") == "***-***-0958 ***-***-0132"


def test_recognizes_phones_of_the_given_regions() -> None:
    """A number without a country code is masked only in its own region."""
    assert redact("ruf 91 123 45 67 an") == "ruf 91 123 45 67 an"
    assert Redactor(regions=("ES",)).redact("llama 911 234 567") == "llama ***-***-4567"


@pytest.mark.proves("RP-34")
@all_cases(
    ("text", "masked"),
    [
        ("#1001", "***1001"),
        ("#W2378156", "***8156"),
        ("# 123456", "***3456"),
        ("order 12345", "order ***2345"),
        ("Order: 12345", "Order: ***2345"),
        ("order no. W2378156", "order no. ***8156"),
        ("order number is 77", "order number is ***"),
        ("order_id=99887766", "order_id=***7766"),
        ("orders 1234, 5678 and 9012", "orders ***1234, ***5678 and ***9012"),
        ("SO-2024-0012", "***0012"),
        ("ORD12345", "***2345"),
        ("114-3941689-8772232", "***2232"),
        ("W2378156", "***8156"),
        ("order １２３４５", "order ***2345"),
        ("order 12\u200b345", "order ***2345"),
        ("order (12345)", "order (***2345)"),
        ("order [12345]", "order [***2345]"),
        ("order – 12345", "order – ***2345"),
        ("order nº 12345", "order nº ***2345"),
        ("Bestellnummer 12345", "Bestellnummer ***2345"),
        ("Auftragsnummer: 77", "Auftragsnummer: ***"),
        ("commande n° 12345", "commande n° ***2345"),
    ],
)
def test_masks_an_order_number_and_keeps_its_last_four_digits(text: str, masked: str) -> None:
    assert redact(text) == masked


def test_masks_a_shops_order_numbers_by_its_own_format() -> None:
    """Only the first group of the shop's own expression is masked."""
    own = Redactor(orders=(re.compile(r"\bBK([0-9]{5})Z\b"),))

    assert own.redact("it is BK77889Z") == "it is BK***7889Z"


@pytest.mark.proves("RP-35")
@all_cases(
    "number",
    [
        "1Z999AA10123456784",
        "1z999aa10123456784",
        "1Z 999 AA1 01 2345 6784",
        "9400100000000000000000",
        "9400 1000 0000 0000 0000 00",
        "420123459405511899223197428490",
        "123456789012",
        "1234 5678 9012",
        "123456789012345",
        "61290983110058724421",
        "AA123456789GB",
        "aa123456789gb",
        "RR 123 456 789 CN",
        "JJD000390007880123456",
        "TBA123456789000",
        "GM60511234500000001",
        "１Z999AA10123456784",
        "1Z999AA1\u200b0123456784",
        "https://www.ups.com/track?tracknum=1Z999AA10123456784",
        "https://tools.usps.com/go/TrackConfirmAction?tLabels=94001",
        "http://wwwapps.ups.com/WebTracking/processInputRequest",
        "www.dhl.de/privatkunden?piececode=1234",
        "fedex.com/fedextrack/?trknbr=1234",
        "https://shop.example/orders/7/tracking?id=abc",
        "https://track.shop.example/abc",
        "https://t.17track.net/en#nums=LX1",
    ],
)
def test_masks_a_tracking_number_or_link(number: str) -> None:
    assert redact(f"see {number} there") == "see *** there"


def test_recognizes_a_number_that_the_text_calls_a_tracking_number() -> None:
    assert redact("Tracking number: 1234567890.") == "Tracking number: ***."
    assert redact("track my order") == "track my order"


def test_leaves_a_link_that_tracks_nothing() -> None:
    assert redact("see https://shop.example/shoes?size=44") == "see https://shop.example/shoes?size=44"
    assert redact("see https://www.ups.com/") == "see https://www.ups.com/"


@pytest.mark.proves("RP-X13")
def test_overlapping_matches_prefer_email_then_link_then_phone_then_order() -> None:
    assert redact("4155550132@example.com") == "***@***"
    assert redact("https://shop.example/track?m=joe@example.com&o=12345&x=secret") == "***"
    assert redact("https://shop.example/me?m=joe@example.com") == "https://shop.example/me?m=***@***"
    assert redact("https://shop.example/track/4155550132") == "***"
    assert redact("order 415-555-0132") == "order ***-***-0132"
    assert redact("order 123456789012") == "order ***"


@pytest.mark.proves("RP-X16")
def test_masks_are_stars_by_default_or_tokens_on_request() -> None:
    text = "joe@example.com, +44 20 7946 0958, #1001, 1Z999AA10123456784"

    assert redact(text) == "***@***, ***-***-0958, ***1001, ***"
    assert redact(text, style="tokens") == "[EMAIL], [PHONE], [ORDER], [TRACKING]"


def test_masks_only_the_requested_kinds() -> None:
    only_mail = Redactor(kinds=frozenset({IdentifierKind.email}))

    assert only_mail.redact("joe@example.com #1001") == "***@*** #1001"


@all_cases(
    "text",
    [
        "costs $1,234,567.89 or 1.234.567,89 € or 1234567.89",
        "5@4.99 each",
        "am 05/06/24 10:30, 01/02/2024",
        "run 2024_05_06_123456 of 12_34_56",
        "100%4 &#8217; %40",
        "on 2024-05-06 at 12:30:45, or 05/06/2024 10:30, or 06.05.2024 1030",
        "2024-05-06T12:30:45.123456Z",
        "from 2023-01-01 to 2024-12-31",
        "1000000 units, 12 x 24, sizes 100-2000, 3/4, 50%",
        "version 10.15.7, 1.2.3.4567, v2024.11.15",
        "at 192.168.100.200:8080",
        "pi is 3.14159265358",
        "0.123456789",
        "ISBN 978-3-16-148410-0",
        "room 101, floor 12, postcode 94103-1234",
        "we open 9-17, Mon-Fri",
        "you ordered 3 shirts; order 100 of them",
        "order from 2024-05-06",
        "&#8217; and #1 and #42",
        "550e8400-e29b-41d4-a716-446655440000",
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "ping @bob",
    ],
)
def test_leaves_other_text_alone(text: str) -> None:
    """Prices, dates, versions, addresses of machines, UUIDs and digests stay as they are."""
    assert redact(text) == text


@all_cases("style", ["stars", "tokens"])
def test_redaction_is_idempotent(style: Any) -> None:
    text = "a@b.comc@d.org #1001#1002 +44 20 7946 0958415 ***4155550132 ***@x.com https://ups.com/a?m=a@b.org"
    once = redact(text, style=style)

    assert redact(once, style=style) == once
    assert "5550132" not in once


@pytest.mark.proves("RP-36")
def test_an_excerpt_is_redacted_before_it_is_cut() -> None:
    text = "x" * 70 + " joe@example.com is my address"

    assert redact_excerpt(text) == "x" * 70 + " ***@*** i"
    assert len(redact_excerpt("y" * 500)) == 80


@pytest.mark.proves("RP-36")
@all_cases("chars", range(30))
def test_an_excerpt_never_ends_inside_a_mask(chars: int) -> None:
    redacted = redact("hi joe@example.com +44 20 7946 0958")
    assert redacted == "hi ***@*** ***-***-0958"

    cut = redact_excerpt("hi joe@example.com +44 20 7946 0958", chars)

    assert len(cut) <= chars
    assert cut in ("", "h", "hi", "hi ", "hi ***@***", "hi ***@*** ", redacted)


def test_values_are_redacted_by_their_content_and_by_their_field_names() -> None:
    value = {
        "joe@example.com": ["+44 20 7946 0958", {"note": "order 12345"}],
        "orderNumber": "AB-7",
        "order_id": 12345,
        "customer_phone": 5550132,
        "trackingNumber": "XYZ",
        "email": "joe at home",
        "count": 12345,
        "paid": True,
        "none": None,
    }

    redacted = redact_value(value)

    assert redacted == {
        "***@***": ["***-***-0958", {"note": "order ***2345"}],
        "orderNumber": "***",
        "order_id": "***2345",
        "customer_phone": "***-***-0132",
        "trackingNumber": "***",
        "email": "***@***",
        "count": 12345,
        "paid": True,
        "none": None,
    }
    assert redact_value(redacted) == redacted


@all_cases("name", ["phones", "mobile_numbers", "customerPhone", "PHONE", "tel", "WhatsApp"])
def test_phone_field_name_masks_the_lists_and_maps_under_it(name: str) -> None:
    assert redact_value({name: ["5550132", 5550133, 5550134.0]}) == {
        name: ["***-***-0132", "***-***-0133", "***-***-0134"]
    }
    assert redact_value({name: {"home": {"first": "5550132"}}}) == {name: {"home": {"first": "***-***-0132"}}}


@all_cases(
    "name",
    [
        "order_id",
        "ORDER_ID",
        "OrderID",
        "orderId",
        "orderIDs",
        "order-ids",
        "orderNumbers",
        "last_order_no",
        "orderid",
    ],
)
def test_masks_order_numbers_by_every_spelling_of_the_field_name(name: str) -> None:
    assert redact_value({name: ["AB12345"]}) == {name: ["***2345"]}


def test_ignores_field_names_that_only_contain_a_known_one() -> None:
    value = {
        "order_note": "blue",
        "order_notes": ["no 7"],
        "hotel": "5550132",
        "telling": 1,
        "reorder": "1001",
    }

    assert redact_value(value) == value


def test_keeps_values_apart_whose_redacted_names_are_equal() -> None:
    redacted = redact_value({"joe@example.com": 1, "ann@example.com": 2, "bob@example.com": 3})

    assert redacted == {"***@***": 1, "***@*** (2)": 2, "***@*** (3)": 3}


def test_value_under_a_known_field_name_keeps_no_digits_outside_its_mask() -> None:
    assert redact_value({"phone": "5550132, or joe@example.com"}) == {"phone": "***-***-0132"}
    assert redact_value({"phone": "mine is +44 20 7946 0958"}) == {"phone": "mine is ***-***-0958"}
    assert redact_value({"order_id": 10**400 + 7}) == {"order_id": "***0007"}


def test_redacts_tuples_and_sets_as_lists() -> None:
    assert redact_value({("joe@example.com", 1)}) == [["***@***", 1]]
    assert redact_value(frozenset({frozenset({"joe@example.com"})})) == [["***@***"]]


@pytest.mark.proves("RP-33")
@all_cases("number", ["4155550132", "415 555 0132", "415 5550132", "911 234 567", "5550132"])
def test_masks_a_phone_in_a_long_text_without_numbering_plans(number: str) -> None:
    redacted = redact("so it is. " * (MAX_PLAN_CHARS // 10) + number + " and more")

    assert redacted.endswith(f"***-***-{number.replace(' ', '')[-4:]} and more")


def test_long_text_uses_no_numbering_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    # A matcher takes some tenths of a millisecond for each number: half a minute for a megabyte of them.
    """Above `MAX_PLAN_CHARS` the package `phonenumbers` is not called."""

    def ask(*_: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(phones, "_import_phonenumbers", ask)

    assert "5550132" not in redact("4155550132, " * (LONG // 12))
    with pytest.raises(AssertionError, match="asked"):
        redact("4155550132")


@all_cases(
    "hostile",
    [
        "a",
        "1",
        "@",
        "a@",
        "a.",
        "1-",
        "(",
        "+",
        "#",
        "http://",
        "1 ",
        "order ",
        "W1",
        "*",
        "\u200b",
        "é",
        "1Z",
        "9.",
        "ab@cd.",
    ],
)
def test_long_hostile_input_terminates(hostile: str) -> None:
    # A backtracking pattern would need hours for these.
    assert redact(hostile * (LONG // len(hostile))) is not None


def test_error_without_phonenumbers_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from holdfast.core.errors import SettingsError

    phones._import_phonenumbers.cache_clear()
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    with pytest.raises(SettingsError, match=r"pip install 'holdfast-state\[redaction\]'"):
        redact("4155550132")
    phones._import_phonenumbers.cache_clear()
