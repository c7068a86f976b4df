"""`Audit` in memory: append-only, ordered, redacted entries; components that only append or only read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import (
    Attr,
    Component,
    Entity,
    Key,
    Rate,
    Stores,
    System,
    Table,
    attr,
    keep_names,
    open_memory_stores,
)
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import (
    ComponentRefused,
    DeclarationError,
    InvalidRequest,
)
from holdfast.guarantees import Audit, AuditEntry, AuditResult, Redactor
from holdfast.reports.iam.policies import build_policy_files
from holdfast.runtime import create_tables

NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)

action_audit = Table(
    "rp_mw_action_audit", "conversation_id", "ts_action_id", ttl="expires_at", naming=keep_names
)
conversations = Table("Conversations", "conversation_id", naming=keep_names)


class ActionAudit(AuditEntry, table=action_audit):
    conversation_id: Attr[str] = attr()
    place: Attr[str] = attr("ts_action_id")
    payload: Attr[str] = attr("action_payload_redacted", default="{}")
    action: Attr[str] = attr("action_type")
    idempotency_key: Attr[str] = attr()

    of = Key(conversation_id, place)


class Conversation(Entity, table=conversations):
    conversation_id: Attr[str] = attr()
    team: Attr[str] = attr()

    of = Key(conversation_id)


def mask(text: str) -> str:
    """Mask a text with a custom redactor."""
    return re.sub(r"\S+@\S+", "***@***", text)


def make_audit(**settings: Any) -> Audit[ActionAudit]:
    """Return the audit of the help desk. `settings` are further arguments of `Audit`."""
    example = {"conversation_id": "c-1", "action": "route", "idempotency_key": "k"}
    return Audit(ActionAudit, prefix="AU", rate=Rate("action"), example=example, **settings)


AUDIT = make_audit()
ROUTE: dict[str, Any] = {"conversation_id": "c-1", "action": "route", "idempotency_key": "k-1"}
SYSTEM = System(
    "desk",
    "A help desk",
    tables=(action_audit, conversations),
    patterns=AUDIT.patterns,
    components=(
        Component("worker", uses=(AUDIT.writes,)),
        Component("api", uses=(AUDIT.reads,)),
    ),
)


class ManualClock:
    """Clock that moves only when the test sets it."""

    def __init__(self, moment: datetime = NOON) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment.timestamp()


async def open_audit_stores(clock: ManualClock) -> Stores:
    """Open in-memory stores with the help desk's tables."""
    stores = open_memory_stores(SYSTEM, clock=clock)
    await create_tables(stores, SYSTEM.tables)
    return stores


@pytest.mark.proves("RP-27")
@pytest.mark.proves("RP-28")
def test_stores_an_entry_under_the_attribute_names_of_its_system() -> None:
    stores = open_memory_stores(clock=ManualClock())
    item = AUDIT.record(
        stores, {"team": "billing"}, result=AuditResult(ok=False, reason="429"), **ROUTE
    ).build_item()

    place = item.pop("ts_action_id")
    assert isinstance(place, str)
    assert re.fullmatch(r"2026-02-04T12:00:00\.000000Z#[0-9A-HJKMNP-TV-Z]{26}", place)
    assert item == {
        "conversation_id": "c-1",
        "action_type": "route",
        "action_payload_redacted": '{"team":"billing"}',
        "idempotency_key": "k-1",
        "result": {"ok": False, "reason": "429"},
        "expires_at": int((NOON + timedelta(days=60)).timestamp()),
    }


async def test_reads_an_entry_back_with_its_time_and_payload() -> None:
    async with await open_audit_stores(ManualClock()) as stores:
        await stores.run(AUDIT.record(stores, {"team": "billing"}, id="a-1", **ROUTE))
        (found,) = await stores.run(AUDIT.pattern_set.history("c-1"))
        assert (found.at, found.entry_id, found.parsed_payload) == (NOON, "a-1", {"team": "billing"})


def test_no_pattern_updates_or_deletes() -> None:
    assert {pattern.build_example().kind for pattern in AUDIT.patterns} == {"PutItem", "Query"}
    (append,) = AUDIT.writes
    assert append.build_example().condition is not None


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30))
def test_entries_sort_in_creation_order_at_any_pace(steps: list[int]) -> None:
    clock, audit = ManualClock(), make_audit()
    stores = open_memory_stores(clock=clock)
    places = []
    for step in steps:
        clock.moment += timedelta(microseconds=step * 499)
        places.append(audit.record(stores, **ROUTE).entity.place)
    assert places == sorted(set(places))
    assert len({len(place) for place in places}) == 1


async def test_a_component_may_be_given_append_without_read() -> None:
    async with await open_audit_stores(ManualClock()) as stores:
        worker, api = stores.for_component("worker"), stores.for_component("api")
        await worker.run(AUDIT.record(worker, **ROUTE))
        for read in (AUDIT.pattern_set.history("c-1"), AUDIT.pattern_set.between("c-1", NOON, NOON)):
            with pytest.raises(ComponentRefused):
                await worker.run(read)
        assert len(await api.run(AUDIT.pattern_set.history("c-1"))) == 1
        with pytest.raises(ComponentRefused):
            await api.run(AUDIT.record(api, **ROUTE))


