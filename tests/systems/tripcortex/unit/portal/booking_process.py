"""Worker process that books one trip once and may be killed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.stores.tables.embedded import open_tables
from tripcortex.integrations.portal.client import HttpPortal, make_client
from tripcortex.integrations.portal.ports import Traveller
from tripcortex.integrations.portal.purchases import book_once
from tripcortex.model.entities import EmployeeId


@dataclass(frozen=True)
class Chosen:
    offer_id: str
    price_usd: Decimal


async def main(folder: Path, url: str, key: str, reference: str, offer: str, price: Decimal) -> None:
    """Book the offer once under the reference, for emp-42."""
    clock = RunClock(folder / "clock")
    with open_tables(folder / "tables.db", clock=clock) as tables:
        async with make_client(url, key) as http:
            await book_once(
                Stores(tables, clock=clock),
                HttpPortal(http, clock),
                reference,
                EmployeeId("emp-42"),
                Chosen(offer, price),
                Traveller(traveller_id="emp-42"),
            )
