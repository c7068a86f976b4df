"""All that one text says of a trip, and how the text of an answer is laid over that of the sentence.

    worded → intents → money → dates → wishes → places → Reading

Each reader takes its words out of the text, so that the next one does not see them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from tripcortex.model import Cabin
from tripcortex.planning import gazetteer, intents
from tripcortex.planning.dates import read_dates
from tripcortex.planning.days import Day
from tripcortex.planning.languages import foreign
from tripcortex.planning.mentions import HOME, Mention
from tripcortex.planning.money import Money, read_money
from tripcortex.planning.places import read_places
from tripcortex.planning.ports import SENTENCE_CHARS_MAX, Question, Refusal
from tripcortex.planning.wishes import read_wishes
from tripcortex.planning.wording import NUMBER, worded

_ROLES: Final = {"origin": "from", "destination": "to"}
_YES: Final = re.compile(r"^(?:yes|yep|yeah|correct|right|sure|ok|okay|exactly)\b")
_NO_LIMIT: Final = re.compile(
    r"\bno (?:limit|budget)|\b(?:drop|forget|without) (?:it|the budget|a limit)\b|^none$"
)
_NARROWING_WORDS_MAX: Final = 5
_BARE_STAY: Final = re.compile(rf"^({NUMBER}) (?:days?|weeks?)$")


@dataclass(frozen=True)
class Reading:
    """What was said. What it means for this employee on this day is for `deciding`."""

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
    budgets: tuple[Money, ...] = ()
    notes: tuple[str, ...] = ()
    # Places that were named and have no part in the trip.
    unread: int = 0


def read_sentence(sentence: str, day_first: bool | None) -> Reading:
    if len(sentence) > SENTENCE_CHARS_MAX:
        told = f"This is too long to be read: please say it in at most {SENTENCE_CHARS_MAX:,} characters."
        return Reading(Refusal("too_long", told))
    plain = worded(sentence)
    refusal = foreign(sentence, plain) or intents.unsupported(plain)
    return Reading(refusal) if refusal else _read(plain, day_first, None)


def read_answer(base: Reading, question: Question, answer: str, day_first: bool | None) -> Reading:
    """The reading with an answer laid over it. An answer that is none changes nothing, so the question stands."""
    plain = worded(answer[:SENTENCE_CHARS_MAX])
    about = question.missing[0]
    if _YES.match(plain) and len(question.choices) == 1:
        plain = worded(question.choices[0])
    if about == "budget" and _NO_LIMIT.search(plain):
        return replace(base, budgets=())
    if about == "return_date" and (plain in ("no", "never", "none") or _BARE_STAY.match(plain)):
        plain = "one way" if plain.isalpha() else f"for {plain}"
    if about == "cabin_class" and plain in ("business", "first"):
        plain = f"{plain} class"
    if narrowed := _narrowed(base, about, plain):
        return narrowed
    said = _read(plain, day_first, _ROLES.get(about))
    if question.missing == ("return_date",) and said.departure and not said.returning:
        said = replace(said, returning=said.departure, departure=None)
    return base if said.refusal else _over(base, said)


def _narrowed(base: Reading, about: str, plain: str) -> Reading | None:
    """The one that the answer points at ("the one in Maine"), of several that were asked about."""
    mention = {"origin": base.origin, "destination": base.destination}.get(about)
    words = re.findall(r"[a-z]+", plain)
    if mention is None or len(words) > _NARROWING_WORDS_MAX:
        return None
    names = (" ".join(words[at : at + many]) for many in (3, 2, 1) for at in range(len(words) - many + 1))
    for named in filter(None, map(gazetteer.regions, names)):
        fitting = gazetteer.meant(mention.places, named)
        if len(set(fitting)) == 1:
            one = replace(mention, places=fitting[:1])
            return replace(base, origin=one) if about == "origin" else replace(base, destination=one)
    return None


def _read(plain: str, day_first: bool | None, role: str | None) -> Reading:
    text, budgets = read_money(plain)
    dates = read_dates(text, day_first)
    wishes = read_wishes(dates.text, dates.back)
    places = read_places(wishes.text, role)
    departure, returning, doubtful = dates.departure, dates.returning, dates.doubtful
    if places.is_there_and_back and returning is None:
        returning, doubtful = doubtful, None
    is_homeward = places.destination is not None and places.destination.places == (HOME,)
    if departure is None and (is_homeward or dates.trip == "one_way"):
        # Going home is the trip itself here, not the way back from one.
        departure, returning = returning, None
    return Reading(
        _route_refusal(places.is_multi_city, places.via),
        places.origin,
        places.destination,
        departure,
        returning,
        dates.stay,
        dates.trip,
        doubtful,
        wishes.cabins,
        wishes.vendors,
        wishes.avoided,
        wishes.nonstop,
        wishes.part,
        budgets,
        intents.notes(plain),
        places.unread,
    )


def _route_refusal(is_multi_city: bool, via: Mention | None) -> Refusal | None:
    if is_multi_city:
        return intents.multi_city()
    if via is None:
        return None
    return Refusal(
        "unsupported",
        f"I cannot plan the way over {via.words.title()}: say where from and where to, and you will see the stops of each "
        "flight before you choose.",
    )


def _over(base: Reading, said: Reading) -> Reading:
    """What the answer says counts; of what it does not say, the sentence."""
    merged = replace(
        base,
        origin=said.origin or base.origin,
        destination=said.destination or base.destination,
        departure=said.departure or base.departure,
        cabins=said.cabins or base.cabins,
        vendors=said.vendors or base.vendors,
        avoided=said.avoided or base.avoided,
        nonstop=said.nonstop or base.nonstop,
        part=said.part or base.part,
        budgets=said.budgets or base.budgets,
    )
    if said.returning or said.stay or said.trip == "one_way":
        return replace(merged, returning=said.returning, stay=said.stay, trip=said.trip, doubtful=None)
    return replace(merged, doubtful=None if said.departure else base.doubtful)
