"""Printed results of system commands: a table of a listing for a person, everything as JSON for a program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Page
from holdfast.cli.system_commands.results import print_result
from holdfast.model.system import Listing

ROWS: tuple[dict[str, Any], ...] = (
    {"id": "01M7GEHWRXW3BCVK398X1NH4KH", "title": "A title " + "that is long " * 20, "detail": {"a": [1, 2]}},
    {"id": "01M7GEHST6VPZ9H0JPFXEQ5HCW", "title": "short", "detail": None},
)
LISTING = Listing(Page(ROWS, "next"), ("id", "title", "absent"))


def test_listing_prints_its_columns_whole_ids_and_the_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_result(LISTING, as_json=False)
    output = capsys.readouterr().out
    assert all(row["id"] in output for row in ROWS)
    assert "detail" not in output and "absent" not in output
    assert "next" in output
    # The title is longer than a line: it wraps, and nothing is cut.
    assert output.count("long") == 20


def test_listing_in_json_has_all_members_and_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(LISTING, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"items": list(ROWS), "cursor": "next"}


def test_command_without_a_result_prints_done_and_null_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_result(None, as_json=False)
    print_result(None, as_json=True)

    assert capsys.readouterr().out == "done\nnull\n"


def test_prints_an_empty_listing_as_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(Listing(Page((), None), ("id",)), as_json=False)
    assert capsys.readouterr().out.strip() == "nothing"
