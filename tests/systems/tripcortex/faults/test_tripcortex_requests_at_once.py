"""Fault test: of two concurrent requests of one employee at two processes exactly one is accepted.

Fifty times, with a cancellation between.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from holdfast import Stores
from tests.postgres import create_database
from tripcortex.model import patterns
from tripcortex.model.entities import EmployeeId
from tripcortex.model.policies.schema import tripcortex
from tripcortex.workers.flow import BOOKING_FLOW

from .tripcortex_stage import Stage

TIMES = 50
EMPLOYEE = EmployeeId("emp-42")
SENTENCE = "Book me a flight to Chicago on April 21 returning April 23"


@pytest.mark.timeout(120)
@pytest.mark.proves("TC-69", "TC-X7")
async def test_one_of_two_concurrent_requests_at_two_processes_is_accepted(tmp_path: Path) -> None:
    with Stage(
        tmp_path, HOLDFAST_SQL=create_database(tripcortex), TRIPCORTEX_REQUESTS_A_MINUTE="1000"
    ) as stage:
        stage.wait_until_ready(stage.add("api 0"), stage.add("api 1"))
        accepted = await request_twice(stage)
        stage.stop_workers()
    # Each process is first sometimes.
    assert accepted.total() == TIMES and len(accepted) == 2, accepted


async def request_twice(stage: Stage) -> Counter[int]:
    """Send both requests, check, and cancel, fifty times; count which process accepted."""
    accepted: Counter[int] = Counter()
    headers = {"authorization": f"Bearer {stage.get_token(EMPLOYEE)}"}
    async with stage.open_stores() as stores, httpx2.AsyncClient(headers=headers, timeout=30) as http:
        for number in range(TIMES):
            answers = await asyncio.gather(
                *[http.post(f"{api}/bookings", json={"text": SENTENCE}) for api in stage.servers]
            )
            assert sorted(each.status_code for each in answers) == [202, 409], [each.text for each in answers]
            place = [each.status_code for each in answers].index(202)
            booking = answers[place].json()["bookingId"]
            # The refusal names the accepted booking.
            assert booking in answers[1 - place].json()["detail"]
            await check_booking(stores, booking, number + 1)
            ended = await http.post(f"{stage.servers[number % 2]}/bookings/{booking}/cancel", json={})
            assert ended.status_code == 200, ended.text
            accepted[place] += 1
        assert await stores.run(patterns.place_of(EMPLOYEE)) is None
    return accepted


async def check_booking(stores: Stores, booking: str, count: int) -> None:
    """Check that this booking alone is active and has the marker; the other request left nothing.

    `count` is the number of all bookings so far.
    """
    found = [each async for each in stores.each(patterns.history(EMPLOYEE, 200))]
    assert [each.booking_id for each in found if not each.is_ended] == [booking]
    assert len(found) == count
    marker = await stores.run(patterns.place_of(EMPLOYEE))
    assert marker is not None and marker.booking_id == booking
    assert [each.key for each in await BOOKING_FLOW.list_executions(stores)] == [f"{EMPLOYEE}#{booking}"]
