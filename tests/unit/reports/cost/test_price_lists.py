"""Price lists: the shipped JSON files, their prices, and files of the user, valid and invalid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.core.errors import SettingsError
from holdfast.reports.cost.price_lists import (
    CURRENT_PRICE_LIST,
    GB,
    list_price_lists,
    load_price_list,
    read_price_list,
)


def test_shipped_lists_are_dated_and_the_newest_is_the_default() -> None:
    lists = [load_price_list(name) for name in list_price_lists()]

    assert [each.name for each in lists] == list(list_price_lists())
    assert max(lists, key=lambda each: each.since).name == CURRENT_PRICE_LIST


@pytest.mark.proves("SM-40")
def test_prices_of_the_document_are_those_of_2018() -> None:
    prices = load_price_list("dynamodb-2018-11")

    assert (prices.storage_gb_month, prices.write_units_million, prices.read_units_million) == (
        0.25,
        1.25,
        0.25,
    )


def test_on_demand_prices_halved_in_november_2024() -> None:
    former, current = load_price_list("dynamodb-2018-11"), load_price_list()

    assert (current.write_unit, current.read_unit) == (former.write_unit / 2, former.read_unit / 2)
    assert current.storage_gb_month == former.storage_gb_month


@pytest.mark.proves("SM-X10")
def test_price_is_per_unit_and_not_per_request() -> None:
    prices = load_price_list("dynamodb-2018-11")

    one_scan, one_query = prices.compute_read_cost(1_870), prices.compute_read_cost(0.5)

    assert one_scan == pytest.approx(3_740 * one_query)


def test_bills_each_stored_item_with_the_services_overhead() -> None:
    prices = load_price_list()

    assert prices.compute_storage_cost(0, GB) == 0.25
    assert prices.compute_storage_cost(1_000, GB) == pytest.approx(0.25 * (1 + 100_000 / GB))
    assert prices.compute_recovery_cost(0, GB) == 0.20


def test_custom_list_replaces_the_shipped_ones(tmp_path: Path) -> None:
    mine = load_price_list().model_dump(mode="json") | {
        "name": "mine",
        "currency": "EUR",
        "write_units_million": 9,
    }
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(mine))

    prices = read_price_list(file)

    assert (prices.currency, prices.compute_write_cost(1_000_000)) == ("EUR", 9)


def test_accepts_the_name_of_a_shipped_list() -> None:
    assert read_price_list(Path("dynamodb-2018-11")) == load_price_list("dynamodb-2018-11")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "write_units_million: Field required"),
        ("not json", "the file: Invalid JSON"),
        (
            json.dumps(load_price_list().model_dump(mode="json") | {"read_units_million": -1}),
            "read_units_million",
        ),
        (json.dumps(load_price_list().model_dump(mode="json") | {"writes": 1}), "writes: Extra inputs"),
    ],
)
def test_error_about_an_invalid_list_names_the_file_and_the_field(
    text: str, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)

    with pytest.raises(SettingsError) as refused:
        read_price_list(file)

    assert str(file) in refused.value.message
    assert expected in refused.value.message


def test_rejects_a_missing_file_and_lists_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="dynamodb-2024-11"):
        read_price_list(tmp_path / "none.json")


def test_rejects_an_unknown_name_and_lists_the_shipped_ones() -> None:
    with pytest.raises(SettingsError, match="dynamodb-2018-11, dynamodb-2024-11"):
        load_price_list("dynamodb-1999-01")
