"""What the current rates cost: units of tables, and requests to queues and objects.

Samples hold units and no money, so that they are right at whatever prices are in use when they are shown.
Storage is not in it, nor are receives of queues, SQL and the cache: the cost pages have these.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.console.overview.samples import Rates
from holdfast.model.system import System
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH, PriceList

HOUR_S = 3600


@dataclass(frozen=True)
class Spend:
    """Money per second, by store."""

    tables: float = 0.0
    queues: float = 0.0
    objects: float = 0.0

    @property
    def per_second(self) -> float:
        return self.tables + self.queues + self.objects

    @property
    def per_hour(self) -> float:
        return self.per_second * HOUR_S

    @property
    def per_month(self) -> float:
        return self.per_second * SECONDS_PER_MONTH


def compute_spend(system: System, rates: Rates, prices: PriceList) -> Spend:
    """Return what these rates cost; a store without prices in the list costs nothing."""
    tables = prices.compute_read_cost(sum(rates.read_units.values())) + prices.compute_write_cost(
        sum(rates.write_units.values())
    )
    fifo = {each.name for each in system.queues if each.fifo}
    queues = objects = 0.0
    if prices.queues is not None:
        for queue, rate in rates.queue_requests.items():
            queues += prices.queues.compute_request_cost(rate, fifo=queue in fifo)
    if prices.objects is not None:
        objects = prices.objects.compute_read_cost(rates.object_reads)
        objects += prices.objects.compute_write_cost(rates.object_writes)
    return Spend(tables, queues, objects)
