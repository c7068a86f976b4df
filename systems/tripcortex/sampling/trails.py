"""The audit trail of a booking of the sample: what the steps of the flow write, at the pace that they have.

Where an employee was asked back or the portal was slow, the trail is the longer for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast import Ulid
from tripcortex.knowledge.embedding import LOCAL
from tripcortex.knowledge.schema import DIMENSIONS
from tripcortex.model import AuditEvent, AuditRecord, Booking, FlightOption, audit_end
from tripcortex.planning.sentences import SentencePlanner
from tripcortex.sampling.trips import Trip

CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_CHARS: Final = 26
RANDOM_BITS: Final = 80
PLANNER: Final = SentencePlanner().model_id
# From one entry to the next, within a step and while a person thinks.
PACE: Final = timedelta(milliseconds=700)
THOUGHT: Final = timedelta(minutes=4)


def ulid_at(at: datetime, *of: object) -> Ulid:
    """The id of that moment which is always the same for the same things."""
    drawn = hashlib.sha256(repr(of).encode()).digest()[: RANDOM_BITS // 8]
    number = int(at.timestamp() * 1000) << RANDOM_BITS | int.from_bytes(drawn)
    return Ulid("".join(CROCKFORD[number >> 5 * place & 31] for place in reversed(range(ULID_CHARS))))


@dataclass
class Trail:
    """Entries as they are written, one after the other."""

    booking: Booking
    trip: Trip
    at: datetime
    entries: list[AuditRecord] = field(default_factory=list)

    def searched(self, *, questions: int, retries: int, confidence: str) -> None:
        """From the request to the options."""
        self.retrieved(confidence)
        for _ in range(questions):
            self.asked()
            self.answered()
        self.planned()
        self.validated()
        if self.trip.judgement.ok:
            for attempt in range(1, retries + 1):
                self.troubled("ExecuteSearch", "portal_unavailable", attempt)
            self.found()

    def retrieved(self, confidence: str) -> None:
        chunks = [
            {"id": each.chunk_id, "section": each.section_title, "similarity": each.similarity}
            for each in self.booking.passages
        ]
        best = max((each.similarity or 0.0 for each in self.booking.passages), default=0.0)
        gave = {
            "chunks_retrieved": len(chunks),
            "max_similarity": best,
            "confidence": confidence,
            "chunks": chunks,
        }
        given = {"user_request": self.booking.user_request, "query_embedding_dim": DIMENSIONS}
        self._add(AuditEvent.policy_retrieval, "EmbedAndRetrieve", given, gave, model_id=LOCAL, latency_ms=41)

    def asked(self) -> None:
        given = {"user_request": self.booking.user_request, "answers": 0}
        self._add(
            AuditEvent.reasoning,
            "ReasonAndPlan",
            given,
            {"asked": ["departure_date"]},
            model_id=PLANNER,
            latency_ms=9,
        )

    def answered(self) -> None:
        self.at += THOUGHT
        self._add(
            AuditEvent.user_selection,
            "Question",
            {"question": ["departure_date"]},
            {"answer": f"{self.trip.plan.parameters.departure_date:%d %B}"},
        )

    def planned(self) -> None:
        plan = self.trip.plan.model_dump(
            mode="json", exclude={"citations", "policy_constraints"}, exclude_none=True
        )
        given = {"user_request": self.booking.user_request, "answers": len(self.booking.answers)}
        gave = {"bookingPlan": plan, "notes": []}
        self._add(AuditEvent.reasoning, "ReasonAndPlan", given, gave, model_id=PLANNER, latency_ms=12)

    def validated(self) -> None:
        judgement = self.trip.judgement
        gave = {
            "ok": judgement.ok,
            "needs_approval": judgement.needs_approval,
            "confidence": judgement.confidence,
            "policy_version": judgement.policy_version,
            "breaches": [{"code": each.code, "severity": each.severity} for each in judgement.breaches],
            "cited": [
                {"policy": each.file_name, "page": each.source_page, "section": each.section_title}
                for each in judgement.citations
            ],
        }
        self._add(AuditEvent.plan_validation, "ValidatePlan", self._parameters(), gave, latency_ms=6)

    def found(self) -> None:
        options = [
            {"option": each.option_id, "carrier": each.carrier, "price_usd": str(each.price_usd)}
            for each in self.trip.options
        ]
        gave = {"offers": 3 * len(options), "options": options}
        self._add(AuditEvent.flight_search, "ExecuteSearch", self._parameters(), gave, latency_ms=820)

    def chosen(self, option: FlightOption) -> None:
        self.at += THOUGHT
        gave = {
            "option": option.option_id,
            "carrier": option.carrier,
            "price_usd": str(option.price_usd),
            "breaches": [each.code for each in option.breaches],
        }
        self._add(AuditEvent.user_selection, "Choice", {"options": len(self.trip.options)}, gave)

    def approved(self, option: FlightOption, by: str) -> None:
        self.at += THOUGHT
        cited = [each.citation.chunk_id for each in option.breaches if each.citation is not None]
        gave = {"decision": "approve", "decided_by": by, "cited": cited}
        self._add(AuditEvent.user_selection, "Approval", {"asked_of": by}, gave)

    def priced(self, option: FlightOption) -> None:
        given = {"option": option.option_id, "price_usd": str(option.price_usd)}
        gave = {"price_usd": str(option.price_usd)}
        self._add(AuditEvent.flight_search, "BeginBooking", given, gave, latency_ms=310)

    def completed(self, option: FlightOption, confirmation: str) -> None:
        given = {"option": option.option_id, "reference": self.booking.booking_id}
        gave = {"confirmation": confirmation, "price_usd": str(option.price_usd)}
        self._add(AuditEvent.booking_completion, "CompleteBooking", given, gave, latency_ms=1_430)

    def troubled(self, step: str, code: str, attempt: int) -> None:
        """A try that failed, and is made again."""
        self.at += THOUGHT / 40
        told = {"error_code": code, "error_message": "The travel portal does not answer."}
        self._add(AuditEvent.error, step, {"attempt": attempt}, {}, **told)

    def failed(self, step: str) -> None:
        failure = self.booking.failure
        if failure is not None:
            gave = {
                "fallback": self.booking.fallback_url is not None,
                "breaches": [each.code for each in failure.breaches],
            }
            told = {"error_code": failure.code, "error_message": failure.text}
            self._add(AuditEvent.error, step, {"attempt": 1}, gave, **told)

    def cancelled(self, state: str) -> None:
        self.at += THOUGHT
        code = self.booking.failure.code if self.booking.failure is not None else ""
        self._add(AuditEvent.user_selection, "Choice", {"state": state}, {"cancelled": code})

    def _parameters(self) -> dict[str, Any]:
        return {"parameters": self.trip.plan.parameters.model_dump(mode="json", exclude_none=True)}

    def _add(
        self, event: AuditEvent, step: str, given: Mapping[str, Any], gave: Mapping[str, Any], **more: Any
    ) -> None:
        self.at += PACE
        booking = self.booking
        self.entries.append(
            AuditRecord(
                booking_id=booking.booking_id,
                audit_id=ulid_at(self.at, booking.employee_id, booking.booking_id, len(self.entries)),
                employee_id=booking.employee_id,
                timestamp=self.at,
                event=event,
                step=step,
                input=dict(given),
                output=dict(gave),
                expires_at=audit_end(self.at.replace(microsecond=0)),
                **more,
            )
        )
