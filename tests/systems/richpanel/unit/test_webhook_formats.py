"""Parsing of every sender's webhook: the event, refused bodies, its hash, and its queue message."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.core.errors import InvalidRequest, MalformedRequest, RequestError
from richpanel.domain.inbound_events import MAX_BODY_BYTES, InboundEvent, build_event_message, parse_webhook

NOW = datetime(2026, 2, 4, 12, tzinfo=UTC)
FULL: dict[str, Any] = {
    "ticket_id": "t-77",
    "ticket_url": "https://desk.example/t-77",
    "trigger": "new_message",
    "message_id": "m-1",
    "text": "Where is order 48213? ada@example.com",
    "created_at": "2026-02-04T13:00:00+01:00",
    "channel": "email",
    "customer": {"email": "ada@example.com", "name": "Ada"},
    "tags": ["vip"],
}


def parse(payload: Any, sender: str = "richpanel") -> InboundEvent:
    """Parse a payload as the JSON body of a sender's webhook."""
    return parse_webhook(json.dumps(payload).encode(), sender)


def test_accepts_the_minimal_payload() -> None:
    event = parse({"ticket_id": "t-77", "ticket_url": "https://desk.example/t-77", "trigger": "new_message"})

    assert (event.conversation_id, event.message_id, event.text) == ("t-77", None, "")
    assert event.build_key(NOW).is_fallback


def test_fuller_payload_includes_the_message() -> None:
    event = parse(FULL)

    assert (event.conversation_id, event.message_id, event.channel) == ("t-77", "m-1", "email")
    assert event.created_at == datetime(2026, 2, 4, 12, tzinfo=UTC)
    assert event.customer_email == "ada@example.com" and event.tags == ("vip",)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"ticket_id": None}, "conversation_id"),
        ({"ticket_id": ["t"]}, "conversation_id"),
        ({"ticket_id": "a b"}, "conversation_id"),
        ({"ticket_id": "x" * 129}, "conversation_id"),
        ({"message_id": True}, "message_id"),
        ({"text": 5}, "text"),
        ({"text": "x" * 20_001}, "text"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"created_at": "2026-02-04T13:00:00"}, "created_at"),
        ({"created_at": "1989-12-31T23:59:59Z"}, "created_at"),
        ({"created_at": "2200-01-01T00:00:00Z"}, "created_at"),
        ({"ticket_id": ".."}, "conversation_id"),
        ({"ticket_id": "ada@example.com"}, "conversation_id"),
        ({"tags": "vip"}, "tags"),
    ],
)
def test_names_an_invalid_member_without_its_value(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named) as refused:
        parse(FULL | change)

    assert "ada@example.com" not in str(refused.value)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"ticket_id": NaN}', b"[" * 100_000]
)
def test_refuses_a_body_that_is_not_an_object(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_webhook(body)


def test_refuses_an_oversized_body() -> None:
    with pytest.raises(InvalidRequest, match="bytes"):
        parse_webhook(b" " * (MAX_BODY_BYTES + 1))


def test_refuses_an_unknown_sender() -> None:
    with pytest.raises(InvalidRequest, match="zendesk"):
        parse_webhook(b"{}", "nobody")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = [
    "ticket_id",
    "message",
    "text",
    "event",
    "detail",
    "ticket",
    "conversation",
    "sender",
    "freshdesk_webhook",
]


@given(
    st.dictionaries(st.sampled_from(MEMBERS), JSON),
    st.sampled_from(["richpanel", "zendesk", "gorgias", "freshdesk", "chatwoot"]),
)
def test_arbitrary_json_is_parsed_or_refused(payload: dict[str, Any], sender: str) -> None:
    with suppress(RequestError):
        assert parse(payload, sender).conversation_id


@pytest.mark.proves("RP-9")
@given(st.permutations(list(FULL)), st.sampled_from([None, 1, 4]))
def test_hash_ignores_member_order_and_white_space(order: list[str], indent: int | None) -> None:
    body = json.dumps({name: FULL[name] for name in order}, indent=indent).encode()

    event = parse_webhook(body)
    assert (event.payload_sha256, event.payload_bytes) == (
        parse(FULL).payload_sha256,
        parse(FULL).payload_bytes,
    )


@pytest.mark.proves("RP-9")
@pytest.mark.parametrize(
    "change", [{"text": "other"}, {"message_id": "m-2"}, {"channel": "chat"}, {"ticket_id": "t-78"}]
)
def test_other_content_has_another_hash(change: dict[str, Any]) -> None:
    assert parse(FULL | change).payload_sha256 != parse(FULL).payload_sha256


@pytest.mark.proves("RP-16")
def test_hash_ignores_tags_and_trigger() -> None:
    copy = parse(FULL | {"tags": ["vip", "mw-routed"], "trigger": "retry"})

    assert copy.payload_sha256 == parse(FULL).payload_sha256


@pytest.mark.proves("RP-2")
@pytest.mark.proves("RP-3")
@pytest.mark.proves("RP-37")
def test_queue_message_holds_ids_hash_and_size_but_no_text() -> None:
    event = parse(FULL)
    message = build_event_message(event, NOW)

    sent = message.model_dump_json()
    for private in ("Where is", "48213", "ada", "example.com"):
        assert private not in sent
    assert message.payload_sha256 == event.payload_sha256
    assert message.payload_bytes == len(event.encode_canonical())
    assert (message.event_id, message.message_key) == ("evt:rp:t-77:m-1", "m-1")


@pytest.mark.proves("RP-3")
@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("new_message", "new_message"),
        ("zen:event-type:ticket.comment_added", "zen:event-type:ticket.comment_added"),
        ("written by Ada", "other"),
        ("ada@example.com", "other"),
        ("tag added: mw-routed by Ada", "mw-routed"),
    ],
)
def test_queue_message_holds_only_the_name_of_a_trigger(written: str, kept: str) -> None:
    message = build_event_message(parse(FULL | {"trigger": written, "channel": "Ada's phone"}), NOW)

    assert (message.trigger, message.channel) == (kept, "unknown")


