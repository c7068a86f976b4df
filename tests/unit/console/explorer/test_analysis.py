"""What a measurement says of the patterns, and what the pages say until it is done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from holdfast import Stores, System, open_memory_stores
from holdfast.config.settings import Settings
from holdfast.console.accounts import DemoAccounts
from holdfast.console.app import build_console
from holdfast.console.context import Console
from holdfast.console.explorer.analysis import Analyses
from holdfast.console.model import CONSOLE
from holdfast.model.demo import Demo
from tests.unit.console.explorer.clinic import CLINIC


@asynccontextmanager
async def open_console(system: System) -> AsyncIterator[Console]:
    async with open_memory_stores(CONSOLE) as own, open_memory_stores(system) as stores:
        console = build_console(Settings(), own, [stores], DemoAccounts(), {})
        try:
            yield console
        finally:
            await console.measurements.close()


async def test_the_first_look_at_a_system_begins_its_measurement() -> None:
    async with open_console(CLINIC) as console:
        analyses = Analyses(console)
        assert analyses.peek("clinic") is None
        first = await analyses.get("clinic")
        assert first.measurement.is_running
        assert first.results is None


async def test_a_measured_system_has_units_costs_and_findings() -> None:
    async with open_console(CLINIC) as console:
        analyses = Analyses(console)
        await console.measurements.wait("clinic")
        results = (await analyses.get("clinic")).results
        assert results is not None
        assert results.measured_on == "sample data"
        assert results.measures["V1"].items_returned == 30
        assert results.costs["V1"].cost is not None
        found = [each.message for each in results.findings if each.subject == "P5 dismiss"]
        assert found == ["No component runs it."]
        assert analyses.peek("clinic") is results
        assert (await analyses.get("clinic")).results is results


async def test_a_failure_is_explained_in_words() -> None:
    async def fail(stores: Stores, **_: Any) -> None:
        raise ValueError("the file is secret")

    async with open_console(replace(CLINIC, demo=Demo(sample=fail))) as console:
        await console.measurements.wait("clinic")
        analysis = await Analyses(console).get("clinic")
        assert analysis.results is None
        assert "ValueError" in analysis.problem
        assert "secret" not in analysis.problem
