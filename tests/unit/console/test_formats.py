"""Formats of values in pages."""

from __future__ import annotations

import pytest

from holdfast.console.formats import format_times_in_text

UTC_TEXT = "2026-11-19 09:30:00 UTC"
SHOWN = f'<time datetime="2026-11-19T09:30:00+00:00" title="{UTC_TEXT}">{UTC_TEXT}</time>'


@pytest.mark.parametrize(
    "written",
    [
        "2026-11-19 09:30:00",
        "2026-11-19 09:30:00 UTC",
        "2026-11-19T09:30:00Z",
        "2026-11-19T09:30:00+00:00",
        "2026-11-19T10:30:00.000+01:00",
    ],
)
def test_times_in_a_text_are_shown_in_the_zone_of_the_user(written: str) -> None:
    text = format_times_in_text(f"<b> asked at {written}, by 2 people.")
    assert text == f"&lt;b&gt; asked at {SHOWN}, by 2 people."


@pytest.mark.parametrize(
    "text", ["", "order 2026-11-19", "id 12026-11-19 09:30:00", "2026-13-19 09:30:00", "at 09:30"]
)
def test_what_is_no_time_stays(text: str) -> None:
    assert format_times_in_text(text) == text
