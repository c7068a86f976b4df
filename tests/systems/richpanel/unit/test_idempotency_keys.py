"""Idempotency keys: the document's formats, unique per thing, and the same for every copy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from richpanel.domain import idempotency_keys
from richpanel.domain.idempotency_keys import KeySource, build_event_key, parse_key

NOON = datetime(2026, 2, 4, 12, 3, 30, tzinfo=UTC)

# Arbitrary text in which separators and escape characters are frequent.
components = st.text(st.one_of(st.characters(), st.sampled_from(":%#/ 0A")), min_size=1, max_size=12)


@pytest.mark.proves("RP-10")
def test_event_key_is_conversation_and_message() -> None:
    assert build_event_key("c-1", "m-9", received_at=NOON).key == "evt:rp:c-1:m-9"


@pytest.mark.proves("RP-11")
@pytest.mark.proves("RP-X7")
def test_without_a_message_id_the_key_hashes_text_and_time_bucket() -> None:
    found = build_event_key("c-1", None, text="  Where is\tIT? ", created_at=NOON, received_at=NOON)

    bucket = "2026-02-04T12:00:00.000000Z"
    assert found.key == f"evt:rp:c-1:{sha256(f'where is it?{bucket}'.encode()).hexdigest()}"
    assert found.source is KeySource.text


@pytest.mark.proves("RP-12")
def test_reply_key_matches_the_document() -> None:
    assert idempotency_keys.build_reply_key("c-1", "m-9") == "act:rp_reply:c-1:m-9"


@pytest.mark.proves("RP-13")
def test_tag_key_matches_the_document() -> None:
    assert idempotency_keys.build_tag_key("c-1", "mw-routed", "m-9") == "act:rp_tag:c-1:mw-routed:m-9"


@pytest.mark.proves("RP-14")
def test_assignment_key_matches_the_document() -> None:
    assert idempotency_keys.build_assign_key("c-1", "risk", "m-9") == "act:rp_assign:c-1:risk:m-9"


@pytest.mark.proves("RP-15")
def test_lookup_key_matches_the_document() -> None:
    assert idempotency_keys.build_lookup_key("c-1", "48213") == "act:shopify_lookup:c-1:48213"


@pytest.mark.proves("RP-X8")
@pytest.mark.parametrize(
    ("conversation", "message", "key"),
    [
        ("a:b", "c", "evt:rp:a%3Ab:c"),
        ("a", "b:c", "evt:rp:a:b%3Ac"),
        ("a%3Ab", "c", "evt:rp:a%253Ab:c"),
        ("ü/é", "日本", "evt:rp:%C3%BC%2F%C3%A9:%E6%97%A5%E6%9C%AC"),
        ("a b", "~._-", "evt:rp:a%20b:~._-"),
    ],
)
def test_components_are_percent_encoded(conversation: str, message: str, key: str) -> None:
    assert build_event_key(conversation, message, received_at=NOON).key == key


@pytest.mark.proves("RP-X8")
@given(components, components, components)
def test_every_key_parses_back_into_its_components(one: str, two: str, three: str) -> None:
    assert parse_key(build_event_key(one, two, received_at=NOON).key).components == (one, two)
    assert parse_key(idempotency_keys.build_tag_key(one, two, three)).components == (one, two, three)
    assert parse_key(idempotency_keys.build_assign_key(one, two, three)).components == (one, two, three)
    assert parse_key(idempotency_keys.build_note_key(one, two, three)).components == (one, two, three)
    assert parse_key(idempotency_keys.build_reply_key(one, two)).components == (one, two)
    assert parse_key(idempotency_keys.build_lookup_key(one, two)).components == (one, two)


@pytest.mark.proves("RP-X8")
@given(st.tuples(components, components, components), st.tuples(components, components, components))
def test_different_components_never_share_a_key(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (idempotency_keys.build_tag_key(*one) == idempotency_keys.build_tag_key(*other)) == (one == other)
    assert (idempotency_keys.build_reply_key(*one[:2]) == idempotency_keys.build_reply_key(*other[:2])) == (
        one[:2] == other[:2]
    )


@pytest.mark.proves("RP-18")
@given(components, components, components)
def test_event_and_action_keys_never_collide(one: str, two: str, three: str) -> None:
    event = build_event_key(one, two, received_at=NOON).key
    actions = [
        idempotency_keys.build_reply_key(one, two),
        idempotency_keys.build_tag_key(one, two, three),
        idempotency_keys.build_assign_key(one, two, three),
        idempotency_keys.build_note_key(one, two, three),
        idempotency_keys.build_lookup_key(one, two),
    ]

    assert parse_key(event).namespace == "evt" and {parse_key(each).namespace for each in actions} == {"act"}
    assert len({event, *actions}) == 6


@pytest.mark.proves("RP-16")
def test_message_id_alone_determines_the_key() -> None:
    later = NOON + timedelta(days=2)

    assert build_event_key("c", "m", text="a", created_at=NOON, received_at=NOON) == build_event_key(
        "c", "m", text="edited", created_at=later, trigger="tag_added", received_at=later
    )


@pytest.mark.proves("RP-X7")
@given(st.integers(0, 299), st.integers(1, 300))
def test_copies_up_to_one_bucket_apart_share_a_key_or_a_neighbour(start: int, late: int) -> None:
    first = NOON.replace(minute=0, second=0) + timedelta(seconds=start)
    original = build_event_key("c", None, text="ok", created_at=first, received_at=first)
    copy = build_event_key(
        "c", None, text="OK ", created_at=first + timedelta(seconds=late), received_at=NOON
    )

    assert original.key in (copy.key, copy.previous)
    assert copy.key in (original.key, original.next)


@pytest.mark.proves("RP-X7")
def test_on_fallback_is_called_with_the_source_of_each_fallback_key() -> None:
    counted: list[KeySource] = []
    build_event_key("c", "m", text="ok", received_at=NOON, on_fallback=counted.append)
    build_event_key("c", None, text="ok", created_at=NOON, received_at=NOON, on_fallback=counted.append)
    build_event_key("c", None, trigger="new_message", received_at=NOON, on_fallback=counted.append)

    assert counted == [KeySource.text, KeySource.arrival]


def test_other_text_or_a_time_two_buckets_away_is_another_message() -> None:
    one = build_event_key("c", None, text="ok", created_at=NOON, received_at=NOON)
    other = build_event_key("c", None, text="okay", created_at=NOON, received_at=NOON)
    much_later = build_event_key(
        "c", None, text="ok", created_at=NOON + timedelta(minutes=10), received_at=NOON
    )

    assert len({one.key, one.previous, other.key, other.previous}) == 4
    assert one.key not in (much_later.key, much_later.previous)


@given(st.text())
def test_normalising_is_idempotent(text: str) -> None:
    assert idempotency_keys.normalise_text(
        idempotency_keys.normalise_text(text)
    ) == idempotency_keys.normalise_text(text)


def test_refuses_an_empty_component() -> None:
    with pytest.raises(InvalidRequest, match="empty component"):
        idempotency_keys.build_tag_key("c-1", "", "m-1")


@pytest.mark.parametrize(
    "key", ["", "evt", "evt:rp:a", "evt:rp:a:b:c", "act:rp_reply:a", "act:rp:a:b", "evt:rp::b"]
)
def test_refuses_to_parse_an_invalid_key(key: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid idempotency key"):
        parse_key(key)


@given(components.map(lambda text: text * 20))
def test_queue_token_fits_the_limits_of_the_queue(text: str) -> None:
    assert idempotency_keys.QUEUE_TOKEN.fullmatch(idempotency_keys.to_queue_token(text))


@given(components, components)
def test_different_texts_have_different_queue_tokens(one: str, other: str) -> None:
    assert (idempotency_keys.to_queue_token(one) == idempotency_keys.to_queue_token(other)) == (one == other)
