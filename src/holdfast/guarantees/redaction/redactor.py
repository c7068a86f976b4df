"""The redactor: four passes in their order, e-mail → link and tracking number → phone → order number.

Each pass sees the text as the one before left it and does not look into masks. The passes are repeated until
nothing changes: a mask may lay bare where its neighbour begins. A pass is left out where the text, or what stands
between two masks, lacks what all its finds have: most log lines have no digit and no at sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import Pattern as Regex
from typing import Any, Final, NamedTuple

from holdfast.guarantees.redaction.emails import find_emails
from holdfast.guarantees.redaction.masks import LEFT_ALONE, MASK, Kind, Style, mask
from holdfast.guarantees.redaction.orders import find_orders
from holdfast.guarantees.redaction.phones import find_phones
from holdfast.guarantees.redaction.plain_form import plain_form
from holdfast.guarantees.redaction.tracking import find_links, find_tracking_numbers

EXCERPT_CHARS: Final = 80
DEFAULT_REGIONS: Final = ("US", "GB")
ROUNDS_MAX: Final = 10
# In a longer text numbering plans are not asked: a megabyte of numbers would take half a minute.
BY_PLAN_CHARS_MAX: Final = 16_384

# Where something stands in a plain form, and the number whose last digits may be kept.
Found = tuple[int, int, str]
Finder = Callable[[str], Iterable[Found]]

# What every find of a pass has, in a plain form.
_AT: Final = re.compile(r"@|%40|&(?:#|commat)|\\u0040", re.IGNORECASE)
_WAY: Final = re.compile(r"[/?#]")
_DIGIT: Final = re.compile(r"[0-9]")
_DIGITS_OF_A_PHONE: Final = re.compile(r"[0-9](?:[ ().\-/+_]*+[0-9]){6}")
_ALWAYS: Final = re.compile("")
_ANY: Final = re.compile(r"[0-9@/?#]|&commat", re.IGNORECASE)

# A value under such a name is what the name says, whatever it looks like.
_NAMES: Final = (
    (re.compile(r"mail"), Kind.email),
    (re.compile(r"tracking"), Kind.tracking),
    (re.compile(r"phone|mobile|(?:^|_)(?:tel|fax|whats_?app)(?:_|$)"), Kind.phone),
    (re.compile(r"order_?(?:id|number|no|nr|num|name|ref|code)s?(?:_|$)"), Kind.order),
)
# Where a word begins inside a name: orderId, OrderID, orderIDs.
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")


class _Pass(NamedTuple):
    kind: Kind
    needs: Regex[str]
    find: Finder
    through_masks: bool = False


@dataclass(frozen=True)
class Redactor:
    """`regions` are those whose phone numbers are known without a country code; `orders` are forms of your own shop.

    Each expression of `orders` is an order number whole, or in its first group.
    """

    style: Style = "stars"
    kinds: frozenset[Kind] = frozenset(Kind)
    regions: tuple[str, ...] = DEFAULT_REGIONS
    orders: tuple[Regex[str], ...] = ()

    def redact(self, text: str) -> str:
        if not self.orders and _ANY.search(plain_form(text).text) is None:
            return text
        if LEFT_ALONE.fullmatch(text):
            return text
        for _ in range(ROUNDS_MAX):
            redacted = self._round(text)
            if redacted == text:
                break
            text = redacted
        return text

    def excerpt(self, text: str, chars: int = EXCERPT_CHARS) -> str:
        """The beginning of the redacted text, never with half a mask at its end."""
        redacted = self.redact(text)
        cut = chars
        for each in MASK.finditer(redacted):
            if each.start() < chars < each.end():
                cut = each.start()
        return redacted[:cut]

    def redact_value(self, value: Any) -> Any:
        """The same of texts inside a JSON-like value, keys of mappings too. What a name tells holds for all under it."""
        return self._inner(value, None)

    # --- values ---------------------------------------------------------------------------------------------

    def _inner(self, value: Any, kind: Kind | None) -> Any:
        match value:
            case None | bool():
                return value
            case str():
                return self._told(value, kind) if kind else self.redact(value)
            case int() | float() if kind:
                return self._told(str(value).removesuffix(".0"), kind)
            case Mapping():
                return self._members(value, kind)
            case list() | tuple() | set() | frozenset():
                return [self._inner(inner, kind) for inner in value]
        return value

    def _members(self, value: Mapping[Any, Any], kind: Kind | None) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        for name, inner in value.items():
            shown, told = name, kind
            if isinstance(name, str):
                shown, own = self.redact(name), _kind_of(name)
                told = own if own in self.kinds else kind
            members[_free(shown, members)] = self._inner(inner, told)
        return members

    def _told(self, text: str, kind: Kind) -> str:
        """What a name tells of: masked whole, unless masks stand for all of it already or it shows nothing."""
        redacted = self.redact(text)
        left = plain_form(MASK.sub("", redacted)).text
        is_done = _DIGIT.search(left) is None if redacted != text else not any(map(str.isalnum, left))
        return redacted if is_done else mask(kind, plain_form(redacted).text, self.style)

    # --- passes ---------------------------------------------------------------------------------------------

    def _round(self, text: str) -> str:
        by_plan = len(text) <= BY_PLAN_CHARS_MAX
        passes = (
            _Pass(Kind.email, _AT, lambda plain: _whole(plain, find_emails(plain))),
            _Pass(Kind.tracking, _WAY, lambda plain: _whole(plain, find_links(plain)), through_masks=True),
            _Pass(Kind.tracking, _DIGIT, lambda plain: _whole(plain, find_tracking_numbers(plain))),
            _Pass(
                Kind.phone,
                _DIGITS_OF_A_PHONE,
                lambda plain: find_phones(plain, self.regions, by_plan=by_plan),
            ),
            _Pass(Kind.order, _DIGIT if not self.orders else _ALWAYS, self._find_orders),
        )
        for each in passes:
            if each.kind in self.kinds:
                text = self._replaced(text, each) if each.through_masks else self._between(text, each)
        return text

    def _between(self, text: str, each: _Pass) -> str:
        """The pass over what stands between masks."""
        if each.needs.search(plain_form(text).text) is None:
            return text
        parts: list[str] = []
        at = 0
        for left in LEFT_ALONE.finditer(text):
            parts += self._replaced(text[at : left.start()], each), left[0]
            at = left.end()
        parts.append(self._replaced(text[at:], each))
        return "".join(parts)

    def _replaced(self, text: str, each: _Pass) -> str:
        form = plain_form(text)
        if each.needs.search(form.text) is None:
            return text
        parts: list[str] = []
        at = 0
        for first, last, number in _apart(each.find(form.text)):
            start, end = form.original(first, last)
            if start < at:  # both came from one character of the original
                start = at
            if MASK.fullmatch(form.text[first:last]) is None:
                parts += text[at:start], mask(each.kind, number, self.style)
                at = max(at, end)
        parts.append(text[at:])
        return "".join(parts)

    def _find_orders(self, plain: str) -> Iterator[Found]:
        for own in self.orders:
            for match in own.finditer(plain):
                group = 1 if own.groups else 0
                yield *match.span(group), match[group]
        yield from _whole(plain, find_orders(plain))


def redact(text: str, *, style: Style = "stars") -> str:
    """The text with every e-mail address, phone, order and tracking number and tracking link masked."""
    return _PLAIN[style].redact(text)


def excerpt(text: str, chars: int = EXCERPT_CHARS, *, style: Style = "stars") -> str:
    """Redacted first, then cut."""
    return _PLAIN[style].excerpt(text, chars)


def redact_value(value: Any, *, style: Style = "stars") -> Any:
    return _PLAIN[style].redact_value(value)


_PLAIN: Final[dict[Style, Redactor]] = {"stars": Redactor(), "tokens": Redactor("tokens")}


def _whole(plain: str, spans: Iterable[tuple[int, int]]) -> Iterator[Found]:
    for start, end in spans:
        yield start, end, plain[start:end]


def _apart(found: Iterable[Found]) -> Sequence[Found]:
    """In the order of the text; of those that overlap one, from the first to the last character of all."""
    apart: list[Found] = []
    for start, end, number in sorted(found):
        if apart and start < apart[-1][1]:
            first, last, kept = apart[-1]
            apart[-1] = (first, max(last, end), number if end > last else kept)
        elif start < end:
            apart.append((start, end, number))
    return apart


def _kind_of(name: str) -> Kind | None:
    spelled = _WORD.sub("_", name).lower().replace("-", "_").replace(" ", "_")
    return next((kind for form, kind in _NAMES if form.search(spelled)), None)


def _free(name: Any, taken: Mapping[Any, Any]) -> Any:
    """Two names may look alike once they are redacted; neither value may be lost for it."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name} ({count})"
    return free
