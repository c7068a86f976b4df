"""A process started by cache tests, in which ten callers load one value from Redis concurrently.

python -m tests.contract.cache.loader_process ADDRESS ID LOCK_S WAIT_S

It prints the kind of each cache request, "loading" when it loads, and finally the values found; a load
continues when a line arrives on standard input.
"""

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel

from holdfast import Rate, Stores, open_memory_stores
from holdfast.guarantees import ReadThrough
from holdfast.model.cache import CachedValue
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.redis import open_redis

CALLERS = 10


class Entry(BaseModel):
    """The value that is loaded, with the name of its loader."""

    loaded_by: str


def entries(lock_s: float, wait_s: float) -> ReadThrough[Entry]:
    """Return a read-through cache of entries.

    `lock_s` is the lock's lifetime, `wait_s` the longest wait for another loader.
    """
    cached = CachedValue("entry:{id}", Entry, lifetime_s=300)
    return ReadThrough(cached, prefix="E", rate=Rate("r"), example={"id": "1"}, lock_s=lock_s, wait_s=wait_s)


def write_line(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def load() -> Entry:
    """Print "loading", wait for a line on standard input and return an entry with its text."""
    write_line("loading")
    line = await asyncio.to_thread(sys.stdin.readline)
    return Entry(loaded_by=line.strip())


async def load_concurrently(address: str, id: str, lock_s: str, wait_s: str) -> None:
    """Get the entry with this id in all callers at once, and print the distinct values they found."""
    through = entries(float(lock_s), float(wait_s))
    engines = Engines({"cache": lambda: open_redis(address, timeout_s=10)})
    async with Stores(open_memory_stores().tables, engines=engines) as stores:
        stores.observe(lambda usage: write_line(usage.operation))
        found = await asyncio.gather(*(through.get(stores, load, id=id) for _ in range(CALLERS)))
    write_line("found " + ",".join(sorted({each.loaded_by for each in found if each})))


if __name__ == "__main__":
    asyncio.run(load_concurrently(*sys.argv[1:]))
