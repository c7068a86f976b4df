"""Tests of `format_cell` for CSV: text is never a formula, and each type of value has its form."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import all_cases
from tripcortex.api.routes.csv_export import FORMULA_STARTS, format_cell
from tripcortex.model.entities import BookingStatus


@all_cases("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\uff1d1", "\n=1"])
def test_formula_is_escaped_as_text(text: str) -> None:
    assert format_cell(text) == f"'{text}"


@given(st.text())
def test_no_text_begins_like_a_formula(text: str) -> None:
    assert not format_cell(text).lstrip(" ").startswith(FORMULA_STARTS)
    assert format_cell(text).removeprefix("'") == text.removeprefix("'") or format_cell(text) == f"'{text}"


@all_cases(
    ("value", "shown"),
    [
        (None, ""),
        (-3, "-3"),
        (Decimal("-1.50"), "-1.50"),
        (BookingStatus.confirmed, "confirmed"),
        (datetime(2026, 3, 10, 14, tzinfo=UTC), "2026-03-10T14:00:00Z"),
        ({"a": [1]}, '{"a": [1]}'),
    ],
)
def test_formats_each_type_of_value(value: object, shown: str) -> None:
    assert format_cell(value) == shown
