"""Normalization of policy wording: numbers as digits, one form for days, hours, percentages, amounts and
cabins.

After it a two-week notice is `14 days`, "sixty per cent" is `60%`, "US$ 1,200" is `$1200`, an amount in
another currency is `¤900`, and a cabin is one of `@E`, `@P`, `@B`, `@F`. The quote of a rule is always the
original text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from math import ceil
from typing import Final

from tripcortex.domain.policy_rules.money import CURRENCIES
from tripcortex.domain.policy_rules.rules import Range
from tripcortex.model.entities import Cabin

CABIN_MARKS: Final = {
    "@E": Cabin.economy,
    "@P": Cabin.premium_economy,
    "@B": Cabin.business,
    "@F": Cabin.first,
}
_ONES: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
).split()
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ONES_ALTERNATIVES: Final = "|".join(sorted(_ONES, key=len, reverse=True))
_TENS_ALTERNATIVES: Final = "|".join(_TENS)
_HUNDREDS: Final = re.compile(r"\b(?:one|a) hundred\b", re.IGNORECASE)
_NUMBER_WORD: Final = re.compile(
    rf"\b(?:({_TENS_ALTERNATIVES})(?:[- ]({'|'.join(_ONES[1:10])}))?|({_ONES_ALTERNATIVES}))\b", re.IGNORECASE
)
# "One of the founders", "no one", "first one" are not numbers.
_NOT_A_NUMBER: Final = re.compile(
    r"(?:no|any|every|some|each|this|that|the|which|either|as)[ -]$", re.IGNORECASE
)
_FRACTION: Final = re.compile(
    r"\b(one|two|three|four|five|\d) and (a half|one[- ]half|half|a quarter|one[- ]quarter"
    r"|three[- ]quarters?)\b",
    re.IGNORECASE,
)
_UNITS: Final = r"(?:days?|weeks?|hours?|hrs?|h|%|per ?cent|months?|business|working|calendar|full|clear)\b"
_CODES: Final = "|".join(sorted(CURRENCIES - {"USD", "ALL", "TOP"}))
_REPLACEMENTS: Final = tuple(
    (re.compile(pattern, flags), replacement)
    for pattern, replacement, flags in (
        (r"[‐‑−]", "-", 0),
        (r"[“”]", '"', 0),
        (r"[‘’]", "'", 0),
        (r"\s+", " ", 0),
        (r"\bwon't\b", "will not", re.IGNORECASE),
        (r"\bcan't\b", "cannot", re.IGNORECASE),
        (r"\bn't\b", " not", 0),
        (r"(?<=\w)n't\b", " not", 0),
        (r"\bcan not\b", "cannot", 0),
        (r"(?<=\d),(?=\d{3}\b)", "", 0),
        (r"\b(\d+)(?:\.0+)?k\b", r"\g<1>000", re.IGNORECASE),
        (r"(?:\bper ?cent\b|(?<=\d)\s*percent\b|(?<=\d)\s+%)", "%", re.IGNORECASE),
        (r"(?<=\d) %", "%", 0),
        (r"\bpercent\b", "%", re.IGNORECASE),
        (r"(?:\bUSD|\bUS\$|\bU\.S\.\$|(?<![A-Z])\$) ?(?=\d)", "$", 0),
        (r"\$ ?(\d[\d.]*)(?: ?(?:USD|US dollars|dollars))\b", r"$\1", re.IGNORECASE),
        (r"(?<![\d.$])(\d+(?:\.\d\d)?) ?(?:USD|US dollars|U\.S\. dollars|dollars)\b", r"$\1", re.IGNORECASE),
        (rf"(?:[€£¥₹]|\b(?:{_CODES}|[A-Z]{{1,2}}\$)) ?(?=\d)", "¤", 0),
        (rf"\$?(?<!\d)(\d+(?:\.\d\d)?) ?(?:{_CODES}|€|£|euros?|pounds(?: sterling)?)(?!\w)", r"¤\1", 0),
        (r"(?<=\d)\s*(?:–|—|-)\s*(?=[$¤]?\d)", "-", 0),
        (r"\s*[–—]\s*", " - ", 0),
        (r"(?<=\d)\s*(?:hours?|hrs?\.?|h)(?![\w])", " hours", re.IGNORECASE),
        (r"(?<=\d)-(?:hours?|hrs?)\b", " hours", re.IGNORECASE),
        (r"(?<=\d)[ -]?h(?:ours?|rs?)? ?\+", " hours or more", re.IGNORECASE),
        (r"(?<=\d)-days?\b", " days", re.IGNORECASE),
        (r"\ba week\b(?= (?:before|ahead|in advance|prior|out))", "7 days", re.IGNORECASE),
        (r"\ba (?:fortnight|couple of weeks)\b", "14 days", re.IGNORECASE),
        (r"\bthe day before\b", "1 day before", re.IGNORECASE),
    )
)
_DAY_COUNT: Final = re.compile(
    r"\b(\d+)((?:\+| or more)?)(-\d+)?[ -]?(business|working|full|clear|calendar)?[ -]?(days?|weeks?)\b",
    re.IGNORECASE,
)
_HOURS_AHEAD: Final = re.compile(
    r"\b(\d+) hours(?= (?:before|ahead of|prior to|of|in advance of)"
    r" (?:the |their |its )?(?:scheduled )?(?:departure|travel|flight))",
    re.IGNORECASE,
)
_CABIN_WORDS: Final = tuple(
    (re.compile(pattern, flags), mark)
    for pattern, mark, flags in (
        (
            r"\b(?:extra[- ]leg ?room|economy plus|economy comfort"
            r"|main cabin extra)\b(?: economy)?(?: class)?",
            "extra-legroom",
            re.IGNORECASE,
        ),
        (r"\bpremium[- ](?:economy|coach)(?:[- ](?:class|cabins?|seats?))?\b", "@P", re.IGNORECASE),
        (r"\bbasic[- ]economy\b", "basic fares", re.IGNORECASE),
        (r"\b(?:economy|coach)(?:[- /]+(?:class|cabins?))?\b(?!-)", "@E", re.IGNORECASE),
        (r"\b(?:main|standard) cabin\b", "@E", re.IGNORECASE),
        (r"\bbusiness[- ](?:class|cabins?)(?: of service)?\b", "@B", re.IGNORECASE),
        (r"\bfirst[- ](?:class|cabins?)\b", "@F", re.IGNORECASE),
        (r"\bbusiness(?= (?:or|and|nor) (?:@F|first\b)|(?:/|, )(?:@F|first\b))", "@B", re.IGNORECASE),
        (
            r"(?<=@B[/ ])first\b|(?<=@B or )first\b|(?<=@B and )first\b|(?<=@B nor )first\b|(?<=@B, )first\b",
            "@F",
            re.IGNORECASE,
        ),
        (
            r"\b[Bb]usiness(?=,? (?:fares?|seats?|tickets?|on flights|for flights|when the flight"
            r"|if the flight)\b)",
            "@B",
            0,
        ),
        (r"\b[Ff]irst(?=,? (?:fares?|seats?|tickets?|on flights)\b)", "@F", 0),
        (r"\bpremium(?= (?:cabins?|classes|class|seats?|fares?)\b)", "premium", re.IGNORECASE),
        (
            r"^(\W*)Business(?= (?:is|for|may|can|cannot|requires?|needs?|only|isn|not|never)\b|\s*[:,(]"
            r"|\s+- "
            r"|\s*$)",
            r"\1@B",
            0,
        ),
        (
            r"^(\W*)First(?= (?:is|may|can|cannot|requires?|needs?|only|isn|not|never)\b|\s*[:(]|\s+- |\s*$)",
            r"\1@F",
            0,
        ),
        (r"^(\W*)Premium(?= (?:is|may|can|cannot|requires?|needs?|only)\b|\s*[:,(]|\s+- |\s*$)", r"\1@P", 0),
        (r"(?<=[,:] )business(?= (?:is|isn|not|needs|requires)\b)", "@B", 0),
        (
            r"(?<=\bfly )business\b(?! travel| trip)|(?<=\bfly in )business\b|(?<=@[EPF] or"
            r" )business\b(?! (?:travel|trip|need|reason))|(?<=\bflying )business\b|(?<=\bbook"
            r" )business(?=[ .,;?]|$)(?! travel"
            r"| trip)",
            "@B",
            re.IGNORECASE,
        ),
    )
)
# A cell of a table names a cabin with its bare word.
_CELL_CABINS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), mark)
    for pattern, mark in (
        (r"\bpremium\b(?! cabin)", "@P"),
        (
            r"\bbusiness\b(?! (?:days?|hours?|trips?|travel|need|reason|case|justif|units?|purpose|day"
            r"|partner))",
            "@B",
        ),
        (r"(?<!\bthe )\bfirst\b(?! (?:approv|level|line|time|day|class lounge))", "@F"),
        (r"\bstandard\b(?= class| seat)", "@E"),
    )
)
_MINUTES: Final = re.compile(r"\b(?:(\d+) ?hours?,? (?:and )?)?(\d{1,3}) ?min(?:ute)?s?\b", re.IGNORECASE)
_LABEL_CODE: Final = r"(?:\d{1,2}|[A-H]|I{1,3}|IV|VI?)\b"
_LABEL_LIST: Final = re.compile(
    rf"\b([A-Z][a-z]+(?:ie)?)s ({_LABEL_CODE}(?:(?:, | ?(?:and|or|&|to|through|–|-) ?)(?:and "
    rf"|or )?{_LABEL_CODE})+)(?! ?(?:days|hours|%))"
)
CABIN_MARK: Final = re.compile(r"@[EPBF]")
NUMBER: Final = r"(\d+(?:\.\d+)?)"


def normalize(text: str, *, is_cell: bool = False) -> str:
    """Return the text in its normalized form. In a cell of a table a bare "Business" is a cabin."""
    text = _FRACTION.sub(_to_fraction, text.replace("\xa0", " ").replace("**", ""))
    text = _replace_number_words(text)
    text = _LABEL_LIST.sub(_repeat_label, text)
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    text = _MINUTES.sub(_to_hours, text)
    text = re.sub(r"\b(\d+) \(\1\)", r"\1", text)
    text = _DAY_COUNT.sub(_to_calendar_days, text)
    text = _HOURS_AHEAD.sub(lambda found: f"{ceil(int(found[1]) / 24)} days", text)
    for pattern, mark in (*_CABIN_WORDS, *(_CELL_CABINS if is_cell else ())):
        text = pattern.sub(mark, text)
    return text.strip()


def _to_fraction(found: re.Match[str]) -> str:
    whole = str(_ONES.index(found[1].lower())) if found[1].lower() in _ONES else found[1]
    part = {
        "half": "5",
        "a half": "5",
        "one half": "5",
        "quarter": "25",
        "a quarter": "25",
        "one quarter": "25",
    }
    return f"{whole}.{part.get(found[2].lower().replace('-', ' '), '75')}"


def find_cabins(text: str) -> list[Cabin]:
    """Return the cabins named in normalized text, the cheapest first."""
    found = {CABIN_MARKS[mark] for mark in CABIN_MARK.findall(text)}
    return sorted(found, key=lambda cabin: cabin.rank)


def _replace_number_words(text: str) -> str:
    """Return the text with numbers in digits; "one" only counts before a unit."""
    text = _HUNDREDS.sub("100", text)
    return _NUMBER_WORD.sub(_to_digits, text)


def _to_digits(found: re.Match[str]) -> str:
    tens, unit, single = found.groups()
    if tens:
        return str(20 + 10 * _TENS.index(tens.lower()) + (_ONES.index(unit.lower()) if unit else 0))
    value = _ONES.index(single.lower())
    after = found.string[found.end() :].lstrip(" -")
    if value == 1 and not re.match(_UNITS, after, re.IGNORECASE):
        return found[0]
    return str(value) if not _NOT_A_NUMBER.search(found.string[: found.start()]) or value > 1 else found[0]


def _repeat_label(found: re.Match[str]) -> str:
    """Return "Zones 2, 3 and 4" as "Zone 2, Zone 3 and Zone 4"; a range of numbers is written out."""
    word = found[1].removesuffix("ie") + "y" if found[1].endswith("ie") else found[1]
    numbers = re.fullmatch(r"(\d{1,2}) ?(?:to|through|–|-) ?(\d{1,2})", found[2].strip())
    if numbers and int(numbers[1]) < int(numbers[2]):
        return ", ".join(f"{word} {each}" for each in range(int(numbers[1]), int(numbers[2]) + 1))
    return re.sub(r"\b(\d{1,2}|[A-H]|I{1,3}|IV|VI?)\b", rf"{word} \1", found[2])


def _to_hours(found: re.Match[str]) -> str:
    """Return hours and minutes as hours; fewer than thirty minutes alone are no flight."""
    hours, minutes = int(found[1] or 0), int(found[2])
    if not hours and minutes < 30:
        return found[0]
    return f"{(Decimal(hours) + Decimal(minutes) / 60).quantize(Decimal('0.01')).normalize():f} hours"


def _to_calendar_days(found: re.Match[str]) -> str:
    """Return days and weeks as calendar days; five working days are a week."""
    numbers = [int(found[1]), *([int(found[3][1:])] if found[3] else [])]
    if found[5].lower().startswith("week"):
        numbers = [number * 7 for number in numbers]
    elif found[4] and found[4].lower() in ("business", "working"):
        numbers = [ceil(Decimal(number) * 7 / 5) for number in numbers]
    more = " or more" if found[2] else ""
    return f"{'-'.join(map(str, numbers))} days{more}"


# --- ranges -------------------------------------------------------------------------------------------------

# Each pattern with the meaning of its numbers. `{n}` is a number, `{u}` the unit, `{p}` a mark before the
# number.
_RANGE_PATTERNS: Final = (
    (
        r"(?:over|above|more than|exceed(?:s|ing)?|longer than|greater than) {p}{n}(?:{u})?(?:,? and|,? but"
        r"|,?)"
        r" (?:up to|at most|not (?:more|longer) than|no (?:more|longer) than"
        r"|to) (?:and including )?{p}{n}{u}",
        "above to",
    ),
    (
        r"(?:over|above|more than|longer than) {p}{n}(?:{u})? (?:and|but|to) (?:under|below|less than"
        r"|fewer than)"
        r" {p}{n}{u}",
        "above below",
    ),
    (
        r"{p}{n}(?:{u})?(?: or (?:more|longer))? ?(?:,? (?:to|-|and|but)|-),? ?(?:under|less than|below"
        r"|shorter than|fewer than)"
        r" {p}{n}{u}",
        "from below",
    ),
    (
        r"(?:at least|from) {p}{n}(?:{u})? (?:and|but|to) (?:under|less than|below|fewer than) {p}{n}{u}",
        "from below",
    ),
    (
        r"(?:over|above|more than|longer than|exceed(?:s|ing)?) {p}{n}{u},?(?: and| but)? (?:up to|at"
        r" most|not (?:more|longer) than|to)"
        r"(?: and including)? {p}{n}(?![\w%]| ?(?:hours|days|%))",
        "above to",
    ),
    (r"between {p}{n}(?:{u})? and {p}{n}{u}", "from to"),
    (r"from {p}{n}(?:{u})? (?:up )?to {p}{n}{u}", "from to"),
    (r"{p}{n}(?:{u})? ?(?:to|-|through) ?{p}{n}{u}", "from to"),
    (r"(?:no|not) (?:less|fewer|shorter|later|lower) than {p}{n}{u}", "from"),
    (r"(?:no|not) (?:more|longer|greater|higher) than {p}{n}{u}", "to"),
    (r"(?:does|do|may|must|shall|should|is|are) not (?:to )?exceed {p}{n}{u}|not exceeding {p}{n}{u}", "to"),
    (r"(?:at least|from|a minimum of|minimum(?: of)?|≥|>=|as (?:much|many|early) as) ?{p}{n}{u}", "from"),
    (r"{p}{n} ?\+{u}|{p}{n}{u} ?\+", "from"),
    (
        r"{p}{n}{u},? (?:or|and) (?:more|longer|over|above|earlier|beyond|greater|up|later|higher|upwards?)",
        "from",
    ),
    (
        r"(?:up to|at most|a maximum of|maximum(?: of)?|max\.?|≤|<=|within"
        r"|by no more than)(?: and including)? ?{p}{n}{u}",
        "to",
    ),
    (r"{p}{n}{u},? (?:or|and) (?:less|fewer|shorter|under|below|lower)", "to"),
    (
        r"(?:over|more than|longer than|exceed(?:s|ing|ed)?|above|beyond|greater than|higher than|>"
        r"|in excess of|past)"
        r" ?{p}{n}{u}",
        "above",
    ),
    (
        r"(?:under|less than|shorter than|below|fewer than|sooner than|later than|lower than|<|inside"
        r"|closer than)"
        r" ?{p}{n}{u}",
        "below",
    ),
)
HOURS: Final = r" hours"
DAYS: Final = r" days"
PERCENT: Final = r"%"


def find_range(text: str, unit: str, mark: str = "") -> tuple[Range, int, int] | None:
    """Return the first range with that unit in normalized text and its position, or None.

    `unit` follows the number (`HOURS`), `mark` precedes it (`\\$`).
    """
    for pattern, meaning in _compile_ranges(unit, mark):
        found = pattern.search(text)
        if found:
            numbers = [Decimal(each) for each in found.groups() if each is not None]
            return _build_range(meaning, numbers), found.start(), found.end()
    return None


@cache
def _compile_ranges(unit: str, mark: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (
            re.compile(r"(?<![\w$.])(?:" + pattern.format(n=NUMBER, u=unit, p=mark) + ")", re.IGNORECASE),
            meaning,
        )
        for pattern, meaning in _RANGE_PATTERNS
    )


def _build_range(meaning: str, numbers: list[Decimal]) -> Range:
    """Return the range of the numbers; `meaning` is theirs in `_RANGE_PATTERNS`."""
    first, last = numbers[0], numbers[-1]
    ends = {
        "above to": Range(low=first, high=last, low_included=False),
        "above below": Range(low=first, high=last, low_included=False, high_included=False),
        "from below": Range(low=first, high=last, high_included=False),
        "from to": Range(low=first, high=last),
        "from": Range(low=first),
        "to": Range(high=first),
        "above": Range(low=first, low_included=False),
        "below": Range(high=first, high_included=False),
    }
    return ends[meaning]


def complement(span: Range) -> Range | None:
    """Return the numbers outside a range with one open end, None for any other."""
    if (span.low is None) == (span.high is None):
        return None
    if span.high is None:
        return Range(high=span.low, high_included=not span.low_included)
    return Range(low=span.high, low_included=not span.high_included)
