"""Finds the words of a request that no parser used, for the plan's notes, and signs of another traveller.

    tokens outside of places → runs of unknown words → UnusedWords(phrases, other traveller)

Known words carry no preference: words that lead to days, places and preferences, and polite phrases. The
plan's notes list every other word, so that no preference is dropped silently. Case has no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

MAX_PHRASES: Final = 5
MAX_PHRASE_CHARS: Final = 40

# Politeness and grammar; travel; reasons to travel; words of the other parsers.
KNOWN_WORDS: Final = frozenset(
    """
    a an the this that these those some any another other same all both each every it its im i me my
    myself mine we our us you your he his she her him they them their there here who whom which what whats
    when where how why not no nor yes and or but so then than if as of to from in into on onto at by for
    with without within around about near over under until till til through thru during before after
    between via up down out off back away again also too only just even still very really quite please pls
    plz thanks thank thx hi hello hey dear good morning afternoon evening day sir madam team can could
    would will shall should may might must do does did dont id ill ive am is are was be been being have
    has had having lets let want wants wanted need needs needed needing like likes love wish hope hoping
    looking look plan planning planned going go goes gone get gets getting got come comes coming came take
    takes taking took make makes making made give put send know see seeing seen say says said tell ask
    asking asked help use using used try trying think find show keep book booking booked bookings reserve
    reservation order arrange arranging mean means meant schedule organise organize buy purchase fly flies
    flying flown flight flights plane planes air airline airlines airfare airport airports airways travel
    traveling travelling traveler trip trips journey route ticket tickets fare fares seat itinerary
    carrier carriers round return returning returns returned roundtrip way ways one single outbound
    inbound departure departing depart departs leave leaves leaving left arrive arriving arrival arrives
    land landing head heading bound start starting starts begin beginning end ending ends stay staying
    stays stop stops connection home house office town city downtown area region destination origin
    somewhere anywhere something anything everything nothing else date dates days day week weeks weekend
    month time times hour hours night nights today tomorrow early earlier earliest late later latest soon
    sooner next last following coming upcoming long short quick fast possible possibly ideally preferably
    prefer prefers preferred preferring preference preferences rather maybe perhaps else cheap cheaper
    cheapest cheaply inexpensive affordable economical reasonable reasonably priced price prices best
    lowest low good better great nice ok okay fine max maximum most least more less than budget limit cost
    costs spend money dollars usd class cabin new now right away asap exactly sure necessary required
    available option options choice due per because since while though however well much many few lot own
    business work working job meeting meetings conference workshop event summit training wedding seminar
    interview interviews offsite appointment client clients customer customers visit visiting visits
    attend attending meet site board colleague colleagues boss manager company project kickoff onboarding
    vacation holiday holidays leisure pleasure family friends school presentation deal sales quarterly
    annual review partner partners vendor supplier hotel hotels hostel hostels accommodation airbnb room
    rooms rental rent car cars hire train trains bus taxi cab uber limo limousine cruise ferry mon tue wed
    thu fri sat sun monday tuesday wednesday thursday friday saturday sunday somewhere nowhere wherever
    whenever anyway weather warm sunny beautiful greater someone somebody thatday
    """.split()
)
# Words that belong to the word before them and mean nothing alone: "window seat".
_TRAILING_WORDS: Final = frozenset(
    "seat seats fare fares ticket tickets flight flights class meeting board conference".split()
)
# Phrases that name another traveller. `~7` is an unknown word, `#7` a word of a place.
_OTHER_TRAVELLER: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?:book|get|find|reserve|buy|order|arrange|give) (?P<who>(?:~\d+ ){1,3})(?:a|an|the|one)\b",
        r"\b(?:book|get|fly|send|put|take) (?P<who>(?:~\d+ ){1,3})(?:to|from|on|out|onto|into)\b",
        r"\b(?:me|myself|i) and (?P<who>(?:[~#]\d+ ?){1,3})",
        r"(?:^|\| |\b(?:for|book|get|fly|send|put|take|with) )(?P<who>(?:~\d+ ){1,3})and (?:i|me|myself)\b",
        r"\b(?:flights?|tickets?|booking|reservation) for (?P<who>(?:~\d+ ?){1,3})(?:$|to|from|on|,|\||@)",
        r"\bfor (?P<who>~\d+ ~\d+) ?(?:$|to|from|on|,|\||@)",
        r"\b(?:on behalf of|travell?er is|passenger is|accompanied by|together with) (?P<who>(?:~\d+ "
        r"?){1,3})",
        r"\b(?:book|get|find|fly|send|put) (?P<who>him|her|them)\b",
    )
)


@dataclass(frozen=True)
class UnusedWords:
    """Unused words. `other` are words that look like the name of another traveller."""

    phrases: tuple[str, ...] = ()
    other: str | None = None


def find_unused_words(tokens: Sequence[str], places: Container[int]) -> UnusedWords:
    """Return up to five phrases of unknown tokens. `places` are the positions of tokens that name places."""
    phrases: list[str] = []
    is_run = False
    for at, token in enumerate(tokens):
        is_unknown = at not in places and (_is_unknown(token) or (is_run and token in _TRAILING_WORDS))
        if is_unknown and is_run:
            phrases[-1] = f"{phrases[-1]} {token}"
        elif is_unknown:
            phrases.append(token)
        is_run = is_unknown
    shown = dict.fromkeys(each[:MAX_PHRASE_CHARS].strip() for each in phrases)
    return UnusedWords(tuple(shown)[:MAX_PHRASES], _find_other_traveller(tokens, places))


def _is_unknown(token: str) -> bool:
    """Return whether the token is a word or number of two letters or more that is not in `KNOWN_WORDS`."""
    return token.isalnum() and len(token) > 1 and token not in KNOWN_WORDS


def _find_other_traveller(tokens: Sequence[str], places: Container[int]) -> str | None:
    """Return the words that look like another traveller's name ("book Anna a flight"), or None."""
    marked = (
        f"#{at}" if at in places else f"~{at}" if _is_unknown(token) else token
        for at, token in enumerate(tokens)
    )
    text = " ".join(marked)
    found = next((match["who"] for each in _OTHER_TRAVELLER if (match := each.search(text))), None)
    if found is None:
        return None
    return " ".join(tokens[int(each)] for each in re.findall(r"[~#](\d+)", found)) or found
