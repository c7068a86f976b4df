"""Amounts of money, as tables show them."""

from __future__ import annotations


def money(amount: float) -> str:
    """Enough digits to see that something small is not nothing."""
    if amount == 0:
        return "0"
    if abs(amount) >= 1:
        return f"{amount:,.2f}"
    return f"{amount:.4f}" if abs(amount) >= 0.0001 else "<0.0001"
