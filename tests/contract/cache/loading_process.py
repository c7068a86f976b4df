"""A process in which several ask for one value at once: for `test_caching.py`.

python -m tests.contract.cache.loading_process ADDRESS ID LOCK_S WAIT_S

It tells each request to the cache by its kind, "loading" when it loads, and in the end what was found; a load goes on when
a line comes in.
"""

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel

from holdfast import CachedValue, Rate, Stores, open_memory_stores
from holdfast.guarantees import ReadThrough
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.redis import open_redis

CALLERS = 10


class Entry(BaseModel):
    loaded_by: str


def entries(lock_s: float, wait_s: float) -> ReadThrough[Entry]:
    cached = CachedValue("entry:{id}", Entry, lifetime_s=300)
    return ReadThrough(cached, "E", rate=Rate("r"), example={"id": "1"}, lock_s=lock_s, wait_s=wait_s)


def tell(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def load() -> Entry:
    tell("loading")
    line = await asyncio.to_thread(sys.stdin.readline)
    return Entry(loaded_by=line.strip())


async def ask(address: str, id: str, lock_s: str, wait_s: str) -> None:
    through = entries(float(lock_s), float(wait_s))
    engines = Engines({"cache": lambda: open_redis(address, timeout_s=10)})
    async with Stores(open_memory_stores().tables, engines=engines) as stores:
        stores.observe(lambda usage: tell(usage.operation))
        found = await asyncio.gather(*(through.get(stores, load, id=id) for _ in range(CALLERS)))
    tell("found " + ",".join(sorted({each.loaded_by for each in found if each})))


if __name__ == "__main__":
    asyncio.run(ask(*sys.argv[1:]))
