"""Price lists: dated data, per unit, replaceable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.errors import SettingsError
from holdfast.reports.prices import CURRENT, GB, price_list, price_list_from, price_list_names


def test_the_lists_that_ship_are_dated_and_the_newest_is_the_current_one() -> None:
    lists = [price_list(name) for name in price_list_names()]

    assert [each.name for each in lists] == list(price_list_names())
    assert max(lists, key=lambda each: each.since).name == CURRENT


@pytest.mark.proves("SM-40")
def test_the_prices_of_the_document_are_those_of_2018() -> None:
    prices = price_list("dynamodb-2018-11")

    assert (prices.storage_gb_month, prices.write_units_million, prices.read_units_million) == (
        0.25,
        1.25,
        0.25,
    )


def test_on_demand_halved_in_november_2024() -> None:
    former, current = price_list("dynamodb-2018-11"), price_list()

    assert (current.write_unit, current.read_unit) == (former.write_unit / 2, former.read_unit / 2)
    assert current.storage_gb_month == former.storage_gb_month


@pytest.mark.proves("SM-X10")
def test_a_price_is_per_unit_and_not_per_request() -> None:
    prices = price_list("dynamodb-2018-11")

    one_scan, one_query = prices.reads(1_870), prices.reads(0.5)

    assert one_scan == pytest.approx(3_740 * one_query)


def test_each_stored_item_is_billed_with_what_the_service_adds_to_it() -> None:
    prices = price_list()

    assert prices.storage(0, GB) == 0.25
    assert prices.storage(1_000, GB) == pytest.approx(0.25 * (1 + 100_000 / GB))
    assert prices.recovery(0, GB) == 0.20


def test_a_list_of_your_own_replaces_them(tmp_path: Path) -> None:
    mine = price_list().model_dump(mode="json") | {
        "name": "mine",
        "currency": "EUR",
        "write_units_million": 9,
    }
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(mine))

    prices = price_list_from(file)

    assert (prices.currency, prices.writes(1_000_000)) == ("EUR", 9)


def test_the_name_of_one_that_ships_will_do_for_a_file() -> None:
    assert price_list_from(Path("dynamodb-2018-11")) == price_list("dynamodb-2018-11")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "write_units_million: Field required"),
        ("not json", "the file: Invalid JSON"),
        (json.dumps(price_list().model_dump(mode="json") | {"read_units_million": -1}), "read_units_million"),
        (json.dumps(price_list().model_dump(mode="json") | {"writes": 1}), "writes: Extra inputs"),
    ],
)
def test_a_list_that_is_not_as_it_must_be_is_refused_by_name(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)

    with pytest.raises(SettingsError) as refused:
        price_list_from(file)

    assert str(file) in refused.value.message
    assert told in refused.value.message


def test_a_file_that_is_not_there_is_refused_with_those_that_ship(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="dynamodb-2024-11"):
        price_list_from(tmp_path / "none.json")


def test_an_unknown_name_is_refused_with_those_that_ship() -> None:
    with pytest.raises(SettingsError, match="dynamodb-2018-11, dynamodb-2024-11"):
        price_list("dynamodb-1999-01")
