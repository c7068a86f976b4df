"""`Redactor`: masks e-mail addresses, tracking links and numbers, phone and order numbers, in this order.

Each pass sees the text as the previous one left it and skips masks. The passes repeat until nothing changes,
because a mask may reveal the start of its neighbour. A pass is skipped if the text, or the part between two
masks, lacks what all its matches contain: most log lines have no digit and no at sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import Pattern as Regex
from typing import Any, Final, NamedTuple

from holdfast.guarantees.privacy.redaction.emails import find_emails
from holdfast.guarantees.privacy.redaction.masks import MASK, UNTOUCHED, IdentifierKind, MaskStyle, mask
from holdfast.guarantees.privacy.redaction.normalized_text import normalize
from holdfast.guarantees.privacy.redaction.orders import find_orders
from holdfast.guarantees.privacy.redaction.phones import find_phones
from holdfast.guarantees.privacy.redaction.tracking_numbers import find_links, find_tracking_numbers

EXCERPT_CHARS: Final = 80
DEFAULT_REGIONS: Final = ("US", "GB")
MAX_ROUNDS: Final = 10
# Longer texts skip the numbering plans: a megabyte of numbers would take half a minute.
MAX_PLAN_CHARS: Final = 16_384

# Start and end in a normalized text, and the number whose last digits may be kept.
FoundSpan = tuple[int, int, str]
Finder = Callable[[str], Iterable[FoundSpan]]

# Required by every match of a pass, in a normalized text.
_AT: Final = re.compile(r"@|%40|&(?:#|commat)|\\u0040", re.IGNORECASE)
_PATH: Final = re.compile(r"[/?#]")
_DIGIT: Final = re.compile(r"[0-9]")
_PHONE_DIGITS: Final = re.compile(r"[0-9](?:[ ().\-/+_]*+[0-9]){6}")
_ALWAYS: Final = re.compile("")
_ANY_HINT: Final = re.compile(r"[0-9@/?#]|&commat", re.IGNORECASE)

# A value under such a field name is of this kind, whatever its form.
_FIELD_NAMES: Final = (
    (re.compile(r"mail"), IdentifierKind.email),
    (re.compile(r"tracking"), IdentifierKind.tracking),
    (re.compile(r"phone|mobile|(?:^|_)(?:tel|fax|whats_?app)(?:_|$)"), IdentifierKind.phone),
    (re.compile(r"order_?(?:id|number|no|nr|num|name|ref|code)s?(?:_|$)"), IdentifierKind.order),
)
# The start of a word inside a name: orderId, OrderID, orderIDs.
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")


class _Pass(NamedTuple):
    """One kind of identifier: `find` finds it in a normalized text, which must match `needs` at all.

    A pass with `through_masks` also searches inside masks and machine ids.
    """

    kind: IdentifierKind
    needs: Regex[str]
    find: Finder
    through_masks: bool = False


@dataclass(frozen=True)
class Redactor:
    """Masks personal identifiers. Phone numbers of `regions` are recognised without a country code.

    Each expression of `orders` matches an order number of your shop, as a whole or in its first group.
    """

    style: MaskStyle = "stars"
    kinds: frozenset[IdentifierKind] = frozenset(IdentifierKind)
    regions: tuple[str, ...] = DEFAULT_REGIONS
    orders: tuple[Regex[str], ...] = ()

    def redact(self, text: str) -> str:
        """Return the text with every recognised identifier masked.

        Masks, UUIDs and digests stay as they are.
        """
        if not self.orders and _ANY_HINT.search(normalize(text).text) is None:
            return text
        if UNTOUCHED.fullmatch(text):
            return text
        for _ in range(MAX_ROUNDS):
            redacted = self._run_passes(text)
            if redacted == text:
                break
            text = redacted
        return text

    def redact_excerpt(self, text: str, chars: int = EXCERPT_CHARS) -> str:
        """Redact the text, then return its first `chars` characters, fewer if the cut would be inside a
        mask.
        """
        redacted = self.redact(text)
        cut = chars
        for each in MASK.finditer(redacted):
            if each.start() < chars < each.end():
                cut = each.start()
        return redacted[:cut]

    def redact_value(self, value: Any) -> Any:
        """Return a JSON-like value with every text in it redacted, including field names.

        A value under a field name such as `phone` is masked whatever its form, and so is everything below it.
        Tuples and sets become lists.
        """
        return self._redact_inner(value, None)

    # --- values ---------------------------------------------------------------------------------------------

    def _redact_inner(self, value: Any, kind: IdentifierKind | None) -> Any:
        """Redact one value.

        With a `kind`, given by a field name above it, mask texts and numbers as that kind.
        """
        match value:
            case None | bool():
                return value
            case str():
                return self._mask_named(value, kind) if kind else self.redact(value)
            case int() | float() if kind:
                return self._mask_named(str(value).removesuffix(".0"), kind)
            case Mapping():
                return self._redact_members(value, kind)
            case list() | tuple() | set() | frozenset():
                return [self._redact_inner(inner, kind) for inner in value]
        return value

    def _redact_members(self, value: Mapping[Any, Any], kind: IdentifierKind | None) -> dict[Any, Any]:
        """Redact the names and values of a map; number names that are equal once redacted."""
        members: dict[Any, Any] = {}
        for name, inner in value.items():
            shown, inner_kind = name, kind
            if isinstance(name, str):
                shown, own = self.redact(name), _find_kind(name)
                inner_kind = own if own in self.kinds else kind
            members[_make_unique(shown, members)] = self._redact_inner(inner, inner_kind)
        return members

    def _mask_named(self, text: str, kind: IdentifierKind) -> str:
        """Mask a whole value as the kind that its field name gives; but only redact it if that leaves no
        content.
        """
        redacted = self.redact(text)
        left = normalize(MASK.sub("", redacted)).text
        is_done = _DIGIT.search(left) is None if redacted != text else not any(map(str.isalnum, left))
        return redacted if is_done else mask(kind, normalize(redacted).text, self.style)

    # --- passes ---------------------------------------------------------------------------------------------

    def _run_passes(self, text: str) -> str:
        """Run the pass of each enabled kind once.

        Texts above `MAX_PLAN_CHARS` skip the phone numbering plans.
        """
        by_plan = len(text) <= MAX_PLAN_CHARS
        passes = (
            _Pass(IdentifierKind.email, _AT, lambda plain: _with_text(plain, find_emails(plain))),
            _Pass(
                IdentifierKind.tracking,
                _PATH,
                lambda plain: _with_text(plain, find_links(plain)),
                through_masks=True,
            ),
            _Pass(
                IdentifierKind.tracking, _DIGIT, lambda plain: _with_text(plain, find_tracking_numbers(plain))
            ),
            _Pass(
                IdentifierKind.phone,
                _PHONE_DIGITS,
                lambda plain: find_phones(plain, self.regions, use_plans=by_plan),
            ),
            _Pass(IdentifierKind.order, _DIGIT if not self.orders else _ALWAYS, self._find_orders),
        )
        for each in passes:
            if each.kind in self.kinds:
                text = (
                    self._replace(text, each)
                    if each.through_masks
                    else self._replace_between_masks(text, each)
                )
        return text

    def _replace_between_masks(self, text: str, each: _Pass) -> str:
        """Run the pass `each` over the parts between masks, UUIDs and digests, which stay as they are."""
        if each.needs.search(normalize(text).text) is None:
            return text
        parts: list[str] = []
        at = 0
        for left in UNTOUCHED.finditer(text):
            parts += self._replace(text[at : left.start()], each), left[0]
            at = left.end()
        parts.append(self._replace(text[at:], each))
        return "".join(parts)

    def _replace(self, text: str, each: _Pass) -> str:
        """Replace what the pass `each` finds in the text with masks; masks that it finds stay as they are."""
        form = normalize(text)
        if each.needs.search(form.text) is None:
            return text
        parts: list[str] = []
        at = 0
        for first, last, number in _merge_overlaps(each.find(form.text)):
            start, end = form.to_original(first, last)
            if start < at:  # both came from one character of the original
                start = at
            if MASK.fullmatch(form.text[first:last]) is None:
                parts += text[at:start], mask(each.kind, number, self.style)
                at = max(at, end)
        parts.append(text[at:])
        return "".join(parts)

    def _find_orders(self, plain: str) -> Iterator[FoundSpan]:
        """Yield matches of the shop's own expressions, then those of the common forms."""
        for own in self.orders:
            for match in own.finditer(plain):
                group = 1 if own.groups else 0
                yield *match.span(group), match[group]
        yield from _with_text(plain, find_orders(plain))


