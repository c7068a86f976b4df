"""Fixture `trip`: a bench that drives bookings by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.systems.tripcortex.unit.steps.booking_bench import Bench, open_bench


@pytest.fixture
async def trip() -> AsyncIterator[Bench]:
    async with open_bench() as bench:
        yield bench
