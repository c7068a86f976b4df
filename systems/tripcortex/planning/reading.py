"""All that one text says of a trip, and how the text of an answer is laid over that of the sentence.

    worded → intents → money → dates → wishes → places → leftovers → Reading

Each reader takes its words out of the text, so that the next one does not see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tripcortex.model import Cabin
from tripcortex.planning import gazetteer, intents
from tripcortex.planning.dates import read_dates
from tripcortex.planning.days import Day
from tripcortex.planning.gazetteer import CODE_LETTERS, Region
from tripcortex.planning.languages import foreign
from tripcortex.planning.mentions import HOME, Mention
from tripcortex.planning.money import Money, read_money
from tripcortex.planning.places import Places, read_places
from tripcortex.planning.ports import SENTENCE_CHARS_MAX, Question, Refusal
from tripcortex.planning.wishes import read_wishes
from tripcortex.planning.wording import NUMBER, worded

_ROLES: Final = {"origin": "from", "destination": "to"}
_YES: Final = re.compile(r"^(?:yes|yep|yeah|correct|right|sure|ok|okay|exactly)\b")
_NO: Final = re.compile(r"^(?:no|nope|none(?: of (?:them|these|those))?|neither|nowhere)\b")
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
    # Words that were not used; and those of the last answer, where it did not answer the question.
    left: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()


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
    base, plain = _denied(base, about, plain)
    if about == "budget" and _NO_LIMIT.search(plain):
        return replace(base, budgets=())
    if about == "return_date" and (plain in ("no", "never", "none") or _BARE_STAY.match(plain)):
        plain = "one way" if plain.isalpha() else f"for {plain}"
    if about == "cabin_class" and plain in ("business", "first"):
        plain = f"{plain} class"
    if narrowed := _narrowed(base, about, plain):
        return narrowed
    said = _regional(_read(plain, day_first, _ROLES.get(about)), about, plain)
    if question.missing == ("return_date",) and said.departure and not said.returning:
        said = replace(said, returning=said.departure, departure=None)
    if said.refusal:
        return base
    over = _over(base, said)
    is_heard = replace(over, left=(), missed=()) != replace(base, left=(), missed=())
    return replace(over, missed=() if is_heard else said.left)


def _denied(base: Reading, about: str, plain: str) -> tuple[Reading, str]:
    """ "No" to the places that were offered: none of them is meant. What follows may name another one."""
    no = _NO.match(plain)
    if no is None or about not in _ROLES or getattr(base, about) is None:
        return base, plain
    return _with_place(base, about, Mention("", ())), plain[no.end() :].strip(" ,|")


def _narrowed(base: Reading, about: str, plain: str) -> Reading | None:
    """The one that the answer points at ("the one in Maine"), of several that were asked about."""
    mention = {"origin": base.origin, "destination": base.destination}.get(about)
    if mention is None:
        return None
    for _, named in _regions_in(plain):
        fitting = gazetteer.meant(mention.places, named)
        if len(set(fitting)) == 1:
            return _with_place(base, about, replace(mention, places=fitting[:1]))
    return None


def _regional(said: Reading, about: str, plain: str) -> Reading:
    """An answer that names no city, but a state or a country ("I meant the Bahamas"): its city is asked for next."""
    if about not in _ROLES or getattr(said, about) is not None:
        return said
    for name, named in _regions_in(plain):
        if len(name) > CODE_LETTERS:
            return replace(_with_place(said, about, Mention(name, (), regions=named)), left=())
    return said


def _regions_in(plain: str) -> Iterator[tuple[str, tuple[Region, ...]]]:
    words = re.findall(r"[a-z]+", plain)
    if len(words) > _NARROWING_WORDS_MAX:
        return
    for many in (3, 2, 1):
        for at in range(len(words) - many + 1):
            name = " ".join(words[at : at + many])
            if named := gazetteer.regions(name):
                yield name, named


def _with_place(reading: Reading, about: str, mention: Mention) -> Reading:
    return replace(reading, origin=mention) if about == "origin" else replace(reading, destination=mention)


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
        _refusal(places),
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
        (*wishes.unused, *places.left.phrases),
    )


def _refusal(places: Places) -> Refusal | None:
    if places.left.other:
        return intents.other_traveller(places.left.other)
    if places.is_multi_city:
        return intents.multi_city()
    if places.via is None:
        return None
    return Refusal(
        "unsupported",
        f"I cannot plan the way over {places.via.words.title()}: say where from and where to, and you will see the stops of each "
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
        left=tuple(dict.fromkeys((*base.left, *said.left))),
    )
    if said.returning or said.stay or said.trip == "one_way":
        return replace(merged, returning=said.returning, stay=said.stay, trip=said.trip, doubtful=None)
    return replace(merged, doubtful=None if said.departure else base.doubtful)
