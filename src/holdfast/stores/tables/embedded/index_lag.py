"""Fault injection for tests: global secondary indexes that lag behind their table, as DynamoDB's do.

The rows of an index always change with the item. While a lag is set (`EngineFaults(index_lag_s=0.5)`), the
engine writes and reads through the two classes here: a write records the item it replaces, and a page of a
global index shows that earlier item for every item written within the lag. The records are in memory: writes
by other processes and by the engine's own jobs are visible at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter

from holdfast.core.clock import Clock
from holdfast.operations.values import Item, item_size
from holdfast.stores.sqlite import Batch, Connection, Database
from holdfast.stores.tables.embedded.plan.change import Change
from holdfast.stores.tables.embedded.plan.span import Position, Span
from holdfast.stores.tables.embedded.storage import codec
from holdfast.stores.tables.embedded.storage.catalog import CatalogCache
from holdfast.stores.tables.embedded.storage.reader import Reader
from holdfast.stores.tables.embedded.storage.walk import Rows
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Index, KeyBytes

Image = tuple[bytes, int]
"""An item as it was stored, and its size."""
Images = dict[tuple[int, KeyBytes], Image | None]
"""Replaced items by table number and key; None if there was no item."""


class IndexLag:
    """The writes of the last `lag_s` seconds, oldest first, each with the item it replaced."""

    def __init__(self, lag_s: float, clock: Clock) -> None:
        self._lag_s, self._clock = lag_s, clock
        self._lock = threading.Lock()
        self._recent: deque[tuple[float, int, KeyBytes, Image | None]] = deque()
        self._batch: Batch | None = None
        self._replaced: Images = {}

    def make_reader(
        self, connection: Connection, cache: CatalogCache, clock: Clock, database: Database
    ) -> Reader:
        """Create a reader that shows global secondary indexes as they were a lag ago."""
        return LaggedReader(self, connection, cache, clock, database)

    def make_writer(self, connection: Connection, batch: Batch, cache: CatalogCache, now: float) -> Writer:
        """Create a writer that records the items it replaces."""
        return LaggedWriter(self, connection, batch, cache, now)

    def record(self, batch: Batch, images: Images) -> None:
        """Record the items that one unit of work replaced, for readers once the transaction commits.

        Only the first image of an item in a transaction counts: no reader saw the later ones.
        """
        if batch is not self._batch:
            self._batch, self._replaced = batch, {}
            # Before the commit, because a reader may see the rows before any after-commit callback runs.
            batch.before_commit(self._add_to_recent)
        for key, image in images.items():
            self._replaced.setdefault(key, image)

    def get_images(self, number: int) -> dict[KeyBytes, Image | None]:
        """Return, for each item of the table with this number that was written within the lag, the item as it
        was a lag ago.
        """
        images_by_key: dict[KeyBytes, Image | None] = {}
        with self._lock:
            horizon = self._clock.now() - self._lag_s
            for moment, table, key_bytes, image in self._recent:
                if table == number and moment > horizon:
                    images_by_key.setdefault(key_bytes, image)
        return images_by_key

    def _add_to_recent(self) -> None:
        """Add the transaction's images to the recent writes, and drop those older than the lag."""
        with self._lock:
            now = self._clock.now()
            while self._recent and self._recent[0][0] <= now - self._lag_s:
                self._recent.popleft()
            self._recent.extend((now, *key, image) for key, image in self._replaced.items())


class LaggedWriter(Writer):
    """A writer that records the items it replaces in tables with a global secondary index."""

    __slots__ = ("_batch", "_images", "_lag")

    def __init__(
        self, lag: IndexLag, connection: Connection, batch: Batch, cache: CatalogCache, now: float
    ) -> None:
        super().__init__(connection, batch, cache, now)
        self._lag, self._batch = lag, batch
        self._images: Images = {}

    def apply(self, change: Change) -> None:
        """Write a change and remember the item it replaces, unless the unit has remembered it before."""
        super().apply(change)
        if change.table.definition.global_indexes:
            old = change.old
            # Keep the stored form, because the caller may receive the old item and change it.
            image = None if old is None else (codec.encode(old.item), old.size)
            self._images.setdefault((change.table.number, change.key_bytes), image)

    def finish(self) -> None:
        """Finish the unit and record the items it replaced."""
        super().finish()
        if self._images:
            self._lag.record(self._batch, self._images)


class LaggedReader(Reader):
    """A reader that shows global secondary indexes as they were a lag ago, and everything else as it is."""

    __slots__ = ("_lag",)

    def __init__(
        self, lag: IndexLag, connection: Connection, cache: CatalogCache, clock: Clock, database: Database
    ) -> None:
        super().__init__(connection, cache, clock, database)
        self._lag = lag

    def select_rows(self, span: Span, limit: int | None) -> Iterator[Rows]:
        """Iterate over the rows of a span; those of a global index as they were a lag ago."""
        if span.index is None or not span.index.is_global:
            return super().select_rows(span, limit)
        images = self._lag.get_images(span.table.number)
        if not images:
            return super().select_rows(span, limit)
        # Some rows are left out, so no limit is known here. The caller stops reading when its page is full.
        return _overlay_images(super().select_rows(span, None), images, span, span.index)


def _overlay_images(
    rows: Iterator[Rows], images: dict[KeyBytes, Image | None], span: Span, index: Index
) -> Iterator[Rows]:
    """Yield the rows of unchanged items and the images of changed ones, in the order of the span."""
    unchanged = (
        (position, row)
        for chunk in rows
        for row in zip(*chunk, strict=True)
        if (position := _encode_position(row[0], span, index)) and position[2:] not in images
    )
    replaced = [_build_row(image, index) for image in images.values() if image is not None]
    earlier = [
        (position, row)
        for row in replaced
        if (position := _encode_position(row[0], span, index)) and _is_within(span, position)
    ]
    earlier.sort(key=itemgetter(0), reverse=not span.forward)
    for _, row in merge(unchanged, earlier, key=itemgetter(0), reverse=not span.forward):
        item, size, view_size = row
        yield Rows([item], [size], [view_size])


def _encode_position(item: Item, span: Span, index: Index) -> Position | None:
    """Return an item's position in an index: its key in the index, then its key in the table.

    Return None if the item is not in the index.
    """
    key_bytes = index.encode_key(item)
    return None if key_bytes is None else key_bytes + span.table.encode_key(item)


def _build_row(image: Image, index: Index) -> tuple[Item, int, int]:
    """Return an earlier item as a row of the index."""
    item, size = codec.decode(image[0]), image[1]
    return item, size, item_size(index.project(item))


def _is_within(span: Span, position: Position) -> bool:
    """Return whether the span includes the position."""
    partition, sort = position[:2]
    if span.partition is not None and partition != span.partition:
        return False
    if span.low is not None and (sort < span.low or (span.low_open and sort == span.low)):
        return False
    if span.high is not None and (sort > span.high or (span.high_open and sort == span.high)):
        return False
    if span.segment is not None and not span.segment.contains(partition):
        return False
    if span.after is None:
        return True
    return position > span.after if span.forward else position < span.after
