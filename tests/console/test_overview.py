"""The overview, in a browser: figures appear and change by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast import open_stores
from holdfast.config.settings import Settings
from holdfast.console.model import CONSOLE
from holdfast.console.overview.records import SAMPLER, ConsoleSample, SamplerLease, keep_sample
from holdfast.console.overview.sampler import LEASE_NAME
from holdfast.console.overview.samples import (
    ProcessState,
    QueueState,
    Rates,
    Sample,
    SystemSample,
    encode_sample,
)
from holdfast.core.errors import ConditionFailed
from tests.console.site import ConsoleSite, run_in_thread
from tests.console.visitor import Visitor

PATIENCE_MS = 60_000
HELD_S = 600.0
URL = "http://127.0.0.1:8099"


@contextmanager
def sample_as_another_console(settings: Settings, found: SystemSample) -> Iterator[None]:
    """Keep a sample of richpanel and hold the lease of the sampler, so that no later sample replaces it."""
    held = run_in_thread(take_over(settings))
    try:
        run_in_thread(keep(settings, found))
        yield
    finally:
        run_in_thread(release(settings, held))


async def take_over(settings: Settings) -> SamplerLease:
    """Take the lease of the sampler from the site's own console, as if that had been paused for too long."""
    async with open_stores(CONSOLE, settings) as own:
        while True:
            seen = await own.run(SAMPLER.pattern_set.read(LEASE_NAME))
            assert seen is not None
            changes = {
                "holder": "another console",
                "token": seen.token + 1,
                "until": own.clock.now() + HELD_S,
            }
            taken = seen.model_copy(update={**changes, "lease_s": HELD_S})
            try:
                await own.run(SAMPLER.pattern_set.take(taken, seen))
                return taken
            except ConditionFailed:
                continue  # the site's console has renewed it since


async def keep(settings: Settings, found: SystemSample) -> None:
    async with open_stores(CONSOLE, settings) as own:
        sample = Sample(own.clock.now(), {"richpanel": found})
        await own.run(keep_sample(ConsoleSample(at=own.now(), content=encode_sample(sample))))


async def release(settings: Settings, held: SamplerLease) -> None:
    async with open_stores(CONSOLE, settings) as own:
        await own.run(SAMPLER.pattern_set.keep(held.model_copy(update={"until": 0.0})))


def test_shows_the_work_of_each_system_without_watched_processes(visitor: Visitor) -> None:
    visitor.visit("/")
    visitor.page.get_by_text("Last read").wait_for(timeout=PATIENCE_MS)
    visitor.page.get_by_text("No processes are watched").wait_for()
    visitor.page.locator("#parts-tripcortex summary").click()
    visitor.page.get_by_text("wait for a person").first.wait_for()
    visitor.check("overview")


def test_follows_the_samples_and_keeps_open_what_is_open(visitor: Visitor, site: ConsoleSite) -> None:
    visitor.visit("/")
    visitor.page.get_by_text("Last read").wait_for(timeout=PATIENCE_MS)
    visitor.page.locator("#parts-richpanel summary").click()

    rates = Rates(requests=12.5, failed_requests=5.0, operations=80.0)
    failing = SystemSample(
        processes=[ProcessState(URL, failure="no connection")],
        rates=rates,
        queues={"rp_mw_events": QueueState(visible=7, dead=2, oldest_s=75.0)},
    )
    with sample_as_another_console(site.settings, failing):
        # Nothing was clicked: the page learned of the sample by itself.
        visitor.page.get_by_text(f"The process at {URL} does not answer: no connection.").wait_for(
            timeout=PATIENCE_MS
        )
        visitor.page.get_by_role("cell", name="no answer").wait_for()
        visitor.page.get_by_text("ongoing").first.wait_for()
        visitor.check("overview-incident")
        visitor.page.get_by_role("link", name="Spend").nth(2).click()
        visitor.page.wait_for_url("**/cost/richpanel")
