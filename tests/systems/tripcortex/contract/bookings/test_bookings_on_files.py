"""Several processes and threads on the same files: one booking each, and waits that survive a restart.

The store decides between them, and any process can resume another's work.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Stores, open_stores
from holdfast.core.clock import RunClock
from holdfast.runtime import create_queues, create_tables
from holdfast.web.demo_env import patch_environ
from tests.processes import Process, preload
from tripcortex.model import patterns
from tripcortex.model.entities import Booking, BookingStatus, EmployeeId
from tripcortex.system import SYSTEM
from tripcortex.workers.booking_requests import BookingUnderWay, Requester, request_booking
from tripcortex.workers.flow import BOOKING_FLOW

from .conftest import BEGAN, EMPLOYEE, SECRET, Bench, HandClock
from .file_settings import make_settings

PROCESSES, EMPLOYEES = 2, 20
THREADS, ROUNDS = 4, 6
MODULE = "tests.systems.tripcortex.contract.bookings.request_process"

preload(MODULE)


def create_stores(folder: Path) -> RunClock:
    """Create the tables and queues in the folder; return the clock that the processes share."""
    clock = RunClock(folder / "clock", start=BEGAN.timestamp())

    async def create() -> None:
        async with open_stores(SYSTEM, make_settings(folder), clock=clock) as stores:
            await create_tables(stores, SYSTEM.tables)
            await create_queues(stores, SYSTEM.queues)

    asyncio.run(create())
    return clock


@pytest.mark.proves("TC-69", "TC-X7")
def test_concurrent_processes_create_one_booking_per_employee(tmp_path: Path) -> None:
    clock = create_stores(tmp_path)
    started = [Process(MODULE, tmp_path, tmp_path / "clock", EMPLOYEES) for _ in range(PROCESSES)]
    for each in started:
        assert each.read_first_line() == "ready\n", each.read_log()
    for each in started:
        each.send_line("go")
    accepted = [json.loads(each.communicate()[0]) for each in started]
    taken = [employee for found in accepted for employee in found]
    assert sorted(taken) == sorted(f"emp-{number}" for number in range(EMPLOYEES))

    async def check() -> None:
        async with open_stores(SYSTEM, make_settings(tmp_path), clock=clock) as stores:
            for found in accepted:
                for employee, booking_id in found.items():
                    page = await stores.run(patterns.history(EmployeeId(employee)))
                    assert [each.booking_id for each in page.items] == [booking_id]
            assert len(await BOOKING_FLOW.list_executions(stores)) == EMPLOYEES

    asyncio.run(check())


@pytest.mark.proves("TC-69", "TC-X7")
def test_concurrent_threads_create_one_booking_per_round(tmp_path: Path) -> None:
    clock = create_stores(tmp_path)

    def request_in_thread(number: int) -> list[Booking]:
        """Make one request per round; each thread has its own stores."""

        async def request_all() -> list[Booking]:
            accepted = []
            async with open_stores(SYSTEM, make_settings(tmp_path), clock=clock) as stores:
                for each in range(ROUNDS):
                    try:
                        traveller = Requester(EmployeeId(f"emp-{each}"))
                        accepted.append(await request_booking(stores, traveller, f"thread {number}"))
                    except BookingUnderWay:
                        pass
            return accepted

        return asyncio.run(request_all())

    with ThreadPoolExecutor(THREADS) as pool:
        accepted = [booking for found in pool.map(request_in_thread, range(THREADS)) for booking in found]
    assert sorted(each.employee_id for each in accepted) == [f"emp-{each}" for each in range(ROUNDS)]


@pytest.mark.proves("TC-94", "TC-X12")
def test_wait_survives_the_end_of_its_process(tmp_path: Path) -> None:
    """The stores are closed and opened again; the token is rebuilt from the item and the secret."""
    create_stores(tmp_path)
    clock = HandClock()

    async def make_offer() -> Booking:
        async with open_stores(SYSTEM, make_settings(tmp_path), clock=clock) as stores:
            return await Bench(stores, clock).make_offered_booking()

    async def choose(booking: Booking) -> None:
        async with open_stores(SYSTEM, make_settings(tmp_path), clock=clock) as stores:
            bench = Bench(stores, clock)
            # Only the key is known: the token is rebuilt from the item and the secret.
            found = await find_active_booking(stores, booking)
            after = await bench.choose(found, "2")
            assert after.status is BookingStatus.user_selected
            received = await stores.run(BOOKING_FLOW.pattern_set.consumer.receive(10, 0.0))
            assert received[-1].message.state == "user_selected"

    with patch_environ(SECRET):
        booking = asyncio.run(make_offer())
        asyncio.run(choose(booking))


async def find_active_booking(stores: Stores, booking: Booking) -> Booking:
    [active] = await stores.all(patterns.active_bookings_of(EMPLOYEE))
    assert active.booking_id == booking.booking_id
    return active
