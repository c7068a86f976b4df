"""Arithmetic for the cost of an index and the reads from which it pays, independent of any system.

The number of reads is computed in two ways: by the rule of thumb that is often printed, and from the prices.
The results differ widely, because the rule ignores how much a scan reads.
"""

from __future__ import annotations

import math

from holdfast.core.limits import READ_UNIT_BYTES


def compute_insert_units(item_units: float, indexes: int) -> float:
    """Return the write units of an insert: the item, plus one entry in each index."""
    return item_units * (1 + indexes)


def compute_key_change_units(item_units: float, indexes: int) -> float:
    """Return the write units of changing an index key: the item, plus a delete and a put per index."""
    return item_units * (1 + 2 * indexes)


def compute_scan_units(size_bytes: int) -> float:
    """Return the read units of an eventually consistent scan of a whole table of this size; at least 0.5."""
    return max(1, math.ceil(size_bytes / READ_UNIT_BYTES)) / 2


def compute_saving(units_without: float, units_with: float) -> float:
    """Return the share of the units that an index saves; negative if it needs more."""
    return 1 - units_with / units_without


def estimate_break_even(writes: float, indexes: int) -> float:
    """Return the number of reads from which indexes pay by the rule of thumb: writes × indexes × 2."""
    return writes * indexes * 2


def compute_break_even(
    writes: float,
    indexes: int,
    price_write: float,
    scan_units: float,
    query_units: float,
    price_read: float,
) -> float:
    """Return the number of reads from which indexes really pay: added write cost / saving per read.

    Infinite if a query needs as much as a scan. Prices are per unit.
    """
    spared = (scan_units - query_units) * price_read
    return writes * indexes * price_write / spared if spared > 0 else math.inf
