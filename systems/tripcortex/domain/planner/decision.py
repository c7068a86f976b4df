"""The decision on a parsed request: a plan if every part is known, else one question or a refusal.

The planner asks first about ambiguous parts, one at a time and with choices, then about all missing parts at
once. It fills in only what the employee's profile says: the home airport as the origin, and the usual cabin.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Final, Literal, NamedTuple

from holdfast.core.errors import InternalError
from tripcortex.domain.planner import gazetteer
from tripcortex.domain.planner.days import Day
from tripcortex.domain.planner.flight_times import estimate_arrival
from tripcortex.domain.planner.gazetteer import MAX_CHOICES, GazetteerPlace
from tripcortex.domain.planner.money import USD, Money
from tripcortex.domain.planner.place_mentions import HOME, Mention
from tripcortex.domain.planner.ports import (
    MAX_DAYS_AHEAD,
    PARTS,
    PlanOutcome,
    PlanRequest,
    Question,
    Refusal,
    TravellerProfile,
    TripPlan,
)
from tripcortex.domain.planner.request_parser import ParsedRequest
from tripcortex.domain.planner.unused_words import MAX_PHRASES
from tripcortex.model.entities import Preferences, TripParameters

# Deductions from a confidence of 1: for a place that was matched despite a typo, for each unused phrase, for
# each question.
TYPO_COST: Final = 0.2
UNUSED_COST: Final = 0.1
MAX_UNUSED_COST: Final = 0.3
ANSWER_COST: Final = 0.05

_MISSING_QUESTIONS: Final = {
    "destination": "Where do you want to fly to?",
    "origin": "Where do you leave from?",
    "departure_date": "On which day do you leave?",
    "return_date": "On which day do you come back, or is it one way?",
}
ONE_WAY: Final = "one way"
# An amount without a currency is in US dollars there.
_COUNTRY_OF_DOLLARS: Final = "US"
_PREPOSITION: Final = re.compile(r"^(?:at|over|in|on) (?:the )?")
NOT_UNDERSTOOD: Final = "I did not understand"
# The part is missing. None means "no return flight" instead.
Missing = Literal["absent"]
MISSING: Final[Missing] = "absent"


def decide_outcome(parsed: ParsedRequest, request: PlanRequest, answers: int) -> PlanOutcome:
    """Return a plan, a question or a refusal for the parsed request.

    `answers` is the number of answers so far; each lowers the confidence.
    """
    if parsed.refusal:
        return parsed.refusal
    now = request.now.astimezone(request.employee.zone)
    today = now.date()
    parsed = _apply_home_country(_narrow_by_country(parsed), request.employee)
    destination, origin = (
        _resolve_destination(parsed, request.employee),
        _resolve_origin(parsed, request.employee),
    )
    departure = _check_time(_resolve_departure(parsed, today), parsed, now)
    returning = _resolve_return(parsed, today, departure)
    if returning is MISSING and parsed.is_homeward:
        # The flight home needs no return.
        returning = None
    parts = (destination, origin, departure, returning, _check_cabin(parsed), _check_budget(parsed))
    for part in parts:
        # Without a destination, a question about anything else comes later.
        if isinstance(part, Question) and (destination is not MISSING or "origin" in part.missing):
            return _add_unused_words(part, parsed.missed)
        if isinstance(part, Refusal):
            return part
    missing = tuple(name for name, part in zip(PARTS, parts, strict=True) if part is MISSING)
    if missing:
        choices = (ONE_WAY,) if missing == ("return_date",) else ()
        sentences = (
            *_format_phrases(NOT_UNDERSTOOD, parsed.left),
            *(_MISSING_QUESTIONS[name] for name in missing),
        )
        return Question(" ".join(sentences), missing, choices)
    if not (
        isinstance(destination, GazetteerPlace)
        and isinstance(origin, GazetteerPlace)
        and isinstance(departure, date)
    ):
        raise InternalError("A part of the trip is neither resolved nor missing.")
    route = _Route(destination, origin, departure, returning if isinstance(returning, date) else None)
    if question := _check_deadline(parsed, route):
        return question
    return _build_plan(parsed, request, answers, route)


def _check_deadline(parsed: ParsedRequest, route: _Route) -> Question | None:
    """Return a question if no flight of the departure day arrives by the stated hour."""
    if parsed.arrival_hour is None:
        return None
    arrival = estimate_arrival(route.origin.airports[0], route.destination.airports[0], route.departure)
    if arrival is None or arrival <= datetime.combine(route.departure, time(parsed.arrival_hour)):
        return None
    before = route.departure - timedelta(days=1)
    text = (
        f"A flight that arrives in {route.destination.name} on {_format_day(route.departure)} may leave "
        f"the day before. "
        "On which day do you leave?"
        if parsed.arrives
        else f"No flight on {_format_day(route.departure)} is in {route.destination.name} by "
        f"{parsed.arrival_hour}:00 "
        f"of that day. On which day do you leave?"
    )
    return Question(text, ("departure_date",), (before.isoformat(), route.departure.isoformat()))


def _add_unused_words(question: Question, missed: tuple[str, ...]) -> Question:
    """Return the question with "I did not understand …" in front if `missed` has words of the last answer."""
    return replace(question, text=" ".join((*_format_phrases(NOT_UNDERSTOOD, missed), question.text)))


class _Route(NamedTuple):
    destination: GazetteerPlace
    origin: GazetteerPlace
    departure: date
    returning: date | None


def _build_plan(parsed: ParsedRequest, request: PlanRequest, answers: int, route: _Route) -> PlanOutcome:
    """Return the plan of a resolved route; a refusal if origin and destination share an airport."""
    destination, origin = route.destination, route.origin
    limit = _complete_limit(parsed.budgets[0], request.employee, route) if parsed.budgets else None
    if set(destination.airports) & set(origin.airports):
        return Refusal(
            "same_place",
            f"This trip starts and ends in {destination.name}. Name another destination or another place to "
            "leave from.",
        )
    return TripPlan(
        TripParameters(
            origin=origin.airports[0],
            destination=destination.airports[0],
            departure_date=route.departure,
            return_date=route.returning,
            cabin_class=parsed.cabins[0] if parsed.cabins else request.employee.cabin,
        ),
        Preferences(
            vendors=list(_localize_carriers(parsed.vendors, route)),
            origin_airports=list(origin.airports[1:]),
            destination_airports=list(destination.airports[1:]),
            nonstop=parsed.nonstop,
            depart_part=parsed.part,
            budget_usd=limit.amount if limit and limit.currency == USD else None,
            is_cabin_asked=bool(parsed.cabins),
        ),
        _compute_confidence(parsed, answers),
        parsed.avoided,
        (
            *_format_typo_notes(parsed),
            *_format_today_note(
                parsed, route.departure, request.now.astimezone(request.employee.zone).date()
            ),
            *_format_limit_note(limit),
            *parsed.notes,
            *_format_phrases("I did not use:", parsed.left),
        ),
        limit,
    )


# "Virgin" is another airline between these countries.
_LOCAL_CARRIERS: Final = {"VS": "VA"}
_LOCAL_COUNTRIES: Final = frozenset(("AU", "NZ"))


def _localize_carriers(codes: tuple[str, ...], route: _Route) -> tuple[str, ...]:
    """Return the codes of the carriers that are meant on this route."""
    if not {route.origin.country, route.destination.country} <= _LOCAL_COUNTRIES:
        return codes
    return tuple(_LOCAL_CARRIERS.get(code, code) for code in codes)


def _complete_limit(limit: Money, employee: TravellerProfile, route: _Route) -> Money:
    """Return the limit of the whole trip, in dollars if the employee lives where prices are in dollars."""
    home = _get_home(employee)
    if not limit.currency and home and home.country == _COUNTRY_OF_DOLLARS:
        limit = replace(limit, currency=USD)
    if limit.is_each_way and route.returning:
        limit = replace(limit, amount=limit.amount * 2, is_each_way=False)
    return limit


def _compute_confidence(parsed: ParsedRequest, answers: int) -> float:
    """Return 1 minus a deduction for each typo, unused phrase (0.3 at most) and answer; at least 0."""
    near = sum(each is not None and each.has_typo for each in (parsed.origin, parsed.destination))
    left = min(MAX_UNUSED_COST, UNUSED_COST * len(parsed.left))
    return round(max(0.0, 1 - TYPO_COST * near - left - ANSWER_COST * answers), 2)


def _format_phrases(lead: str, phrases: tuple[str, ...]) -> tuple[str, ...]:
    """Return one sentence with the lead and up to five quoted phrases; empty without phrases."""
    words = ", ".join(f"“{each}”" for each in phrases[:MAX_PHRASES])
    return (f"{lead} {words}.",) if words else ()


def _format_limit_note(limit: Money | None) -> tuple[str, ...]:
    """Return a note for a limit in another currency than that of the fares, or in none."""
    if limit is None or limit.currency == USD:
        return ()
    text = (
        f"I do not apply your limit of {limit.amount} {limit.currency}: fares are in US dollars."
        if limit.currency
        else f"I do not apply your limit of {limit.amount}, because it has no currency: fares are in US "
        f"dollars."
    )
    return (f"{text} Compare the prices before you choose.",)


def _format_typo_notes(parsed: ParsedRequest) -> tuple[str, ...]:
    """Return a note for each place that was matched despite a typo."""
    near = [each for each in (parsed.destination, parsed.origin) if each and each.has_typo]
    return tuple(f"I read “{each.words}” as {each.places[0].name}." for each in near)


# --- where --------------------------------------------------------------------------------------------------


def _narrow_by_country(parsed: ParsedRequest) -> ParsedRequest:
    """Return the request with an ambiguous place narrowed to the country of the other place that was named.

    "Manchester to Edinburgh" leaves from England.
    """
    origin, destination = parsed.origin, parsed.destination
    if origin is None or destination is None:
        return parsed
    return replace(
        parsed, origin=_select_country(origin, destination), destination=_select_country(destination, origin)
    )


def _apply_home_country(parsed: ParsedRequest, employee: TravellerProfile) -> ParsedRequest:
    """Return the request with holidays and names of cities as they are meant in the employee's country."""
    home = _get_home(employee)
    if home is None:
        return parsed
    return replace(
        parsed,
        origin=_select_prominent(parsed.origin, home.country),
        destination=_select_prominent(parsed.destination, home.country),
        departure=_localize_day(parsed.departure, home.country),
        returning=_localize_day(parsed.returning, home.country),
    )


