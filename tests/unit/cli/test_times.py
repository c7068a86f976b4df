"""Parsing of times typed on the command line: ISO 8601 with a zone, or a duration before now."""

from __future__ import annotations

import pytest

from holdfast.cli.arguments.times import parse_time
from holdfast.cli.usage_error import UsageError
from tests.cases import all_cases

START = 1_770_166_815.0  # 2026-02-04T01:00:15Z


@all_cases(
    ("text", "moment"),
    [
        ("2026-02-04T01:00:15Z", START),
        ("2026-02-04T02:00:15+01:00", START),
        ("2026-02-04T01:00:15.250Z", START + 0.25),
        ("20260204T010015Z", START),
        ("-0s", START),
        ("-90s", START - 90),
        ("-1.5m", START - 90),
        ("-2h", START - 7200),
        ("-35d", START - 35 * 86400),
    ],
)
def test_parses_a_time(text: str, moment: float) -> None:
    assert parse_time(text, START) == moment


@all_cases(
    "text",
    [
        "",
        "now",
        "90s",
        "+90s",
        "-90",
        "-2w",
        "-1e9s",
        "-٣s",
        "2026-13-01T00:00:00Z",
        "0001-01-01T00:00+01:00",
    ],
)
def test_rejects_an_invalid_time(text: str) -> None:
    with pytest.raises(UsageError, match="Invalid time"):
        parse_time(text, START)


@pytest.mark.parametrize("text", ["2026-02-04", "2026-02-04T01:00"])
def test_rejects_a_time_without_its_zone(text: str) -> None:
    with pytest.raises(UsageError, match="the time zone is missing"):
        parse_time(text, START)
