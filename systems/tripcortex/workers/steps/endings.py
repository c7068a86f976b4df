"""Ends a booking without a trip: failed, cancelled or expired.

Each end deletes the employee's marker, writes the reason to the audit log and sends the employee a message.
`purchase` confirms a booking with the same helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from holdfast import Stores, Write
from holdfast.core.errors import CircuitOpen, ExternalServiceFailed, ExternalServiceRefused, error_label
from holdfast.flows import Next, StepContext
from tripcortex.integrations.portal.fallback_link import build_fallback_url
from tripcortex.model import patterns
from tripcortex.model.entities import AuditEvent, Booking, Failure
from tripcortex.model.notices import build_message, build_notice_writes
from tripcortex.settings import TripCortexSettings
from tripcortex.workers.audit_entries import build_audit_entry, redact_text
from tripcortex.workers.dependencies import Dependencies
from tripcortex.workers.steps.serializers import to_json

FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

OUT_OF_POLICY: Final = "out_of_policy"
PORTAL_DOWN: Final = "portal_unavailable"
CHOICE_EXPIRED: Final = "choice_expired"
QUESTION_EXPIRED: Final = "question_expired"
MODEL_DOWN: Final = "model_unavailable"
INTERNAL_ERROR: Final = "broken"
RETRIED: Final = "retried"

# Each of the first failed attempts has an audit entry; after these, only the 8th, 16th, 32nd …
MAX_AUDITED_RETRIES: Final = 5

MODEL_DOWN_TEXT: Final = "The service that reads requests does not answer. Try again later."
PORTAL_DOWN_TEXT: Final = "The travel portal does not answer. Follow the link to book on its own pages."
INTERNAL_ERROR_TEXT: Final = (
    "Something went wrong in this service. Request the trip again; the cause is logged for the operators."
)


def build_message_writes(
    stores: Stores, booking: Booking, about: str, body: Mapping[str, Any]
) -> tuple[Write[Any], ...]:
    """Return the writes that send the employee a message about the booking."""
    return build_notice_writes(
        stores, build_message(stores, booking.employee_id, about, dict(body), booking.booking_id)
    )


def release_active_booking(booking: Booking) -> Write[Any]:
    """Return the write that deletes the employee's active-booking marker."""
    return patterns.leave_place(booking.employee_id, booking.booking_id)


def fail_booking(
    context: StepContext[Booking],
    step: str,
    failure: Failure,
    *,
    with_link: bool = False,
    audit: Sequence[Write[Any]] = (),
    **changes: Any,
) -> Next:
    """Return the transition that ends the booking as failed, with the reason.

    `with_link` adds the portal's own page with the trip filled in. `audit` are further writes, `changes`
    further attributes of the booking.
    """
    booking, stores = context.item, context.stores
    settings = _get_settings(context)
    link = _build_link(booking, settings) if with_link else None
    if link is not None:
        changes["fallback_url"] = link
    entry = build_audit_entry(
        stores,
        booking,
        AuditEvent.error,
        step,
        inputs={"attempt": context.attempt},
        outputs={
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
        "breaches": [to_json(each) for each in failure.breaches],
        "fallbackUrl": link,
    }
    writes = (
        *audit,
        entry,
        release_active_booking(booking),
        *build_message_writes(stores, booking, FAILED, message),
    )
    return Next(FAILED, {"failure": failure, **changes}, writes=writes)


def fail_after_retries(
    step: str, *, uses_model: bool = False
) -> Callable[[StepContext[Booking], Exception], Next]:
    """Return the handler that fails the booking after a step's last attempt.

    The employee gets the link if the portal is down or refused; `uses_model` is for steps that call a model
    instead.
    """

    def handle(context: StepContext[Booking], error: Exception) -> Next:
        if uses_model and isinstance(error, ExternalServiceFailed | ExternalServiceRefused):
            return fail_booking(context, step, Failure(code=MODEL_DOWN, text=MODEL_DOWN_TEXT))
        if isinstance(error, ExternalServiceRefused):
            remedy = "Request the trip again, with other dates or another flight."
            return fail_booking(
                context, step, Failure(code=error.code, text=error.message, remedy=remedy), with_link=True
            )
        if isinstance(error, ExternalServiceFailed | CircuitOpen):
            return fail_booking(
                context, step, Failure(code=PORTAL_DOWN, text=PORTAL_DOWN_TEXT), with_link=True
            )
        return fail_booking(context, step, Failure(code=INTERNAL_ERROR, text=INTERNAL_ERROR_TEXT))

    return handle


def audit_retry(step: str) -> Callable[[StepContext[Booking], Exception], tuple[Write[Any], ...]]:
    """Return the handler that adds an audit entry when a failed attempt of a step is retried later."""

    def handle(context: StepContext[Booking], error: Exception) -> tuple[Write[Any], ...]:
        attempt = context.attempt
        if attempt > MAX_AUDITED_RETRIES and attempt & (attempt - 1):
            return ()
        entry = build_audit_entry(
            context.stores,
            context.item,
            AuditEvent.error,
            step,
            inputs={"attempt": attempt},
            outputs={"error": error_label(error)},
            years=_get_settings(context).audit_years,
            error_code=RETRIED,
            error_message=str(error),
        )
        return (entry,)

    return handle


def cancel_booking(context: StepContext[Booking], reason: str) -> Next:
    """Cancel the booking for the employee, at any time before the portal is asked to book."""
    return end_cancelled(context, "Cancel", "cancelled_by_employee", redact_text(reason))


def expire_choice(context: StepContext[Booking]) -> Next:
    """Cancel the booking because no option was chosen in time."""
    text = "You did not choose in time, and the offers are no longer held. Request the trip again."
    return end_cancelled(context, "Choice", CHOICE_EXPIRED, text)


def expire_question(context: StepContext[Booking]) -> Next:
    """Cancel the booking because the planner's question was not answered in time."""
    text = "The question was not answered in time. Request the trip again."
    return end_cancelled(context, "Question", QUESTION_EXPIRED, text)


def end_cancelled(context: StepContext[Booking], step: str, code: str, text: str) -> Next:
    """Return the transition that ends the booking as cancelled."""
    booking, stores = context.item, context.stores
    entry = build_audit_entry(
        stores,
        booking,
        AuditEvent.user_selection,
        step,
        inputs={"state": booking.flow_state},
        outputs={"cancelled": code},
    )
    failure = Failure(code=code, text=text)
    message = build_message_writes(stores, booking, CANCELLED, {"code": code, "text": text})
    return Next(CANCELLED, {"failure": failure}, writes=(entry, release_active_booking(booking), *message))


def _get_settings(context: StepContext[Booking]) -> TripCortexSettings:
    """Return the worker's settings, or those of the process that received a person's answer."""
    return context.tools.settings if isinstance(context.tools, Dependencies) else TripCortexSettings.load()


def _build_link(booking: Booking, settings: TripCortexSettings) -> str | None:
    """Return the link to the portal's page; None without a plan or without the portal's web address."""
    if booking.booking_plan is None or not settings.portal_web_url:
        return None
    return build_fallback_url(settings.portal_web_url, booking.booking_plan.parameters)
