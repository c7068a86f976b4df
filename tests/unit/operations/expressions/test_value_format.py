"""`format_value`: attribute values as expression errors show them."""

from __future__ import annotations

from decimal import Decimal

from holdfast.operations.expressions import format_value
from holdfast.operations.values import Value
from tests.cases import all_cases


@all_cases(
    ("value", "text"),
    [
        ("b", "{S:b}"),
        (1, "{N:1}"),
        (Decimal("-0.5"), "{N:-0.5}"),
        (b"a", "{B:YQ==}"),
        (True, "{BOOL:true}"),
        (None, "{NULL:true}"),
        (frozenset(("b", "a")), "{SS:[a, b]}"),
        (frozenset((10, 9)), "{NS:[9, 10]}"),
        (frozenset((b"a",)), "{BS:[YQ==]}"),
        ([1, "a"], "{L:[{N:1}, {S:a}]}"),
        ({"a": "b"}, "{M:{a={S:b}}}"),
    ],
)
def test_format_value_formats_each_type(value: Value, text: str) -> None:
    assert format_value(value) == text