def redact(text: str, *, style: MaskStyle = "stars") -> str:
    """Return the text with e-mail addresses, phone, order and tracking numbers and tracking links masked."""
    return _REDACTORS[style].redact(text)


def redact_excerpt(text: str, chars: int = EXCERPT_CHARS, *, style: MaskStyle = "stars") -> str:
    """Redact the text with the default redactor, then return its start, never ending in half a mask."""
    return _REDACTORS[style].redact_excerpt(text, chars)


def redact_value(value: Any, *, style: MaskStyle = "stars") -> Any:
    """Redact the texts inside a JSON-like value with the default redactor, including field names."""
    return _REDACTORS[style].redact_value(value)


_REDACTORS: Final[dict[MaskStyle, Redactor]] = {"stars": Redactor(), "tokens": Redactor("tokens")}


def _with_text(plain: str, spans: Iterable[tuple[int, int]]) -> Iterator[FoundSpan]:
    """Yield each span with its text."""
    for start, end in spans:
        yield start, end, plain[start:end]


def _merge_overlaps(found: Iterable[FoundSpan]) -> Sequence[FoundSpan]:
    """Return the matches in text order, with overlapping ones merged; the one that ends last gives the kept
    digits.
    """
    apart: list[FoundSpan] = []
    for start, end, number in sorted(found):
        if apart and start < apart[-1][1]:
            first, last, kept = apart[-1]
            apart[-1] = (first, max(last, end), number if end > last else kept)
        elif start < end:
            apart.append((start, end, number))
    return apart


def _find_kind(name: str) -> IdentifierKind | None:
    """Return the kind of identifier that a field name such as `customerPhone` announces, or None."""
    spelled = _WORD_START.sub("_", name).lower().replace("-", "_").replace(" ", "_")
    return next((kind for form, kind in _FIELD_NAMES if form.search(spelled)), None)


def _make_unique(name: Any, taken: Mapping[Any, Any]) -> Any:
    """Return a name that is not taken. Two names may be equal once redacted; neither value may be lost."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name} ({count})"
    return free
