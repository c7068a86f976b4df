"""What an index costs and what it saves: the arithmetic, apart from any system.

Two answers to "from how many reads on does it pay?": the rule of thumb that is often printed, and what follows from
the prices. They are far apart, because the rule takes no notice of how much a scan reads.
"""

from __future__ import annotations

import math

from holdfast.limits import READ_UNIT_BYTES


def insert_units(item_units: float, indexes: int) -> float:
    """An insert writes the item and, once each, every index that has it."""
    return item_units * (1 + indexes)


def key_change_units(item_units: float, indexes: int) -> float:
    """A change of an index key writes the item, and in each such index takes the old entry out and puts a new one."""
    return item_units * (1 + 2 * indexes)


def scan_units(size_bytes: int) -> float:
    """Reading a whole table, eventually consistent."""
    return max(1, math.ceil(size_bytes / READ_UNIT_BYTES)) / 2


def saving(units_without: float, units_with: float) -> float:
    """The share of the units that an index spares; below nought where it needs more."""
    return 1 - units_with / units_without


def rule_of_thumb(writes: float, indexes: int) -> float:
    """The reads from which indexes are said to pay: writes × indexes × 2."""
    return writes * indexes * 2


def true_break_even(
    writes: float,
    indexes: int,
    price_write: float,
    scan_units: float,
    query_units: float,
    price_read: float,
) -> float:
    """The reads from which indexes really pay: what they add to the writes, over what each read spares.

    Infinite where a query needs as much as a scan. Prices are per unit.
    """
    spared = (scan_units - query_units) * price_read
    return writes * indexes * price_write / spared if spared > 0 else math.inf
