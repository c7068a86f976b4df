"""Correction of typos in the words that decide what a sentence means: weekdays, months, "flight", "cancel".

A word is corrected only if it is one typo away from exactly one keyword and is not a word of its own: "chnage
my fligt" → "change my flight"; "Thusday" may be Tuesday or Thursday and stays as it is. Names of places have
their own correction (`gazetteer.find_similar_cities`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rapidfuzz.distance import OSA

from tripcortex.domain.planner import gazetteer
from tripcortex.domain.planner.unused_words import KNOWN_WORDS

_MIN_LETTERS: Final = 5
_KEYWORDS: Final = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april august "
    "september october november december tomorrow today week weekend month night nights morning afternoon "
    "evening flight flights ticket tickets booking reservation itinerary return returning round cancel "
    "cancelled change reschedule postpone status policy business economy premium first class cabin direct "
    "nonstop leaving departing arriving coming please cheapest before after delayed fortnight window "
    "aisle travel airport airline direct between around upgrade refund confirmed confirmation departure "
    "depart arrive arrival flying staying meeting preferred prefer maximum budget".split()
)
# Words that are one typo away from a keyword and mean something else.
_OTHER_WORDS: Final = frozenset(
    "light lights chance charge changed changes charged cancels flights fights fright plight tights might "
    "right eight sight tight nights weeks months thirst third fist forst bound rounds pound sound mound "
    "found wound ground returns returned match patch marsh larch tracks tackets rocket pocket jacket "
    "picket wicked policies police polite politics statue states stages stature worming mourning warning "
    "mornings evenings afters alter aster later water travels travail travelled arriving driving loving "
    "living moving giving leading heading letting wearing lasting leavings weaving heaving directs "
    "indirect glass grass classes claps clams cabins robin boarding looking cooking hooking bookings "
    "bookinga basing frost fires winds windy widow windows isle aisles bosses coming becoming combing "
    "homing aground refunds upgrades confirm confirms delays relayed played monde sundry sundays mondays "
    "tuesdays fridays saturdays thursdays wednesdays tomorrows delay decayed please pleased pleases lease "
    "pleas phrase airports airlines cheaper economic economist economics weeds weeds meek seek week peek "
    "geek wee toddy toady monthly mouth moth months north fourth first fast fist fits thirsty august".split()
)
# Words with several typos, or too short for a distance.
_SPELLINGS: Final = {
    wrong: right
    for right, wrongs in {
        "the": "teh hte",
        "and": "adn nad",
        "back": "bakc bcak bak abck backk",
        "book": "bok boook bokk boko",
        "need": "ned neeed nede",
        "flight": "fligth flgt flt flihgt fliht",
        "flights": "flihgts flts fligths",
        "from": "fro frm form rfom",
        "with": "wiht wth",
        "please": "plese pleas plz",
        "coming": "comming cming",
        "wednesday": "wensday wendsday wedensday wednseday",
        "tuesday": "tusday teusday tuseday tuesdy",
        "thursday": "thurday thrusday thurdsay",
        "saturday": "saterday satruday",
        "february": "feburary febuary",
        "business": "bussiness buisness busness bizness",
        "economy": "econemy ecomony",
        "returning": "retruning returing",
        "one way": "onewy",
        "ticket": "tiket tikcet",
        "departing": "depating departng",
    }.items()
    for wrong in wrongs.split()
}
# Before a name of a place, "form" is a typo; elsewhere it is a word.
_FORM_BEFORE: Final = re.compile(r"\b(?:a|the|this|my|your|order|web) $")
_WORD: Final = re.compile(r"(?<![\w'-])[a-z]{5,}(?![\w'-])")
_SHORT_WORD: Final = re.compile(rf"(?<![\w'-])(?:{'|'.join(_SPELLINGS)})(?![\w'-])")


def correct_keywords(plain: str) -> str:
    """Return the normalized text with typos in its keywords corrected."""
    plain = _SHORT_WORD.sub(_correct_spelling, plain)
    return _WORD.sub(lambda match: _correct(match[0]), plain)


def _correct_spelling(match: re.Match[str]) -> str:
    """Return the known correction of a misspelt word, or the word itself."""
    if match[0] == "form" and _FORM_BEFORE.search(match.string[: match.start()]):
        return match[0]
    return _SPELLINGS[match[0]]


@lru_cache(maxsize=4096)
def _correct(word: str) -> str:
    """Return the keyword that the word is one typo away from, or the word itself."""
    if word in _KEYWORDS or word in _OTHER_WORDS or word in KNOWN_WORDS or gazetteer.find_cities(word):
        return word
    near = [
        each
        for each in _KEYWORDS
        if len(each) >= _MIN_LETTERS and each[0] in word[:2] and OSA.distance(word, each, score_cutoff=1) == 1
    ]
    return near[0] if len(near) == 1 else word
