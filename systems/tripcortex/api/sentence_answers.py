"""Answers to sentences that do not ask for a new flight: nothing is booked, changed or cancelled by them.

policy    the passages of the policies in service, with citations
status    the employee's bookings, those to the named place if there are any
change, cancel    what can be done today with the employee's bookings
other     what the assistant can do, or a question where it is open whether to book
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import Stores
from tripcortex.api.identity import Employee
from tripcortex.domain.intents import Classification, Intent
from tripcortex.domain.planner.request_parser import parse_trip
from tripcortex.domain.planner.text_normalization import normalize_text
from tripcortex.integrations.ai_models import open_embedding
from tripcortex.model import patterns
from tripcortex.model.entities import Booking, BookingStatus
from tripcortex.policies.retrieval import RetrievedChunk, retrieve
from tripcortex.settings import TripCortexSettings

MAX_BOOKINGS: Final = 20
MAX_SHOWN: Final = 3
# The state in which the portal was asked to book: too late to cancel here.
BUYING_STATE: Final = "booking"

NO_BOOKINGS: Final = "You have no bookings yet. For a flight say where to and when."
NO_PASSAGES: Final = "I found nothing about this in the policies in service. Please ask your travel desk."
WHAT_I_DO: Final = (
    "I book flights, answer questions about the travel policy, and show your bookings. For a flight say "
    "where to and when, for instance: “Flight to Denver on 2 June, returning 4 June.”"
)
NOT_LIVE: Final = "I see your bookings, not gates or delays: the airline shows those."
DESK: Final = "A confirmed booking is changed or cancelled by your travel desk; I cannot do it yet."


@dataclass(frozen=True)
class SentenceAnswer:
    """The answer to a sentence. The employee answers a `question` by sending the sentence again."""

    intent: Intent
    text: str
    question: str | None = None
    bookings: tuple[Booking, ...] = ()
    passages: tuple[RetrievedChunk, ...] = ()


async def answer_sentence(
    stores: Stores, employee: Employee, sentence: str, found: Classification
) -> SentenceAnswer:
    """Answer a sentence with another intent than `book`."""
    if found.intent is Intent.policy:
        return await _quote_policy(stores, sentence)
    if found.intent is Intent.other:
        return SentenceAnswer(Intent.other, found.question or WHAT_I_DO, found.question)
    page = await stores.run(patterns.history(employee.employee_id, MAX_BOOKINGS))
    bookings = _select_named(page.items, sentence)
    if not bookings:
        return SentenceAnswer(found.intent, NO_BOOKINGS)
    text = _describe_status(bookings) if found.intent is Intent.status else _describe_options(bookings)
    return SentenceAnswer(found.intent, text, bookings=bookings)


async def _quote_policy(stores: Stores, sentence: str) -> SentenceAnswer:
    """Return the passages that the sentence retrieves, each with its citation."""
    embedding = await asyncio.to_thread(open_embedding, TripCortexSettings.load())
    found = await retrieve(stores, embedding, sentence)
    if not found.chunks:
        return SentenceAnswer(Intent.policy, NO_PASSAGES)
    quotes = (_format_quote(each) for each in found.chunks[:MAX_SHOWN])
    return SentenceAnswer(Intent.policy, "\n".join(quotes), passages=found.chunks)


def _format_quote(chunk: RetrievedChunk) -> str:
    """Return the quoted words with file, page and section."""
    citation = chunk.citation()
    page = f", page {citation.source_page}" if citation.source_page else ""
    section = f", “{citation.section_title}”" if citation.section_title else ""
    return f"“{citation.quote}” ({citation.file_name}{page}{section})"


def _select_named(bookings: Sequence[Booking], sentence: str) -> tuple[Booking, ...]:
    """Return the three newest bookings: those to the place that the sentence names, if there are any."""
    named = parse_trip(normalize_text(sentence), None)
    airports = {code for each in (named.destination, named.origin) if each for code in each.airports}
    there = [each for each in bookings if _get_airports(each) & airports]
    return tuple((there or list(bookings))[:MAX_SHOWN])


def _get_airports(booking: Booking) -> set[str]:
    """Return the airports of the booking's plan; empty before it is planned."""
    plan = booking.booking_plan
    if plan is None:
        return set()
    return {plan.parameters.destination, *plan.preferences.destination_airports}


def _describe_status(bookings: Sequence[Booking]) -> str:
    """Return a line for each booking."""
    return "\n".join([*map(_describe_booking, bookings), NOT_LIVE])


def _describe_booking(booking: Booking) -> str:
    """Return the trip with its status, and the confirmation number or the reason of a failure."""
    plan = booking.booking_plan
    trip = f"“{booking.user_request}”"
    if plan is not None:
        days = [str(plan.parameters.departure_date), str(plan.parameters.return_date or "one way")]
        trip = f"{plan.parameters.origin} to {plan.parameters.destination}, {' – '.join(days)}"
    details = {
        "asking": "it waits for your answer",
        "options_presented": "it waits for your choice",
        "approving": "it waits for an approval",
    }.get(booking.flow_state)
    if booking.confirmation_number is not None:
        details = f"the confirmation number is {booking.confirmation_number}"
    if booking.failure is not None:
        details = booking.failure.text
    return f"{trip}: {booking.status.value.replace('_', ' ')}{f'; {details}' if details else ''}."


def _describe_options(bookings: Sequence[Booking]) -> str:
    """Return what can be done today: an open booking can be cancelled, a confirmed one only by the desk."""
    active = next((each for each in bookings if not each.is_ended), None)
    if active is not None and active.flow_state != BUYING_STATE:
        text = (
            "It is not booked yet. Use the action “cancel” to end it; then request the trip as you want it."
        )
        return f"{_describe_booking(active)}\n{text}"
    shown = [each for each in bookings if each.status in (BookingStatus.confirmed, BookingStatus.booking)]
    return "\n".join([*map(_describe_booking, shown or bookings[:1]), DESK])
