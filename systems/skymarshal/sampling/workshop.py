"""Work on the aircraft of a block, and the staff on it: mostly done, some open, some deferred under the MEL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from skymarshal.model import MaintenanceShift, RosterId, StaffId, WorkOrder, WorkOrderId
from skymarshal.sampling.messages import with_message
from skymarshal.sampling.schedule import BLOCK_DAYS, DAY_ZERO, Block
from skymarshal.statuses import MelCategory, WorkOrderStatus

WORK_ORDERS: Final = 150
STAFF_EACH: Final = 5
FIRST_WORK_ORDER: Final = 10_100
# The document's WO-10193 is on the aircraft of its flight 1, and its people are on shift on the day.
KNOWN_ORDER: Final = 10_193 - FIRST_WORK_ORDER
KNOWN_AIRCRAFT: Final = "A6-APA"
# The aircraft that the access patterns name in their examples.
EXAMPLE_AIRCRAFT: Final = "A6-BLA"

SHIFT = timedelta(hours=8)
LICENCES: Final = ("B1", "B2", "A", "A", "C")
TASKS: Final = (
    ("Left air conditioning pack trips off", MelCategory.C),
    ("Cabin light row 24 inoperative", MelCategory.D),
    ("Number 2 engine borescope inspection", None),
    ("Nose wheel change", None),
    ("Weather radar intermittent", MelCategory.B),
    ("Cargo door seal worn", MelCategory.C),
    ("Oil level and filter", None),
)


@dataclass(frozen=True)
class Work:
    """A work order and its place in the block."""

    place: int
    order: WorkOrder


def work_orders(block: Block) -> Iterator[Work]:
    tails = sorted(block.registrations)
    for place in range(WORK_ORDERS):
        tail = tails[place % len(tails)]
        is_known = block.is_first and place == KNOWN_ORDER
        is_example = block.is_first and tail == EXAMPLE_AIRCRAFT and place < len(tails)
        if is_known or is_example or place < block.share(WORK_ORDERS):
            yield Work(place, _order(block, place, KNOWN_AIRCRAFT if is_known else tail, is_known=is_known))


def maintenance_shifts(block: Block, works: Iterator[Work]) -> Iterator[MaintenanceShift]:
    for work in works:
        for member in range(STAFF_EACH):
            yield _shift(block, work, member)


def _order(block: Block, place: int, tail: str, *, is_known: bool) -> WorkOrder:
    task, category = TASKS[place % len(TASKS)]
    status = WorkOrderStatus.IN_PROGRESS if is_known else _status(place, category)
    opened = DAY_ZERO - timedelta(days=BLOCK_DAYS * block.index + 1 + (0 if is_known else place % 4))
    return WorkOrder(
        aircraft_registration=tail,
        workorder_id=WorkOrderId(f"WO-{FIRST_WORK_ORDER + block.number(WORK_ORDERS, place)}"),
        work_status=status,
        mel_category=category,
        opened_on=opened.date(),
        task=task,
        staff_required=4 if is_known else 2 + place % 3,
    )


def _status(place: int, category: MelCategory | None) -> WorkOrderStatus:
    if category is not None and place % 5 == 0:
        return WorkOrderStatus.DEFERRED
    if place % 31 == 9:
        return WorkOrderStatus.OPEN
    return WorkOrderStatus.AWAITING_PARTS if place % 47 == 20 else WorkOrderStatus.CLOSED


def _shift(block: Block, work: Work, member: int) -> MaintenanceShift:
    """Two on the evening shift, two through the night, one in the morning."""
    opened = DAY_ZERO - timedelta(
        days=BLOCK_DAYS * block.index + (0 if work.place == KNOWN_ORDER else 1 + work.place % 4)
    )
    start = opened + (-6, -6, 2, 2, 10)[member] * timedelta(hours=1)
    staff = 1_001 + (work.place * 3 + member) % 220
    order, licence = work.order, LICENCES[member]
    head = (
        f"{order.workorder_id} {order.aircraft_registration} {start:%d%H%M}Z-{start + SHIFT:%d%H%M}Z\n"
        f"STAFF S-{staff} LIC {licence}"
    )
    fields = {
        "roster_id": RosterId(
            f"M-{block.number(WORK_ORDERS * STAFF_EACH, work.place * STAFF_EACH + member + 1):05d}"
        ),
        "staff_id": StaffId(f"S-{staff}"),
        "workorder_id": order.workorder_id,
        "shift_start_zulu": start,
        "shift_end_zulu": start + SHIFT,
        "licence": licence,
    }
    return MaintenanceShift(**with_message("MXR", head, fields))
