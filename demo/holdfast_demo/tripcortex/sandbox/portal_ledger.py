"""The sandbox portal's ledger of orders and cancellations: a JSON Lines file, read again at the start.

One line per order, with its reference, and one per cancellation. A line is flushed to the operating system
before the answer, so it survives the end of the process. Two calls under one reference sell twice, and the
ledger shows it. Of the traveller it holds only the id.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from holdfast.core.clock import Clock
from holdfast_demo.tripcortex.sandbox.portal_timetable import CARRIERS_BY_CODE
from tripcortex.integrations.portal.ports import Cancellation, Offer, Order, OrderStatus

Entry = dict[str, Any]

FILE_NAME: Final = "portal.jsonl"
ORDER: Final = "order"
CANCELLATION: Final = "cancellation"
# Within a day of the booking, and a week or more before departure, an order is void: fully refunded.
VOID_WITHIN: Final = timedelta(hours=24)
VOID_BEFORE: Final = timedelta(days=7)
FEE_SHARE: Final = Decimal("0.30")
# Without characters that are easily confused.
PNR_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
PNR_CHARS: Final = 6
PNR_FACTOR: Final = 0x2545F491
PNR_OFFSET: Final = 0x1234567


class PortalLedger:
    """Orders stored in a file of the folder; without a folder, in memory.

    No method awaits, so each call is atomic.
    """

    def __init__(self, clock: Clock, folder: Path | None) -> None:
        self.clock = clock
        self.entries: list[Entry] = []
        self.orders: dict[str, Order] = {}
        self._by_reference: dict[str, list[str]] = {}
        self._cancellations: dict[str, Cancellation] = {}
        self._departures: dict[str, datetime] = {}
        self._sold: Counter[tuple[str, str]] = Counter()
        self._path = None if folder is None else folder / FILE_NAME
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for entry in _read_complete_lines(self._path):
                self._apply(entry)

    def sell(self, reference: str, offer: Offer, traveller_id: str) -> Order:
        """Append an order with a new number, PNR and ticket number; return it. Nothing is checked."""
        number = len(self.orders) + 1
        first = offer.outbound[0]
        order = Order(
            reference=reference,
            order_id=f"ORD-{number:08d}",
            offer_id=offer.offer_id,
            carrier=offer.carrier,
            pnr=_build_pnr(number),
            e_ticket_number=f"{CARRIERS_BY_CODE[offer.carrier].prefix}{2_400_000_000 + number:010d}",
            price_usd=offer.price_usd,
            booked_at=self._now(),
        )
        self._write(
            ORDER,
            reference=reference,
            traveller=traveller_id,
            flight=first.flight_number,
            departs_at=first.departs_at.isoformat(),
            order=order.model_dump(mode="json"),
        )
        return order

    def cancel(self, order_id: str) -> Cancellation | None:
        """Cancel an order; return None if it does not exist. A second call returns the first cancellation.

        The refund is full within a day of booking and a week or more before departure, else less 30 %; none
        after departure.
        """
        order = self.orders.get(order_id)
        if order is None or order_id in self._cancellations:
            return self._cancellations.get(order_id)
        now, departs = self._now(), self._departures[order_id]
        is_void = now - order.booked_at <= VOID_WITHIN and departs - now >= VOID_BEFORE
        refund = order.price_usd if is_void else order.price_usd * (1 - FEE_SHARE)
        cancellation = Cancellation(
            reference=order.reference,
            order_id=order_id,
            refund_usd=(refund if departs > now else Decimal(0)).quantize(Decimal("0.01")),
            is_void=is_void,
            cancelled_at=now,
        )
        self._write(
            CANCELLATION, reference=order.reference, cancellation=cancellation.model_dump(mode="json")
        )
        return cancellation

    def find_orders(self, reference: str) -> list[Order]:
        """Return the orders under a reference, oldest first."""
        return [self.orders[each] for each in self._by_reference.get(reference, ())]

    def count_sold(self, offer: Offer) -> int:
        """Return how many seats of the offer's first flight are sold on its day.

        A cancellation does not free its seat.
        """
        first = offer.outbound[0]
        return self._sold[first.flight_number, first.departs_at.date().isoformat()]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def _write(self, what: str, **fields: Any) -> None:
        """Append an entry of kind `what` to the file and apply it."""
        entry = {"number": len(self.entries) + 1, "what": what, "at": self._now().isoformat(), **fields}
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps(entry).encode() + b"\n")
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        """Add an entry to the state in memory."""
        self.entries.append(entry)
        if entry["what"] == ORDER:
            order = Order.model_validate(entry["order"])
            self.orders[order.order_id] = order
            self._by_reference.setdefault(order.reference, []).append(order.order_id)
            self._departures[order.order_id] = datetime.fromisoformat(entry["departs_at"])
            self._sold[entry["flight"], entry["departs_at"][:10]] += 1
        else:
            ended = Cancellation.model_validate(entry["cancellation"])
            self._cancellations[ended.order_id] = ended
            order = self.orders[ended.order_id]
            self.orders[ended.order_id] = order.model_copy(update={"status": OrderStatus.cancelled})


def _build_pnr(number: int) -> str:
    """Return the record locator of an order's number, unique per number.

    An odd factor permutes the numbers, so no two collide; there are a billion.
    """
    left = (number * PNR_FACTOR + PNR_OFFSET) % len(PNR_ALPHABET) ** PNR_CHARS
    locator = ""
    for _ in range(PNR_CHARS):
        left, index = divmod(left, len(PNR_ALPHABET))
        locator += PNR_ALPHABET[index]
    return locator


def _read_complete_lines(path: Path) -> list[Entry]:
    """Return the complete entries. A line cut off by the end of a process had no effect and is removed."""
    if not path.exists():
        return []
    whole, end, rest = path.read_bytes().rpartition(b"\n")
    if rest:
        os.truncate(path, len(whole) + len(end))
    return [json.loads(line) for line in whole.splitlines() if line]
