"""The clinic with its sample data, and consoles over it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.runtime import provision
from tests.console_client import ConsoleClient, open_console_client
from tests.unit.console.explorer.clinic import CLINIC, write_sample


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_memory_stores(CLINIC) as opened:
        await provision(opened, CLINIC)
        await write_sample(opened)
        yield opened


@pytest.fixture
async def console(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores) as client:
        yield client


@pytest.fixture
async def viewer(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores, roles=["clinic:viewer"]) as client:
        yield client