@pytest.mark.parametrize(
    ("trigger", "is_echo"),
    [("tag_added:mw-routed", True), ("mw-routed", True), ("bmw-club-form", False), ("x-mw-tag", False)],
)
def test_echo_is_recognised_by_the_tag_prefix(trigger: str, is_echo: bool) -> None:
    assert build_event_message(parse(FULL | {"trigger": trigger}), NOW).is_echo is is_echo


@pytest.mark.proves("RP-3")
def test_validation_error_quotes_no_values() -> None:
    with pytest.raises(ValidationError) as refused:
        InboundEvent(conversation_id="c-1", text="swordfish \ud83d", tags=("swordfish" * 20,))

    assert "swordfish" not in str(refused.value)


SHAPES: dict[str, dict[str, Any]] = {
    "zendesk": {
        "type": "zen:event-type:ticket.comment_added",
        "time": "2026-02-04T12:00:00Z",
        "detail": {"id": "35436", "via": {"channel": "email"}, "tags": ["vip"]},
        "event": {"comment": {"id": "c-9", "body": "hello", "author": {"id": "1", "is_staff": False}}},
    },
    "gorgias": {
        "event": "ticket-message-created",
        "ticket": {"id": 35436, "customer": {"email": "ada@example.com"}, "tags": [{"name": "vip"}]},
        "message": {
            "id": 9,
            "body_text": "hello",
            "from_agent": False,
            "channel": "email",
            "created_datetime": "2026-02-04T12:00:00Z",
        },
    },
    "freshdesk": {
        "freshdesk_webhook": {
            "ticket_id": 35436,
            "ticket_latest_comment_id": 9,
            "ticket_latest_public_comment": "hello",
            "ticket_source": "email",
            "ticket_created_at": "2026-02-04T12:00:00Z",
            "ticket_contact_email": "ada@example.com",
            "ticket_tags": "vip, new",
            "triggered_event": "reply",
        }
    },
    "chatwoot": {
        "event": "message_created",
        "id": 9,
        "content": "hello",
        "message_type": "incoming",
        "created_at": 1770206400,
        "sender": {"email": "ada@example.com", "type": "contact"},
        "conversation": {"id": 35436, "channel": "email", "labels": ["vip"]},
    },
}


@pytest.mark.parametrize("sender", SHAPES)
def test_every_other_help_desk_format_gives_the_expected_event_fields(sender: str) -> None:
    """The fields agree for all senders; only the message ids differ, and Freshdesk has no time."""
    event = parse(SHAPES[sender], sender)

    assert (event.conversation_id, event.text, event.channel) == ("35436", "hello", "email")
    assert event.message_id in ("9", "c-9")
    # Freshdesk sends only the ticket's time, which is not the message's.
    assert event.created_at == (None if sender == "freshdesk" else datetime(2026, 2, 4, 12, tzinfo=UTC))
    assert event.author == "customer" and "vip" in event.tags


def test_distinguishes_agents_and_automations_from_customers() -> None:
    """An automation is recognised too."""
    chatwoot = SHAPES["chatwoot"] | {"message_type": "outgoing", "sender": {"type": "user"}}
    zendesk = SHAPES["zendesk"] | {
        "event": {"comment": {"id": "1", "body": "x", "author": {"is_staff": True}}}
    }

    assert parse(chatwoot, "chatwoot").author == "agent"
    assert parse(zendesk, "zendesk").author == "agent"
    assert parse(FULL | {"author": "bot"}).author == "automation"