def _select_prominent(mention: Mention | None, country: str) -> Mention | None:
    """Return the mention with the city that is meant by employees who live in none of the other countries."""
    if mention is None:
        return None
    usual = [each for each in mention.places if each.is_prominent_abroad]
    others = {each.country for each in mention.places} - {each.country for each in usual}
    if len(usual) != 1 or country in others or len(set(mention.places)) != len(mention.places):
        return mention
    return replace(mention, places=tuple(usual))


def _localize_day(day: Day | None, country: str) -> Day | None:
    """Return the day with a holiday as it is in this country."""
    if day is None or day.in_country is None:
        return day
    return replace(day.in_country(country), is_vague=day.is_vague)


def _select_country(mention: Mention, other: Mention) -> Mention:
    """Return the mention with its only place in the country of the other mention, if there is one."""
    if len(other.places) != 1 or len(set(mention.places)) != len(mention.places):
        return mention
    near = tuple(each for each in mention.places if each.country == other.places[0].country)
    return replace(mention, places=near) if len(near) == 1 else mention


def _resolve_destination(
    parsed: ParsedRequest, employee: TravellerProfile
) -> GazetteerPlace | Question | Missing:
    """Return the destination, a question about it, or `MISSING` if the request names none."""
    if parsed.destination is None:
        return MISSING
    return _resolve_place(parsed.destination, "destination", employee)


