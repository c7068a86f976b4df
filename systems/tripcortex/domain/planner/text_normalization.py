"""Normalization of text for the parsers: lower case without accents, breaks as `|`, numbers without commas.

After it, case, spacing, accents, typographic quotes and dashes have no meaning. Names in the tables pass
through the same function, so that both sides of a comparison are equal.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from holdfast.ai import strip_invisible

NUMBERS: Final = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()
    )
} | {"a": 1, "an": 1, "couple": 2, "a couple of": 2, "a couple": 2}
NUMBER: Final = r"(?:\d{1,3}|a couple(?: of)?|" + "|".join(list(NUMBERS)[1:15]) + r"|an?)"

_MONTH_NAMES: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def _name_months(match: re.Match[str]) -> str:
    """Return "8-11 jun" for "8.-11.6."."""
    month = int(match[3])
    return (
        f"{match[1]}-{match[2]} {_MONTH_NAMES[month - 1]} " if 1 <= month <= len(_MONTH_NAMES) else match[0]
    )


def _name_month(match: re.Match[str]) -> str:
    """Return "21 sep" for "21.9.", the short date of Central Europe; other numbers stay as they are."""
    day, month = int(match[1]), int(match[2])
    return (
        f"{day} {_MONTH_NAMES[month - 1]} "
        if 1 <= month <= len(_MONTH_NAMES) and 1 <= day <= 31
        else match[0]
    )


def _join_date(match: re.Match[str]) -> str:
    """Return "20 apr 2026" for "20-Apr-2026" and "20-Apr-26"."""
    year = f" 20{match[4][-2:]}" if match[4] else ""
    return f"{match[1]} {match[2]}{match[3]}{year}"


def _spell_hour(match: re.Match[str]) -> str:
    """Return "8 am" for "8a" and "8a.m."."""
    minutes = f":{match[2]}" if match[2] else ""
    return f"{match[1]}{minutes} {match[3]}m"


# Applied in this order.
_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # The parsers use @ and % as markers: remove them from the input.
        (r"[\s@%]+", " "),
        (r"[‘’ʼ´`']", ""),
        (r"\s*(?:→|⇒|->|=>|>)\s*", " to "),
        (r"[–—−‐‑]", "-"),
        # "w/ Swiss", "San Jose (California)", "ret", "rtn".
        (r"\bw/ ?(?=[a-z])", "with "),
        (r"\(([a-z0-9][a-z0-9 .,/-]{1,40})\)", r" , \1 , "),
        (r"\b(?:rtn|ret)\b\.?", "return"),
        (r"\bo/?w\b", "one way"),
        (r"\btonight\b", "today evening"),
        (r"\bthis (morning|afternoon|evening)\b", r"today \1"),
        (r"\bfirst thing(?: in the morning)?(?! we\b)", "early morning"),
        (r"\barvo\b", "afternoon"),
        (r"\bmorn\b", "morning"),
        (r"(?<!christmas )(?<!xmas )(?<!new years )(?<!new year )(?<!the )(?<!day )\beve\b", "evening"),
        (r"\b(?:tmr|tmrw|tmw|tomoz|2moro|2morrow|2mrw)\b", "tomorrow"),
        (r"\bw/c\b", "week commencing"),
        (
            r"\b(\d{1,2})-(jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)([a-z]*)(?:-(\d{4}|\d\d)\b|"
            r"\b(?! ?-))",
            _join_date,
        ),
        # "Flight 2 nyc", "need 2 be there", "4 me".
        (
            r"\b(flights?|fly|go|get|back|me|need|ticket|trip|going|want) 2 (?=(?!"
            r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|day|night|week|people|seat|ticket|stop|"
            r"adult|bag|"
            r"options?|weeks?|months?)[a-z]*\b)[a-z]{3,}|be\b|go\b)",
            r"\1 to ",
        ),
        (r"\b4 (?=me\b)", "for "),
        (r"\b1 ?-? ?way\b", "one way"),
        (r"\b(\d{1,2})(?:[:.](\d\d))? ?([ap])(?:\.? ?m\.?)?(?=$|[\s,;.!?)/-])", _spell_hour),
        (r"\b(i)\.? ?e\.?(?=[ ,])", ","),
        # Abbreviations keep no dots: d.c., u.s., a.m.
        (r"\b([a-z])\.\s?([a-z])\.", r"\1\2 "),
        (r"\bst\.? (?=louis|johns?\b|paul|petersburg)", "saint "),
        (r"\bft\.? (?=worth|lauderdale|myers)", "fort "),
        (r"(?<=\d),(?=\d{3}\b)", ""),
        (r"(?<![\d.])(\d{1,2})\. ?(?:-|to|bis) ?(\d{1,2})\.(\d{1,2})\.?(?!\d)", _name_months),
        (r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(?!\d)", _name_month),
        # "From: Boston" is "from Boston"; another colon ends a clause.
        (
            r"\b(from|to|origin|destination|depart(?:ure|ing|s)?|return(?:ing)?|out(?:bound)?|in(?:bound)?|"
            r"back|dates?|cabin|class"
            r"|airlines?|carriers?|budget|on|leave|leaving|max|price|travel|day|arrival|arriving)\s*:(?!\d)",
            r"\1 ",
        ),
        # A dot or colon between digits belongs to a number, a date or an hour.
        (r"[.:](?!\d)|(?<!\d)[.:]|[!?;()\[\]{}\"“”«»\n\r\t|]+", " | "),
        (r"(?:\s*\|)+\s*", " | "),
        (r"\s*,\s*", " , "),
        (r"\s+", " "),
    )
)


def normalize_text(text: str) -> str:
    """Return the text in its normalized form. Characters of other scripts than Latin stay as they are."""
    plain = unicodedata.normalize("NFKD", strip_invisible(text.replace("\n", " | ").replace("\t", " ")))
    plain = "".join(each for each in plain if not unicodedata.combining(each)).casefold()
    for pattern, replacement in _RULES:
        plain = pattern.sub(replacement, plain)
    return plain.strip(" |,")


def parse_number(word: str) -> int:
    """Return the value of a number in digits or words, as `NUMBER` matches it."""
    return int(word) if word.isdigit() else NUMBERS[word]


# What leads to a correction of the words before it: "Tuesday, no wait, Wednesday".
_CORRECTING: Final = frozenset(
    "wait sorry mean meant scratch correction actually rather oops pardon make no seriously haha lol "
    "kidding joking".split()
)
_BETWEEN: Final = _CORRECTING | frozenset(
    "oh um uh er i it that on to the in and or better let say ,|- | , -".split()
)


def is_correction(between: list[str]) -> bool:
    """Return whether the words between two days or two places mean that the second replaces the first."""
    return bool(_CORRECTING & set(between)) and set(between) <= _BETWEEN and between != ["or", "rather"]


_YES: Final = re.compile(
    r"^(?:yes|yep|yeah|yup|ya|y|aye|correct|right|sure|ok|okay|exactly|indeed|absolutely|definitely|"
    r"certainly|of course"
    r"|thats (?:right|correct|it)|that is (?:right|correct)|please do|do it|go ahead|affirmative|fine|"
    r"true)\b"
)
_NO: Final = re.compile(
    r"^(?:no|nope|nah|n|not|negative|never|none(?: of (?:them|these|those))?|neither|nowhere|dont|do not|"
    r"wrong|incorrect"
    r"|false)\b"
)


def is_yes(plain: str) -> bool:
    """Return whether a normalized answer begins with a yes."""
    return bool(_YES.match(plain))


def is_no(plain: str) -> bool:
    """Return whether a normalized answer begins with a no."""
    return bool(_NO.match(plain))
