"""Refusals of unsupported requests: other services, several travellers or stops, changes of a booking."""

from __future__ import annotations

import re
from typing import Final

from tripcortex.domain.planner import gazetteer
from tripcortex.domain.planner.ports import Refusal

_SEVERAL_COUNT: Final = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|[2-9]|[1-9]\d|several|multiple|many|a few|a couple of"
    r"|both)"
)
_OTHER_PEOPLE: Final = (
    r"(?:wife|husband|partner|spouse|colleagues?|co-?workers?|boss|team|family|kids?|child(?:ren)?|son|"
    r"daughter|manager"
    r"|assistant|friends?|client|customers?|director|ceo)"
)
_SEVERAL_TRAVELLERS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_SEVERAL_COUNT} "
        r"(?:tickets?|seats?|people|persons|passengers|adults|travell?ers|pax|colleagues|employees|of us)\b",
        rf"\b(?:me|myself|i) and (?:my|our) (?:\w+ )?{_OTHER_PEOPLE}\b",
        rf"\b(?:my|our) (?:\w+ )?{_OTHER_PEOPLE} and (?:i|me|myself)\b",
        rf"\bfor (?:us|everyone|everybody|(?:my|our|the) (?:whole |entire )?{_OTHER_PEOPLE})\b(?! "
        rf"?-?(?:workshop|meeting|event|visit|"
        r"conference|review|presentation|training|offsite|kick|summit|call|site|dinner|lunch|project|demo|"
        r"office|audit|"
        r"pitch|interview|day|retreat|session|appointment|s\b))",
        r"\b(?:fly|book|take|get|send) (?:us|everyone|everybody|all of us|the (?:whole )?team)\b",
        r"\bfor (?:two|three|four|five|[2-9])\b(?! "
        r"?(?:days?|nights?|weeks?|months?|hours?|or|-|to|am|pm|working|business|jan|feb|mar|apr|may|jun|"
        r"jul|aug|sep|oct|nov|dec|[\d/:.]))",
        r"\bthe (?:two|three|four|five) of us\b",
        r"\b(?:party|group) of (?!one\b|1\b)\w+",
        r"\bwe (?:both|all|two|three|four) \w+|\bwe (?:\w+ ){0,2}?(?:both|all) (?:need|want|have|fly|"
        r"travel)\b",
        r"(?<!discussed )(?<!agreed )(?<!aligned )(?<!checked )(?<!confirmed )(?<!cleared )(?<!approved "
        r")(?<!arranged )"
        r"(?<!spoke )(?<!talked )(?<!session )(?<!review )(?<!interview )(?<!appointment )(?<!working "
        r")(?<!work )(?<!time )"
        r"(?<!training )(?<!planning )(?<!visit )(?<!kickoff )(?<!offsite )(?<!coffee )(?<!negotiations "
        r")(?<!1 )"
        r"(?<!meet )(?<!meeting )(?<!lunch )(?<!dinner )(?<!call )(?<!talk )(?<!speak )(?<!workshop "
        rf")\b(?:along |together )?with my (?:\w+ )?{_OTHER_PEOPLE}\b",
    )
)
_ALONE: Final = re.compile(
    r"\b(?:just|only) (?:for )?(?:me|myself)\b|\bfor (?:me|myself) only\b|\bone (?:traveller|traveler|"
    r"passenger|adult)\b|"
    r"\b(?:he|she|they|the others?) (?:will )?(?:books?|has|have|already has|travels?|arranges?)\b"
)
_SERVICES: Final = re.compile(
    r"\b(?:hotels?|hostels?|accommodation|airbnb|rooms?|rental cars?|rent a car|car rental|hire car|car "
    r"hire|trains?|bus|taxi"
    r"|cab|uber|limo(?:usine)?|cruise|ferry)\b"
)
_SERVICE: Final = (
    r"(?:hotels?|hostels?|accommodation|airbnb|rooms?|rental cars?|car rental|hire car|car hire|cars?|"
    r"trains?"
    r"|bus|taxi|cab)"
)
# Services that the employee does not need.
UNNEEDED_SERVICE: Final = re.compile(
    rf"\b(?:no|without|not|(?:dont|do not) (?:book|need)(?: a| any| the)?|already have an?) {_SERVICE}"
    rf"(?: (?:needed|required|necessary|please))?\b|\b(?:the |my )?{_SERVICE} (?:is|are) (?:already |all "
    rf")?(?:sorted|booked|arranged|done|"
    r"taken care of|not (?:needed|required|necessary))\b"
)
_ADDED_SERVICE: Final = re.compile(
    rf"(?:,|\||\band|\bplus|\bwith|\balso)(?: (?:an?|also|book|need|and|plus|the|i|me)\b)* {_SERVICE}\b"
)
_FLIGHT: Final = re.compile(
    r"\b(?:fly|flying|flights?|flown|planes?|airfare|airline|air ?ticket|one ?-? ?way|round ?-? ?trip|non "
    r"?-?stop|airport)\b"
)
_CHANGE_OF_BOOKING: Final = re.compile(
    r"^(?:(?:please|can you|could you|i (?:want|need|would like) to|id like to|hi|hello|hey)(?: ?[,|])? ?)*"
    r"(?:cancel|change|modify|reschedule|rebook|refund|upgrade|check in|where is|what is the status "
    r"of|status of)\b"
    r"[^|]*\b(?:my|the|our|this|that)\b[^|]*\b(?:flights?|booking|trip|tickets?|reservation|itinerary)\b"
)
_MULTI_CITY: Final = re.compile(
    r"\bmulti ?-?(?:city|leg|stop)\b|\bopen ?-?jaw\b|\bstop ?-?overs? in\b|\b(?:via|through|stopping in|"
    r"stop in) [a-z ]{3,24} for (?:an?|one|two|three|the|\d)\b(?! flight)|\baround the world\b"
)
_ONE_REQUEST_EACH: Final = "Please have each traveller ask for their own flight."