def _resolve_origin(parsed: ParsedRequest, employee: TravellerProfile) -> GazetteerPlace | Question | Missing:
    """Return the origin: by default the home airport; of several meanings, the one with the home airport."""
    if parsed.origin is None:
        return _get_home(employee) or MISSING
    home = [each for each in parsed.origin.places if employee.home_airport in each.airports]
    # If the name has several meanings, prefer the employee's home; of a city's airports, the home airport.
    return (
        _put_first(home[0], employee.home_airport)
        if home
        else _resolve_place(parsed.origin, "origin", employee)
    )


def _put_first(place: GazetteerPlace, airport: str | None) -> GazetteerPlace:
    """Return the place with this airport as its main one."""
    return replace(place, airports=tuple(sorted(place.airports, key=lambda each: each != airport)))


def _get_home(employee: TravellerProfile) -> GazetteerPlace | None:
    """Return the employee's home airport as a place, or None."""
    return gazetteer.get_airport(employee.home_airport) if employee.home_airport else None


def _resolve_place(
    mention: Mention, part: str, employee: TravellerProfile
) -> GazetteerPlace | Question | Missing:
    """Return the place if the mention has exactly one; else a question with choices about `part`."""
    if mention.places == (HOME,):
        return _get_home(employee) or MISSING
    if len(mention.places) == 1:
        return mention.places[0]
    lead = "Where do you want to fly to" if part == "destination" else "Where do you leave from"
    if mention.regions:
        labels = _format_labels(
            tuple(city for each in mention.regions for city in gazetteer.list_cities(each))
        )
        return Question(f"{lead}: which city in {mention.regions[0].name}?", (part,), labels)
    labels = _format_labels(mention.places)
    if not mention.words:
        return Question(f"{lead}? A city or an airport's code will do.", (part,))
    if not labels:
        text = f"I do not know an airport in “{mention.words}”. {lead}? A city or an airport's code will do."
        return Question(text, (part,))
    which = (
        f"“{mention.words}” may be {' or '.join(labels)}."
        if len(labels) > 1
        else f"Did you mean {labels[0]}? Otherwise say the city or the airport's code."
    )
    return Question(f"{lead}? {which}", (part,), labels, labels[0] if len(labels) == 1 else None)


