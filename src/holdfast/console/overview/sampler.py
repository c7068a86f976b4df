"""The sampler: one console process reads all figures every 15 seconds and keeps them for an hour.

A lease decides which process samples. Each sample is written in a transaction that checks the lease, so a
process that was paused and lost it writes nothing. Another process takes over within the time of the lease;
its first sample has no rates, because these need two readings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from holdfast.config.settings import Settings
from holdfast.console.overview.rates import compute_rates, sum_rates
from holdfast.console.overview.records import (
    SAMPLE_EVERY_S,
    SAMPLER,
    ConsoleSample,
    SamplerLease,
    keep_sample,
)
from holdfast.console.overview.samples import Sample, SystemSample, encode_sample
from holdfast.console.overview.store_figures import (
    StoreFigures,
    describe_actions,
    describe_flows,
    describe_outboxes,
    describe_queues,
    list_known_sources,
    list_unread_sources,
    merge_figures,
)
from holdfast.console.overview.targets import TargetReading, open_target_client, read_target
from holdfast.console.system_pages import OpenQuestions
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import Conflict, HoldfastError, InProgress, NotFound, SettingsError, format_message
from holdfast.guarantees import HeldLease
from holdfast.runtime.stores import Stores

with explain_missing(__name__, "console"):
    import httpx2

LEASE_NAME: Final = "sampler"
NO_QUESTIONS: Final[Mapping[str, OpenQuestions]] = MappingProxyType({})

log = logging.getLogger(__name__)


def parse_targets(text: str, systems: Sequence[str]) -> dict[str, list[str]]:
    """Return the addresses of the processes of each system in the setting `console_targets`.

    A target of a system that the console does not show is left out, with a warning in the log. Raise
    `SettingsError` for anything that is not `system=http://host:port`.
    """
    found: dict[str, list[str]] = {name: [] for name in systems}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, url = part.partition("=")
        address = url.strip().rstrip("/")
        if not name.strip() or not address.startswith(("http://", "https://")):
            raise SettingsError(
                f"Invalid console_targets: {part!r} is not a target. Write the system and the address of its "
                "process, such as pagw=http://127.0.0.1:8081, separated by commas."
            )
        if name.strip() not in found:
            log.warning("The target %s is left out: no system %s is shown here.", address, name.strip())
        elif address not in found[name.strip()]:
            found[name.strip()].append(address)
    return found


class SystemSampler:
    """Reads the figures of one system: of its processes and of its stores."""

    def __init__(
        self,
        stores: Stores,
        urls: Sequence[str],
        settings: Settings,
        questions: OpenQuestions | None = None,
    ) -> None:
        assert stores.system is not None
        self._questions = questions
        self._stores, self._system, self._urls = stores, stores.system, urls
        self._timeout_s = settings.health_timeout_s
        self._store_figures = StoreFigures(stores, settings)
        self._names = {stores.physical_name(table): table.name for table in self._system.tables}
        # The last reading of each process that answered.
        self._before: dict[str, TargetReading] = {}

    async def read(self, client: httpx2.AsyncClient) -> SystemSample:
        """Return the figures of now. What does not answer in time is named in them."""
        readings, stores, breakers = await asyncio.gather(
            asyncio.gather(*(read_target(client, url, self._timeout_s) for url in self._urls)),
            self._store_figures.check_stores(),
            self._store_figures.list_open_breakers(),
        )
        reported = merge_figures(each.figures for each in readings)
        own, questions = await asyncio.gather(
            self._store_figures.read(list_known_sources(reported)), self._count_questions()
        )
        figures = merge_figures([reported, own])
        rates = [compute_rates(self._before.get(each.state.url), each) for each in readings]
        self._before |= {each.state.url: each for each in readings if not each.state.failure}
        return SystemSample(
            processes=[each.state for each in readings],
            stores=stores,
            rates=sum_rates([each for each in rates if each is not None], self._names),
            queues=describe_queues(self._system, self._stores.environment, figures),
            outboxes=describe_outboxes(figures),
            actions=describe_actions(figures),
            flows=describe_flows(self._system, figures),
            open_breakers=breakers,
            unread=[*list_unread_sources(figures), *(["questions"] if questions is None else [])],
            questions=questions or 0,
        )

    async def _count_questions(self) -> int | None:
        """Return how many questions the system's pages ask people; None if they cannot be read in time."""
        if self._questions is None:
            return 0
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._questions.count()
        except NotFound:
            return 0  # the table does not exist yet
        except (HoldfastError, TimeoutError):
            return None


class Sampler:
    """Samples every system while this process holds the lease."""

    def __init__(
        self,
        own: Stores,
        stores: Mapping[str, Stores],
        settings: Settings,
        questions: Mapping[str, OpenQuestions] = NO_QUESTIONS,
        *,
        every_s: float = SAMPLE_EVERY_S,
    ) -> None:
        self._own, self._every_s = own, every_s
        targets = parse_targets(settings.console_targets, list(stores))
        self._systems = {
            name: SystemSampler(each, targets[name], settings, questions.get(name))
            for name, each in stores.items()
        }
        self._client = open_target_client(settings)

    async def run(self) -> None:
        """Sample whenever this process has the lease, until it is cancelled."""
        try:
            while True:
                pause_s = await self._sample_while_leased()
                await asyncio.sleep(pause_s)
        finally:
            await self._client.aclose()

    async def take(self) -> Sample:
        """Read every system at the same time and return the sample of now."""
        at = self._own.clock.now()
        found = await asyncio.gather(*(self._read_system(name) for name in self._systems))
        return Sample(at, {name: each for name, each in found if each is not None})

    async def keep(self, lease: HeldLease[SamplerLease], sample: Sample) -> None:
        """Write a sample. Raise `Conflict` if another process has the lease by now."""
        record = ConsoleSample(at=datetime.fromtimestamp(sample.at, UTC), content=encode_sample(sample))
        await self._own.transact(lease.check(), keep_sample(record))

    async def _sample_while_leased(self) -> float:
        """Sample until the lease is lost or a store fails; return how long to wait before the next try."""
        try:
            async with SAMPLER.hold(self._own, LEASE_NAME) as lease:
                while True:
                    began = asyncio.get_running_loop().time()
                    await self.keep(lease, await self.take())
                    took_s = asyncio.get_running_loop().time() - began
                    await asyncio.sleep(max(0.0, self._every_s - took_s))
        except InProgress as busy:
            return min(busy.retry_after_s or self._every_s, self._every_s)
        except Conflict:
            log.info("Another console samples now.")
        except HoldfastError as error:
            log.warning("The overview was not sampled: %s", format_message(error))
        return self._every_s

    async def _read_system(self, name: str) -> tuple[str, SystemSample | None]:
        """Return the figures of a system; None if reading them failed, which is logged."""
        try:
            return name, await self._systems[name].read(self._client)
        except Exception:
            log.exception("The figures of %s were not read.", name)
            return name, None


@asynccontextmanager
async def run_sampler(sampler: Sampler) -> AsyncIterator[None]:
    """Sample while the block runs."""
    task = asyncio.create_task(sampler.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
