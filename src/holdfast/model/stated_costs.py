"""What a design said it would cost, line by line, and what is right instead: for `holdfast cost` to set side by side.

A document's quantities and figures stand here as it has them. What is right is computed by the system from its own
numbers, and each line says why it differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

# What a quantity is of, and so which price of a list it is multiplied by.
Billed: TypeAlias = Literal["GB stored", "write units", "read units", "GB recoverable"]


@dataclass(frozen=True)
class StatedCost:
    """One line of a cost table: the quantity and the figure as stated, the right quantity, and why it is another."""

    name: str
    billed: Billed
    quantity: float
    figure: float
    corrected: float
    why: str = ""


@dataclass(frozen=True)
class StatedSize:
    """One line of a storage table, in bytes: as stated, and what it comes to. `note` is the reckoning as stated."""

    name: str
    stated_bytes: float
    corrected_bytes: float
    note: str = ""
    why: str = ""


@dataclass(frozen=True)
class StatedCosts:
    """The tables of a document. `prices` names the price list of its time; the totals are those it states."""

    source: str
    prices: str
    costs: Sequence[StatedCost]
    total: float
    sizes: Sequence[StatedSize] = ()
    size_total_bytes: float = 0.0