def find_unsupported(plain: str) -> Refusal | None:
    """Return a refusal if the normalized text asks for something unsupported, else None."""
    if _CHANGE_OF_BOOKING.search(plain):
        return Refusal(
            "unsupported",
            "I plan new trips only. Use the action “cancel” to end an open booking; your travel desk "
            "changes "
            "or cancels a confirmed one.",
        )
    if _MULTI_CITY.search(plain):
        return refuse_multi_city()
    is_alone = _ALONE.search(plain)
    if not is_alone and any(pattern.search(plain) for pattern in _SEVERAL_TRAVELLERS):
        return Refusal("unsupported", f"I book for one traveller at a time: you. {_ONE_REQUEST_EACH}")
    if _SERVICES.search(remove_additions(plain)) and not _FLIGHT.search(plain):
        return Refusal(
            "unsupported",
            "I book flights only, no hotels, cars or trains. For a flight say where to and when, for "
            "instance: “Flight to Denver on Friday, returning Sunday.”",
        )
    return None


def remove_additions(plain: str) -> str:
    """Return the text without services that are not needed, or wanted in addition to a trip to a city."""
    text = UNNEEDED_SERVICE.sub(" ", plain)
    for match in _ADDED_SERVICE.finditer(text):
        words = re.findall(r"[a-z]+", text[: match.start()])
        names = {" ".join(words[at : at + many]) for at in range(len(words)) for many in (1, 2, 3)}
        if any(gazetteer.find_cities(each) or gazetteer.is_served(each) for each in names):
            return text[: match.start()]
    return text


def refuse_other_traveller(words: str) -> Refusal:
    """Return the refusal of a request whose `words` look like the name of another traveller."""
    return Refusal(
        "unsupported",
        f"“{words}” looks like another traveller, and I book for you only. {_ONE_REQUEST_EACH} If it is not "
        "a traveller, leave it out.",
    )


def describe_ignored_services(plain: str) -> tuple[str, ...]:
    """Return a note on the first service that the plan leaves out, such as a hotel; else empty."""
    if match := _SERVICES.search(UNNEEDED_SERVICE.sub(" ", plain)):
        return (f"I book flights only: “{match[0]}” is not part of this plan.",)
    return ()


def refuse_multi_city() -> Refusal:
    """Return the refusal of a trip with several stops."""
    return Refusal(
        "multi_city",
        "I plan trips to one place and back, not several stops. Please ask for each flight on its own, as "
        "one way.",
    )