def test_policy_of_the_component_grants_append_without_read() -> None:
    def actions(component: str) -> set[str]:
        policy = json.loads(build_policy_files(SYSTEM)[f"desk-{component}.json"])
        several = {action for statement in policy["Statement"] for action in statement["Action"]}
        return {action for action in several if "Describe" not in action}

    assert actions("worker") == {"dynamodb:PutItem"}
    assert actions("api") == {"dynamodb:Query"}


texts = st.text(max_size=8).map(lambda text: f"{text} ada@example.com")
payloads = st.dictionaries(
    texts,
    st.recursive(
        texts | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner),
    ),
    max_size=4,
)


@given(payloads)
def test_redacts_every_text_of_a_payload_at_any_depth(payload: dict[str, Any]) -> None:
    audit = make_audit(max_payload_bytes=100_000, redact=mask)
    entry = audit.record(open_memory_stores(clock=ManualClock()), payload, **ROUTE).entity
    assert "ada@example.com" not in entry.payload
    assert len(json.loads(entry.payload)) == len(payload)


def test_masks_a_value_by_its_field_name() -> None:
    """A field name in the payload such as `phone` masks its value, whatever its form."""
    payload = {
        "order_number": "77231",
        "order_id": 77231,
        "inner": [{"phone": "5550132", "trackingNumber": "ABC99"}],
        "team": "billing",
    }
    entry = AUDIT.record(open_memory_stores(clock=ManualClock()), payload, **ROUTE).entity
    for secret in ("77231", "5550132", "ABC99"):
        assert secret not in entry.payload
    assert entry.parsed_payload["team"] == "billing"


def test_keeps_all_members_whose_names_have_the_same_mask() -> None:
    payload = {"ada@example.com": 1, "bob@example.com": 2, "in": {"eve@example.com": 3, "dan@example.com": 4}}
    entry = AUDIT.record(open_memory_stores(clock=ManualClock()), payload, **ROUTE).entity
    assert entry.parsed_payload == {"***@***": 1, "***@*** (2)": 2, "in": {"***@***": 3, "***@*** (2)": 4}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", b"bytes"], ids=repr)
def test_rejects_a_payload_that_is_not_json(value: object) -> None:
    with pytest.raises(InvalidRequest, match="kept as JSON"):
        AUDIT.record(open_memory_stores(clock=ManualClock()), {"value": value}, **ROUTE)


def test_an_example_needs_no_redactor() -> None:
    def missing(text: str) -> str:
        raise AssertionError("an example is redacted")

    append = make_audit(redact=missing).pattern_set.append
    assert append.build_example().entity.parsed_payload == {"example": "a reason"}


def test_given_redactor_masks_by_field_names_too() -> None:
    """A given `Redactor` masks by field names too, in its own style."""
    audit = make_audit(redact=Redactor("tokens"))
    payload = {"phone": "5550132", "text": "ada@example.com"}
    recorded = audit.record(open_memory_stores(clock=ManualClock()), payload, **ROUTE).entity.parsed_payload
    assert recorded == Redactor("tokens").redact_value(payload) != Redactor().redact_value(payload)


def test_redacts_the_reason_of_a_result() -> None:
    result = AuditResult(ok=False, reason="no such customer ada@example.com")
    entry = AUDIT.record(open_memory_stores(clock=ManualClock()), result=result, **ROUTE).entity
    assert entry.result == AuditResult(ok=False, reason="no such customer ***@***")


def test_rejects_a_large_payload() -> None:
    with pytest.raises(InvalidRequest, match="2048 are allowed"):
        AUDIT.record(open_memory_stores(clock=ManualClock()), {"text": "x" * 2048}, **ROUTE)


def test_error_names_the_attribute_that_the_entry_lacks() -> None:
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        AUDIT.record(open_memory_stores(clock=ManualClock()), conversation_id="c-1", action="route")


def test_stores_the_bound_correlation_id() -> None:
    stores = open_memory_stores(clock=ManualClock())
    assert AUDIT.record(stores, **ROUTE).entity.correlation is None
    with bind_correlation_id("e-7"):
        assert AUDIT.record(stores, **ROUTE).entity.correlation == "e-7"


async def test_entry_expires_with_its_lifetime() -> None:
    clock = ManualClock()
    async with await open_audit_stores(clock) as stores:
        await stores.run(make_audit(retention_s=3600).record(stores, **ROUTE))
        assert len(await stores.run(AUDIT.pattern_set.history("c-1"))) == 1
        clock.moment += timedelta(seconds=3601)
        assert len(await stores.run(AUDIT.pattern_set.history("c-1"))) == 0


def test_rejects_a_key_other_than_subject_and_place() -> None:
    table = Table("Loose", "subject", "action", ttl="expiresAt")

    class Loose(AuditEntry, table=table):
        subject: Attr[str] = attr()
        action: Attr[str] = attr()

        of = Key(subject, action)

    with pytest.raises(DeclarationError, match="Key\\(subject, place\\)"):
        Audit(Loose, prefix="LO", rate=Rate("action"), example={"subject": "s", "action": "a"})


def test_rejects_a_table_without_a_time_to_live() -> None:
    table = Table("Endless", "subject", "place")

    class Endless(AuditEntry, table=table):
        subject: Attr[str] = attr()
        place: Attr[str] = attr()

        of = Key(subject, place)

    with pytest.raises(DeclarationError, match="ttl"):
        Audit(Endless, prefix="EN", rate=Rate("action"), example={"subject": "s"})
