"""The work orders on the aircraft of a block, and the maintenance shifts of their staff.

Most work is closed, some is open, some deferred under the MEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from holdfast_demo.skymarshal.sample.messages import add_message
from holdfast_demo.skymarshal.sample.schedule import BLOCK_DAYS, DAY_ZERO, Block
from skymarshal.domain.statuses import MelCategory, WorkOrderStatus
from skymarshal.model.entities import MaintenanceShift, RosterId, StaffId, WorkOrder, WorkOrderId

WORK_ORDERS: Final = 150
STAFF_EACH: Final = 5
FIRST_WORK_ORDER: Final = 10_100
# The design document's WO-10193 is on the aircraft of its flight 1, and its staff is on shift on that day.
KNOWN_ORDER_INDEX: Final = 10_193 - FIRST_WORK_ORDER
KNOWN_AIRCRAFT: Final = "A6-APA"
# The aircraft in the examples of the access patterns.
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
class PlannedWork:
    """A work order and its index in the block, starting at 0."""

    place: int
    order: WorkOrder


def build_work_orders(block: Block) -> Iterator[PlannedWork]:
    """Yield the block's work orders, scaled, but always those that the document and the examples name."""
    tails = sorted(block.registrations)
    for place in range(WORK_ORDERS):
        tail = tails[place % len(tails)]
        is_known = block.is_first and place == KNOWN_ORDER_INDEX
        is_example = block.is_first and tail == EXAMPLE_AIRCRAFT and place < len(tails)
        if is_known or is_example or place < block.scale_count(WORK_ORDERS):
            yield PlannedWork(
                place, _build_order(block, place, KNOWN_AIRCRAFT if is_known else tail, is_known=is_known)
            )


def build_maintenance_shifts(block: Block, works: Iterator[PlannedWork]) -> Iterator[MaintenanceShift]:
    """Yield five shifts for each work order."""
    for work in works:
        for member in range(STAFF_EACH):
            yield _build_shift(block, work, member)


def _build_order(block: Block, place: int, tail: str, *, is_known: bool) -> WorkOrder:
    """Build the work order at an index of the block. `is_known` marks the design document's WO-10193."""
    task, category = TASKS[place % len(TASKS)]
    status = WorkOrderStatus.IN_PROGRESS if is_known else _choose_status(place, category)
    opened = DAY_ZERO - timedelta(days=BLOCK_DAYS * block.index + 1 + (0 if is_known else place % 4))
    return WorkOrder(
        aircraft_registration=tail,
        workorder_id=WorkOrderId(f"WO-{FIRST_WORK_ORDER + block.to_global_number(WORK_ORDERS, place)}"),
        work_status=status,
        mel_category=category,
        opened_on=opened.date(),
        task=task,
        staff_required=4 if is_known else 2 + place % 3,
    )


def _choose_status(place: int, category: MelCategory | None) -> WorkOrderStatus:
    """Choose the status by the index in the block: mostly closed; deferred only with an MEL category."""
    if category is not None and place % 5 == 0:
        return WorkOrderStatus.DEFERRED
    if place % 31 == 9:
        return WorkOrderStatus.OPEN
    return WorkOrderStatus.AWAITING_PARTS if place % 47 == 20 else WorkOrderStatus.CLOSED


def _build_shift(block: Block, work: PlannedWork, member: int) -> MaintenanceShift:
    """Build the shift of one member, by index.

    Two of the staff work the evening, two the night, one the morning.
    """
    opened = DAY_ZERO - timedelta(
        days=BLOCK_DAYS * block.index + (0 if work.place == KNOWN_ORDER_INDEX else 1 + work.place % 4)
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
            f"M-{block.to_global_number(WORK_ORDERS * STAFF_EACH, work.place * STAFF_EACH + member + 1):05d}"
        ),
        "staff_id": StaffId(f"S-{staff}"),
        "workorder_id": order.workorder_id,
        "shift_start_zulu": start,
        "shift_end_zulu": start + SHIFT,
        "licence": licence,
    }
    return MaintenanceShift(**add_message("MXR", head, fields))