def _format_labels(places: tuple[GazetteerPlace, ...]) -> tuple[str, ...]:
    """Return the places' labels, each once, at most six."""
    return tuple(dict.fromkeys(each.label for each in places))[:MAX_CHOICES]


# --- when ---------------------------------------------------------------------------------------------------


def _resolve_departure(parsed: ParsedRequest, today: date) -> date | Question | Refusal | Missing:
    """Return the departure date, a question, a refusal, or `MISSING` if the request names none."""
    if parsed.departure is None:
        return MISSING
    return _resolve_day(parsed.departure, "departure_date", today, None)


def _check_time(
    day: date | Question | Refusal | Missing, parsed: ParsedRequest, now: datetime
) -> date | Question | Refusal | Missing:
    """Return the departure day; a question if its stated hour is over, or if it may be today.

    "Tuesday", said on a Tuesday, is that of next week; "Tuesday evening" may be this evening.
    """
    if not isinstance(day, date) or parsed.departure is None:
        return day
    if day == now.date() and parsed.latest_hour is not None and parsed.latest_hour <= now.hour:
        text = f"It is {now:%H:%M} already, too late for that flight today. On which day do you leave?"
        return Question(text, ("departure_date",))
    if _may_be_today(parsed.departure, day, now.date()) and parsed.part:
        text = (
            f"“{parsed.departure.words.strip()}” can be today or {_format_day(day)}. On which day do "
            f"you leave?"
        )
        return Question(text, ("departure_date",), (now.date().isoformat(), day.isoformat()))
    return day


def _may_be_today(named: Day, day: date, today: date) -> bool:
    """Return whether a bare weekday was read as that of next week, although today has this name."""
    words = _PREPOSITION.sub("", named.words.strip())
    return day - today == timedelta(days=7) and f"{today:%A}".casefold().startswith(words.rstrip("s")[:9])


def _format_today_note(parsed: ParsedRequest, departure: date, today: date) -> tuple[str, ...]:
    """Return the note on a weekday that was read as that of next week."""
    if parsed.departure is None or not _may_be_today(parsed.departure, departure, today):
        return ()
    return (f"I read “{parsed.departure.words.strip()}” as {_format_day(departure)}, not as today.",)


def _resolve_return(
    parsed: ParsedRequest, today: date, departure: date | Question | Refusal | Missing
) -> date | None | Question | Refusal | Missing:
    """Return the return date, None for a one-way trip, or what to ask about it.

    A stated return date must match a stated length of stay.
    """
    is_back_said = parsed.returning is not None or bool(parsed.stay)
    if parsed.trip == "one_way":
        return _ask_one_way_or_return(parsed) if is_back_said else None
    if not isinstance(departure, date):
        return None if is_back_said else MISSING
    if parsed.returning:
        day = _check_return_order(_resolve_day(parsed.returning, "return_date", today, departure), departure)
        return _check_stay(day, parsed.stay, departure) if isinstance(day, date) else day
    if parsed.stay:
        return _resolve_stay(parsed.stay, today, departure)
    if parsed.doubtful:
        return _ask_if_return(parsed.doubtful, today, departure)
    return MISSING


def _ask_one_way_or_return(parsed: ParsedRequest) -> Question:
    """Return the question for a request that says one way and also names a return or a stay."""
    text = "You ask for one way and for a return. On which day do you come back, or is it one way?"
    return Question(text, ("return_date",), (ONE_WAY,))


def _check_return_order(day: date | Question | Refusal, departure: date) -> date | Question | Refusal:
    """Return the day; a question if it is before the departure."""
    if isinstance(day, date) and day < departure:
        text = (
            f"You would be back on {_format_day(day)}, before you leave on {_format_day(departure)}. "
            "On which day do you come back?"
        )
        return Question(text, ("return_date",))
    return day


