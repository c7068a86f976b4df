"""Several processes and threads over the same files: the store decides between them, and what one leaves another goes on with."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Stores, create_queues, create_tables, open_stores
from holdfast.core.clock import RunClock
from holdfast.web.demo_env import patch_environ
from tripcortex.model import patterns
from tripcortex.model.entities import Booking, BookingStatus, EmployeeId
from tripcortex.system import SYSTEM
from tripcortex.workers.booking_requests import BookingUnderWay, Traveller, request_booking
from tripcortex.workers.flow import BOOKING_FLOW

from .conftest import BEGAN, EMPLOYEE, SECRET, Bench, HandClock
from .on_files import settings_of

ROOT = Path(__file__).parents[3]
PROCESSES, EMPLOYEES = 2, 20
THREADS, ROUNDS = 4, 6
MODULE = "tests.contract.tripcortex.requesting_process"


def prepared(folder: Path) -> RunClock:
    clock = RunClock(folder / "clock", start=BEGAN.timestamp())

    async def made() -> None:
        async with open_stores(SYSTEM, settings_of(folder), clock=clock) as stores:
            await create_tables(stores, SYSTEM.tables)
            await create_queues(stores, SYSTEM.queues)

    asyncio.run(made())
    return clock


@pytest.mark.proves("TC-69")
@pytest.mark.proves("TC-X7")
def test_of_processes_that_ask_for_the_same_employees_each_employee_is_accepted_once(tmp_path: Path) -> None:
    clock = prepared(tmp_path)
    command = [sys.executable, "-m", MODULE, str(tmp_path), str(tmp_path / "clock"), str(EMPLOYEES)]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        for each in started:
            assert each.stdout is not None and each.stdout.readline() == "ready\n"
        accepted = [json.loads(each.communicate()[0]) for each in _told(started)]
    finally:
        for each in started:
            each.kill()
            each.wait()
    taken = [employee for found in accepted for employee in found]
    assert sorted(taken) == sorted(f"emp-{number}" for number in range(EMPLOYEES))

    async def checked() -> None:
        async with open_stores(SYSTEM, settings_of(tmp_path), clock=clock) as stores:
            for found in accepted:
                for employee, booking_id in found.items():
                    page = await stores.run(patterns.history(EmployeeId(employee)))
                    assert [each.booking_id for each in page.items] == [booking_id]
            assert len(await BOOKING_FLOW.list_executions(stores)) == EMPLOYEES

    asyncio.run(checked())


def _told(started: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    """All are told to begin before any is waited for."""
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    return started


@pytest.mark.proves("TC-69")
@pytest.mark.proves("TC-X7")
def test_of_threads_that_ask_for_one_employee_one_is_accepted_in_every_round(tmp_path: Path) -> None:
    clock = prepared(tmp_path)

    def asked(number: int) -> list[Booking]:
        """One per round; each thread has stores of its own."""

        async def asking() -> list[Booking]:
            accepted = []
            async with open_stores(SYSTEM, settings_of(tmp_path), clock=clock) as stores:
                for each in range(ROUNDS):
                    try:
                        traveller = Traveller(EmployeeId(f"emp-{each}"))
                        accepted.append(await request_booking(stores, traveller, f"thread {number}"))
                    except BookingUnderWay:
                        pass
            return accepted

        return asyncio.run(asking())

    with ThreadPoolExecutor(THREADS) as pool:
        accepted = [booking for found in pool.map(asked, range(THREADS)) for booking in found]
    assert sorted(each.employee_id for each in accepted) == [f"emp-{each}" for each in range(ROUNDS)]


@pytest.mark.proves("TC-94")
@pytest.mark.proves("TC-X12")
def test_a_choice_waits_through_the_end_of_the_process_that_asked_for_it(tmp_path: Path) -> None:
    prepared(tmp_path)
    clock = HandClock()

    async def offered() -> Booking:
        async with open_stores(SYSTEM, settings_of(tmp_path), clock=clock) as stores:
            return await Bench(stores, clock).presented()

    async def chosen(booking: Booking) -> None:
        async with open_stores(SYSTEM, settings_of(tmp_path), clock=clock) as stores:
            bench = Bench(stores, clock)
            # All that is known of the booking is its key: the token is made again from the item and the secret.
            found = await _found(stores, booking)
            after = await bench.choose(found, "2")
            assert after.status is BookingStatus.user_selected
            received = await stores.run(BOOKING_FLOW.pattern_set.receive(10, 0.0))
            assert received[-1].message.state == "user_selected"

    with patch_environ(SECRET):
        booking = asyncio.run(offered())
        asyncio.run(chosen(booking))


async def _found(stores: Stores, booking: Booking) -> Booking:
    [active] = await stores.all(patterns.active_bookings_of(EMPLOYEE))
    assert active.booking_id == booking.booking_id
    return active
