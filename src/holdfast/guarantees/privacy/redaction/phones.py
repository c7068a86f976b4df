"""Finder of phone numbers in a normalized text, by numbering plans (`phonenumbers`) and by common forms.

A run of digits and the signs between them is examined as a whole: first for numbers that are valid
internationally or in one of the regions, then for forms that can only be phone numbers, whether assigned or
not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from types import ModuleType

_EXTENSION: Final = r"(?:[ ,;]{0,2}(?:ext(?:ension)?\.?|x|;ext=|durchwahl)[ :=]{0,2}[0-9]{1,7}(?![0-9]))?"
_CANDIDATE: Final = re.compile(
    r"(?:(?<![0-9A-Z])|(?<=tel)|(?<=phone)|(?<=mobile)|(?<=cell)|(?<=fax)|(?<=sms))"
    rf"[+(]{{0,3}}[0-9](?:[0-9 ().\-/+]|(?<=[0-9])_(?=[0-9]))*{_EXTENSION}",
    re.IGNORECASE,
)
_PHONE_WORD: Final = re.compile(
    r"(?:phone|telephone|tel|call|calling|mobile|cell|fax|whatsapp|sms|text|handy|telefon|ring)"
    r"[ _]?(?:number|no|nr)?[\s.:#=\"'+(]{0,6}(?:(?:is|me|us|on|at|him|her|them)[\s:]{1,3}){0,3}$",
    re.IGNORECASE,
)
_MAX_WORD_CHARS: Final = 48
_DATE: Final = re.compile(
    r"(?<![0-9])(?:(?:19|20)[0-9]{2}([-./])[01]?[0-9]\1[0-3]?[0-9]|[0-3]?[0-9]([-./])[0-3]?[0-9]\2(?:19|20)[0-9]{2})"
    r"(?![0-9]|[-./][0-9])"
)
_DECIMAL: Final = re.compile(r"[0-9]+\.[0-9]+[ .)]*|[0-9]{1,3}(?:\.[0-9]{1,3}){3}[ .]*")
_FORM: Final = re.compile(
    # +44 20 7946 0958, 0044 20 …, 011 44 20 …
    rf"(?:\+|(?<![0-9])00|(?<![0-9])011[ -])(?:[ .()/-]{{0,2}}[0-9]){{7,15}}{_EXTENSION}(?![0-9])"
    # (415) 555-0132, 1-415-555-0132, 415.555.0132, 415_555_0132
    rf"|(?<![0-9])(?:1[ ._-])?\(?[0-9]{{3}}\)?[ ./_-]{{0,2}}[0-9]{{3}}[ ._-][0-9]{{4}}{_EXTENSION}(?![0-9])"
    # 415 5550132
    rf"|(?<![0-9])(?:1[ ._-])?\(?[2-9][0-9]{{2}}\)?[ ./_-]{{1,2}}[0-9]{{7}}{_EXTENSION}(?!-?[0-9])"
    # 030/901820, 0171/1234567
    rf"|(?<![0-9.])\(?0[1-9][0-9]{{1,4}}\)?[ ]?/[ ]?[0-9](?:[ -]?[0-9]){{4,8}}{_EXTENSION}(?![0-9])"
    # 030 901820, 01 23 45 67 89, 0412345678: with the digit for long distance
    rf"|(?<![0-9.])\(?0[1-9](?:[ .()-]{{0,2}}[0-9]){{7,9}}{_EXTENSION}(?![0-9])",
    re.IGNORECASE,
)
_MIN_DIGITS, _MAX_DIGITS = 7, 15
_SEVEN_DIGITS: Final = re.compile(r"[0-9](?:[^0-9]*+[0-9]){6}")
_TRAILING: Final = " .-/(+"
# A long run, such as a table of figures, is examined in windows that overlap by more than the length of a
# number.
WINDOW_CHARS: Final = 250
OVERLAP_CHARS: Final = 50

Span = tuple[int, int, str]


def find_phones(text: str, regions: Sequence[str], *, use_plans: bool = True) -> Iterator[Span]:
    """Yield the start, the end and the text without extension of each phone number, in no order.

    `regions` are country codes such as `US`: their numbers need no country prefix. The numbering plans are
    slow; without `use_plans` every run with at least seven digits counts as a phone number. Dates and
    decimals are skipped.
    """
    for stretch in _CANDIDATE.finditer(text):
        start = stretch.start()
        for piece_start, piece in _split_at_dates(stretch[0]):
            if _SEVEN_DIGITS.search(piece) is None or _DECIMAL.fullmatch(piece):
                continue
            found = _find_in_piece(piece, tuple(regions)) if use_plans else [_to_span(piece)]
            if not found and _follows_phone_word(text, start) and sum(map(str.isdigit, piece)) <= _MAX_DIGITS:
                found = [_to_span(piece)]
            for first, last, number in found:
                yield start + piece_start + first, start + piece_start + last, number


def _split_at_dates(stretch: str) -> Iterator[tuple[int, str]]:
    """Yield the parts between the dates in a run of digits, each with its position."""
    at = 0
    for date in _DATE.finditer(stretch):
        yield at, stretch[at : date.start()]
        at = date.end()
    yield at, stretch[at:]


def _to_span(piece: str) -> Span:
    """Return the whole piece as a phone number, without trailing signs."""
    body = piece.rstrip(_TRAILING)
    return 0, len(body), _strip_extension(body)


def _follows_phone_word(text: str, start: int) -> bool:
    """Return True if a word such as "call" or "tel" comes directly before the position."""
    return _PHONE_WORD.search(text, max(0, start - _MAX_WORD_CHARS), start) is not None


def _find_in_piece(piece: str, regions: tuple[str, ...]) -> list[Span]:
    """Return the phone numbers in a run of digits and signs: valid by plan, or by their form."""
    if _FORM.fullmatch(piece.rstrip(_TRAILING)):
        return [_to_span(piece)]
    if len(piece) <= WINDOW_CHARS:
        found = _find_by_plan(piece, regions)
        return found + _find_by_form(piece, found)
    by_plan = [
        (start + first, start + last, number)
        for start, window in _split_windows(piece)
        for first, last, number in _find_by_plan(window, regions)
    ]
    # A number cut by the border of a window must not hide the match by form.
    return by_plan + _find_by_form(piece, ())


def _split_windows(piece: str) -> Iterator[tuple[int, str]]:
    """Yield overlapping windows of a long piece, each with its position."""
    step = WINDOW_CHARS - OVERLAP_CHARS
    for start in range(0, max(1, len(piece) - OVERLAP_CHARS), step):
        yield start, piece[start : start + WINDOW_CHARS]


def _find_by_plan(piece: str, regions: tuple[str, ...]) -> list[Span]:
    """Return the numbers that are valid internationally or in a region.

    Where two overlap, the first region's wins.
    """
    plans = _import_phonenumbers()
    may_be_foreign = "+" in piece
    found: list[Span] = []
    for region in ((None,) if may_be_foreign else ()) + regions:
        for match in plans.PhoneNumberMatcher(piece, region):
            if not any(match.start < end and start < match.end for start, end, _ in found):
                found.append((match.start, match.end, str(match.number.national_number)))
    return found


def _find_by_form(piece: str, taken: Sequence[Span]) -> list[Span]:
    """Return the numbers with the form of a phone number that do not overlap with those in `taken`."""
    return [
        (match.start(), match.end(), _strip_extension(match[0]))
        for match in _FORM.finditer(piece)
        if not any(match.start() < end and start < match.end() for start, end, _ in taken)
    ]


def _strip_extension(number: str) -> str:
    """Return the number up to its extension."""
    return re.split(r"[ext;,d]", number, maxsplit=1, flags=re.IGNORECASE)[0]


@lru_cache(maxsize=1)
def _import_phonenumbers() -> ModuleType | Any:
    """Return the package `phonenumbers`; raise `SettingsError` if it is not installed."""
    try:
        import phonenumbers
    except ImportError as error:
        raise SettingsError(
            "Redaction of phone numbers needs the package phonenumbers, which is not installed. Run "
            f"{format_install_command('redaction')}."
        ) from error
    return phonenumbers
