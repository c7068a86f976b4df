"""Audit trails of the sample's bookings: the entries that the flow's steps write, at a realistic pace.

Questions to the employee and retries of the portal make the trail longer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast.model.ulids import Ulid
from holdfast_demo.tripcortex.sample.trips import Trip
from tripcortex.domain.planner.sentence_planner import SentencePlanner
from tripcortex.domain.policy_rules.rules import Outcome
from tripcortex.model.entities import AuditEvent, AuditRecord, Booking, FlightOption, compute_audit_expiry
from tripcortex.model.policies.schema import DIMENSIONS
from tripcortex.policies.embedding import LOCAL
from tripcortex.workers.steps.validation import build_judgement_outputs

CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_CHARS: Final = 26
RANDOM_BITS: Final = 80
PLANNER_MODEL: Final = SentencePlanner().model_id
# Time between entries, and time that a person takes to answer.
ENTRY_INTERVAL: Final = timedelta(milliseconds=700)
THINKING_TIME: Final = timedelta(minutes=4)


def build_ulid(at: datetime, *of: object) -> Ulid:
    """Return a ULID with the time `at` and a hash of `of`, so that equal arguments give equal ids."""
    drawn = hashlib.sha256(repr(of).encode()).digest()[: RANDOM_BITS // 8]
    number = int(at.timestamp() * 1000) << RANDOM_BITS | int.from_bytes(drawn)
    return Ulid("".join(CROCKFORD[number >> 5 * place & 31] for place in reversed(range(ULID_CHARS))))


@dataclass
class AuditTrail:
    """The audit entries of one booking.

    Each `record_…` method advances `at` and appends the entry of a step.
    """

    booking: Booking
    trip: Trip
    at: datetime
    entries: list[AuditRecord] = field(default_factory=list)

    def record_until_options(self, *, questions: int, retries: int, confidence: str) -> None:
        """Record the entries from the retrieval to the search.

        `questions` are asked and answered, and `retries` of the search fail first. A plan that breaches the
        policy has no search.
        """
        self.record_retrieval(confidence)
        for _ in range(questions):
            self.record_question()
            self.record_answer()
        self.record_plan()
        self.record_validation()
        if self.trip.judgement.verdict is not Outcome.forbidden:
            for attempt in range(1, retries + 1):
                self.record_retry("ExecuteSearch", "portal_unavailable", attempt)
            self.record_offers()

    def record_retrieval(self, confidence: str) -> None:
        """Record EmbedAndRetrieve with the booking's passages and this confidence."""
        chunks = [
            {"id": each.chunk_id, "section": each.section_title, "similarity": each.similarity}
            for each in self.booking.passages
        ]
        best = max((each.similarity or 0.0 for each in self.booking.passages), default=0.0)
        outputs = {
            "chunks_retrieved": len(chunks),
            "max_similarity": best,
            "confidence": confidence,
            "chunks": chunks,
        }
        inputs = {"user_request": self.booking.user_request, "query_embedding_dim": DIMENSIONS}
        self._add(
            AuditEvent.policy_retrieval, "EmbedAndRetrieve", inputs, outputs, model_id=LOCAL, latency_ms=41
        )

    def record_question(self) -> None:
        """Record ReasonAndPlan with a question about the departure date."""
        inputs = {"user_request": self.booking.user_request, "answers": 0}
        self._add(
            AuditEvent.reasoning,
            "ReasonAndPlan",
            inputs,
            {"asked": ["departure_date"]},
            model_id=PLANNER_MODEL,
            latency_ms=9,
        )

    def record_answer(self) -> None:
        """Record the employee's answer, the departure date, four minutes later."""
        self.at += THINKING_TIME
        self._add(
            AuditEvent.user_selection,
            "Question",
            {"question": ["departure_date"]},
            {"answer": f"{self.trip.plan.parameters.departure_date:%d %B}"},
        )

    def record_plan(self) -> None:
        """Record ReasonAndPlan with the trip's plan."""
        plan = self.trip.plan.model_dump(
            mode="json", exclude={"citations", "policy_constraints"}, exclude_none=True
        )
        inputs = {"user_request": self.booking.user_request, "answers": len(self.booking.answers)}
        outputs = {"bookingPlan": plan, "notes": []}
        self._add(
            AuditEvent.reasoning, "ReasonAndPlan", inputs, outputs, model_id=PLANNER_MODEL, latency_ms=12
        )

    def record_validation(self) -> None:
        """Record ValidatePlan with the trip's judgement."""
        outputs = build_judgement_outputs(self.trip.judgement)
        self._add(AuditEvent.plan_validation, "ValidatePlan", self._build_parameters(), outputs, latency_ms=6)

    def record_offers(self) -> None:
        """Record ExecuteSearch with the trip's options."""
        options = [
            {
                "option": each.option_id,
                "carrier": each.carrier,
                "price_usd": str(each.price_usd),
                "verdict": each.verdict,
            }
            for each in self.trip.options
        ]
        outputs = {"offers": 3 * len(options), "options": options}
        self._add(
            AuditEvent.flight_search, "ExecuteSearch", self._build_parameters(), outputs, latency_ms=820
        )

    def record_choice(self, option: FlightOption) -> None:
        """Record the employee's choice, four minutes later."""
        self.at += THINKING_TIME
        outputs = {
            "option": option.option_id,
            "carrier": option.carrier,
            "price_usd": str(option.price_usd),
            "breaches": [each.code for each in option.breaches],
        }
        self._add(AuditEvent.user_selection, "Choice", {"options": len(self.trip.options)}, outputs)

    def record_approval(self, option: FlightOption, by: str) -> None:
        """Record the approval by this approver, four minutes later."""
        self.at += THINKING_TIME
        cited = [each.citation.chunk_id for each in option.breaches if each.citation is not None]
        outputs = {"decision": "approve", "decided_by": by, "cited": cited}
        self._add(AuditEvent.user_selection, "Approval", {"asked_of": by}, outputs)

    def record_price(self, option: FlightOption) -> None:
        """Record BeginBooking at an unchanged price."""
        inputs = {"option": option.option_id, "price_usd": str(option.price_usd)}
        outputs = {"price_usd": str(option.price_usd)}
        self._add(AuditEvent.flight_search, "BeginBooking", inputs, outputs, latency_ms=310)

    def record_completion(self, option: FlightOption, confirmation: str) -> None:
        """Record CompleteBooking with the confirmation number."""
        inputs = {"option": option.option_id, "reference": self.booking.booking_id}
        outputs = {"confirmation": confirmation, "price_usd": str(option.price_usd)}
        self._add(AuditEvent.booking_completion, "CompleteBooking", inputs, outputs, latency_ms=1_430)

    def record_retry(self, step: str, code: str, attempt: int) -> None:
        """Record a failed attempt that is retried."""
        self.at += THINKING_TIME / 40
        error = {"error_code": code, "error_message": "The travel portal does not answer."}
        self._add(AuditEvent.error, step, {"attempt": attempt}, {}, **error)

    def record_failure(self, step: str) -> None:
        """Record the booking's failure in this step; nothing if it has none."""
        failure = self.booking.failure
        if failure is not None:
            outputs = {
                "fallback": self.booking.fallback_url is not None,
                "breaches": [each.code for each in failure.breaches],
            }
            error = {"error_code": failure.code, "error_message": failure.text}
            self._add(AuditEvent.error, step, {"attempt": 1}, outputs, **error)

    def record_cancellation(self, state: str) -> None:
        """Record a cancellation in this state of the flow, four minutes later."""
        self.at += THINKING_TIME
        code = self.booking.failure.code if self.booking.failure is not None else ""
        self._add(AuditEvent.user_selection, "Choice", {"state": state}, {"cancelled": code})

    def _build_parameters(self) -> dict[str, Any]:
        return {"parameters": self.trip.plan.parameters.model_dump(mode="json", exclude_none=True)}

    def _add(
        self, event: AuditEvent, step: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **more: Any
    ) -> None:
        """Append an entry 0.7 seconds after the previous one; `more` are further fields of `AuditRecord`."""
        self.at += ENTRY_INTERVAL
        booking = self.booking
        self.entries.append(
            AuditRecord(
                booking_id=booking.booking_id,
                audit_id=build_ulid(self.at, booking.employee_id, booking.booking_id, len(self.entries)),
                employee_id=booking.employee_id,
                timestamp=self.at,
                event=event,
                step=step,
                input=dict(inputs),
                output=dict(outputs),
                expires_at=compute_audit_expiry(self.at.replace(microsecond=0)),
                **more,
            )
        )
