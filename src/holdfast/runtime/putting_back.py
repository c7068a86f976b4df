"""A live table brought to the state of a restored one, item by item: the last stage of a restore in place.

First every restored item is looked for in the live table and put where it is missing or different; then every live
item is looked for in the restored table and deleted where it is not there. What is right already is left alone, so that
all of it may be run again. Every write is bound to what was seen: an item that somebody else changes meanwhile is left
as it is and counted. A condition cannot see an attribute whose name nobody knew; a write tells what it replaced, and where
that is not what was seen, it is put there again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any, Final, Literal, TypeAlias

from holdfast.errors import ConditionFailed, RetryLater
from holdfast.limits import BATCH_READS_MAX
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Item, same
from holdfast.runtime.stores import BATCH_ROUNDS_MAX, PARALLEL_REQUESTS_MAX, Stores, together

# A condition has room for 300 operators, two for each attribute. What replaced more than was looked at is noticed after.
WATCHED_ATTRIBUTES_MAX: Final = 100
EXAMPLES_MAX: Final = 20

What: TypeAlias = Literal["missing", "different", "extra"]
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Difference:
    """In what a live item is not as it was: it is missing, different, or one too much."""

    what: What
    key: Item


@dataclass
class PutBack:
    """What was done, or on a dry run what there is to do. `contended` items were written by others meanwhile.

    `began_at` is the moment before the first write; `examples` are the first differences that were found.
    """

    began_at: float
    missing: int = 0
    different: int = 0
    deleted: int = 0
    unchanged: int = 0
    contended: int = 0
    examples: list[Difference] = field(default_factory=list)

    @property
    def restored(self) -> int:
        """Items that were put: those that were missing and those that were different."""
        return self.missing + self.different

    @property
    def changed(self) -> int:
        return self.restored + self.deleted

    @property
    def is_complete(self) -> bool:
        return not self.contended


async def put_back(
    stores: Stores,
    live: str,
    restored: str,
    *,
    dry_run: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> PutBack:
    """Brings the table `live` to the state of the table `restored`. Both are physical names, of one key."""
    return await _PuttingBack(stores, live, restored, dry_run, progress).done()


@dataclass(frozen=True)
class _Write:
    """One change to the live table, with what was seen there before."""

    what: What
    key: Item
    seen: Item | None
    item: Item | None


class _PuttingBack:
    """One run over both tables, a page at a time."""

    def __init__(self, stores: Stores, live: str, restored: str, dry_run: bool, progress: Progress) -> None:
        self._stores, self._live, self._restored = stores, live, restored
        self._dry_run, self._progress = dry_run, progress
        self._names: tuple[str, ...] = ()
        self._looked_at, self._total = 0, 0
        # The millisecond before this one, so that no write of ours is in it.
        self._report = PutBack((floor(stores.clock.now() * 1000) - 1) / 1000)

    async def done(self) -> PutBack:
        there = await self._stores.tables.run(requests.DescribeTable(self._live))
        wanted = await self._stores.tables.run(requests.DescribeTable(self._restored))
        self._names = there.definition.keys.names
        self._total = there.item_count + wanted.item_count
        async for items in self._pages(self._restored):
            await self._put(items)
        async for items in self._pages(self._live):
            await self._delete(items)
        return self._report

    async def _pages(self, table: str) -> AsyncIterator[list[Item]]:
        start: Item | None = None
        while True:
            page = await self._stores.tables.run(
                requests.Scan(table, limit=BATCH_READS_MAX, start_key=start, consistent=True)
            )
            if page.items:
                yield page.items
            self._looked_at += page.count
            self._progress(
                f"{self._live} (items compared)", self._looked_at, max(self._looked_at, self._total)
            )
            start = page.last_key
            if start is None:
                return

    async def _put(self, items: list[Item]) -> None:
        live = await self._found(self._live, items)
        writes = []
        for item in items:
            key = self._key(item)
            seen = live.get(_place(key))
            if seen is None or not same(item, seen):
                writes.append(_Write("missing" if seen is None else "different", key, seen, item))
        self._report.unchanged += len(items) - len(writes)
        await self._write(writes)

    async def _delete(self, items: list[Item]) -> None:
        wanted = await self._found(self._restored, items)
        keys = [(self._key(item), item) for item in items]
        await self._write(
            [_Write("extra", key, item, None) for key, item in keys if _place(key) not in wanted]
        )

    async def _found(self, table: str, items: Iterable[Item]) -> dict[Any, Item]:
        """The items of a table that have the same keys, by their places."""
        keys = tuple(map(self._key, items))
        found: dict[Any, Item] = {}
        for _ in range(BATCH_ROUNDS_MAX):
            asked = requests.BatchGetItem((requests.KeysOfTable(table, keys, consistent=True),))
            answer = await self._stores.tables.run(asked)
            found |= {_place(self._key(item)): item for item in answer.items.get(table, ())}
            keys = tuple(key for rest in answer.unprocessed for key in rest.keys)
            if not keys:
                return found
        raise RetryLater(
            f"{len(keys)} items of {table} could not be read again and again: run it again later, it goes on."
        )

    async def _write(self, writes: list[_Write]) -> None:
        for start in range(0, len(writes), PARALLEL_REQUESTS_MAX):
            await together(map(self._one, writes[start : start + PARALLEL_REQUESTS_MAX]))

    async def _one(self, write: _Write) -> None:
        if self._dry_run or await self._is_written(write):
            self._count(write)
        else:
            self._report.contended += 1

    async def _is_written(self, write: _Write) -> bool:
        """Whether it took the place of what was seen. Where it took another's, that one gets it back."""
        try:
            replaced = await self._replaced(write)
            is_written = _is_as(replaced, write.seen)
            while not _is_as(replaced, write.seen):
                write = replace(write, seen=write.item, item=replaced)
                replaced = await self._replaced(write)
        except ConditionFailed:
            return False
        return is_written

    async def _replaced(self, write: _Write) -> Item | None:
        """The item that was there, of which the condition sees what it has names for."""
        condition = _as_seen(self._names[0], write)
        request: requests.Operation[Any]
        if write.item is None:
            request = requests.DeleteItem(self._live, write.key, condition, returns="ALL_OLD")
        else:
            request = requests.PutItem(self._live, write.item, condition, returns="ALL_OLD")
        replaced: Item | None = (await self._stores.tables.run(request)).attributes
        return replaced

    def _count(self, write: _Write) -> None:
        match write.what:
            case "missing":
                self._report.missing += 1
            case "different":
                self._report.different += 1
            case "extra":
                self._report.deleted += 1
        if len(self._report.examples) < EXAMPLES_MAX:
            self._report.examples.append(Difference(write.what, write.key))

    def _key(self, item: Item) -> Item:
        return {name: item[name] for name in self._names}


def _place(key: Item) -> Any:
    return tuple(key.values())


def _is_as(item: Item | None, other: Item | None) -> bool:
    return item is other if item is None or other is None else same(item, other)


def _as_seen(partition: str, write: _Write) -> nodes.Condition:
    """The live item is still the one that was seen: its attributes are the same, and none of ours came to it."""
    seen = write.seen
    if seen is None:
        return nodes.AttributeNotExists(nodes.Path(partition))
    others = {name: value for name, value in seen.items() if name not in write.key}
    absent = [name for name in write.item or () if name not in seen]
    conditions: list[nodes.Condition] = [
        nodes.Compare("=", nodes.Path(name), nodes.Literal(value)) for name, value in others.items()
    ]
    conditions += [nodes.AttributeNotExists(nodes.Path(name)) for name in absent]
    there = nodes.AttributeExists(nodes.Path(partition))
    return nodes.And((there, *conditions[:WATCHED_ATTRIBUTES_MAX])) if conditions else there
