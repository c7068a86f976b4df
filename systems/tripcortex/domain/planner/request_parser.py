"""The parser of a request: parses a sentence, and merges each answer into the parsed request.

    normalize_text → unsupported_requests → money → dates → preferences → trip_places → unused_words

Each parser removes its words from the text, so that the next one does not see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from tripcortex.domain.planner import gazetteer, unsupported_requests
from tripcortex.domain.planner.dates import parse_dates
from tripcortex.domain.planner.days import Day
from tripcortex.domain.planner.gazetteer import CODE_LETTERS, Region
from tripcortex.domain.planner.languages import refuse_foreign_language
from tripcortex.domain.planner.letter_parts import remove_letter_parts
from tripcortex.domain.planner.money import USD, Money, parse_money
from tripcortex.domain.planner.person_names import hide_person_names
from tripcortex.domain.planner.place_mentions import HOME, Mention
from tripcortex.domain.planner.ports import MAX_SENTENCE_CHARS, Question, Refusal
from tripcortex.domain.planner.preferences import parse_preferences
from tripcortex.domain.planner.spelling import correct_keywords
from tripcortex.domain.planner.text_normalization import NUMBER, is_no, is_yes, normalize_text
from tripcortex.domain.planner.trip_places import TripPlaces, parse_places
from tripcortex.model.entities import Cabin

_ROLES: Final = {"origin": "from", "destination": "to"}
_NO: Final = re.compile(r"^(?:no|nope|none(?: of (?:them|these|those))?|neither|nowhere)\b")
_LEADING_NO: Final = re.compile(r"^(?:no|nope|not|wrong|incorrect)\b[ ,|]*")
_NO_LIMIT: Final = re.compile(
    r"\bno (?:limit|budget)|\b(?:drop|forget|without) (?:it|the budget|a limit)\b|^none$"
)
_MAX_NARROWING_WORDS: Final = 5
_FLIGHT_HOME: Final = re.compile(
    r"^(?:(?:please|i|need|want|book|me|a|the|my|get) )*(?:flights?|fly|trip|get|take)(?: me)? (?:back "
    r")?home\b"
)
# A flight that lands later on its day of departure may in fact be one by night.
_ARRIVAL_DAY_HOUR: Final = 18
_BARE_STAY: Final = re.compile(rf"^({NUMBER}) (?:days?|weeks?)$")


@dataclass(frozen=True)
class ParsedRequest:
    """A request as parsed, before it is applied to the employee and the day (`decision`).

    `trip` is "one_way", "round_trip" or None; `part` a part of the day; `stay` possible numbers of nights.
    """

    refusal: Refusal | None = None
    origin: Mention | None = None
    destination: Mention | None = None
    departure: Day | None = None
    returning: Day | None = None
    stay: tuple[int, ...] = ()
    trip: str | None = None
    doubtful: Day | None = None
    cabins: tuple[Cabin, ...] = ()
    vendors: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    nonstop: bool = False
    part: str | None = None
    # The hour by which the employee has to be at the destination, on the departure day.
    arrival_hour: int | None = None
    # The departure day was named as that of the arrival.
    arrives: bool = False
    # The last hour at which the outbound flight can leave.
    latest_hour: int | None = None
    # The trip is the flight home.
    is_homeward: bool = False
    budgets: tuple[Money, ...] = ()
    notes: tuple[str, ...] = ()
    # Unused words of the request; and unused words of the last answer if it did not answer the question.
    left: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()


def parse_sentence(sentence: str, day_first: bool | None) -> ParsedRequest:
    """Parse a sentence. `day_first` says whether 3/4 is in April; None if unknown.

    An unsupported sentence, or one above 2,000 characters, has only a `refusal`.
    """
    if len(sentence) > MAX_SENTENCE_CHARS:
        text = f"This request is too long: please use at most {MAX_SENTENCE_CHARS:,} characters."
        return ParsedRequest(Refusal("too_long", text))
    plain = correct_keywords(normalize_text(hide_person_names(remove_letter_parts(sentence))))
    refusal = refuse_foreign_language(sentence, plain) or unsupported_requests.find_unsupported(plain)
    return ParsedRequest(refusal) if refusal else parse_trip(plain, day_first, None)


def parse_answer(
    base: ParsedRequest, question: Question, answer: str, day_first: bool | None
) -> ParsedRequest:
    """Merge an answer to a question into the parsed request `base`; `day_first` as in `parse_sentence`.

    An answer that says nothing useful changes nothing, so the planner repeats the question.
    """
    plain = correct_keywords(normalize_text(answer[:MAX_SENTENCE_CHARS]))
    about = question.missing[0]
    if is_yes(plain) and question.yes:
        plain = normalize_text(question.yes)
    elif is_no(plain) and question.yes and about in ("budget", "return_date"):
        return _deny(base, about, plain, day_first)
    base, plain = _apply_denial(base, about, plain)
    if about == "budget" and _NO_LIMIT.search(plain):
        return replace(base, budgets=())
    if about == "return_date" and (plain in ("no", "never", "none") or _BARE_STAY.match(plain)):
        plain = "one way" if plain.isalpha() else f"for {plain}"
    if about == "cabin_class" and plain in ("business", "first"):
        plain = f"{plain} class"
    if narrowed := _narrow_place(base, about, plain):
        return narrowed
    said = _apply_region(parse_trip(plain, day_first, _ROLES.get(about)), about, plain)
    if question.missing == ("return_date",) and said.departure and not said.returning:
        said = replace(said, returning=said.departure, departure=None)
    if said.refusal:
        return base
    over = _merge(base, said)
    is_heard = replace(over, left=(), missed=()) != replace(base, left=(), missed=())
    return replace(over, missed=() if is_heard else said.left)


def _deny(base: ParsedRequest, about: str, plain: str, day_first: bool | None) -> ParsedRequest:
    """Return the request without what the answer denies, and with what it names instead.

    Without another amount, the planner asks for one.
    """
    if about == "budget":
        said = parse_trip(plain, day_first).budgets
        if _NO_LIMIT.search(plain):
            return replace(base, budgets=())
        return replace(base, budgets=said or (Money(Decimal(0), USD),))
    denied = replace(base, doubtful=None, returning=None)
    rest = _LEADING_NO.sub("", plain)
    return parse_answer(denied, Question("", ("return_date",)), rest, day_first) if rest else denied


def _apply_denial(base: ParsedRequest, about: str, plain: str) -> tuple[ParsedRequest, str]:
    """Apply a leading "No" to the offered places: drop them. Return the request and the rest of the answer.

    The rest may name another place. `about` is the part that the question asked for.
    """
    no = _NO.match(plain)
    if no is None or about not in _ROLES or getattr(base, about) is None:
        return base, plain
    return _set_place(base, about, Mention("", ())), plain[no.end() :].strip(" ,|")


def _narrow_place(base: ParsedRequest, about: str, plain: str) -> ParsedRequest | None:
    """Pick the one of several places that a named region points at ("the one in Maine"), or return None."""
    mention = {"origin": base.origin, "destination": base.destination}.get(about)
    if mention is None:
        return None
    for _, named in _find_regions(plain):
        fitting = gazetteer.narrow_places(mention.places, named)
        if len(set(fitting)) == 1:
            return _set_place(base, about, replace(mention, places=fitting[:1]))
    return None


def _apply_region(answer: ParsedRequest, about: str, plain: str) -> ParsedRequest:
    """Apply an answer that names a state or a country, but no city: the planner asks for the city next."""
    if about not in _ROLES or getattr(answer, about) is not None:
        return answer
    for name, named in _find_regions(plain):
        if len(name) > CODE_LETTERS:
            return replace(_set_place(answer, about, Mention(name, (), regions=named)), left=())
    return answer


def _find_regions(plain: str) -> Iterator[tuple[str, tuple[Region, ...]]]:
    """Yield the regions named in a text of up to five words, longer names first."""
    words = re.findall(r"[a-z]+", plain)
    if len(words) > _MAX_NARROWING_WORDS:
        return
    for many in (3, 2, 1):
        for at in range(len(words) - many + 1):
            name = " ".join(words[at : at + many])
            if named := gazetteer.find_regions(name):
                yield name, named


def _set_place(parsed: ParsedRequest, about: str, mention: Mention) -> ParsedRequest:
    """Return the request with this mention as its origin or destination."""
    return replace(parsed, origin=mention) if about == "origin" else replace(parsed, destination=mention)


def parse_trip(plain: str, day_first: bool | None, role: str | None = None) -> ParsedRequest:
    """Parse a normalized text with all parsers. `role` is that of a place without one, in an answer."""
    text, budgets = parse_money(plain)
    dates = parse_dates(text, day_first)
    wishes = parse_preferences(dates.text, dates.back)
    places = parse_places(wishes.text, role)
    departure, returning, doubtful = dates.departure, dates.returning, dates.doubtful
    if places.is_there_and_back and returning is None:
        returning, doubtful = doubtful, None
    is_homeward = places.destination is not None and places.destination.places == (HOME,)
    is_back_to = places.destination is not None and places.destination.role == "back_to"
    is_flight_home = (
        bool(_FLIGHT_HOME.search(plain)) and places.origin is not None and dates.departure is None
    )
    if departure is None and (is_homeward or is_flight_home or is_back_to or dates.trip == "one_way"):
        # Here the flight home is the outbound flight, not a return.
        departure, returning = returning, None
    arrival_hour = wishes.arrival_hour
    if dates.arrives and arrival_hour is None:
        arrival_hour = _ARRIVAL_DAY_HOUR
    return ParsedRequest(
        refusal=_find_refusal(places),
        origin=places.origin,
        destination=places.destination,
        departure=departure,
        returning=returning,
        stay=dates.stay,
        trip=dates.trip,
        doubtful=doubtful,
        cabins=wishes.cabins,
        vendors=wishes.vendors,
        avoided=wishes.avoided,
        nonstop=wishes.nonstop,
        part=wishes.part,
        arrival_hour=arrival_hour,
        arrives=dates.arrives,
        latest_hour=wishes.latest_hour,
        is_homeward=is_flight_home or (is_back_to and places.origin is not None),
        budgets=budgets,
        notes=(*unsupported_requests.describe_ignored_services(plain), *_describe_ignored_route(places)),
        left=(*wishes.unused, *places.left.phrases),
    )


def _find_refusal(places: TripPlaces) -> Refusal | None:
    """Return the refusal of another traveller, or several stops, else None."""
    if places.left.other:
        return unsupported_requests.refuse_other_traveller(places.left.other)
    return unsupported_requests.refuse_multi_city() if places.is_multi_city else None


def _describe_ignored_route(places: TripPlaces) -> tuple[str, ...]:
    """Return a note on the place of a connection, which the plan leaves out; else empty."""
    if places.via is None:
        return ()
    where = places.via.words.title()
    return (f"I do not plan a route via {where}: you see the stops of each flight before you choose.",)


def _merge(base: ParsedRequest, answer: ParsedRequest) -> ParsedRequest:
    """Merge two parsed requests: the answer's parts win. A new return, stay or one way replaces all three."""
    merged = replace(
        base,
        origin=answer.origin or base.origin,
        destination=answer.destination or base.destination,
        departure=answer.departure or base.departure,
        # Another departure day is the answer to a deadline that the first one cannot meet.
        arrival_hour=None if answer.departure else base.arrival_hour,
        cabins=answer.cabins or base.cabins,
        vendors=answer.vendors or base.vendors,
        avoided=answer.avoided or base.avoided,
        nonstop=answer.nonstop or base.nonstop,
        part=answer.part or base.part,
        budgets=answer.budgets or base.budgets,
        left=tuple(dict.fromkeys((*base.left, *answer.left))),
    )
    if answer.returning or answer.stay or answer.trip == "one_way":
        return replace(merged, returning=answer.returning, stay=answer.stay, trip=answer.trip, doubtful=None)
    return replace(merged, doubtful=None if answer.departure else base.doubtful)
