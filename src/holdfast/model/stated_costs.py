"""Types for the costs that a design document states, with corrected figures; `holdfast cost` compares both.

The document's quantities and figures are copied unchanged. The system computes the corrected ones from its
own numbers, and each line says why they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "StatedCost",
    "StatedCosts",
    "StatedSize",
]

# The unit of a quantity, which selects its price in a price list.
BilledUnit: TypeAlias = Literal["GB stored", "write units", "read units", "GB recoverable"]


@dataclass(frozen=True)
class StatedCost:
    """One line of a cost table: quantity and figure as stated, corrected quantity, and why they differ."""

    name: str
    billed: BilledUnit
    quantity: float
    figure: float
    corrected: float
    why: str = ""


@dataclass(frozen=True)
class StatedSize:
    """One line of a storage table, in bytes, as stated and as corrected.

    `note` is the calculation as stated.
    """

    name: str
    stated_bytes: float
    corrected_bytes: float
    note: str = ""
    why: str = ""


@dataclass(frozen=True)
class StatedCosts:
    """The cost tables of a document. `prices` names the price list of its time; totals are as stated."""

    source: str
    prices: str
    costs: Sequence[StatedCost]
    total: float
    sizes: Sequence[StatedSize] = ()
    size_total_bytes: float = 0.0
