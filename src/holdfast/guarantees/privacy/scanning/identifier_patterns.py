"""Byte patterns that find e-mail addresses, phone and tracking numbers in files, in ASCII or UTF-16.

They are narrower than those of redaction: a database's bytes are full of meaningless digits, and a finding
must be real.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.guarantees.privacy.redaction.masks import IdentifierKind

# Longest match of any pattern.
MAX_BYTES: Final = 400

# Each pattern starts with a part that is fast to search, and looks behind from there.
_PATTERNS: Final[dict[IdentifierKind, tuple[re.Pattern[bytes], ...]]] = {
    IdentifierKind.email: (
        re.compile(rb"@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?![A-Za-z0-9-])"),
        re.compile(rb"%40(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?![A-Za-z0-9-])"),
        re.compile(rb"\\u0040(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?![A-Za-z0-9-])"),
    ),
    IdentifierKind.phone: (
        re.compile(rb"\+(?<![0-9A-Za-z+]\+)[1-9](?:[ .()-]{0,2}[0-9]){7,14}(?![0-9A-Za-z])"),
        re.compile(rb"\([2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}(?![0-9A-Za-z])"),
        re.compile(rb"[2-9](?<![0-9A-Za-z.-][2-9])[0-9]{2}([.-])[0-9]{3}\1[0-9]{4}(?![0-9A-Za-z.-])"),
    ),
    IdentifierKind.tracking: (
        re.compile(rb"1Z(?<![0-9A-Za-z]1Z)[0-9A-Z]{16}(?![0-9A-Za-z])"),
        re.compile(rb"[A-Z](?<![0-9A-Za-z][A-Z])[A-Z][0-9]{9}[A-Z]{2}(?![0-9A-Za-z])"),
        re.compile(rb"9[1-5](?<![0-9A-Za-z]9[1-5])[0-9]{18,20}(?![0-9A-Za-z])"),
    ),
}
KINDS: Final = frozenset(_PATTERNS)
# The part before the at sign. A single character would match noise by chance.
_LOCAL: Final = re.compile(rb"[A-Za-z0-9._%+-]{2,64}\Z")
_MAX_LOCAL_BYTES: Final = 64


class IdentifierMatch(NamedTuple):
    """A match: its kind, its offset in the chunk, its text, and `ascii` or `utf-16`."""

    kind: IdentifierKind
    start: int
    text: str
    spelling: str


def find_identifiers(chunk: bytes, kinds: Iterable[IdentifierKind]) -> Iterator[IdentifierMatch]:
    """Yield each match of these kinds, in ASCII and in UTF-16."""
    for kind, start, end in _find_matches(chunk, kinds):
        yield IdentifierMatch(kind, start, chunk[start:end].decode("ascii"), "ascii")
    # In UTF-16 every second byte is the ASCII text and the others are zero.
    for first in (0, 1):
        every_second = chunk[first::2]
        for kind, start, end in _find_matches(every_second, kinds):
            if not any(chunk[first + 2 * start + 1 : first + 2 * end - 1 : 2]):
                yield IdentifierMatch(
                    kind, first + 2 * start, every_second[start:end].decode("ascii"), "utf-16"
                )


def _find_matches(chunk: bytes, kinds: Iterable[IdentifierKind]) -> Iterator[tuple[IdentifierKind, int, int]]:
    """Yield the kind, start and end of each match; an address starts with its local part."""
    for kind in kinds:
        for pattern in _PATTERNS[kind]:
            for match in pattern.finditer(chunk):
                start = match.start() - (
                    _count_local_bytes(chunk, match.start()) if kind is IdentifierKind.email else 0
                )
                if start < match.start() or kind is not IdentifierKind.email:
                    yield kind, start, match.end()


def _count_local_bytes(chunk: bytes, at: int) -> int:
    """Return the length of the local part that ends at the at sign; 0 if it has fewer than two characters."""
    local = _LOCAL.search(chunk[max(0, at - _MAX_LOCAL_BYTES) : at])
    return 0 if local is None else len(local[0])
