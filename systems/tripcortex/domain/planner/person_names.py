"""Names of people that are also names of cities or months: "Paris Williams", "June asked me", "Mr Houston".

The employee's own spelling decides: only a word with a capital letter is a name, and only where the words
around it say so. Each name is replaced by "someone", so that no parser takes it for a place or a month.
"""

from __future__ import annotations

import re
from typing import Final

from tripcortex.domain.planner import gazetteer
from tripcortex.domain.planner.carriers import is_carrier_word
from tripcortex.domain.planner.text_normalization import normalize_text
from tripcortex.domain.planner.unused_words import KNOWN_WORDS

SOMEONE: Final = "someone"
_WORD: Final = r"[A-Z][a-zà-öø-ÿ'’]+"
_TITLED: Final = re.compile(
    rf"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Professor|Herr|Frau|Mme|Sir)\.? {_WORD}(?: {_WORD})?"
)
_PAIR: Final = re.compile(rf"(?<!\w)(?=(?P<first>{_WORD}) (?P<second>{_WORD})\b)")
_LAST_WORD: Final = re.compile(r"([\w'’]+|->|-)\W*$")
_MONTHS: Final = "April|May|June|August|Jan|Juan"
_TELLS: Final = (
    r"is (?:on|sick|ill|away|off|out|busy|unavailable|leaving|joining|coming)|cannot|can't|can’t|asked|"
    r"asks|wants|wanted|said|says|told|tells|suggested|suggests|invited|invites|emailed|texted|called|"
    r"mentioned|requested|insists|insisted|thinks|approved|recommended|recommends|needs me|sent me"
)
_SUBJECT: Final = re.compile(
    rf"\b(?P<name>{_WORD})(?P<rest>(?: from [\w ]{{2,20}}?)? (?P<told>{_TELLS})\b| and (?:I|me|myself)\b)"
)
_COMPANY: Final = re.compile(
    rf"\b(?P<lead>(?:[Mm]eet|[Mm]eeting|[Jj]oin|[Jj]oining|[Ww]ith|[Cc]olleague|[Bb]oss|[Mm]anager|[Ff]riend|"
    rf"[Ww]ife|[Hh]usband|[Ss]ister|[Bb]rother|[Cc]lient|[Dd]irector|[Aa]ssistant|-in-law),? "
    rf")(?P<name>{_WORD})"
    r"(?P<rest>['’]s\b| (?:and|at|from|who|there|for)\b|(?= ?[,.;!?]| in ))"
)
_PLACE_LEADS: Final = frozenset(
    "to from in into via at near around visit visiting leaving towards -> - and or the".split()
)
_PERSON_LEADS: Final = frozenset(
    "meet meeting see seeing with by for and join joining host hosting colleague boss manager friend "
    "client name im i'm i’m prof ceo cfo cto director".split()
)
_ORGANISATION: Final = re.compile(
    r" (?:Foundation|Institute|University|College|Hospital|Museum|Ltd|Inc|GmbH|LLC|Group|School)\b"
)
_MIN_NAME_LETTERS: Final = 4
_MIN_LOWER_SHARE: Final = 0.4


def hide_person_names(text: str) -> str:
    """Return the text with "someone" for each person whose name is also that of a place or a month."""
    words = re.findall(r"[^\W\d_]{2,}", text)
    if sum(each.islower() for each in words) < _MIN_LOWER_SHARE * len(words):
        # Everything has capital letters: they say nothing.
        return text
    text = _TITLED.sub(SOMEONE, text)
    text = _hide_pairs(text)
    text = _SUBJECT.sub(_hide_single, text)
    return _COMPANY.sub(_hide_company, text)


def _hide_pairs(text: str) -> str:
    """Replace "Paris Williams", but not "Paris Orly" or "to Paris Thursday"."""
    for match in reversed(list(_PAIR.finditer(text))):
        lead = _LAST_WORD.search(text[: match.start()])
        first, second = normalize_text(match["first"]), normalize_text(match["second"])
        is_led = lead is not None and lead[1].lower() in _PERSON_LEADS
        is_name = len(first) >= _MIN_NAME_LETTERS and _is_place_or_month(first)
        is_place = _is_known(second) or _is_known(f"{first} {second}") or _is_within_name(text, match)
        if is_name and not is_place and (is_led or _ORGANISATION.match(text[match.end("second") :])):
            text = f"{text[: match.start()]}{SOMEONE}{text[match.end('second') :]}"
    return text


def _is_within_name(text: str, match: re.Match[str]) -> bool:
    """Return whether both words belong to a longer name of a place: "Ho Chi Minh City"."""
    before = normalize_text(text[: match.start()]).split()[-2:]
    after = normalize_text(text[match.end("second") :]).split()[:2]
    middle = [normalize_text(match["first"]), normalize_text(match["second"])]
    longer = (" ".join([*before[at:], *middle, *after[:many]]) for at in range(3) for many in range(3))
    return any(gazetteer.find_cities(each) or gazetteer.find_regional_cities(each) for each in longer)


def _hide_single(match: re.Match[str]) -> str:
    """Replace "June" in "June asked me"."""
    lead = _LAST_WORD.search(match.string[: match.start()])
    if lead is not None and lead[1].lower() in _PLACE_LEADS:
        return match[0]
    rest = match["told"] or match["rest"]
    return f"{SOMEONE} {rest.strip()}" if _is_place_or_month(normalize_text(match["name"])) else match[0]


def _hide_company(match: re.Match[str]) -> str:
    """Replace "Jordan" in "with Jordan from finance"."""
    lead, name = match["lead"], normalize_text(match["name"])
    if not _is_place_or_month(name) or is_carrier_word(name):
        return match[0]
    return f"{lead}{SOMEONE}{match['rest']}"


def _is_place_or_month(word: str) -> bool:
    """Return whether the normalized word is also the name of a city or a month."""
    places = gazetteer.find_cities(word) or gazetteer.find_regional_cities(word)
    return bool(places or gazetteer.find_regions(word)) or word in _MONTHS.lower().split("|")


def _is_known(word: str) -> bool:
    """Return whether a normalized word can follow a city's name: an airport, a place, a day, an airline."""
    return bool(
        word in KNOWN_WORDS
        or gazetteer.find_cities(word)
        or gazetteer.find_regions(word)
        or gazetteer.find_airport_by_name(word)
        or is_carrier_word(word)
        or _CALENDAR.fullmatch(word)
    )


_CALENDAR: Final = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun|jan|feb|mar|"
    r"apr|jun|jul|aug|"
    r"sep|sept|oct|nov|dec|tomorrow|today|january|february|march|april|may|june|july|august|september|"
    r"october|november|december|international|metro\w*|airport|central|north|south|east|west|terminal"
)
