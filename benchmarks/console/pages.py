"""Benchmark: pages of the data browser per second of processor time, in a table of 1,000,000 items.

The floor is the same page over a table of 1,000 items: the ratio says how much of its rate is left at a
thousand times the items. Both consoles are open in one process and take turns. A page is complete: the
request through the app, its sign-in, the read, the masks and the rendered template. Rates are per second of
processor time of the whole process, because a page is work and not waiting.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import httpx2

from benchmarks.harness.measurement import ROUNDS, Figure, build_figure, report_progress
from benchmarks.stores import items
from benchmarks.stores.batch_import import BATCH, put_batch
from holdfast import Attr, Entity, IndexKey, Key, Stores, System, Table, attr, open_memory_stores
from holdfast.config.settings import Settings
from holdfast.console.accounts import DemoAccounts
from holdfast.console.app import build_console_app
from holdfast.console.browser import build_item_url, build_table_url
from holdfast.console.model import CONSOLE
from holdfast.model.tables import KEYS_ONLY
from holdfast.operations.tables import CreateTable
from holdfast.stores.tables.embedded import open_tables

FEW, MANY = 1_000, 1_000_000
MUST_REACH: Final = 1 / 1.5
PAGES_EACH_ROUND: Final = 60
# Each page is about another part of the table than the last.
STEP: Final = 7919
NAME: Final = "bench"
ADDRESS: Final = "http://127.0.0.1:8300"

table = Table(items.TABLE, "pk", "sk", naming=str)
by_status = table.global_index("by-status", "status", "sk", projection=KEYS_ONLY)


class Order(Entity, table=table):
    """An order of the benchmark's table."""

    customer: Attr[str] = attr("pk")
    number: Attr[str] = attr("sk")
    status: Attr[str] = attr()
    total: Attr[int] = attr()
    of = Key(customer, number)
    at_status = IndexKey(by_status, status, number)


SYSTEM: Final = System(NAME, "Holds the items of the benchmark", tables=(table,))
_NEXT: Final = re.compile(r'href="([^"]+)" rel="next"')


def run(folder: Path) -> list[Figure]:
    """Measure each kind of page over both tables."""
    return asyncio.run(_compare(folder))


async def _compare(folder: Path) -> list[Figure]:
    async with AsyncExitStack() as stack:
        many = await stack.enter_async_context(_open_console(folder / "many.db", MANY))
        few = await stack.enter_async_context(_open_console(folder / "few.db", FEW))
        figures = []
        for name, work in PAGES.items():
            rounds = [
                (await _measure_rate(work, many), await _measure_rate(work, few)) for _ in range(ROUNDS + 1)
            ]
            # The first round is a warm-up.
            figures.append(build_figure(f"console: {name}, {MANY // FEW:,} x items", rounds[1:], MUST_REACH))
        return figures


@dataclass(frozen=True)
class Site:
    """A signed-in client of a console over a table of `count` items."""

    client: httpx2.AsyncClient
    count: int
    numbers: itertools.count[int]

    def draw_item(self) -> dict[str, str]:
        """Return the key of another item, all over the table."""
        item = items.build_item(next(self.numbers) % self.count)
        return {"pk": str(item["pk"]), "sk": str(item["sk"])}

    async def open(self, path: str) -> str:
        """Return a page."""
        response = await self.client.get(path)
        assert response.status_code == 200, response.text
        return response.text


@asynccontextmanager
async def _open_console(path: Path, count: int) -> AsyncIterator[Site]:
    """Fill a table with items, and sign in to a console over it."""
    with open_tables(path) as tables:
        tables.run_blocking(CreateTable(items.build_definition(with_index=True)))
        for start in range(0, count, BATCH):
            put_batch(tables, range(start, min(start + BATCH, count)))
            if start % 50_000 == 0:
                report_progress("items", start, count)
        stores = Stores(tables, system=SYSTEM)
        async with open_memory_stores(CONSOLE) as own:
            app = build_console_app(Settings(), own, [stores], DemoAccounts())
            transport = httpx2.ASGITransport(app, client=("127.0.0.1", 50_000))
            async with (
                app.router.lifespan_context(app),
                httpx2.AsyncClient(transport=transport, base_url=ADDRESS) as client,
            ):
                await client.post("/sign-in/demo")
                yield Site(client, count, itertools.count(1, STEP))


async def _open_partition(site: Site) -> None:
    await site.open(build_table_url(NAME, table.name, partition=site.draw_item()["pk"]))


async def _open_scan(site: Site) -> None:
    """Open the second page of all items, by the cursor of the first."""
    found = _NEXT.search(await site.open(build_table_url(NAME, table.name)))
    assert found is not None
    await site.open(found[1].replace("&amp;", "&"))


async def _open_index(site: Site) -> None:
    """Open a page of an index from the middle of a partition with a quarter of all items."""
    sort = site.draw_item()["sk"]
    await site.open(
        build_table_url(NAME, table.name, index="by-status", partition="open", op="<=", sort=sort)
    )


async def _open_filter(site: Site) -> None:
    """Open a page whose filter keeps few items: it examines a bounded number of them."""
    await site.open(build_table_url(NAME, table.name, fa=["total"], fo=["="], fv=["1001"]))


async def _open_item(site: Site) -> None:
    await site.open(build_item_url(NAME, table.name, site.draw_item()))


async def _open_counts(site: Site) -> None:
    await site.open("/data")


PAGES: Final[dict[str, Callable[[Site], Awaitable[None]]]] = {
    "a partition": _open_partition,
    "two pages of all items": _open_scan,
    "a page of an index": _open_index,
    "a page with a filter": _open_filter,
    "an item": _open_item,
    "the tables with their counts": _open_counts,
}


async def _measure_rate(work: Callable[[Site], Awaitable[None]], site: Site) -> float:
    """Return how many pages of this kind a second of processor time builds."""
    started = time.process_time()
    for page in itertools.repeat(partial(work, site), PAGES_EACH_ROUND):
        await page()
    return PAGES_EACH_ROUND / (time.process_time() - started)
