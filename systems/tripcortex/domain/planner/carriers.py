"""Airlines in a request's sentence: finds the preferred ones and those to avoid, as IATA codes.

A full name ("Air France") counts anywhere. A short name ("United", "Delta", "Spirit") or a code can also be a
word or a place: it counts only after a word that leads to a carrier, next to another carrier, or before
"flight" and similar words.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tripcortex.domain.planner import gazetteer
from tripcortex.domain.planner.gazetteer import read_table
from tripcortex.domain.planner.text_normalization import normalize_text

_AVOIDING_LEAD: Final = re.compile(
    r"\b(?:not|no|avoid(?:ing)?|except(?: for)?|anything but|any ?(?:one|body|thing|airline|carrier|"
    r"flight)?s? (?:except|but)"
    r"|all but|never|without|other "
    r"than|hate|skip"
    r"|dont (?:want|like|book|put me)|rather not|apart from|fan of|nothing on)(?: (?:to|on|with|by|fly|"
    r"flying|use|the|book|take))* $"
)
_PREFERRING_LEAD: Final = re.compile(
    r"\b(?:prefer(?:ably|ring|red|ence)?(?: is| "
    r"for)?|ideally|on|with|by|fly(?:ing)?|using|use|take|taking|like|love|choose|book|carrier"
    r"|airlines?)(?: (?:to|on|with|by|fly|flying|use|the|an?|is))* $"
)
# The employee has no preference: the carrier is neither preferred nor avoided.
_INDIFFERENT_LEAD: Final = re.compile(
    r"\b(?:no|without)(?: \w+)? (?:preference|need)(?: for| of)?(?: the)? $|\bdont (?:need|mind) $"
    r"|\b(?:status|miles|points|card|account|member|membership|gold|silver|platinum|lounge|number|meeting|"
    r"presentation|"
    r"visit|client|customer|project|contract|workshop) (?:with|on|of|at|from|for|is|by)(?: the)? $"
)
_PLACE_LEAD: Final = re.compile(r"\b(?:to|from|in|via|into|of|visit|the|book) $")
_PHRASE_START: Final = re.compile(r"(?:^|[|,:-] |@\d+ |%[01] )$")
_PHRASE_END: Final = re.compile(
    r" *(?:$|[|,]|@\d)| (?:y|only|pls|please|if (?:poss|possible|available|you can)|preferred|ideally|or|and|"
    r"for (?:me|both)|both ways|all the way|as usual|would be (?:good|great|nice|best|perfect|ideal|my "
    r"choice))\b"
)
_OPENING_AFTER: Final = re.compile(r" (?:to|from|out of|into|back|there|home|out|return)\b")
_CODE_CHARS: Final = 2
_CODE_WORDS: Final = frozenset(
    "as at am so is us to my it id hi ok me or in no be we he do go up by an if of on pm re de si og ps "
    "ut bi tr tc tm ms mr dr vs un al el la lo ta ss ex ye ya yo hm ha oh uk eu tv pc".split()
)
# Short names that are everyday words: a carrier only directly after one of a few words.
_WORD_NAMES: Final = frozenset(
    "lot play lift breeze discover rex viva peach scoot condor porter pal mas ram tam boa dat taca norse "
    "edelweiss firefly wingo corsair maldivian hop star air".split()
)
_STRICT_LEAD: Final = re.compile(
    r"\b(?:on|with|by|via|prefer(?:ably)?|carrier|airlines?|flying|fly|ideally|using)(?: (?:with|on|is))? $"
)
_CARRIER_BEFORE: Final = re.compile(r"%[01](?: ,| or| and| /)+ $")
# "Not Frontier, United is fine".
_APPROVED_AFTER: Final = re.compile(
    r" (?:is |are |would be )?(?:ok|okay|fine|good|preferred|acceptable|works)\b"
)
_CONJUNCTION: Final = re.compile(r"(?: ,| or| and| /)+ ")
_FLIGHT_WORD_AFTER: Final = re.compile(r" (?:flights?|preferred|if possible|please|only|tickets?)\b")
_NOT_A_CARRIER_AFTER: Final = re.compile(r" (?:states|kingdom|arab|nations|food|beer|cheese)\b")
# Full names that have another meaning too.
_AMBIGUOUS_NAMES: Final = _WORD_NAMES | {"norwegian", "swiss", "emirates", "sas", "gol", "iberia"}


def parse_carriers(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the normalized text with "|" for each carrier, the preferred codes and the avoided codes.

    A carrier that is both preferred and avoided counts as avoided.
    """
    wanted: list[str] = []
    avoided: list[str] = []
    left = ""
    at = 0
    for match in _compile_name_pattern().finditer(text):
        left += text[at : match.start()]
        at = match.start()
        side = _classify(left, match, text[match.end() :])
        if side is None:
            continue
        (avoided if side == "%1" else wanted).append(_load_codes()[match[1]])
        left += side
        at = match.end()
    left = re.sub(r"%[01]", "|", left + text[at:])
    kept = tuple(code for code in dict.fromkeys(wanted) if code not in avoided)
    return left, kept, tuple(dict.fromkeys(avoided))


