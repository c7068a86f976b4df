"""What a run of Trip Cortex left in its stores and at the portal, and the checks of it.

For `test_tripcortex_killed.py`. Everything is read after the processes have stopped. The portal's ledger is
its own account of its sales; no check relies on ours for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, TypeVar

from holdfast import Entity, Stores
from holdfast.flows import Execution
from holdfast.guarantees import OnceStatus
from holdfast_demo.tripcortex.sandbox.portal_ledger import ORDER
from tripcortex.model.entities import (
    ActiveBooking,
    AuditEvent,
    AuditRecord,
    Booking,
    BookingStatus,
    Message,
    PortalCall,
)
from tripcortex.model.notices import NOTICES
from tripcortex.workers.flow import BOOKING_FLOW

from .tripcortex_people import Inbox

E = TypeVar("E", bound=Entity)

# The steps of a booking in its audit: each one requires all those before it.
STEPS: Final = (
    "EmbedAndRetrieve",
    "ReasonAndPlan",
    "ValidatePlan",
    "ExecuteSearch",
    "Choice",
    "BeginBooking",
    "CompleteBooking",
)
EVENT_OF: Final = {
    "EmbedAndRetrieve": AuditEvent.policy_retrieval,
    "ReasonAndPlan": AuditEvent.reasoning,
    "ValidatePlan": AuditEvent.plan_validation,
    "ExecuteSearch": AuditEvent.flight_search,
    "Choice": AuditEvent.user_selection,
    "BeginBooking": AuditEvent.flight_search,
    "CompleteBooking": AuditEvent.booking_completion,
}
END_OF: Final = {
    BookingStatus.confirmed: "confirmation",
    BookingStatus.failed: "failed",
    BookingStatus.cancelled: "cancelled",
}
# The document's minimum.
MIN_ENTRIES: Final = 6
# Entries while the portal's outcome is open: these are not ends.
OPEN: Final = frozenset({"outcome_open", "outcome_unknown", "retried", "surplus_order"})


@dataclass
class Findings:
    """Everything that a run left, by booking id where there is one."""

    bookings: dict[str, Booking]
    audit: dict[str, list[AuditRecord]]
    markers: list[ActiveBooking]
    messages: list[Message]
    calls: dict[str, PortalCall]
    places: list[Execution]
    unsent: list[Any]
    ledger: list[dict[str, Any]] = field(repr=False)

    @property
    def ends(self) -> Counter[str]:
        """Return how many bookings ended with each status and failure code."""
        return Counter(
            each.status.value if each.failure is None else f"{each.status.value}: {each.failure.code}"
            for each in self.bookings.values()
        )


async def collect(stores: Stores, ledger: list[dict[str, Any]]) -> Findings:
    """Read everything from the stores; the ledger is the portal's."""
    audit: dict[str, list[AuditRecord]] = defaultdict(list)
    for entry in await _scan(stores, AuditRecord):
        audit[entry.booking_id].append(entry)
    return Findings(
        bookings={each.booking_id: each for each in await _scan(stores, Booking)},
        audit={id: sorted(entries, key=lambda each: each.timestamp) for id, entries in audit.items()},
        markers=await _scan(stores, ActiveBooking),
        messages=await _scan(stores, Message),
        calls={each.reference: each for each in await _scan(stores, PortalCall)},
        places=await BOOKING_FLOW.list_executions(stores),
        unsent=[*await BOOKING_FLOW.outbox.list_unsent(stores), *await NOTICES.list_unsent(stores)],
        ledger=ledger,
    )


async def _scan(stores: Stores, kind: type[E]) -> list[E]:
    """Read all entities of a kind."""
    return [each async for each in stores.each(kind.scan(reason="a test reads all of them"))]


def check_ends(findings: Findings) -> None:
    """Check that every booking has ended and left nothing behind."""
    assert [each for each in findings.bookings.values() if not each.is_ended] == []
    assert findings.places == []
    assert findings.markers == []
    assert findings.unsent == []
    assert findings.messages == [], "not acknowledged"


def check_portal(findings: Findings) -> None:
    """Check that each confirmed trip was sold once at its booking's price.

    Nothing else was sold, and nothing was cancelled.
    """
    confirmed = {id: each for id, each in findings.bookings.items() if each.status is BookingStatus.confirmed}
    assert {each["what"] for each in findings.ledger} <= {ORDER}
    sold = Counter(each["reference"] for each in findings.ledger)
    assert sold == Counter(confirmed.keys())
    for entry in findings.ledger:
        booking, order = confirmed[entry["reference"]], entry["order"]
        assert booking.confirmation_number is not None and order["pnr"] in booking.confirmation_number
        assert booking.paid_usd == Decimal(order["price_usd"])
        assert entry["traveller"] == booking.employee_id
        assert booking.selected_option is not None and booking.selected_option.offer_id == order["offer_id"]
        assert findings.calls[entry["reference"]].status is OnceStatus.PROCESSED


