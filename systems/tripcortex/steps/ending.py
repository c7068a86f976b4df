"""How a booking ends, and what is told of it: the employee's place is free again, the audit has why, the employee is told.

Every end goes through here, so that none forgets one of the three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast import Stores, Write
from holdfast.errors import CircuitOpen, PartyFailed, PartyRefused
from holdfast.flows import Next, Run
from tripcortex import patterns
from tripcortex.auditing import audited, told
from tripcortex.live.notices import message_to, notice_writes
from tripcortex.model import AuditEvent, Booking, Breach, Failure
from tripcortex.portal.fallback import fallback_url
from tripcortex.settings import TripCortexSettings

FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

OUT_OF_POLICY: Final = "out_of_policy"
PORTAL_DOWN: Final = "portal_unavailable"
CHOICE_EXPIRED: Final = "choice_expired"
QUESTION_EXPIRED: Final = "question_expired"
BROKEN: Final = "broken"


def telling(stores: Stores, booking: Booking, about: str, body: Mapping[str, Any]) -> tuple[Write[Any], ...]:
    """The writes by which the employee is told something about the booking."""
    return notice_writes(
        stores, message_to(stores, booking.employee_id, about, dict(body), booking.booking_id)
    )


def leaving(booking: Booking) -> Write[Any]:
    return patterns.leave_place(booking.employee_id, booking.booking_id)


def failed(
    run: Run[Booking],
    step: str,
    failure: Failure,
    *,
    with_link: bool = False,
    audit: Sequence[Write[Any]] = (),
    settings: TripCortexSettings | None = None,
    **changes: Any,
) -> Next:
    """The booking ends without a trip. With `with_link` the employee is given the portal's own page, filled in."""
    booking, stores = run.item, run.stores
    settings = settings or TripCortexSettings.load()
    link = _link(booking, settings) if with_link else None
    if link is not None:
        changes["fallback_url"] = link
    entry = audited(
        stores,
        booking,
        AuditEvent.error,
        step,
        given={"attempt": run.attempt},
        gave={
            "fallback": link is not None,
            "breaches": [each.code for each in failure.breaches],
            "cited": [each.citation.chunk_id for each in failure.breaches if each.citation is not None],
        },
        years=settings.audit_years,
        error_code=failure.code,
        error_message=failure.text,
    )
    message = {
        "code": failure.code,
        "text": failure.text,
        "remedy": failure.remedy,
        "breaches": [shown_breach(each) for each in failure.breaches],
        "fallbackUrl": link,
    }
    writes = (*audit, entry, leaving(booking), *telling(stores, booking, FAILED, message))
    return Next(FAILED, {"failure": failure, **changes}, writes=writes)


def gave_up(run: Run[Booking], error: Exception) -> Next:
    """What a step could not mend: a portal that stays away ends in the link to its pages, a refusal in its code."""
    step = run.item.flow_state
    if isinstance(error, PartyRefused):
        text = "The travel portal refused it for good. Ask for the trip again, with other dates or another flight."
        return failed(run, step, Failure(code=error.code, text=text), with_link=True)
    if isinstance(error, PartyFailed | CircuitOpen):
        text = "The travel portal does not answer. Book the trip on its own pages by the link."
        return failed(run, step, Failure(code=PORTAL_DOWN, text=text), with_link=True)
    text = "Something of ours went wrong with this request. Ask again; the reason is written down for who mends it."
    return failed(run, step, Failure(code=BROKEN, text=text))


def cancelled(run: Run[Booking], reason: str) -> Next:
    """By the employee, at any point before the portal is asked to book."""
    return _cancelled(run, "Cancel", "cancelled_by_employee", told(reason))


def choice_expired(run: Run[Booking]) -> Next:
    text = "Nobody chose in time, and the offers are not held any longer. Ask for the trip again."
    return _cancelled(run, "Choice", CHOICE_EXPIRED, text)


def question_expired(run: Run[Booking]) -> Next:
    text = "The question was not answered in time. Ask for the trip again."
    return _cancelled(run, "Question", QUESTION_EXPIRED, text)


def _cancelled(run: Run[Booking], step: str, code: str, text: str) -> Next:
    booking, stores = run.item, run.stores
    entry = audited(
        stores,
        booking,
        AuditEvent.user_selection,
        step,
        given={"state": booking.flow_state},
        gave={"cancelled": code},
    )
    failure = Failure(code=code, text=text)
    message = telling(stores, booking, CANCELLED, {"code": code, "text": text})
    return Next(CANCELLED, {"failure": failure}, writes=(entry, leaving(booking), *message))


def shown_breach(breach: Breach) -> dict[str, Any]:
    return breach.model_dump(mode="json", exclude_none=True)


def _link(booking: Booking, settings: TripCortexSettings) -> str | None:
    if booking.booking_plan is None or not settings.portal_web_url:
        return None
    return fallback_url(settings.portal_web_url, booking.booking_plan.parameters)
