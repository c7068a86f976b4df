"""E-mail addresses in a plain form. Every character that may stand in one belongs to it, in any script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# What may stand before the at sign (RFC 5322's atoms, and letters of all scripts). A run is entered at its start
# only and never given back (++), so that long runs without an at sign are read once.
_LOCAL: Final = r"[\w.!#$%&'*+/=?^`{|}~-]"
_DOMAIN: Final = r"(?:[\w-]++\.)*+[\w-]++\.?|\[[\w.:-]{2,64}\]"
_EMAIL: Final = re.compile(
    rf'(?:(?<!{_LOCAL[:-1]}]){_LOCAL}++|"[^"\n]{{1,64}}")(?:[ ]?@[ ]?(?:{_DOMAIN}))++'
)
_HOST: Final = re.compile(
    r"(?:[\w-]+\.)+[\w-]*[^\W\d_][\w-]*\.?|localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[\w.:-]+\]"
)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    for match in _EMAIL.finditer(text):
        if any(_is_host(part) for part in match[0].split("@")[1:]):
            yield match.start(), match.end() - match[0].endswith(".")


def _is_host(part: str) -> bool:
    """A domain with a dot whose last label is no number: 5@4.99 is a price."""
    host = part.strip()
    if _HOST.fullmatch(host) is None:
        return False
    last = host.rstrip(".").rsplit(".", 1)[-1]
    return host.startswith("[") or host.count(".") == 3 or not last.isdigit()
