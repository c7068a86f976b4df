"""Contract tests of audit entries and connections on every engine: order, ranges, lifetimes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Stores
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import ConditionFailed
from holdfast.model.ulids import Ulid, UlidGenerator
from holdfast.operations.tables import GetItem
from tripcortex.model import patterns
from tripcortex.model.entities import (
    AuditEvent,
    AuditRecord,
    Connection,
    EmployeeId,
    audit_log,
    compute_audit_expiry,
    connections,
)

from .conftest import Bench

SECOND = timedelta(seconds=1)


def make_entry(ids: UlidGenerator, booking_id: Ulid, at: datetime, employee_id: EmployeeId) -> AuditRecord:
    return AuditRecord(
        booking_id=booking_id,
        audit_id=ids.new(),
        employee_id=employee_id,
        timestamp=at,
        event=AuditEvent.policy_retrieval,
        step="EmbedAndRetrieve",
        input={"user_request": "Flight to Chicago next Tuesday...", "query_embedding_dim": 1024},
        output={"chunks_retrieved": 5, "confidence": "high"},
        latency_ms=450,
        expires_at=compute_audit_expiry(at),
    )


@pytest.mark.proves("TC-72", "TC-73", "TC-75", "TC-76", "TC-X4")
async def test_entry_has_the_documents_names_and_cannot_be_overwritten(bench: Bench) -> None:
    ids, at = UlidGenerator(bench.clock), bench.clock.moment
    made = make_entry(ids, ids.new(), at, bench.employee)
    await bench.stores.run(patterns.append_audit(made))
    key = {"bookingId": made.booking_id, "auditId": made.audit_id}
    stored = await get_item(bench.stores, audit_log.name, key)
    assert stored == {
        **key,
        "employeeId": bench.employee,
        "timestamp": "2126-03-10T14:30:00.000000Z",
        "event": "policy_retrieval",
        "step": "EmbedAndRetrieve",
        "input": {"user_request": "Flight to Chicago next Tuesday...", "query_embedding_dim": 1024},
        "output": {"chunks_retrieved": 5, "confidence": "high"},
        "latencyMs": 450,
        "expiresAt": int(at.replace(year=2128).timestamp()),
    }
    with pytest.raises(ConditionFailed):
        await bench.stores.run(patterns.append_audit(made.model_copy(update={"step": "Other"})))
    assert await get_item(bench.stores, audit_log.name, key) == stored


async def get_item(stores: Stores, table: str, key: Mapping[str, str]) -> object:
    """Return the stored item itself, past the entity."""
    physical = next(each for each in (audit_log, connections) if each.name == table).physical_name(
        stores.environment
    )
    found = await stores.tables.run(GetItem(table=physical, key=dict(key), consistent=True))
    return found.item


@pytest.mark.proves("TC-77", "TC-78")
async def test_finds_entries_by_time_range_and_a_trail_in_order(bench: Bench) -> None:
    ids, first = UlidGenerator(bench.clock), bench.clock.moment
    one, other = ids.new(), ids.new()
    # Whole and fractional seconds, two bookings; and another employee's entries at the same times.
    times = [first + SECOND * number / 2 for number in range(8)]
    for number, at in enumerate(times):
        await bench.stores.run(
            patterns.append_audit(make_entry(ids, (one, other)[number % 2], at, bench.employee))
        )
        await bench.stores.run(patterns.append_audit(make_entry(ids, ids.new(), at, bench.another())))

    async def between(since: datetime, until: datetime) -> list[datetime]:
        found = await bench.stores.all(patterns.employee_audit(bench.employee, since, until, 3))
        assert {each.employee_id for each in found} <= {bench.employee}
        return [each.timestamp for each in found]

    assert await between(times[0], times[-1]) == times
    assert await between(times[2], times[5]) == times[2:6]
    microsecond = timedelta(microseconds=1)
    assert await between(times[2] + microsecond, times[5] - microsecond) == times[3:5]
    assert await between(times[4], times[4]) == [times[4]]
    assert await between(first - timedelta(days=30), first - microsecond) == []
    trail = await bench.stores.all(patterns.trail(one, 2))
    assert [each.timestamp for each in trail] == times[::2]


@pytest.mark.proves("TC-52", "TC-53", "TC-54", "TC-X3")
async def test_connection_is_kept_two_hours_and_found_by_id_and_employee(bench: Bench) -> None:
    stores, at = bench.stores, bench.clock.moment
    made = Connection(connection_id="abc123xyz", employee_id=bench.employee, connected_at=at)
    second = Connection(connection_id="second", employee_id=bench.employee, connected_at=at)
    other = Connection(connection_id="other", employee_id=bench.another(), connected_at=at)
    for each in (made, second, other):
        await stores.run(patterns.put_connection(each))
    assert await get_item(stores, connections.name, {"connectionId": "abc123xyz"}) == {
        "connectionId": "abc123xyz",
        "employeeId": bench.employee,
        "connectedAt": "2126-03-10T14:30:00Z",
        "ttl": int(at.timestamp()) + 7_200,
    }
    assert await stores.run(patterns.connection("abc123xyz")) == made
    assert list_ids(await stores.all(patterns.connections_of(bench.employee))) == {"abc123xyz", "second"}
    assert list_ids(await stores.all(patterns.all_connections())) >= {"abc123xyz", "second", "other"}
    for _ in range(2):
        await stores.run(patterns.delete_connection("second"))
    assert list_ids(await stores.all(patterns.connections_of(bench.employee))) == {"abc123xyz"}
    assert await stores.run(patterns.connection("second")) is None


@pytest.mark.proves("TC-X25", "TC-X27")
async def test_expired_items_are_not_read_even_if_still_stored(bench: Bench) -> None:
    # A server uses its own clock, and never removes items that expired over five years ago.
    long_ago = datetime.fromtimestamp(int(SYSTEM_CLOCK.now()), UTC) - timedelta(days=3 * 365)
    stores, ids = bench.stores, UlidGenerator(bench.clock)
    gone = Connection(connection_id="gone", employee_id=bench.employee, connected_at=long_ago)
    live = Connection(connection_id="live", employee_id=bench.employee, connected_at=bench.clock.moment)
    for each in (gone, live):
        await stores.run(patterns.put_connection(each))
    assert await stores.run(patterns.connection("gone")) is None
    assert list_ids(await stores.all(patterns.connections_of(bench.employee))) == {"live"}
    everybody = list_ids(await stores.all(patterns.all_connections()))
    assert "live" in everybody and "gone" not in everybody
    booking_id = ids.new()
    for at in (long_ago, bench.clock.moment):
        await stores.run(patterns.append_audit(make_entry(ids, booking_id, at, bench.employee)))
    trail = await stores.all(patterns.trail(booking_id))
    assert [each.timestamp for each in trail] == [bench.clock.moment]
    found = await stores.all(patterns.employee_audit(bench.employee, long_ago, bench.clock.moment))
    assert [each.timestamp for each in found] == [bench.clock.moment]


def list_ids(found: Iterable[Connection]) -> set[str]:
    return {each.connection_id for each in found}
