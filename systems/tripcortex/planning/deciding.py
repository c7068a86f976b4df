"""From what was said to an answer: a plan where all is known, else one question, or a refusal.

What has several meanings is asked first, one thing at a time and with its choices; what is missing, all at once. Nothing
is filled in but what the employee's profile says: the home airport as origin, the cabin they usually fly.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta
from typing import Final, Literal, NamedTuple

from holdfast.errors import Defect
from tripcortex.model import Preferences, TripParameters
from tripcortex.planning import gazetteer
from tripcortex.planning.days import Day
from tripcortex.planning.gazetteer import CHOICES_MAX, Place
from tripcortex.planning.leftovers import PHRASES_MAX
from tripcortex.planning.mentions import HOME, Mention
from tripcortex.planning.money import USD
from tripcortex.planning.ports import (
    DAYS_AHEAD_MAX,
    PARTS,
    Asked,
    Planned,
    PlanOutcome,
    Question,
    Refusal,
    Traveller,
)
from tripcortex.planning.reading import Reading

# Of a confidence of 1: what a place costs that was read in spite of a typo, words that were not used, a question that was
# needed.
NEAR_COST: Final = 0.2
LEFT_COST: Final = 0.1
LEFT_COST_MAX: Final = 0.3
ANSWER_COST: Final = 0.05

_ABSENT: Final = {
    "destination": "Where do you want to fly to?",
    "origin": "Where do you leave from?",
    "departure_date": "On which day do you leave?",
    "return_date": "On which day do you come back, or is it one way?",
}
ONE_WAY: Final = "one way"
_LEAD: Final = re.compile(r"^(?:at|over|in|on) (?:the )?")
NOT_UNDERSTOOD: Final = "I could not make use of"
# Told apart from "no return": it was not said.
Absent = Literal["absent"]
ABSENT: Final[Absent] = "absent"


def decided(reading: Reading, asked: Asked, answers: int) -> PlanOutcome:
    if reading.refusal:
        return reading.refusal
    today = asked.now.astimezone(asked.employee.zone).date()
    destination, origin = _destination(reading, asked.employee), _origin(reading, asked.employee)
    departure = _departure(reading, today)
    returning = _return(reading, today, departure)
    parts = (destination, origin, departure, returning, _cabin(reading), _budget(reading))
    for part in parts:
        if isinstance(part, Question):
            return _naming(part, reading.missed)
        if isinstance(part, Refusal):
            return part
    missing = tuple(name for name, part in zip(PARTS, parts, strict=True) if part is ABSENT)
    if missing:
        choices = (ONE_WAY,) if missing == ("return_date",) else ()
        told = (*_listed(NOT_UNDERSTOOD, reading.left), *(_ABSENT[name] for name in missing))
        return Question(" ".join(told), missing, choices)
    if not (isinstance(destination, Place) and isinstance(origin, Place) and isinstance(departure, date)):
        raise Defect("A part of a trip is neither known nor asked about.")
    route = _Route(destination, origin, departure, returning if isinstance(returning, date) else None)
    return _plan(reading, asked, answers, route)


def _naming(question: Question, missed: tuple[str, ...]) -> Question:
    """The question again, with the words of an answer that did not answer it."""
    return replace(question, text=" ".join((*_listed(NOT_UNDERSTOOD, missed), question.text)))


class _Route(NamedTuple):
    destination: Place
    origin: Place
    departure: date
    returning: date | None


def _plan(reading: Reading, asked: Asked, answers: int, route: _Route) -> PlanOutcome:
    destination, origin = route.destination, route.origin
    if set(destination.airports) & set(origin.airports):
        return Refusal(
            "same_place",
            f"This begins and ends in {destination.name}: say another place to fly to, or another one to leave from.",
        )
    return Planned(
        TripParameters(
            origin=origin.airports[0],
            destination=destination.airports[0],
            departure_date=route.departure,
            return_date=route.returning,
            cabin_class=reading.cabins[0] if reading.cabins else asked.employee.cabin,
        ),
        Preferences(
            vendors=list(reading.vendors),
            origin_airports=list(origin.airports[1:]),
            destination_airports=list(destination.airports[1:]),
            nonstop=reading.nonstop,
            depart_part=reading.part,
            budget_usd=reading.budgets[0].amount if reading.budgets else None,
            is_cabin_asked=bool(reading.cabins),
        ),
        _confidence(reading, answers),
        reading.avoided,
        (*_near_notes(reading), *reading.notes, *_listed("I did not use:", reading.left)),
    )


def _confidence(reading: Reading, answers: int) -> float:
    near = sum(each is not None and each.is_near for each in (reading.origin, reading.destination))
    left = min(LEFT_COST_MAX, LEFT_COST * len(reading.left))
    return round(max(0.0, 1 - NEAR_COST * near - left - ANSWER_COST * answers), 2)


def _listed(lead: str, phrases: tuple[str, ...]) -> tuple[str, ...]:
    words = ", ".join(f"“{each}”" for each in phrases[:PHRASES_MAX])
    return (f"{lead} {words}.",) if words else ()


def _near_notes(reading: Reading) -> tuple[str, ...]:
    near = [each for each in (reading.destination, reading.origin) if each and each.is_near]
    return tuple(f"I read “{each.words}” as {each.places[0].name}." for each in near)


# --- where -------------------------------------------------------------------------------------------------------


def _destination(reading: Reading, employee: Traveller) -> Place | Question | Absent:
    if reading.destination is None:
        return ABSENT
    return _place(reading.destination, "destination", employee)


def _origin(reading: Reading, employee: Traveller) -> Place | Question | Absent:
    if reading.origin is None:
        return _home(employee) or ABSENT
    home = [each for each in reading.origin.places if employee.home_airport in each.airports]
    # Of several that the name may mean, the one where the employee lives.
    return home[0] if home else _place(reading.origin, "origin", employee)


def _home(employee: Traveller) -> Place | None:
    return gazetteer.airport(employee.home_airport) if employee.home_airport else None


def _place(mention: Mention, part: str, employee: Traveller) -> Place | Question | Absent:
    if mention.places == (HOME,):
        return _home(employee) or ABSENT
    if len(mention.places) == 1:
        return mention.places[0]
    lead = "Where do you want to fly to" if part == "destination" else "Where do you leave from"
    if mention.regions:
        labels = _labels(tuple(city for each in mention.regions for city in gazetteer.cities_in(each)))
        return Question(f"{lead}: which city of {mention.regions[0].name}?", (part,), labels)
    labels = _labels(mention.places)
    if not mention.words:
        return Question(f"{lead}? A city or an airport's code will do.", (part,))
    if not labels:
        told = f"I know no airport of “{mention.words}”. {lead}? A city or an airport's code will do."
        return Question(told, (part,))
    which = (
        f"“{mention.words}” may be {' or '.join(labels)}."
        if len(labels) > 1
        else f"Did you mean {labels[0]}? Otherwise say the city or the airport's code."
    )
    return Question(f"{lead}? {which}", (part,), labels)


def _labels(places: tuple[Place, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.label for each in places))[:CHOICES_MAX]


# --- when --------------------------------------------------------------------------------------------------------


def _departure(reading: Reading, today: date) -> date | Question | Refusal | Absent:
    if reading.departure is None:
        return ABSENT
    return _day(reading.departure, "departure_date", today, None)


def _return(
    reading: Reading, today: date, departure: date | Question | Refusal | Absent
) -> date | None | Question | Refusal | Absent:
    is_back_said = reading.returning is not None or bool(reading.stay)
    if reading.trip == "one_way":
        return _both_ways(reading) if is_back_said else None
    if not isinstance(departure, date):
        return None if is_back_said else ABSENT
    if reading.returning:
        day = _returning(_day(reading.returning, "return_date", today, departure), departure)
        return _agreed(day, reading.stay, departure) if isinstance(day, date) else day
    if reading.stay:
        return _after_stay(reading.stay, today, departure)
    if reading.doubtful:
        return _doubtful(reading.doubtful, today, departure)
    return ABSENT


def _both_ways(reading: Reading) -> Question:
    told = "You say one way and also when you come back. On which day do you come back, or is it one way?"
    return Question(told, ("return_date",), (ONE_WAY,))


def _returning(day: date | Question | Refusal, departure: date) -> date | Question | Refusal:
    if isinstance(day, date) and day < departure:
        told = f"You would be back on {_said(day)}, before you leave on {_said(departure)}. On which day do you come back?"
        return Question(told, ("return_date",))
    return day


def _agreed(day: date, stay: tuple[int, ...], departure: date) -> date | Question:
    """A day and a length of stay that were both said have to agree."""
    by_stay = [departure + timedelta(days=nights) for nights in stay]
    if not by_stay or day in by_stay:
        return day
    both = (day, *by_stay)
    told = f"The day and the length of your stay do not agree. Do you come back on {' or on '.join(map(_said, both))}?"
    return Question(told, ("return_date",), tuple(each.isoformat() for each in both))


def _after_stay(stay: tuple[int, ...], today: date, departure: date) -> date | Question | Refusal:
    found = [departure + timedelta(days=nights) for nights in stay]
    if found[0] > today + timedelta(days=DAYS_AHEAD_MAX):
        return _too_far(found[0])
    if len(found) == 1:
        return _returning(found[0], departure)
    told = f"Do you come back on {' or on '.join(_said(each) for each in found)}?"
    return Question(told, ("return_date",), tuple(each.isoformat() for each in found))


def _doubtful(day: Day, today: date, departure: date) -> Question:
    found = [each.isoformat() for each in day.read(today, departure) if each >= departure]
    told = f"Is “{day.words}” the day you come back? Otherwise say when, or that it is one way."
    return Question(told, ("return_date",), (*found, ONE_WAY))


def _day(day: Day, part: str, today: date, after: date | None) -> date | Question | Refusal:
    end = today + timedelta(days=DAYS_AHEAD_MAX)
    found = day.read(today, after)
    lead = "On which day do you leave?" if part == "departure_date" else "On which day do you come back?"
    possible = [each for each in found if (after or today) <= each <= end]
    if day.is_vague or len(found) != 1:
        choices = tuple(each.isoformat() for each in possible[:CHOICES_MAX])
        return Question(f"{_unclear(day, found, possible)} {lead}", (part,), choices)
    if found[0] > end:
        return _too_far(found[0])
    if found[0] < today:
        return Question(f"“{day.words.strip()}” is over: it is {_said(today)}. {lead}", (part,))
    return found[0]


def _too_far(day: date) -> Refusal:
    return Refusal(
        "too_far",
        f"{_said(day)} is more than {DAYS_AHEAD_MAX} days ahead, and flights are not sold so early. Please ask "
        f"again from {_said(day - timedelta(days=DAYS_AHEAD_MAX))} on.",
    )


def _unclear(day: Day, found: tuple[date, ...], possible: list[date]) -> str:
    words = _LEAD.sub("", day.words.strip())
    if not found:
        return f"“{words}” does not tell me the date." if day.is_vague else f"There is no “{words}”."
    if len(found) == 1:
        return f"“{words}” is {_said(found[0])}, and not plainly the day of the flight."
    return f"“{words}” can be {' or '.join(_said(each) for each in possible or found)}."


def _said(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


# --- cabin and money ---------------------------------------------------------------------------------------------


def _cabin(reading: Reading) -> None | Question:
    if len(reading.cabins) <= 1:
        return None
    choices = tuple(f"{each.value.replace('_', ' ')} class" for each in reading.cabins)
    return Question(f"Which cabin is it to be: {' or '.join(choices)}?", ("cabin_class",), choices)


def _budget(reading: Reading) -> None | Question:
    if not reading.budgets:
        return None
    first = reading.budgets[0]
    if first.currency not in (USD, ""):
        told = f"I count in US dollars and do not convert {first.currency}. How much may it cost at most, in dollars?"
        return Question(told, ("budget",))
    if len(reading.budgets) > 1 or first.amount <= 0:
        choices = tuple(f"${each.amount}" for each in reading.budgets if each.amount > 0)
        return Question("How much may it cost at most, in US dollars?", ("budget",), choices)
    if not first.currency:
        told = (
            f"Is the limit {first.amount} US dollars? Otherwise say how much it may cost at most, in dollars."
        )
        return Question(told, ("budget",), (f"${first.amount}",))
    return None
