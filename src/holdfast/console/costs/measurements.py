"""Measurements of systems for the cost pages: made once, in a thread, and kept until the console stops.

A system is measured on its sample data in temporary stores, never on the configured ones: a measurement
neither costs money there nor copies a large file. What is stored is counted in the configured tables. One
system is measured at a time; a page shows how far it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from holdfast.core.errors import HoldfastError, format_message
from holdfast.model.system import System
from holdfast.operations.tables import TableDescription
from holdfast.reports.cost.measured_system import MeasuredSystem, measure_system
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.runtime import describe_table
from holdfast.runtime.stores import Stores

STORED: Final = "what is stored now"
# The steps of a measurement that are shown; a sample may have a hundred thousand.
_SHOWN_STEPS: Final = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """How far a measurement is: what it does, the steps that are done, and how many there are."""

    what: str = "waiting for another measurement"
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Measurement:
    """The state of a system's measurement. `measured` is None until it is done; `problem` says why it
    failed.
    """

    measured: MeasuredSystem | None = None
    measured_at: datetime | None = None
    problem: str = ""
    progress: Progress | None = None

    @property
    def is_running(self) -> bool:
        return self.progress is not None


class _StoppedError(Exception):
    """The console stops."""


class Measurements:
    """The measurements of every system."""

    def __init__(self, stores: Mapping[str, Stores]) -> None:
        self._stores = stores
        self._states: dict[str, Measurement] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measurement")
        self._is_stopping = False

    def get(self, name: str) -> Measurement:
        """Return the state of a system's measurement, and begin it if there is none yet."""
        if name not in self._states:
            self.start(name)
        return self._states[name]

    def start(self, name: str) -> None:
        """Measure a system, again if that is done; nothing if it is being measured."""
        if name in self._tasks or self._is_stopping:
            return
        self._states[name] = replace(self._states.get(name, Measurement()), progress=Progress(), problem="")
        self._tasks[name] = asyncio.create_task(self._measure(name))

    async def read_fingerprint(self) -> tuple[tuple[str, object], ...]:
        """Return what changes whenever a page would show something else."""
        return tuple(
            (name, state.progress or (state.measured_at, state.problem))
            for name, state in self._states.items()
        )

    async def wait(self, name: str) -> Measurement:
        """Return the state of a measurement after its end."""
        state = self.get(name)
        if name in self._tasks:
            await asyncio.wait([self._tasks[name]])
            state = self._states[name]
        return state

    async def close(self) -> None:
        """Stop the running measurement at its next step."""
        self._is_stopping = True
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._thread.shutdown()

    async def _measure(self, name: str) -> None:
        """Measure a system in the thread and keep the result, or why there is none."""
        stores = self._stores[name]
        assert stores.system is not None
        before = self._states[name]
        try:
            loop = asyncio.get_running_loop()
            measured = await loop.run_in_executor(self._thread, self._run, stores.system)
        except HoldfastError as error:
            self._states[name] = replace(before, problem=format_message(error), progress=None)
        except _StoppedError:
            self._states[name] = replace(before, progress=None)
        except Exception as error:
            log.exception("Measuring %s failed.", name)
            why = f"{type(error).__name__}; the log of the console has more"
            self._states[name] = replace(before, problem=why, progress=None)
        else:
            self._states[name] = Measurement(measured, stores.now())
        finally:
            del self._tasks[name]

    def _run(self, system: System) -> MeasuredSystem:
        """Measure a system on its sample, in an event loop of this thread."""

        def report(what: str, done: int, total: int) -> None:
            if self._is_stopping:
                raise _StoppedError
            self._report(system.name, Progress(what, done, total))

        async def measure() -> MeasuredSystem:
            async with open_sample_data(system, progress=report) as source:
                return await measure_system(system, source, progress=report)

        return asyncio.run(measure())

    def _report(self, name: str, progress: Progress) -> None:
        """Show a step, unless the page would look the same."""
        last = self._states[name].progress or Progress()
        step = max(1, progress.total // _SHOWN_STEPS)
        if progress.what != last.what or progress.done // step != last.done // step:
            self._states[name] = replace(self._states[name], progress=progress)


async def count_stored(measured: MeasuredSystem, stores: Stores) -> tuple[MeasuredSystem, str]:
    """Return the measured system with what its configured tables hold, and the words for where that is from.

    Empty tables say nothing about what storage costs: then the sample's counts stay.
    """
    try:
        found = {each.name: await describe_table(stores, each) for each in measured.system.tables}
    except HoldfastError as error:
        return measured, f"the sample, because the tables do not answer: {format_message(error)}"
    if not any(_has_items(each) for each in found.values()):
        return measured, "the sample, because the tables are empty"
    return replace(measured, descriptions=found), STORED


def _has_items(description: TableDescription | None) -> bool:
    return description is not None and description.item_count > 0
