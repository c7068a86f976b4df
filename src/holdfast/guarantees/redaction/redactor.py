"""The redactor: four passes in their order, e-mail → link and tracking number → phone → order number.

Each pass sees the text as the one before left it and does not look into masks. The passes are repeated until
nothing changes: a mask may lay bare where its neighbour begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import Pattern as Regex
from typing import Any, Final

from holdfast.guarantees.redaction.emails import find_emails
from holdfast.guarantees.redaction.masks import LEFT_ALONE, MASK, Kind, Style, mask
from holdfast.guarantees.redaction.orders import find_orders
from holdfast.guarantees.redaction.phones import find_phones
from holdfast.guarantees.redaction.plain_form import plain_form
from holdfast.guarantees.redaction.tracking import find_links, find_tracking_numbers

EXCERPT_CHARS: Final = 80
DEFAULT_REGIONS: Final = ("US", "GB")
ROUNDS_MAX: Final = 10

# Where something stands in a plain form, and the number whose last digits may be kept.
Found = tuple[int, int, str]
Finder = Callable[[str], Iterable[Found]]

# A value under such a name is what the name says, whatever it looks like.
_NAMES: Final = (
    ("email", Kind.email),
    ("mail", Kind.email),
    ("tracking", Kind.tracking),
    ("phone", Kind.phone),
    ("mobile", Kind.phone),
    ("order_id", Kind.order),
    ("order_number", Kind.order),
    ("order_no", Kind.order),
    ("order_name", Kind.order),
)


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
        """The same of texts inside a JSON-like value, keys of mappings too."""
        match value:
            case str():
                return self.redact(value)
            case Mapping():
                return {self._key(name): self._under(name, inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.redact_value(inner) for inner in value]
            case set() | frozenset():
                return {self.redact_value(inner) for inner in value}
        return value

    # --- values ---------------------------------------------------------------------------------------------

    def _key(self, name: Any) -> Any:
        return self.redact(name) if isinstance(name, str) else name

    def _under(self, name: Any, value: Any) -> Any:
        kind = _kind_of(name) if isinstance(name, str) else None
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if kind not in self.kinds or not (is_number or isinstance(value, str)):
            return self.redact_value(value)
        redacted = self.redact(str(value))
        if redacted != str(value) or not any(sign.isalnum() for sign in redacted):
            return redacted
        whole = MASK.fullmatch(redacted) is not None
        return redacted if whole else mask(kind, plain_form(redacted).text, self.style)

    # --- passes ---------------------------------------------------------------------------------------------

    def _round(self, text: str) -> str:
        passes: tuple[tuple[Kind, Finder, bool], ...] = (
            (Kind.email, lambda plain: _whole(plain, find_emails(plain)), False),
            (Kind.tracking, lambda plain: _whole(plain, find_links(plain)), True),
            (Kind.tracking, lambda plain: _whole(plain, find_tracking_numbers(plain)), False),
            (Kind.phone, lambda plain: find_phones(plain, self.regions), False),
            (Kind.order, self._find_orders, False),
        )
        for kind, find, through_masks in passes:
            if kind in self.kinds:
                text = self._replaced(text, kind, find) if through_masks else self._between(text, kind, find)
        return text

    def _between(self, text: str, kind: Kind, find: Finder) -> str:
        """The pass over what stands between masks."""
        parts: list[str] = []
        at = 0
        for each in LEFT_ALONE.finditer(text):
            parts += self._replaced(text[at : each.start()], kind, find), each[0]
            at = each.end()
        parts.append(self._replaced(text[at:], kind, find))
        return "".join(parts)

    def _replaced(self, text: str, kind: Kind, find: Finder) -> str:
        form = plain_form(text)
        parts: list[str] = []
        at = 0
        for first, last, number in _apart(find(form.text)):
            start, end = form.original(first, last)
            if start < at:  # both came from one character of the original
                start = at
            if MASK.fullmatch(form.text[first:last]) is None:
                parts += text[at:start], mask(kind, number, self.style)
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
    spelled = "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name).replace("-", "_")
    return next((kind for part, kind in _NAMES if part in spelled.strip("_").replace("__", "_")), None)
