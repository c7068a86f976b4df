"""Spans: the range of rows that a query or scan reads, in one direction.

A span is a pure value; storage turns it into one SELECT. Positions are tuples of bytes in the order of the
rows: (pk, sk) of a table, (ipk, isk, pk, sk) of an index.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.stores.tables.embedded.table import Index, KeyPart, Table

Position = tuple[bytes, ...]


class Segment(msgspec.Struct, frozen=True):
    """One of `total` even parts of a scan. A partition belongs to one segment by its hash."""

    number: int
    total: int

    def contains(self, partition: bytes) -> bool:
        """Return whether a partition belongs to this segment."""
        return crc32(partition) * self.total >> 32 == self.number


class Span(msgspec.Struct, frozen=True):
    """Rows of a table, or of one of its indexes.

    `partition` is one partition (a query) or None (a scan). `low` and `high` bound the sort key, both
    inclusive unless they are marked open. `segment` is the part of a scan. `after` is the position to resume
    from, in the direction of the span.
    """

    table: Table
    index: Index | None = None
    partition: bytes | None = None
    low: bytes | None = None
    low_open: bool = False
    high: bytes | None = None
    high_open: bool = False
    segment: Segment | None = None
    after: Position | None = None
    forward: bool = True


def build_sort_bounds(part: KeyPart, test: KeyTest) -> dict[str, bytes | bool | None]:
    """Return the bounds that a condition on the sort key sets, as arguments of `Span`."""
    values = [part.encode(value) for value in test.values]
    match test.operator:
        case "=":
            return {"low": values[0], "high": values[0]}
        case "<":
            return {"high": values[0], "high_open": True}
        case "<=":
            return {"high": values[0]}
        case ">":
            return {"low": values[0], "low_open": True}
        case ">=":
            return {"low": values[0]}
        case "between":
            return {"low": values[0], "high": values[1]}
        case "begins_with":
            return {"low": values[0], "high": find_prefix_end(values[0]), "high_open": True}


def find_prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest bytes above everything that begins with the prefix, or None if there are none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None