def is_carrier(code: str) -> bool:
    """Return True if the table of carriers has this code, in any case."""
    return code.upper() in _load_codes().values()


def is_carrier_word(name: str) -> bool:
    """Return True if the normalized name, alias or code is that of a carrier."""
    return name in _load_codes()


def get_carrier_names(code: str) -> tuple[str, ...]:
    """Return the names of an airline, the full name first, or the code itself if the airline is unknown."""
    return _load_names_by_code().get(code.upper(), (code,))


def _classify(before: str, match: re.Match[str], after: str) -> str | None:
    """Return `%0` for a preferred carrier, `%1` for an avoided one, None if the match is not a carrier.

    `before` and `after` are the text around the match; `before` has these markers for earlier carriers.
    """
    if _NOT_A_CARRIER_AFTER.match(after) or _INDIFFERENT_LEAD.search(before):
        return None
    if match[1] in _CODE_WORDS and len(match[1]) == _CODE_CHARS:
        return "%0" if _is_isolated(before, match[1], after) else None
    if _APPROVED_AFTER.match(after):
        return "%0"
    if beside := _CARRIER_BEFORE.search(before):
        return beside[0][:2]
    if _AVOIDING_LEAD.search(before):
        return None if match[1] in _CODE_WORDS else "%1"
    is_named = match[1] in _load_full_names() or match[2]
    joint = _CONJUNCTION.match(after)
    following = _compile_name_pattern().match(after, joint.end()) if joint else None
    is_named = is_named or (following is not None and following[1] in _load_full_names())
    if gazetteer.find_regions(match[1]) and not match[2] and _PLACE_LEAD.search(before):
        return None
    if _is_isolated(before, match[1], after):
        return "%0"
    is_followed = (
        after.startswith(" preferred") if is_carrier(match[1]) else bool(_FLIGHT_WORD_AFTER.match(after))
    )
    is_word = match[1] in _WORD_NAMES | _CODE_WORDS
    is_led = not is_word and _PREFERRING_LEAD.search(before)
    is_led = is_led or (match[1] in _WORD_NAMES and _STRICT_LEAD.search(before))
    return "%0" if is_named or is_followed or is_led else None


def _is_isolated(before: str, name: str, after: str) -> bool:
    """Return whether a carrier's name is a phrase of its own ("…, Alaska"), or opens it ("TAP to Porto").

    A code that is also a word or a state is not.
    """
    if len(name) == _CODE_CHARS and (name in _CODE_WORDS or _is_place(name)):
        return False
    if not _PHRASE_START.search(before):
        return False
    opens = bool(_OPENING_AFTER.match(after)) and not _is_place(name)
    return opens or bool(_PHRASE_END.match(after))


def _is_place(name: str) -> bool:
    """Return whether the name is also that of a city, a state or a country."""
    return bool(gazetteer.find_regions(name) or gazetteer.find_cities(name))


@cache
def _load_codes() -> dict[str, str]:
    """Return the carrier codes of `carriers.csv` by normalized code, name and alias."""
    found = {}
    for row in read_table("carriers.csv"):
        for name in (row["code"], row["name"], *filter(None, row["aliases"].split("|"))):
            found[normalize_text(name)] = row["code"]
    return found


@cache
def _load_names_by_code() -> dict[str, tuple[str, ...]]:
    return {
        row["code"]: (row["name"], *filter(None, row["aliases"].split("|")))
        for row in read_table("carriers.csv")
    }


@cache
def _load_full_names() -> frozenset[str]:
    """Return the normalized full names that have no other meaning."""
    return frozenset(normalize_text(row["name"]) for row in read_table("carriers.csv")) - _AMBIGUOUS_NAMES


@cache
def _compile_name_pattern() -> re.Pattern[str]:
    """Compile the pattern of all codes, names and aliases, the longest first."""
    known = "|".join(re.escape(each) for each in sorted(_load_codes(), key=len, reverse=True))
    return re.compile(rf"\b({known})( air ?lines?| airways)?\b")
