"""What the sandbox portal has sold and taken back, in the order it happened: lines of a file, of which its state is made again.

One line per order, with its reference, and one per cancellation. A line is with the operating system before anything is
answered, so it outlives the process, however that ends. Asked twice under one reference it sells twice, and the ledger
shows it. It has nothing of a traveller but the pointer.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from holdfast.clock import Clock
from tripcortex.portal.ports import Cancellation, Offer, Order, OrderStatus
from tripcortex.sandbox.portal_flights import CARRIER_OF

Entry = dict[str, Any]

FILE: Final = "portal.jsonl"
ORDER: Final = "order"
CANCELLATION: Final = "cancellation"
# Within a day of the booking, and a week or more before departure, it is void: all of it comes back.
VOID: Final = timedelta(hours=24)
VOID_BEFORE: Final = timedelta(days=7)
KEPT_SHARE: Final = Decimal("0.30")
# Without those that are read for one another.
LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
PNR_CHARS: Final = 6
PNR_FACTOR: Final = 0x2545F491
PNR_FIRST: Final = 0x1234567


class PortalLedger:
    """Orders over the lines of a folder. Without one, in memory. Nothing awaits here: each call is whole."""

    def __init__(self, clock: Clock, folder: Path | None) -> None:
        self.clock = clock
        self.entries: list[Entry] = []
        self.orders: dict[str, Order] = {}
        self._by_reference: dict[str, list[str]] = {}
        self._ended: dict[str, Cancellation] = {}
        self._departures: dict[str, datetime] = {}
        self._sold: Counter[tuple[str, str]] = Counter()
        self._path = None if folder is None else folder / FILE
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for entry in _whole_lines(self._path):
                self._apply(entry)

    def sell(self, reference: str, offer: Offer, traveller_id: str) -> Order:
        number = len(self.orders) + 1
        first = offer.outbound[0]
        order = Order(
            reference=reference,
            order_id=f"ORD-{number:08d}",
            offer_id=offer.offer_id,
            carrier=offer.carrier,
            pnr=_pnr(number),
            e_ticket_number=f"{CARRIER_OF[offer.carrier].prefix}{2_400_000_000 + number:010d}",
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
        """None where there is no such order. A second time it answers as the first."""
        order = self.orders.get(order_id)
        if order is None or order_id in self._ended:
            return self._ended.get(order_id)
        now, departs = self._now(), self._departures[order_id]
        is_void = now - order.booked_at <= VOID and departs - now >= VOID_BEFORE
        refund = order.price_usd if is_void else order.price_usd * (1 - KEPT_SHARE)
        ended = Cancellation(
            reference=order.reference,
            order_id=order_id,
            refund_usd=(refund if departs > now else Decimal(0)).quantize(Decimal("0.01")),
            is_void=is_void,
            cancelled_at=now,
        )
        self._write(CANCELLATION, reference=order.reference, cancellation=ended.model_dump(mode="json"))
        return ended

    def under(self, reference: str) -> list[Order]:
        """The oldest first."""
        return [self.orders[each] for each in self._by_reference.get(reference, ())]

    def sold(self, offer: Offer) -> int:
        """How many seats of its first flight are gone."""
        first = offer.outbound[0]
        return self._sold[first.flight_number, first.departs_at.date().isoformat()]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def _write(self, what: str, **told: Any) -> None:
        entry = {"number": len(self.entries) + 1, "what": what, "at": self._now().isoformat(), **told}
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps(entry).encode() + b"\n")
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry["what"] == ORDER:
            order = Order.model_validate(entry["order"])
            self.orders[order.order_id] = order
            self._by_reference.setdefault(order.reference, []).append(order.order_id)
            self._departures[order.order_id] = datetime.fromisoformat(entry["departs_at"])
            self._sold[entry["flight"], entry["departs_at"][:10]] += 1
        else:
            ended = Cancellation.model_validate(entry["cancellation"])
            self._ended[ended.order_id] = ended
            order = self.orders[ended.order_id]
            self.orders[ended.order_id] = order.model_copy(update={"status": OrderStatus.cancelled})


def _pnr(number: int) -> str:
    """An odd factor moves the numbers about and lets no two of them meet: there are a thousand million."""
    left = (number * PNR_FACTOR + PNR_FIRST) % len(LETTERS) ** PNR_CHARS
    made = ""
    for _ in range(PNR_CHARS):
        left, place = divmod(left, len(LETTERS))
        made += LETTERS[place]
    return made


def _whole_lines(path: Path) -> list[Entry]:
    """One that was cut off by the end of a process took no effect, and is taken away."""
    if not path.exists():
        return []
    whole, end, rest = path.read_bytes().rpartition(b"\n")
    if rest:
        os.truncate(path, len(whole) + len(end))
    return [json.loads(line) for line in whole.splitlines() if line]
