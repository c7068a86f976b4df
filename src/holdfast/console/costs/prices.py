"""The price list that the console uses: the setting `console_prices`, a list that ships, or the newest one.

A file is read again when it changes. One that is not valid leaves the newest list of the package in use, and
the pages say why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError
from holdfast.reports.cost.price_lists import (
    CURRENT_PRICE_LIST,
    PriceList,
    list_price_lists,
    load_price_list,
    read_price_list,
)

CONFIGURED = "configured"
"""The choice of the list that the setting names."""


@dataclass(frozen=True)
class ChosenPrices:
    """A price list, and what to say about it.

    `choice` is its name in the address of a page. `replaced_by` is a newer list for the same region,
    `problem` why the configured list is not in use.
    """

    choice: str
    prices: PriceList
    replaced_by: PriceList | None = None
    problem: str = ""


@dataclass(frozen=True)
class PriceChoice:
    """A price list that a user can choose."""

    choice: str
    title: str


def read_default_prices(settings: Settings) -> ChosenPrices:
    """Return the list that the setting names, or the newest one."""
    if not settings.console_prices:
        return _choose_shipped(CURRENT_PRICE_LIST)
    try:
        prices = read_price_list(_resolve(settings))
    except SettingsError as error:
        return ChosenPrices(CURRENT_PRICE_LIST, load_shipped(CURRENT_PRICE_LIST), problem=error.message)
    return ChosenPrices(CONFIGURED, prices, _find_replacement(prices))


def read_prices(settings: Settings, choice: str) -> ChosenPrices:
    """Return the list of a choice; the default for an empty or unknown one. A choice is never a file."""
    if choice in list_price_lists():
        return _choose_shipped(choice)
    return read_default_prices(settings)


def list_choices(settings: Settings) -> Sequence[PriceChoice]:
    """Return the lists to choose from, the default first."""
    default = read_default_prices(settings)
    shipped = [PriceChoice(name, load_shipped(name).title) for name in reversed(list_price_lists())]
    if default.choice != CONFIGURED:
        return shipped
    return [PriceChoice(CONFIGURED, default.prices.title), *shipped]


@cache
def load_shipped(name: str) -> PriceList:
    """Return a list of the package."""
    return load_price_list(name)


def _choose_shipped(name: str) -> ChosenPrices:
    prices = load_shipped(name)
    return ChosenPrices(name, prices, _find_replacement(prices))


def _find_replacement(prices: PriceList) -> PriceList | None:
    """Return the newest list for the same region and currency, if it is newer than this one."""
    known = [load_shipped(name) for name in list_price_lists()]
    same = [each for each in known if (each.region, each.currency) == (prices.region, prices.currency)]
    newest = max(same, key=lambda each: each.since, default=prices)
    return newest if newest.since > prices.since else None


def _resolve(settings: Settings) -> Path:
    """Return the file of the setting, which may also be the name of a list of the package."""
    if settings.console_prices in list_price_lists():
        return Path(settings.console_prices)
    return settings.base / settings.console_prices
