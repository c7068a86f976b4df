"""The pause that an external service asks for."""

from __future__ import annotations

import pytest

from holdfast.core.http.headers import MAX_RETRY_AFTER_S, parse_retry_after

NOON = 1772539200.0


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        ("-1", 0.0),
        ("1e9", MAX_RETRY_AFTER_S),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("soon", None),
        ("Tue, 03 Mar 2026 12:00:30 GMT", 30.0),
        ("Tue, 03 Mar 2026 11:00:00 GMT", 0.0),
    ],
)
def test_returns_the_pause_in_seconds(text: str, pause: float | None) -> None:
    assert parse_retry_after(text, since=NOON) == pause


def test_date_without_a_clock_is_no_pause() -> None:
    assert parse_retry_after("Tue, 03 Mar 2026 12:00:30 GMT") is None


def test_pause_has_the_callers_bound() -> None:
    assert parse_retry_after("600", max_s=300.0) == 300.0
