"""Process that, once it reads a line, requests a trip for each employee in turn and prints those accepted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast import open_stores
from holdfast.core.clock import RunClock
from tripcortex.model.entities import EmployeeId
from tripcortex.system import SYSTEM
from tripcortex.workers.booking_requests import BookingUnderWay, Requester, request_booking

from .file_settings import make_settings


async def main(folder: Path, clock_file: Path, employees: int) -> None:
    """Print "ready", wait for a line, request a trip per employee; print the accepted bookings as JSON."""
    accepted = {}
    async with open_stores(SYSTEM, make_settings(folder), clock=RunClock(clock_file)) as stores:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for number in range(employees):
            employee = EmployeeId(f"emp-{number}")
            try:
                booking = await request_booking(stores, Requester(employee), "Boston to Chicago")
                accepted[employee] = booking.booking_id
            except BookingUnderWay:
                pass
    sys.stdout.write(json.dumps(accepted))
