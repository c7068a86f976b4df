"""How a booking ends, and what is told of it: the employee's place is free again, the audit has why, the employee is told.

Every end goes through here, so that none forgets one of the three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from holdfast import Stores, Write
from holdfast.errors import CircuitOpen, PartyFailed, PartyRefused
from holdfast.flows import Next, Run
from tripcortex import patterns
from tripcortex.auditing import audited, told
from tripcortex.live.notices import message_to, notice_writes
from tripcortex.model import AuditEvent, Booking, Failure
from tripcortex.portal.fallback import fallback_url
from tripcortex.settings import TripCortexSettings
from tripcortex.steps.showing import shown
from tripcortex.workshop import Workshop

FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

OUT_OF_POLICY: Final = "out_of_policy"
PORTAL_DOWN: Final = "portal_unavailable"
CHOICE_EXPIRED: Final = "choice_expired"
QUESTION_EXPIRED: Final = "question_expired"
MODEL_DOWN: Final = "model_unavailable"
BROKEN: Final = "broken"

NO_MODEL: Final = "What reads requests does not answer. Ask again in a while."
NO_PORTAL: Final = "The travel portal does not answer. Book the trip on its own pages by the link."
OUR_FAULT: Final = (
    "Something of ours went wrong with this request. Ask again; the reason is written down for who mends it."
)


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
    **changes: Any,
) -> Next:
    """The booking ends without a trip. With `with_link` the employee is given the portal's own page, filled in."""
    booking, stores = run.item, run.stores
    settings = _settings_of(run)
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
        "breaches": [shown(each) for each in failure.breaches],
        "fallbackUrl": link,
    }
    writes = (*audit, entry, leaving(booking), *telling(stores, booking, FAILED, message))
    return Next(FAILED, {"failure": failure, **changes}, writes=writes)


def gave_up(step: str, *, asks_model: bool = False) -> Callable[[Run[Booking], Exception], Next]:
    """What a step could not mend: a portal that stays away ends in the link to its pages, a refusal in its code."""

    def given_up(run: Run[Booking], error: Exception) -> Next:
        if asks_model and isinstance(error, PartyFailed | PartyRefused):
            return failed(run, step, Failure(code=MODEL_DOWN, text=NO_MODEL))
        if isinstance(error, PartyRefused):
            remedy = "Ask for the trip again, with other dates or another flight."
            return failed(
                run, step, Failure(code=error.code, text=error.message, remedy=remedy), with_link=True
            )
        if isinstance(error, PartyFailed | CircuitOpen):
            return failed(run, step, Failure(code=PORTAL_DOWN, text=NO_PORTAL), with_link=True)
        return failed(run, step, Failure(code=BROKEN, text=OUR_FAULT))

    return given_up


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


def _settings_of(run: Run[Booking]) -> TripCortexSettings:
    """The worker's; where a person's answer ends it, those of the process that took the answer."""
    return run.tools.settings if isinstance(run.tools, Workshop) else TripCortexSettings.load()


def _link(booking: Booking, settings: TripCortexSettings) -> str | None:
    if booking.booking_plan is None or not settings.portal_web_url:
        return None
    return fallback_url(settings.portal_web_url, booking.booking_plan.parameters)
