"""Addresses and numbers known by their form, in bytes: written in ASCII, or as UTF-16.

The forms are narrower than those of redaction: the bytes of a database are full of digits that mean nothing, and a
finding must be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.guarantees.redaction.masks import Kind

# The longest that any of the patterns may match.
BYTES_MAX: Final = 400

# Each pattern begins with what can be looked for quickly, and looks back from there.
_PATTERNS: Final[dict[Kind, tuple[re.Pattern[bytes], ...]]] = {
    Kind.email: (
        re.compile(rb"@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?![A-Za-z0-9-])"),
        re.compile(rb"%40(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?![A-Za-z0-9-])"),
        re.compile(rb"\\u0040(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?![A-Za-z0-9-])"),
    ),
    Kind.phone: (
        re.compile(rb"\+(?<![0-9A-Za-z+]\+)[1-9](?:[ .()-]{0,2}[0-9]){7,14}(?![0-9A-Za-z])"),
        re.compile(rb"\([2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}(?![0-9A-Za-z])"),
        re.compile(rb"[2-9](?<![0-9A-Za-z.-][2-9])[0-9]{2}([.-])[0-9]{3}\1[0-9]{4}(?![0-9A-Za-z.-])"),
    ),
    Kind.tracking: (
        re.compile(rb"1Z(?<![0-9A-Za-z]1Z)[0-9A-Z]{16}(?![0-9A-Za-z])"),
        re.compile(rb"[A-Z](?<![0-9A-Za-z][A-Z])[A-Z][0-9]{9}[A-Z]{2}(?![0-9A-Za-z])"),
        re.compile(rb"9[1-5](?<![0-9A-Za-z]9[1-5])[0-9]{18,20}(?![0-9A-Za-z])"),
    ),
}
KINDS: Final = frozenset(_PATTERNS)
# What stands before the at sign. One character is too little: in noise it is found by chance.
_LOCAL: Final = re.compile(rb"[A-Za-z0-9._%+-]{2,64}\Z")
_LOCAL_BYTES_MAX: Final = 64


class Matched(NamedTuple):
    kind: Kind
    start: int
    text: str
    spelling: str


def find_kinds(stretch: bytes, kinds: Iterable[Kind]) -> Iterator[Matched]:
    for kind, start, end in _found(stretch, kinds):
        yield Matched(kind, start, stretch[start:end].decode("ascii"), "ascii")
    # Of UTF-16 every second byte is the text and every other one zero.
    for first in (0, 1):
        every_second = stretch[first::2]
        for kind, start, end in _found(every_second, kinds):
            if not any(stretch[first + 2 * start + 1 : first + 2 * end - 1 : 2]):
                yield Matched(kind, first + 2 * start, every_second[start:end].decode("ascii"), "utf-16")


def _found(stretch: bytes, kinds: Iterable[Kind]) -> Iterator[tuple[Kind, int, int]]:
    for kind in kinds:
        for pattern in _PATTERNS[kind]:
            for match in pattern.finditer(stretch):
                start = match.start() - (_local_bytes(stretch, match.start()) if kind is Kind.email else 0)
                if start < match.start() or kind is not Kind.email:
                    yield kind, start, match.end()


def _local_bytes(stretch: bytes, at: int) -> int:
    local = _LOCAL.search(stretch[max(0, at - _LOCAL_BYTES_MAX) : at])
    return 0 if local is None else len(local[0])
