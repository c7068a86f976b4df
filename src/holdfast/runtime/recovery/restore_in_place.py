"""Last stage of a restore in place: changes a live table to the state of a restored one, item by item.

First every restored item is looked up in the live table and put if missing or different; then every live item
is looked up in the restored table and deleted if it is not there. Correct items are left alone, so a run can
be repeated. Every write is conditional on what was read: an item that another writer changes meanwhile is
left as it is and counted. A condition cannot cover an attribute whose name was unknown; so each write returns
what it replaced, and if that is not what was read, it is put back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any, Final, Literal, TypeAlias

from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.errors import ConditionFailed, RetryLater
from holdfast.core.limits import MAX_BATCH_ATTEMPTS, MAX_BATCH_READS, MAX_PARALLEL_REQUESTS
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Item, are_equal
from holdfast.runtime.stores import Stores

# A condition takes 300 operators, two per attribute. Changes to further attributes are noticed after the
# write.
MAX_WATCHED_ATTRIBUTES: Final = 100
MAX_EXAMPLES: Final = 20

DifferenceKind: TypeAlias = Literal["missing", "different", "extra"]
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RestoreDifference:
    """How a live item differs from the restored state: it is missing, different, or extra."""

    what: DifferenceKind
    key: Item


@dataclass
class RestoreReport:
    """The counts of a restore, or on a dry run of what it would do. Others wrote `contended` items meanwhile.

    `began_at` is the time before the first write; `examples` are the first differences found.
    """

    began_at: float
    missing: int = 0
    different: int = 0
    deleted: int = 0
    unchanged: int = 0
    contended: int = 0
    examples: list[RestoreDifference] = field(default_factory=list)

    @property
    def restored(self) -> int:
        """The number of items put: missing and different ones."""
        return self.missing + self.different

    @property
    def changed(self) -> int:
        """The number of items put or deleted."""
        return self.restored + self.deleted

    @property
    def is_complete(self) -> bool:
        """True if no other writer changed an item meanwhile."""
        return not self.contended


async def revert_table(
    stores: Stores,
    live: str,
    restored: str,
    *,
    dry_run: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> RestoreReport:
    """Change the table `live` to the state of the table `restored`, and return the counts.

    Both are physical names of tables with the same key.
    """
    return await _TableReversion(stores, live, restored, dry_run, progress).run()


@dataclass(frozen=True)
class _Write:
    """One change to the live table, with what was read there before."""

    what: DifferenceKind
    key: Item
    seen: Item | None
    item: Item | None


class _TableReversion:
    """One run over both tables, page by page."""

    def __init__(self, stores: Stores, live: str, restored: str, dry_run: bool, progress: Progress) -> None:
        self._stores, self._live, self._restored = stores, live, restored
        self._dry_run, self._progress = dry_run, progress
        self._names: tuple[str, ...] = ()
        self._compared, self._total = 0, 0
        # The millisecond before this one, so that it precedes all our writes.
        self._report = RestoreReport((floor(stores.clock.now() * 1000) - 1) / 1000)

    async def run(self) -> RestoreReport:
        """Put missing and different items, then delete extra ones, and return the counts."""
        there = await self._stores.tables.run(requests.DescribeTable(self._live))
        wanted = await self._stores.tables.run(requests.DescribeTable(self._restored))
        self._names = there.definition.keys.names
        self._total = there.item_count + wanted.item_count
        async for items in self._read_pages(self._restored):
            await self._put_missing(items)
        async for items in self._read_pages(self._live):
            await self._delete_extra(items)
        return self._report

    async def _read_pages(self, table: str) -> AsyncIterator[list[Item]]:
        """Yield the items of a table page by page, and report progress."""
        start: Item | None = None
        while True:
            page = await self._stores.tables.run(
                requests.Scan(table, limit=MAX_BATCH_READS, start_key=start, consistent=True)
            )
            if page.items:
                yield page.items
            self._compared += page.count
            self._progress(f"{self._live} (items compared)", self._compared, max(self._compared, self._total))
            start = page.last_key
            if start is None:
                return

    async def _put_missing(self, items: list[Item]) -> None:
        """Put those of the restored items that the live table lacks or has differently."""
        live = await self._fetch(self._live, items)
        writes = []
        for item in items:
            key = self._extract_key(item)
            seen = live.get(_to_hashable(key))
            if seen is None or not are_equal(item, seen):
                writes.append(_Write("missing" if seen is None else "different", key, seen, item))
        self._report.unchanged += len(items) - len(writes)
        await self._apply_all(writes)

    async def _delete_extra(self, items: list[Item]) -> None:
        """Delete those of the live items that the restored table lacks."""
        wanted = await self._fetch(self._restored, items)
        keys = [(self._extract_key(item), item) for item in items]
        await self._apply_all(
            [_Write("extra", key, item, None) for key, item in keys if _to_hashable(key) not in wanted]
        )

    async def _fetch(self, table: str, items: Iterable[Item]) -> dict[Any, Item]:
        """Return those of the items that the table has, by key, as they are there."""
        keys = tuple(map(self._extract_key, items))
        found: dict[Any, Item] = {}
        for _ in range(MAX_BATCH_ATTEMPTS):
            request = requests.BatchGetItem((requests.KeysAndAttributes(table, keys, consistent=True),))
            result = await self._stores.tables.run(request)
            found |= {_to_hashable(self._extract_key(item)): item for item in result.items.get(table, ())}
            keys = tuple(key for rest in result.unprocessed for key in rest.keys)
            if not keys:
                return found
        raise RetryLater(
            f"Reading {len(keys)} items of {table} failed repeatedly. Run the restore again later; it "
            "resumes."
        )

    async def _apply_all(self, writes: list[_Write]) -> None:
        """Apply the writes, several at a time."""
        for start in range(0, len(writes), MAX_PARALLEL_REQUESTS):
            await gather_or_cancel(map(self._apply, writes[start : start + MAX_PARALLEL_REQUESTS]))

    async def _apply(self, write: _Write) -> None:
        """Make and count the write; on a dry run only count it.

        If another writer changed the item, count it as contended.
        """
        if self._dry_run or await self._write_unless_changed(write):
            self._count(write)
        else:
            self._report.contended += 1

    async def _write_unless_changed(self, write: _Write) -> bool:
        """Return True if the write replaced what was read. If it replaced something else, put that back."""
        try:
            replaced = await self._swap_item(write)
            is_written = _is_same_item(replaced, write.seen)
            while not _is_same_item(replaced, write.seen):
                write = replace(write, seen=write.item, item=replaced)
                replaced = await self._swap_item(write)
        except ConditionFailed:
            return False
        return is_written

    async def _swap_item(self, write: _Write) -> Item | None:
        """Write the item and return the one it replaced; the condition covers only attributes with known
        names.
        """
        condition = _build_unchanged_condition(self._names[0], write)
        request: requests.Operation[Any]
        if write.item is None:
            request = requests.DeleteItem(self._live, write.key, condition, returns="ALL_OLD")
        else:
            request = requests.PutItem(self._live, write.item, condition, returns="ALL_OLD")
        replaced: Item | None = (await self._stores.tables.run(request)).attributes
        return replaced

    def _count(self, write: _Write) -> None:
        """Add the write to the counts and to the first examples."""
        match write.what:
            case "missing":
                self._report.missing += 1
            case "different":
                self._report.different += 1
            case "extra":
                self._report.deleted += 1
        if len(self._report.examples) < MAX_EXAMPLES:
            self._report.examples.append(RestoreDifference(write.what, write.key))

    def _extract_key(self, item: Item) -> Item:
        return {name: item[name] for name in self._names}


def _to_hashable(key: Item) -> Any:
    """Return the values of a key as a tuple."""
    return tuple(key.values())


def _is_same_item(item: Item | None, other: Item | None) -> bool:
    """Return True if both are absent, or equal."""
    return item is other if item is None or other is None else are_equal(item, other)


def _build_unchanged_condition(partition: str, write: _Write) -> nodes.Condition:
    """Return the condition that the live item is as read: same attributes, and none of the restored ones
    added.

    It covers the first hundred attributes.
    """
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
    return nodes.And((there, *conditions[:MAX_WATCHED_ATTRIBUTES])) if conditions else there
