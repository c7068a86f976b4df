"""Fixture `stores`: a database of its own for each test, as the component `api` sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import pytest

from holdfast import Stores, open_stores
from holdfast.runtime.factory import MEMORY_SETTINGS
from tests.postgres import create_database
from tripcortex.model.policies.schema import tripcortex
from tripcortex.system import SYSTEM


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    settings = dataclasses.replace(MEMORY_SETTINGS, sql=create_database(tripcortex))
    async with open_stores(SYSTEM, settings) as opened:
        yield opened.for_component("api")