def _check_stay(day: date, stay: tuple[int, ...], departure: date) -> date | Question:
    """Return the return date if it matches the length of the stay, else a question."""
    by_stay = [departure + timedelta(days=nights) for nights in stay]
    if not by_stay or day in by_stay:
        return day
    both = (day, *by_stay)
    days = " or on ".join(map(_format_day, both))
    text = f"Your return date and the length of your stay do not match. Do you come back on {days}?"
    return Question(text, ("return_date",), tuple(each.isoformat() for each in both))


def _resolve_stay(stay: tuple[int, ...], today: date, departure: date) -> date | Question | Refusal:
    """Return the return date by the length of stay.

    Return a question if it has several lengths, a refusal if the date is too far ahead.
    """
    found = [departure + timedelta(days=nights) for nights in stay]
    if found[0] > today + timedelta(days=MAX_DAYS_AHEAD):
        return _refuse_too_far(found[0])
    if len(found) == 1:
        return _check_return_order(found[0], departure)
    text = f"Do you come back on {' or on '.join(_format_day(each) for each in found)}?"
    return Question(text, ("return_date",), tuple(each.isoformat() for each in found))


def _ask_if_return(day: Day, today: date, departure: date) -> Question:
    """Return the question whether a second day without a role is the return."""
    found = [each.isoformat() for each in day.resolve(today, departure) if each >= departure]
    text = f"Is “{day.words}” the day you come back? Otherwise say when, or that it is one way."
    return Question(text, ("return_date",), (*found, ONE_WAY), found[0] if len(found) == 1 else None)


def _resolve_day(day: Day, part: str, today: date, after: date | None) -> date | Question | Refusal:
    """Return the day's only date, or a question if it is vague, past, or has several dates or none.

    Return a refusal if it is more than 330 days ahead. `after` is the departure for a return, else None.
    """
    end = today + timedelta(days=MAX_DAYS_AHEAD)
    found = day.resolve(today, after)
    lead = "On which day do you leave?" if part == "departure_date" else "On which day do you come back?"
    possible = [each for each in found if (after or today) <= each <= end]
    if not day.is_vague and len(possible) == 1:
        # Of two readings of a date with a year, only one may still come.
        found = tuple(possible)
    if day.is_vague or len(found) != 1:
        choices = tuple(each.isoformat() for each in possible[:MAX_CHOICES])
        yes = choices[0] if len(choices) == 1 else None
        return Question(f"{_describe_ambiguity(day, found, possible)} {lead}", (part,), choices, yes)
    if found[0] > end:
        return _refuse_too_far(found[0])
    if found[0] < today:
        return Question(f"“{day.words.strip()}” is over: it is {_format_day(today)}. {lead}", (part,))
    return found[0]


def _refuse_too_far(day: date) -> Refusal:
    """Return the refusal of a date that is not on sale yet."""
    return Refusal(
        "too_far",
        f"{_format_day(day)} is more than {MAX_DAYS_AHEAD} days ahead, and flights are not sold so early. "
        "Please ask again on or after "
        f"{_format_day(day - timedelta(days=MAX_DAYS_AHEAD))}.",
    )


def _describe_ambiguity(day: Day, found: tuple[date, ...], possible: list[date]) -> str:
    """Return the sentence that says why the day is unclear."""
    words = _PREPOSITION.sub("", day.words.strip())
    if not found:
        return f"“{words}” does not name a date." if day.is_vague else f"There is no “{words}”."
    if len(found) == 1:
        return f"“{words}” is {_format_day(found[0])}, but I am not sure that you fly on that day."
    return f"“{words}” can be {' or '.join(_format_day(each) for each in possible or found)}."


def _format_day(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


# --- cabin and money ----------------------------------------------------------------------------------------


def _check_cabin(parsed: ParsedRequest) -> None | Question:
    """Return a question if the request names several cabins, else None."""
    if len(parsed.cabins) <= 1:
        return None
    choices = tuple(f"{each.value.replace('_', ' ')} class" for each in parsed.cabins)
    return Question(f"Which cabin do you want: {' or '.join(choices)}?", ("cabin_class",), choices)


def _check_budget(parsed: ParsedRequest) -> None | Question:
    """Return a question if the budget is ambiguous, invalid or not surely in US dollars, else None."""
    if not parsed.budgets:
        return None
    first = parsed.budgets[0]
    if len(parsed.budgets) > 1 or first.amount <= 0:
        choices = tuple(f"${each.amount}" for each in parsed.budgets if each.amount > 0)
        return Question("What is the maximum price, in US dollars?", ("budget",), choices)
    if first.is_doubtful:
        text = f"Is the limit {first.amount} US dollars? Otherwise say the maximum price, in US dollars."
        return Question(text, ("budget",), (f"${first.amount}",), f"${first.amount}")
    return None
