"""Tests of lifetimes on a run clock: items expire to the second and are not read afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.core.clock import RunClock
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import create_tables
from tests.systems.tripcortex.unit.steps.booking_bench import BEGAN, EMPLOYEE
from tripcortex.model import patterns
from tripcortex.model.entities import AuditEvent, Booking, Connection
from tripcortex.system import SYSTEM
from tripcortex.workers.audit_entries import build_audit_entry, redact_text


@pytest.fixture
def clock(tmp_path: Path) -> RunClock:
    return RunClock(tmp_path / "clock", start=BEGAN.timestamp())


@pytest.fixture
async def stores(clock: RunClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(SYSTEM, clock=clock) as opened:
        await create_tables(opened, SYSTEM.tables)
        yield opened


@pytest.mark.proves("TC-53", "TC-X3", "TC-X27")
async def test_connection_expires_after_two_hours(stores: Stores, clock: RunClock) -> None:
    made = Connection(connection_id="abc123xyz", employee_id=EMPLOYEE, connected_at=BEGAN)
    later = Connection(
        connection_id="later", employee_id=EMPLOYEE, connected_at=BEGAN + timedelta(minutes=90)
    )
    for each in (made, later):
        await stores.run(patterns.put_connection(each))
    clock.advance(7_199)
    assert await stores.run(patterns.connection("abc123xyz")) == made
    assert len(await stores.all(patterns.connections_of(EMPLOYEE))) == 2
    clock.advance(2)
    assert await stores.run(patterns.connection("abc123xyz")) is None
    assert list(await stores.all(patterns.connections_of(EMPLOYEE))) == [later]
    assert list(await stores.all(patterns.all_connections())) == [later]


@pytest.mark.proves("TC-75", "TC-X4", "TC-67")
async def test_audit_entry_expires_after_two_years_and_booking_never(stores: Stores, clock: RunClock) -> None:
    booking = _booking(stores)
    await stores.run(patterns.create_booking(booking))
    await stores.run(build_audit_entry(stores, booking, AuditEvent.reasoning, "ReasonAndPlan"))
    clock.advance((datetime(2028, 3, 10, 14, 30, tzinfo=UTC) - BEGAN).total_seconds() - 1)
    assert len(await stores.all(patterns.trail(booking.booking_id))) == 1
    clock.advance(2)
    assert len(await stores.all(patterns.trail(booking.booking_id))) == 0
    assert len(await stores.all(patterns.employee_audit(EMPLOYEE, BEGAN, BEGAN))) == 0
    clock.advance(100 * 365 * 86_400)
    assert await stores.run(patterns.booking(EMPLOYEE, booking.booking_id)) == booking


@pytest.mark.proves("TC-72", "TC-78")
async def test_entries_of_one_moment_keep_their_creation_order(stores: Stores) -> None:
    booking = _booking(stores)
    steps = [f"step {number}" for number in range(20)]
    for step in steps:
        await stores.run(build_audit_entry(stores, booking, AuditEvent.reasoning, step))
    trail = await stores.all(patterns.trail(booking.booking_id))
    assert [each.step for each in trail] == steps
    assert all(len(each.audit_id) == 26 for each in trail)


def test_audit_details_are_shortened_and_masked() -> None:
    assert redact_text("to Chicago") == "to Chicago"
    assert "jane.roe@example.com" not in redact_text("mail jane.roe@example.com")
    assert len(redact_text("x y " * 1_000)) == 500


def _booking(stores: Stores) -> Booking:
    return Booking(
        employee_id=EMPLOYEE,
        booking_id=UlidGenerator(stores.clock).new(),
        user_request="Boston to Chicago",
        created_at=BEGAN,
        updated_at=BEGAN,
    )
