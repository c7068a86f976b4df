"""Phone numbers in a plain form: by the numbering plans of the world (`phonenumbers`), and by the forms people type.

A stretch of digits and the signs between them is looked at as a whole. First come numbers that are valid in the
world or in one of the regions; then forms that can be nothing else, whether such a number is given out or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from types import ModuleType

_EXTENSION: Final = r"(?:[ ,;]{0,2}(?:ext(?:ension)?\.?|x|;ext=|durchwahl)[ :=]{0,2}[0-9]{1,7}(?![0-9]))?"
_STRETCH: Final = re.compile(
    r"(?:(?<![0-9A-Z])|(?<=tel)|(?<=phone)|(?<=mobile)|(?<=cell)|(?<=fax)|(?<=sms))"
    rf"[+(]{{0,3}}[0-9](?:[0-9 ().\-/+]|(?<=[0-9])_(?=[0-9]))*{_EXTENSION}",
    re.IGNORECASE,
)
_NAME: Final = re.compile(
    r"(?:phone|telephone|tel|call|calling|mobile|cell|fax|whatsapp|sms|text|handy|telefon|ring)"
    r"[ _]?(?:number|no|nr)?[\s.:#=\"'+(]{0,6}(?:(?:is|me|us|on|at|him|her|them)[\s:]{1,3}){0,3}$",
    re.IGNORECASE,
)
_NAME_CHARS_MAX: Final = 48
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
_DIGITS_MIN, _DIGITS_MAX = 7, 15
_ENOUGH: Final = re.compile(r"[0-9](?:[^0-9]*+[0-9]){6}")
_BEHIND: Final = " .-/(+"
# A long stretch, as a table of figures is, is looked at in windows. They overlap by more than a number is long.
WINDOW_CHARS: Final = 250
OVERLAP_CHARS: Final = 50

Span = tuple[int, int, str]


def find_phones(text: str, regions: Sequence[str], *, by_plan: bool = True) -> Iterator[Span]:
    """Each with the number whose last digits are kept: without its extension.

    To ask the plans takes time. Without `by_plan` every stretch with digits enough for a phone is taken for one.
    """
    for stretch in _STRETCH.finditer(text):
        start = stretch.start()
        for piece_start, piece in _without_dates(stretch[0]):
            if _ENOUGH.search(piece) is None or _DECIMAL.fullmatch(piece):
                continue
            found = _in_piece(piece, tuple(regions)) if by_plan else [_whole(piece)]
            if not found and _is_named(text, start) and sum(map(str.isdigit, piece)) <= _DIGITS_MAX:
                found = [_whole(piece)]
            for first, last, number in found:
                yield start + piece_start + first, start + piece_start + last, number


def _without_dates(stretch: str) -> Iterator[tuple[int, str]]:
    at = 0
    for date in _DATE.finditer(stretch):
        yield at, stretch[at : date.start()]
        at = date.end()
    yield at, stretch[at:]


def _whole(piece: str) -> Span:
    body = piece.rstrip(_BEHIND)
    return 0, len(body), _main(body)


def _is_named(text: str, start: int) -> bool:
    return _NAME.search(text, max(0, start - _NAME_CHARS_MAX), start) is not None


def _in_piece(piece: str, regions: tuple[str, ...]) -> list[Span]:
    if _FORM.fullmatch(piece.rstrip(_BEHIND)):
        return [_whole(piece)]
    if len(piece) <= WINDOW_CHARS:
        found = _by_plan(piece, regions)
        return found + _by_form(piece, found)
    by_plan = [
        (start + first, start + last, number)
        for start, window in _windows(piece)
        for first, last, number in _by_plan(window, regions)
    ]
    # What the border of a window made of a number must not hide its form.
    return by_plan + _by_form(piece, ())


def _windows(piece: str) -> Iterator[tuple[int, str]]:
    step = WINDOW_CHARS - OVERLAP_CHARS
    for start in range(0, max(1, len(piece) - OVERLAP_CHARS), step):
        yield start, piece[start : start + WINDOW_CHARS]


def _by_plan(piece: str, regions: tuple[str, ...]) -> list[Span]:
    """A number of one region is not looked for inside that of another: the first that finds something tells."""
    plans = _phonenumbers()
    may_be_foreign = "+" in piece
    found: list[Span] = []
    for region in ((None,) if may_be_foreign else ()) + regions:
        for match in plans.PhoneNumberMatcher(piece, region):
            if not any(match.start < end and start < match.end for start, end, _ in found):
                found.append((match.start, match.end, str(match.number.national_number)))
    return found


def _by_form(piece: str, taken: Sequence[Span]) -> list[Span]:
    return [
        (match.start(), match.end(), _main(match[0]))
        for match in _FORM.finditer(piece)
        if not any(match.start() < end and start < match.end() for start, end, _ in taken)
    ]


def _main(number: str) -> str:
    return re.split(r"[ext;,d]", number, maxsplit=1, flags=re.IGNORECASE)[0]


@lru_cache(maxsize=1)
def _phonenumbers() -> ModuleType | Any:
    try:
        import phonenumbers
    except ImportError as error:
        raise SettingsError(
            "Redaction of phone numbers needs phonenumbers, which this installation does not have: "
            "pip install '.[redaction]' in the clone of Holdfast, or make setup"
        ) from error
    return phonenumbers
