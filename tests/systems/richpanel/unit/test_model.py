"""Tables, entities and settings as in the design document, on in-memory stores; every item expires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast import open_memory_stores, open_stores
from holdfast.config.settings import IN_MEMORY, Settings
from holdfast.core.errors import ConditionFailed, SettingsError
from holdfast.guarantees import AuditResult, Claim, Completion
from holdfast.model.entities import get_declaration
from holdfast.model.system import collect_patterns
from holdfast.runtime import create_tables
from richpanel.domain.inbound_events import build_event_message, parse_webhook
from richpanel.model import patterns
from richpanel.model.entities import (
    TABLES,
    ActionAudit,
    ActionType,
    ConversationState,
    IdempotencyRecord,
    Mode,
    PendingFlow,
    RecordKind,
    events,
)
from richpanel.settings import DAY_S, RANGES, RichpanelSettings, get_variable_name

NOW = datetime(2026, 2, 4, 12, tzinfo=UTC)


class FixedClock:
    """Clock fixed at NOW, so that items made at NOW have not expired."""

    def now(self) -> float:
        return NOW.timestamp()


def make_event_record(**changes: Any) -> IdempotencyRecord:
    """Make the idempotency record of an event, with some attributes changed."""
    values: dict[str, Any] = {
        "event_id": "evt:rp:c-1:m-1",
        "kind": RecordKind.event,
        "conversation_id": "c-1",
        "payload_sha256": "0" * 64,
        "payload_bytes": 10,
        "mode": Mode.route_only,
        "safe_mode": True,
        "automation_enabled": False,
        "expires_at": NOW + timedelta(days=30),
    }
    return IdempotencyRecord(**values | changes)


def make_state(**changes: Any) -> ConversationState:
    """Make a conversation state with its required attributes, and some changed."""
    values: dict[str, Any] = {
        "conversation_id": "c-1",
        "updated_at": NOW,
        "expires_at": NOW + timedelta(days=90),
    }
    return ConversationState(**values | changes)


@pytest.mark.proves("RP-6")
@pytest.mark.proves("RP-19")
@pytest.mark.proves("RP-27")
def test_tables_and_keys_match_the_document() -> None:
    assert {(table.name, table.partition, table.sort) for table in TABLES} == {
        ("rp_mw_idempotency", "event_id", None),
        ("rp_mw_conversation_state", "conversation_id", None),
        ("rp_mw_audit_actions", "conversation_id", "ts_action_id"),
        ("rp_mw_customers", "conversation_id", "customer_hash"),
        ("rp_mw_switches", "name", None),
        # Not in the document.
        ("rp_mw_reply_quality", "scope", "intent"),
    }


@pytest.mark.proves("RP-4")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_item_has_an_expiry(table: Any) -> None:
    assert table.ttl == "expires_at"
    for entity in table.entities:
        field = entity.model_fields["expires_at"]
        # Claiming sets the expiry of a guarantee's record; all other items must have one already.
        assert field.is_required() or entity is IdempotencyRecord


@pytest.mark.proves("RP-5")
@pytest.mark.proves("RP-X1")
async def test_table_names_contain_the_environment() -> None:
    async def list_names() -> set[str]:
        settings = Settings(tables=IN_MEMORY, environment="staging")
        async with open_stores(None, settings) as stores:
            return {stores.physical_name(table) for table in TABLES}

    assert await list_names() == {f"{table.name}-staging" for table in TABLES}
    assert events.physical_name("staging") == "rp_mw_events-staging.fifo"


@pytest.mark.proves("RP-7")
@pytest.mark.proves("RP-8")
@pytest.mark.proves("RP-17")
@pytest.mark.proves("RP-X2")
@pytest.mark.proves("RP-X3")
async def test_event_is_claimed_once_with_the_documented_attributes() -> None:
    async def claim_event() -> tuple[Any, Any, Any]:
        async with open_memory_stores(clock=FixedClock()) as stores:
            await create_tables(stores, TABLES)
            first = await patterns.EVENTS.claim(
                stores, make_event_record(source_message_id="m-1", received_at=NOW)
            )
            assert isinstance(first, Claim)
            begun = await stores.run(patterns.record("evt:rp:c-1:m-1"))
            await first.complete(intent="order_status")
            again = await patterns.EVENTS.claim(stores, make_event_record())
            return begun, again, await stores.run(patterns.record("evt:rp:c-1:m-1"))

    begun, again, kept = await claim_event()
    assert begun.status == "processing" and isinstance(again, Completion)
    item = get_declaration(IdempotencyRecord).to_item(kept)
    assert item["status"] == "processed" and item["mode"] == "route_only" and item["intent"] == "order_status"
    assert item.keys() >= {
        "event_id", "created_at", "last_processed_at", "received_at", "expires_at", "conversation_id",
        "safe_mode", "automation_enabled", "source_message_id", "payload_sha256", "payload_bytes",
    }  # fmt: skip
    assert kept.expires_at - kept.created_at == timedelta(days=30)
    assert isinstance(item["expires_at"], int) and isinstance(item["created_at"], str)


@pytest.mark.proves("RP-X5")
@pytest.mark.proves("RP-X6")
@pytest.mark.parametrize(
    "changes",
    [
        {"mode": None},
        {"payload_bytes": None},
        {"action_type": ActionType.tag},
        {"event_id": "act:rp_reply:c-1:m-1"},
        {"kind": RecordKind.action},
    ],
)
def test_record_requires_the_attributes_of_its_kind(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_event_record(**changes)


@pytest.mark.proves("RP-X5")
@pytest.mark.proves("RP-X6")
def test_action_has_its_own_attributes_and_optional_ones_may_be_absent() -> None:
    action = IdempotencyRecord(
        event_id="act:rp_reply:c-1:m-1",
        kind=RecordKind.action,
        conversation_id="c-1",
        payload_sha256="0" * 64,
        action_type=ActionType.auto_reply,
        of_event="evt:rp:c-1:m-1",
        expires_at=datetime(2026, 3, 1, tzinfo=UTC),
    )

    assert "mode" not in action.to_item()
    assert not {"received_at", "source_message_id", "intent"} & make_event_record().to_item().keys()


@pytest.mark.proves("RP-20")
@pytest.mark.proves("RP-X11")
def test_empty_state_stores_no_unset_attributes() -> None:
    assert make_state().to_item().keys() == {
        "conversation_id", "updated_at", "expires_at", "version", "replies", "handed_over"
    }  # fmt: skip


@pytest.mark.proves("RP-21")
def test_state_has_the_documented_attributes() -> None:
    flow = PendingFlow(type="need_order_number", requested_at=NOW, expires_at=NOW + timedelta(days=14))
    item = make_state(
        risk_flags=frozenset({"chargeback"}), pending_flow=flow, last_routing_confidence=0.5
    ).to_item()

    assert item["risk_flags"] == frozenset({"chargeback"})
    stored: Any = item["pending_flow"]
    assert (stored["type"], stored["attempts"]) == ("need_order_number", 1)
    assert {"requested_at", "expires_at"} <= stored.keys()


@pytest.mark.proves("RP-26")
@pytest.mark.proves("RP-X10")
async def test_stale_state_is_not_overwritten() -> None:
    async def provoke_conflict() -> int:
        async with open_memory_stores(clock=FixedClock()) as stores:
            await create_tables(stores, TABLES)
            await stores.run(patterns.create_state(make_state()))
            await stores.run(patterns.put_state(make_state(last_intent="complaint"), 1))
            with pytest.raises(ConditionFailed):
                await stores.run(patterns.put_state(make_state(last_intent="chargeback"), 1))
            kept = await stores.run(patterns.state("c-1"))
            assert kept is not None and kept.last_intent == "complaint"
            return kept.version

    assert await provoke_conflict() == 2


@pytest.mark.proves("RP-28")
@pytest.mark.proves("RP-29")
@pytest.mark.proves("RP-31")
@pytest.mark.proves("RP-X12")
@pytest.mark.proves("RP-X19")
async def test_audit_is_ordered_and_holds_nothing_personal() -> None:
    async def read_history() -> list[ActionAudit]:
        async with open_memory_stores(clock=FixedClock()) as stores:
            await create_tables(stores, TABLES)
            for number, kind in enumerate((ActionType.route, ActionType.tag, ActionType.auto_reply)):
                entry = patterns.AUDIT.record(
                    stores,
                    {"why": "asked by ada@example.com"},
                    at=NOW,
                    conversation_id="c-1",
                    action_type=kind,
                    idempotency_key=f"act:rp_reply:c-1:m-{number}",
                    result=AuditResult(ok=True, reason=None),
                )
                await stores.run(entry)
            return list(await stores.all(patterns.AUDIT.pattern_set.history("c-1")))

    found = await read_history()
    assert sorted(found, key=lambda each: each.place) in (found, found[::-1])
    assert {each.action_type for each in found} == {ActionType.route, ActionType.tag, ActionType.auto_reply}
    item = found[0].to_item()
    assert item.keys() >= {
        "conversation_id",
        "ts_action_id",
        "action_payload_redacted",
        "idempotency_key",
        "result",
    }
    assert "ada@example.com" not in str(item) and "***@***" in str(item)
    assert found[0].expires_at - NOW == timedelta(days=60)


@pytest.mark.proves("RP-25")
def test_queue_groups_by_conversation_and_deduplicates_events() -> None:
    body = b'{"ticket_id": "c:1", "message_id": "m-1", "trigger": "new", "text": "hello"}'
    outgoing = events.build_outgoing(build_event_message(parse_webhook(body), NOW))

    assert (outgoing.group, outgoing.deduplication) == ("c:1", "evt:rp:c%3A1:m-1")
    assert "hello" not in outgoing.body
    assert events.fifo and events.max_receives is not None


def test_every_pattern_builds_an_operation_from_its_example() -> None:
    made = [each.build_example() for each in collect_patterns(patterns)]

    assert len({each.pattern for each in made}) == len(made) >= 13


# --- settings -----------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-8")
@pytest.mark.proves("RP-22")
@pytest.mark.proves("RP-29")
def test_default_lifetimes_match_the_document() -> None:
    settings = RichpanelSettings.load({})

    assert (settings.idempotency_days, settings.state_retention_days, settings.audit_days) == (30, 90, 60)
    assert 7 <= settings.pending_flow_days <= 30 and settings.bucket_s == 300 and settings.audit


@pytest.mark.proves("RP-8")
def test_record_must_outlive_its_message() -> None:
    """A message may wait in the queue, then among the dead letters, and again after a redrive."""
    longest_s = events.retention_s + events.dead_retention_s + events.retention_s

    assert RANGES["idempotency_days"][0] * DAY_S > longest_s


@pytest.mark.proves("RP-30")
@pytest.mark.proves("RP-X15")
def test_reads_settings_from_the_environment_and_caps_the_state_lifetime() -> None:
    settings = RichpanelSettings.load(
        {"RP_MW_STATE_DAYS": "200", "RP_MW_STATE_DAYS_MAX": "45", "RP_MW_AUDIT": "off"}
    )

    assert settings.state_retention_days == 45 and not settings.audit


@pytest.mark.proves("RP-23")
@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("beyond", [-1, 1])
def test_refuses_an_out_of_range_number(name: str, beyond: int) -> None:
    least, _, most = RANGES[name]
    text = str(least - 1 if beyond < 0 else most + 1)

    with pytest.raises(SettingsError, match=get_variable_name(name)):
        RichpanelSettings.load({get_variable_name(name): text})


@pytest.mark.parametrize("variables", [{"RP_MW_AUDIT": "perhaps"}, {"RP_MW_AUDIT_DAYS": "sixty"}])
def test_refuses_an_invalid_value(variables: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="RP_MW_AUDIT"):
        RichpanelSettings.load(variables)
