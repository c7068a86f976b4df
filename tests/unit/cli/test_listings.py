"""A listing is one line a thing for a person, and all of it for a program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Listing, Page
from holdfast.cli.system_commands.results import print_result

ROWS: tuple[dict[str, Any], ...] = (
    {"id": "01M7GEHWRXW3BCVK398X1NH4KH", "title": "A title " + "that is long " * 20, "detail": {"a": [1, 2]}},
    {"id": "01M7GEHST6VPZ9H0JPFXEQ5HCW", "title": "short", "detail": None},
)
LISTING = Listing(Page(ROWS, "next"), ("id", "title", "absent"))


def test_a_person_sees_the_named_members_ids_whole_and_where_the_next_page_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_result(LISTING, as_json=False)
    told = capsys.readouterr().out
    assert all(row["id"] in told for row in ROWS)
    assert "detail" not in told and "absent" not in told
    assert "next" in told
    # The title is longer than a line: it is folded, and nothing of it is cut.
    assert told.count("long") == 20


def test_a_program_sees_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(LISTING, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"items": list(ROWS), "cursor": "next"}


def test_a_command_that_gives_nothing_back_is_told_as_done_and_in_json_as_null(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_result(None, as_json=False)
    print_result(None, as_json=True)

    assert capsys.readouterr().out == "done\nnull\n"


def test_an_empty_one_is_told_as_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(Listing(Page((), None), ("id",)), as_json=False)
    assert capsys.readouterr().out.strip() == "nothing"
