"""Consoles of the tests: one with users, and one that is a demo."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.console.consoles import ConsoleUnderTest, open_console

USERS = {
    "ada": ["admin", "viewer"],
    "otto": ["operator"],
    "pia": ["pagw:viewer"],
}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ConsoleUnderTest]:
    """Open a console with three users and no systems."""
    async with open_console(tmp_path, users=USERS) as opened:
        yield opened


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[ConsoleUnderTest]:
    """Open a console without users."""
    async with open_console(tmp_path) as opened:
        yield opened
