"""Format amounts of money for the tables of commands."""

from __future__ import annotations


def format_money(amount: float) -> str:
    """Format an amount: two digits from 1 on, four below, and "<0.0001" for a smaller one that is not
    zero.
    """
    if amount == 0:
        return "0"
    if abs(amount) >= 1:
        return f"{amount:,.2f}"
    return f"{amount:.4f}" if abs(amount) >= 0.0001 else "<0.0001"
