"""The story of `holdfast demo skymarshal` on the sample: it prints the document's numbers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from holdfast_demo.skymarshal.demo import DEMO
from tests.systems.skymarshal.acceptance.conftest import open_copy


@pytest.mark.proves("SM-45", "SM-46")
async def test_story_prints_the_documented_numbers_and_costs(sample_file: Path, tmp_path: Path) -> None:
    written = io.StringIO()

    async with open_copy(sample_file, tmp_path) as stores:
        assert DEMO.story is not None
        await DEMO.story(stores, Console(file=written, width=200))
    text = written.getvalue()
    for sentence in (
        "Passenger OZ69826352P has 3 bookings.",
        "Flight 1: 412 of 486 seats taken, 74 left, 18 waitlisted.",
        "AUH holds 847 bags:",
        "Shipment 42 travels on flight 53",
        "Work order WO-10193 has 5 staff over all shifts.",
        "412 passengers are affected, 94 miss a connection; 511 bags, 116 of them need re-routing.",
        "of 9 crew",
        "WO-10193",
        "Neither EU261 nor UK261 applies to this route and carrier",
        "Recovery options:",
        "412 passengers recorded; repeating the confirmation changed nothing.",
        "the scan read 9,351 items",
        "the index 3 for 1.0",
    ):
        assert sentence in text, f"{sentence!r} is not in:\n{text}"
