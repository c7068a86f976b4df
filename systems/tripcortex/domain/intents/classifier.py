"""Classification of a sentence by fixed rules: book, change, cancel, status, policy or something else.

    sentence → own words without quotations → clauses → signals → one intent, or a question

Only `book` ever leads to a booking, so the rules prefer a question to a booking: a sentence that asks what
exists, or refers to a booking that exists, is never one. The same words always give the same intent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tripcortex.domain.intents import booking_signals, policy_signals, servicing_signals
from tripcortex.domain.intents.ports import Intent
from tripcortex.domain.intents.quoted_text import separate_quotations
from tripcortex.domain.planner.carriers import parse_carriers
from tripcortex.domain.planner.languages import refuse_foreign_language
from tripcortex.domain.planner.letter_parts import remove_letter_parts
from tripcortex.domain.planner.person_names import hide_person_names
from tripcortex.domain.planner.place_mentions import HOME
from tripcortex.domain.planner.ports import MAX_SENTENCE_CHARS
from tripcortex.domain.planner.request_parser import ParsedRequest, parse_trip
from tripcortex.domain.planner.spelling import correct_keywords
from tripcortex.domain.planner.text_normalization import is_no, is_yes, normalize_text
from tripcortex.domain.planner.unsupported_requests import remove_additions

BOOK_QUESTION: Final = "Do you want me to look for flights and plan this trip? Answer yes or no."
BOOKING_QUESTION: Final = (
    "Is this about a booking that you have, or do you want a new flight? Say what you need."
)


@dataclass(frozen=True)
class Classification:
    """The intent of a sentence; `question` asks whether to book where the words leave that open."""

    intent: Intent
    question: str | None = None


def classify(sentence: str, answer: str | None = None) -> Classification:
    """Return the intent of a sentence.

    `answer` is the answer to the question that an earlier call returned: a yes makes it a request to book.
    """
    found = _classify(sentence[:MAX_SENTENCE_CHARS])
    if found.question is None or answer is None:
        return found
    plain = normalize_text(answer)
    if is_yes(plain):
        return Classification(Intent.book)
    return Classification(found.intent) if is_no(plain) else found


def _classify(sentence: str) -> Classification:
    own = separate_quotations(sentence)
    plain = correct_keywords(normalize_text(hide_person_names(remove_letter_parts(own.text))))
    if refuse_foreign_language(sentence, plain):
        # The planner refuses another language in that language.
        return Classification(Intent.book)
    return _decide(_Signals(plain, is_question="?" in own.text))


class _Signals:
    """The signals of one sentence, each computed when it is needed."""

    def __init__(self, plain: str, *, is_question: bool) -> None:
        self.whole = plain
        self.is_negated, self.plain = _remove_negated_booking(plain)
        if not is_question:
            self.plain = policy_signals.POLICY_ASIDE.sub(" ", self.plain)
        self.plain = booking_signals.NO_SERVICE.sub(" ", self.plain)
        clauses = [each.strip(" ,") for each in self.plain.split("|") if each.strip(" ,")]
        self.clauses = [policy_signals.ASKING.sub("", each) for each in clauses]
        self.is_question = is_question or clauses != self.clauses or self.finds(policy_signals.QUESTION_START)
        self.is_negated = self.is_negated or any(each.search(plain) for each in booking_signals.NOT_A_REQUEST)

    @cached_property
    def requests(self) -> list[str]:
        """Return the clauses that may ask for an action, without those that ask for information."""
        return [each for each in self.clauses if not policy_signals.INFORMATION.match(each)]

    def requests_any(self, patterns: Iterable[re.Pattern[str]]) -> bool:
        """Return whether one of the patterns matches in a clause that may ask for an action."""
        return any(pattern.search(clause) for pattern in patterns for clause in self.requests)

    def finds(self, patterns: Iterable[re.Pattern[str]]) -> bool:
        """Return whether one of the patterns matches in a clause."""
        return any(pattern.search(clause) for pattern in patterns for clause in self.clauses)

    @cached_property
    def trip(self) -> ParsedRequest:
        return parse_trip(self.plain, None)

    @cached_property
    def has_destination(self) -> bool:
        there = self.trip.destination
        return there is not None and bool(there.places or there.regions) and there.places != (HOME,)

    @cached_property
    def has_trip(self) -> bool:
        """Return whether the words name a destination and a day."""
        return self.has_destination and self.trip.departure is not None

    @cached_property
    def has_route(self) -> bool:
        """Return whether the words name both ends of a flight."""
        return self.has_destination and self.trip.origin is not None and bool(self.trip.origin.places)

    @cached_property
    def has_trip_kind(self) -> bool:
        """Return whether the words say one way, a return or a stay."""
        return self.trip.trip is not None or bool(self.trip.stay) or self.trip.returning is not None

    @cached_property
    def books(self) -> bool:
        return self.finds(booking_signals.BOOK) or (
            self.finds(booking_signals.BOOK_PHRASE) and not self.finds(booking_signals.PAST)
        )

    @cached_property
    def asks_information(self) -> bool:
        """Return whether the words ask what there is, rather than for a flight."""
        return len(self.requests) < len(self.clauses) and not self.finds(booking_signals.REQUEST_QUESTION)

    @cached_property
    def exists(self) -> bool:
        """Return whether the words refer to a booking that exists."""
        return self.finds(servicing_signals.EXISTING)

    @cached_property
    def may_exist(self) -> bool:
        return (
            self.exists
            or self.finds(servicing_signals.MAYBE_EXISTING)
            or self.finds(servicing_signals.FLIGHT_NUMBER)
        )


def _remove_negated_booking(plain: str) -> tuple[bool, str]:
    """Return whether the text says not to book, and the text without that part.

    "Do not book me on Spirit" only restricts the booking.
    """
    is_negated = False
    for match in booking_signals.NEGATED.finditer(plain):
        about = match["object"]
        _, wanted, avoided = parse_carriers(f"book{about}")
        is_negated |= not (booking_signals.NEGATED_ASIDE.match(about) or wanted or avoided)
    return is_negated, booking_signals.NEGATED.sub(" ", plain)


def _decide(said: _Signals) -> Classification:
    """Return the intent by the first rule that applies."""
    if (
        booking_signals.CHITCHAT.match(said.whole)
        or not said.clauses
        or said.finds(booking_signals.TEXT_TASK)
    ):
        return Classification(Intent.other)
    if found := _find_strong_servicing(said):
        return Classification(found)
    asks_rule = said.is_question and (
        said.finds(policy_signals.POLICY_ASK) or said.finds(policy_signals.RULE)
    )
    is_new = said.books and said.has_trip and not (said.exists or said.asks_information or asks_rule)
    if not is_new and (found := _find_other_intent(said)):
        return Classification(found)
    if booking_signals.INJECTION.match(said.whole):
        return Classification(Intent.other, BOOK_QUESTION if said.has_trip else None)
    if _is_no_request(said):
        return Classification(Intent.other)
    if said.finds(booking_signals.CONDITIONAL):
        return Classification(Intent.other, BOOK_QUESTION)
    return _decide_booking(said)


def _is_no_request(said: _Signals) -> bool:
    """Return whether the words ask for something else than a flight, for nothing, or not to book."""
    if said.is_negated and not (said.finds(booking_signals.BOOK[:1]) and said.has_trip):
        return True
    if _is_other_service(said) or said.finds(booking_signals.HYPOTHETICAL):
        return True
    if said.finds(booking_signals.OTHER_TOPIC) and not (said.books and said.has_trip):
        return True
    return any(each.search(said.whole) for each in booking_signals.NEVER_A_REQUEST)


def _find_strong_servicing(said: _Signals) -> Intent | None:
    """Return the intent of words that are about an existing booking, whatever trip they name."""
    if not said.finds(policy_signals.POLICY_ASK):
        if said.requests_any(servicing_signals.CANCEL_START):
            return Intent.cancel
        if said.requests_any(servicing_signals.CHANGE_START):
            return Intent.change
    elif said.is_question:
        return None
    if said.finds(servicing_signals.CHANGE_STRONG):
        return Intent.change
    is_new = said.finds(booking_signals.BOOK[:1]) and said.has_trip
    is_confirmation = any(each.search(said.whole) for each in servicing_signals.CONFIRM)
    if (is_confirmation or said.finds(servicing_signals.IS_BOOKED)) and not is_new:
        return Intent.status
    return Intent.cancel if said.requests_any(servicing_signals.CANCEL_STRONG) and not is_new else None


def _find_other_intent(said: _Signals) -> Intent | None:
    """Return the intent of a sentence that is not a request to book, or None."""
    asks_rule = said.finds(policy_signals.POLICY_ASK)
    if said.requests_any(servicing_signals.CANCEL_IMPERATIVE):
        return Intent.cancel
    if _changes(said, asks_rule=asks_rule):
        return Intent.change
    is_status = _asks_status(said)
    is_rule = (
        said.is_question
        and said.finds(policy_signals.POLICY_WORDS)
        and not said.finds(booking_signals.OTHER_TOPIC)
    )
    if asks_rule or (is_rule and not (said.has_trip and said.has_trip_kind)):
        is_booking = is_status and said.may_exist and not said.finds(policy_signals.RULE)
        return Intent.status if is_booking or said.finds(servicing_signals.STATUS_FIRST) else Intent.policy
    if _is_other_service(said) or (said.finds(booking_signals.OTHER_TOPIC) and not said.exists):
        return Intent.other
    if (said.is_question and is_status) or said.finds(servicing_signals.STATUS_FIRST):
        return Intent.status
    if said.finds(servicing_signals.CANCEL_WISH):
        return Intent.cancel
    return Intent.status if is_status else None


def _is_other_service(said: _Signals) -> bool:
    """Return whether the words ask for a hotel, a car or a train and for no flight."""
    rest = remove_additions(said.plain)
    if not any(pattern.search(rest) for pattern in booking_signals.OTHER_SERVICE):
        return False
    return said.finds(booking_signals.NO_FLIGHT) or not (
        said.finds(booking_signals.FLIGHT_WORD) or said.exists
    )


def _changes(said: _Signals, *, asks_rule: bool) -> bool:
    """Return whether the words ask to change a booking; `asks_rule`: they ask what the policy says."""
    if said.requests_any(servicing_signals.CHANGE_ANY):
        return not asks_rule
    if not said.has_destination and said.trip.departure is None and said.requests_any(servicing_signals.SEAT):
        return not asks_rule
    if not said.exists and (asks_rule or not said.may_exist or said.has_trip):
        return False
    return any(
        pattern.search(clause)
        for pattern in servicing_signals.CHANGE_IMPERATIVE
        for clause in said.requests
        if not any(each.search(clause) for each in policy_signals.POLICY_ASK)
    )


def _asks_status(said: _Signals) -> bool:
    """Return whether the words ask about a booking."""
    if said.finds(servicing_signals.STATUS_ANY):
        return True
    is_about = said.exists or (said.may_exist and said.is_question and not said.has_trip)
    return is_about and (said.is_question or said.finds(servicing_signals.STATUS_OF_EXISTING))


def _decide_booking(said: _Signals) -> Classification:
    """Return book, or something else, for a sentence without another intent."""
    is_offer = said.finds(booking_signals.OFFER_QUESTION) and not said.finds(booking_signals.REQUEST_QUESTION)
    if is_offer or (said.asks_information and not said.finds(booking_signals.BOOK)):
        return Classification(Intent.other, BOOK_QUESTION if said.has_destination else None)
    if said.exists:
        return Classification(Intent.other, BOOKING_QUESTION)
    if said.finds(booking_signals.BOOK):
        return Classification(Intent.book)
    if said.finds(booking_signals.PAST):
        return Classification(Intent.other)
    if said.books:
        return Classification(Intent.book)
    if booking_signals.STATEMENT.search(said.plain) and not booking_signals.FLIGHT_OR_RETURN.search(
        said.plain
    ):
        return Classification(Intent.other, BOOK_QUESTION)
    has_days = said.trip.departure is not None and said.trip.returning is not None
    is_trip = said.has_trip_kind and (said.has_destination or said.trip.departure is not None)
    if said.has_trip or said.has_route or has_days or is_trip:
        return Classification(Intent.book)
    if said.has_destination and not said.is_question:
        return Classification(Intent.other, BOOK_QUESTION)
    return Classification(Intent.other)
