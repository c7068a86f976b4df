"""What a sentence wants that is not planned here: other services, several travellers, a trip that is booked already."""

from __future__ import annotations

import re
from typing import Final

from tripcortex.planning.ports import Refusal

_MANY: Final = r"(?:two|three|four|five|six|seven|eight|nine|ten|[2-9]|[1-9]\d|several|multiple|many|a few|a couple of|both)"
_OTHERS: Final = (
    r"(?:wife|husband|partner|spouse|colleagues?|co-?workers?|boss|team|family|kids?|child(?:ren)?|son|daughter|manager"
    r"|assistant|friends?|client|customers?|director|ceo)"
)
_SEVERAL: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_MANY} (?:tickets?|seats?|people|persons|passengers|adults|travell?ers|pax|colleagues|employees|of us)\b",
        rf"\b(?:me|myself|i) and (?:my|our) (?:\w+ )?{_OTHERS}\b",
        rf"\b(?:my|our) (?:\w+ )?{_OTHERS} and (?:i|me|myself)\b",
        rf"\bfor (?:us|everyone|everybody|(?:my|our|the) (?:whole |entire )?{_OTHERS})\b",
        r"\b(?:fly|book|take|get|send) (?:us|everyone|everybody|all of us|the (?:whole )?team)\b",
        r"\bfor (?:two|three|four|five|[2-9])\b(?! ?(?:days?|nights?|weeks?|months?|hours?|or|-|to|am|pm|working|business|[\d/:.]))",
        r"\bthe (?:two|three|four|five) of us\b",
        r"\b(?:party|group) of (?!one\b|1\b)\w+",
        r"\bwe (?:need|want|would|are|have|will)\b",
        rf"(?<!meet )(?<!meeting )(?<!lunch )(?<!dinner )(?<!call )(?<!talk )(?<!speak )(?<!workshop )\b(?:along |together )?with my (?:\w+ )?{_OTHERS}\b",
    )
)
_SERVICES: Final = re.compile(
    r"\b(?:hotels?|hostels?|accommodation|airbnb|rooms?|rental cars?|rent a car|car rental|hire car|car hire|trains?|bus|taxi"
    r"|cab|uber|limo(?:usine)?|cruise|ferry)\b"
)
_FLIGHT: Final = re.compile(
    r"\b(?:fly|flying|flights?|flown|planes?|airfare|airline|air ?ticket|one ?-? ?way|round ?-? ?trip|non ?-?stop|airport)\b"
)
_BOOKED: Final = re.compile(
    r"^(?:(?:please|can you|could you|i (?:want|need|would like) to|id like to|hi|hello|hey) ?[,|]? ?)*"
    r"(?:cancel|change|modify|reschedule|rebook|refund|upgrade|check in|where is|what is the status of|status of)\b"
    r"[^|]*\b(?:my|the|our|this|that)\b[^|]*\b(?:flights?|booking|trip|tickets?|reservation|itinerary)\b"
)
_MULTI: Final = re.compile(
    r"\bmulti ?-?(?:city|leg|stop)\b|\bopen ?-?jaw\b|\bstop ?-?overs? in\b|\baround the world\b"
)
_EACH: Final = "Please have each traveller ask for their own flight."


def unsupported(plain: str) -> Refusal | None:
    if _BOOKED.search(plain):
        return Refusal(
            "unsupported",
            "I plan new trips only. A booking that is still open is ended by the action “cancel”; one that is confirmed is "
            "changed or cancelled at your travel desk.",
        )
    if _MULTI.search(plain):
        return multi_city()
    if any(pattern.search(plain) for pattern in _SEVERAL):
        return Refusal("unsupported", f"I book for one traveller at a time, the one who asks. {_EACH}")
    if _SERVICES.search(plain) and not _FLIGHT.search(plain):
        return Refusal(
            "unsupported",
            "I book flights only, no hotels, cars or trains. For a flight say where to and when, for instance: "
            "“Flight to Denver on Friday, returning Sunday.”",
        )
    return None


def other_traveller(words: str) -> Refusal:
    return Refusal(
        "unsupported",
        f"“{words}” reads like another traveller, and I book for the one who asks. {_EACH} If it is none, leave it out.",
    )


def notes(plain: str) -> tuple[str, ...]:
    """What is left out of a plan, in words."""
    if match := _SERVICES.search(plain):
        return (f"I book flights only: “{match[0]}” is not part of this plan.",)
    return ()


def multi_city() -> Refusal:
    return Refusal(
        "multi_city",
        "I plan trips to one place and back, not several stops. Please ask for each flight on its own, as one way.",
    )