# --- the audit ----------------------------------------------------------------------------------------------


def check_audit(findings: Findings) -> None:
    """Check that each step has one entry, none without those before it, and that the end is recorded."""
    assert findings.audit.keys() == findings.bookings.keys()
    for id, booking in findings.bookings.items():
        steps = _count_steps(findings.audit[id])
        assert steps.keys() == set(STEPS[: len(steps)]), (booking.flow_state, steps)
        # Once, and again for each answer, unless it was cancelled before.
        assert steps.pop("ReasonAndPlan", 0) - len(booking.answers) in (0, 1), (booking.answers, steps)
        # Once, and again after each approval of a dearer flight and each acceptance of its price.
        assert steps["BeginBooking"] <= _count_price_agreements(findings.audit[id]), steps
        assert {count for step, count in steps.items() if step != "BeginBooking"} <= {1}, steps
        _check_end(booking, findings.audit[id], steps)


def _count_price_agreements(entries: Sequence[AuditRecord]) -> int:
    """Count how often the choice, its approvers or the employee agreed to the price."""
    approvals = sum(each.output.get("is_final") is True for each in entries)
    return max(approvals, 1) + sum("accepted_usd" in each.output for each in entries)


def _count_steps(entries: Sequence[AuditRecord]) -> Counter[str]:
    """Count the steps, without ends and answers."""
    done = (each for each in entries if not _is_end(each))
    return Counter(each.step for each in done if EVENT_OF.get(each.step) is each.event)


def _is_end(entry: AuditRecord) -> bool:
    """Return whether the entry records a failure or a cancellation."""
    if entry.error_code in OPEN:
        return False
    return entry.event is AuditEvent.error or "cancelled" in entry.output


def _check_end(booking: Booking, entries: Sequence[AuditRecord], steps: Mapping[str, int]) -> None:
    """Check that the booking has one entry of its end, with the same code; none if it is confirmed."""
    ends = [each for each in entries if _is_end(each)]
    if booking.status is BookingStatus.confirmed:
        assert ends == [] and "CompleteBooking" in steps and len(entries) >= MIN_ENTRIES
        return
    assert booking.failure is not None and len(ends) == 1, (booking.status, ends)
    recorded = ends[0].error_code if booking.status is BookingStatus.failed else ends[0].output["cancelled"]
    assert recorded == booking.failure.code
    assert "CompleteBooking" not in steps


def check_one_at_a_time(findings: Findings) -> None:
    """Check that an employee's next booking never begins before the previous one's last entry."""
    spans: dict[str, list[tuple[datetime, datetime, str]]] = defaultdict(list)
    for id, entries in findings.audit.items():
        spans[entries[0].employee_id].append((entries[0].timestamp, entries[-1].timestamp, id))
    for several in spans.values():
        several.sort()
        for one, other in pairwise(several):
            assert one[1] <= other[0], (one, other)


def check_messages(findings: Findings, inboxes: Mapping[str, Inbox]) -> None:
    """Check that everyone received each outcome and question, under one id each, and about nothing else."""
    ids = {id for each in inboxes.values() for id in each.frames}
    assert len(ids) == sum(len(each.frames) for each in inboxes.values())
    for id, booking in findings.bookings.items():
        frames = inboxes[booking.employee_id].list_for_booking(id)
        about = Counter(each["about"] for each in frames)
        # The message that the outcome of the purchase is still open.
        about.pop("pending", None)
        # After an approval the price may have risen, each time with one message.
        about.pop("price_changed", None)
        asked = sum("asked" in each.output for each in findings.audit[id])
        is_lost = booking.failure is not None and booking.failure.code == "not_understood"
        wanted = Counter({END_OF[booking.status]: 1, "question": asked - is_lost})
        wanted["options"] = int(bool(booking.flight_options))
        assert about == +wanted, (booking.status, booking.failure, about, wanted)
        if booking.approval is not None:
            received = Counter(
                each["about"] for each in inboxes[booking.approval.asked_of].list_for_booking(id)
            )
            # One request each time that the booking needed an approval, and at most one escalation of each.
            requests = received.pop("approval")
            escalated = sum("escalated" in each.output for each in findings.audit[id])
            assert requests >= 1 and received == +Counter({"approval_reminder": escalated}), received
            assert escalated <= requests
        end = next(each for each in frames if each["about"] == END_OF[booking.status])
        if booking.status is BookingStatus.confirmed:
            assert end["body"]["confirmationNumber"] == booking.confirmation_number
        else:
            assert booking.failure is not None and end["body"]["code"] == booking.failure.code
