"""The price list in use: configured, chosen, replaced, or not valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.console.costs.prices import (
    CONFIGURED,
    list_choices,
    read_default_prices,
    read_prices,
)
from holdfast.reports.cost.price_lists import CURRENT_PRICE_LIST, load_price_list

OLD = "dynamodb-2018-11"


def write_list(file: Path, write_units_million: float) -> None:
    own = load_price_list().model_copy(
        update={"name": "ours", "title": "Our contract", "write_units_million": write_units_million}
    )
    file.write_text(own.model_dump_json())


def test_newest_list_is_the_default() -> None:
    found = read_default_prices(Settings())

    assert (found.choice, found.replaced_by, found.problem) == (CURRENT_PRICE_LIST, None, "")
    assert [each.choice for each in list_choices(Settings())] == [CURRENT_PRICE_LIST, OLD]


def test_list_that_a_newer_one_replaced_names_it() -> None:
    found = read_prices(Settings(), OLD)

    assert found.prices.name == OLD
    assert found.replaced_by is not None
    assert found.replaced_by.name == CURRENT_PRICE_LIST


def test_setting_names_a_file_or_a_list(tmp_path: Path) -> None:
    write_list(tmp_path / "ours.json", 0.5)
    settings = replace(Settings(), console_prices="ours.json", base=tmp_path)

    assert read_default_prices(settings).prices.title == "Our contract"
    assert [each.choice for each in list_choices(settings)] == [CONFIGURED, CURRENT_PRICE_LIST, OLD]
    assert read_prices(settings, OLD).prices.name == OLD
    assert read_default_prices(replace(settings, console_prices=OLD)).prices.name == OLD


def test_file_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    settings = replace(Settings(), console_prices="ours.json", base=tmp_path)
    for price in (0.5, 0.4):
        write_list(tmp_path / "ours.json", price)
        assert read_default_prices(settings).prices.write_units_million == price


@pytest.mark.parametrize("content", [None, "{}", "not JSON"])
def test_invalid_file_leaves_the_newest_list_in_use_and_says_why(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "ours.json").write_text(content)
    found = read_default_prices(replace(Settings(), console_prices="ours.json", base=tmp_path))

    assert found.prices.name == CURRENT_PRICE_LIST
    assert "ours.json" in found.problem


@pytest.mark.parametrize("choice", ["", "unknown", "/etc/passwd", "../ours.json", "configured"])
def test_choice_that_is_not_a_list_is_the_default_and_never_a_file(choice: str) -> None:
    assert read_prices(Settings(), choice).choice == CURRENT_PRICE_LIST
