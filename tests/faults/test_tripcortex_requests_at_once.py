"""Two requests of one employee at the same moment, at two processes: one begins, the other is told that one is under way. Fifty
times over, each after the one before was cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from holdfast import Stores
from tests.postgres import fresh_database
from tripcortex.model import patterns
from tripcortex.model.entities import EmployeeId
from tripcortex.model.policies.schema import tripcortex
from tripcortex.workers.flow import BOOKING_FLOW

from .tripcortex_stage import Stage

TIMES = 50
EMPLOYEE = EmployeeId("emp-42")
SENTENCE = "Book me a flight to Chicago on April 21 returning April 23"


@pytest.mark.timeout(120)
@pytest.mark.proves("TC-69")
@pytest.mark.proves("TC-X7")
def test_of_two_requests_at_once_at_two_processes_one_is_accepted(tmp_path: Path) -> None:
    with Stage(
        tmp_path, HOLDFAST_SQL=fresh_database(tripcortex), TRIPCORTEX_REQUESTS_A_MINUTE="1000"
    ) as stage:
        for worker in [stage.add("api 0"), stage.add("api 1")]:
            assert worker.until_ready()
        accepted = asyncio.run(_asked(stage))
        stage.stop_crew()
    # Neither process is always the first.
    assert accepted.total() == TIMES and len(accepted) == 2, accepted


async def _asked(stage: Stage) -> Counter[int]:
    accepted: Counter[int] = Counter()
    headers = {"authorization": f"Bearer {stage.token(EMPLOYEE)}"}
    async with stage.stores() as stores, httpx2.AsyncClient(headers=headers, timeout=30) as http:
        for number in range(TIMES):
            answers = await asyncio.gather(
                *[http.post(f"{api}/bookings", json={"text": SENTENCE}) for api in stage.apis]
            )
            assert sorted(each.status_code for each in answers) == [202, 409], [each.text for each in answers]
            place = [each.status_code for each in answers].index(202)
            booking = answers[place].json()["bookingId"]
            # The other is told which.
            assert booking in answers[1 - place].json()["detail"]
            await _judge(stores, booking, number + 1)
            ended = await http.post(f"{stage.apis[number % 2]}/bookings/{booking}/cancel", json={})
            assert ended.status_code == 200, ended.text
            accepted[place] += 1
        assert await stores.run(patterns.place_of(EMPLOYEE)) is None
    return accepted


async def _judge(stores: Stores, booking: str, count: int) -> None:
    """One is under way, and its is the place; of the other request nothing is left."""
    found = [each async for each in stores.each(patterns.history(EMPLOYEE, 200))]
    assert [each.booking_id for each in found if not each.is_ended] == [booking]
    assert len(found) == count
    marker = await stores.run(patterns.place_of(EMPLOYEE))
    assert marker is not None and marker.booking_id == booking
    assert [each.key for each in await BOOKING_FLOW.list_executions(stores)] == [f"{EMPLOYEE}#{booking}"]
