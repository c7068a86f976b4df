"""Amounts of money as text, for tables."""

from __future__ import annotations


def format_money(amount: float) -> str:
    """Format an amount with enough digits to tell a small amount from zero."""
    if amount == 0:
        return "0"
    if abs(amount) >= 1:
        return f"{amount:,.2f}"
    return f"{amount:.4f}" if abs(amount) >= 0.0001 else "<0.0001"
