"""What a run of Trip Cortex has left in its stores and at the portal, and whether it is as it must be.

For `test_tripcortex_killed.py`. Everything is read when nobody works any more. The portal's ledger is its own account of what it
sold; no judgement trusts ours for it.
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
from tripcortex.demo.sandbox.portal_ledger import ORDER
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

from .tripcortex_people import Told

E = TypeVar("E", bound=Entity)

# What a booking goes through, as its audit has it: whoever comes to one has been through those before it.
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
# The document's, at least.
ENTRIES_MIN: Final = 6
# Told while it is found out what the portal did: no end.
OPEN: Final = frozenset({"outcome_open", "outcome_unknown", "surplus_order"})


@dataclass
class Findings:
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
        return Counter(
            each.status.value if each.failure is None else f"{each.status.value}: {each.failure.code}"
            for each in self.bookings.values()
        )


async def found(stores: Stores, ledger: list[dict[str, Any]]) -> Findings:
    audit: dict[str, list[AuditRecord]] = defaultdict(list)
    for entry in await _all(stores, AuditRecord):
        audit[entry.booking_id].append(entry)
    return Findings(
        bookings={each.booking_id: each for each in await _all(stores, Booking)},
        audit={id: sorted(entries, key=lambda each: each.timestamp) for id, entries in audit.items()},
        markers=await _all(stores, ActiveBooking),
        messages=await _all(stores, Message),
        calls={each.reference: each for each in await _all(stores, PortalCall)},
        places=await BOOKING_FLOW.list_executions(stores),
        unsent=[*await BOOKING_FLOW.outbox.list_unsent(stores), *await NOTICES.list_unsent(stores)],
        ledger=ledger,
    )


async def _all(stores: Stores, kind: type[E]) -> list[E]:
    return [each async for each in stores.each(kind.scan(reason="A test looks at all of them"))]


# --- the end of each ----------------------------------------------------------------------------------------


def judge_ends(findings: Findings) -> None:
    """Every booking has ended, and nothing of its way is left anywhere."""
    assert [each for each in findings.bookings.values() if not each.is_ended] == []
    assert findings.places == []
    assert findings.markers == []
    assert findings.unsent == []
    assert findings.messages == [], "not acknowledged"


def judge_portal(findings: Findings) -> None:
    """Each confirmed trip was sold once, at what the booking says; nothing else was, and nothing was cancelled there."""
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


def judge_audit(findings: Findings) -> None:
    """Each step once, none without those before it, and how it ended."""
    assert findings.audit.keys() == findings.bookings.keys()
    for id, booking in findings.bookings.items():
        steps = _steps(findings.audit[id])
        assert steps.keys() == set(STEPS[: len(steps)]), (booking.flow_state, steps)
        # Once, and once more for each answer; unless it was cancelled before that.
        assert steps.pop("ReasonAndPlan", 0) - len(booking.answers) in (0, 1), (booking.answers, steps)
        assert set(steps.values()) <= {1}, steps
        _judge_end(booking, findings.audit[id], steps)


def _steps(entries: Sequence[AuditRecord]) -> Counter[str]:
    """What was done, without the ends and what people said beside a choice."""
    done = (each for each in entries if not _ends(each))
    return Counter(each.step for each in done if EVENT_OF.get(each.step) is each.event)


def _ends(entry: AuditRecord) -> bool:
    if entry.error_code in OPEN:
        return False
    return entry.event is AuditEvent.error or "cancelled" in entry.output


def _judge_end(booking: Booking, entries: Sequence[AuditRecord], steps: Mapping[str, int]) -> None:
    ends = [each for each in entries if _ends(each)]
    if booking.status is BookingStatus.confirmed:
        assert ends == [] and "CompleteBooking" in steps and len(entries) >= ENTRIES_MIN
        return
    assert booking.failure is not None and len(ends) == 1, (booking.status, ends)
    told = ends[0].error_code if booking.status is BookingStatus.failed else ends[0].output["cancelled"]
    assert told == booking.failure.code
    assert "CompleteBooking" not in steps


def judge_one_at_a_time(findings: Findings) -> None:
    """Of two bookings of an employee, the second's first entry is not before the first's last."""
    spans: dict[str, list[tuple[datetime, datetime, str]]] = defaultdict(list)
    for id, entries in findings.audit.items():
        spans[entries[0].employee_id].append((entries[0].timestamp, entries[-1].timestamp, id))
    for several in spans.values():
        several.sort()
        for one, other in pairwise(several):
            assert one[1] <= other[0], (one, other)


# --- what was told ------------------------------------------------------------------------------------------


def judge_told(findings: Findings, told: Mapping[str, Told]) -> None:
    """Everybody was told how each of theirs ended, and what was asked of them, under one id each and about nothing else."""
    ids = {id for each in told.values() for id in each.frames}
    assert len(ids) == sum(len(each.frames) for each in told.values())
    for id, booking in findings.bookings.items():
        frames = told[booking.employee_id].of(id)
        about = Counter(each["about"] for each in frames)
        # That it is not known yet whether it was bought.
        about.pop("pending", None)
        asked = sum("asked" in each.output for each in findings.audit[id])
        is_lost = booking.failure is not None and booking.failure.code == "not_understood"
        wanted = Counter({END_OF[booking.status]: 1, "question": asked - is_lost})
        wanted["options"] = int(bool(booking.flight_options))
        assert about == +wanted, (booking.status, booking.failure, about, wanted)
        if booking.approval is not None:
            assert [each["about"] for each in told[booking.approval.asked_of].of(id)] == ["approval"]
        end = next(each for each in frames if each["about"] == END_OF[booking.status])
        if booking.status is BookingStatus.confirmed:
            assert end["body"]["confirmationNumber"] == booking.confirmation_number
        else:
            assert booking.failure is not None and end["body"]["code"] == booking.failure.code
