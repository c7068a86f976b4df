"""E-mail addresses in a plain form. Every character that may stand in one belongs to it, in any script.

The at sign may be written as a link, a web page or JSON writes it: %40, &#64;, &commat;.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_CODED_AT: Final = r"%40|&\#0{0,4}64;|&\#x0{0,4}40;|&commat;|\\u0040"
_AT: Final = re.compile(rf"@|{_CODED_AT}", re.IGNORECASE)
# What may stand before the at sign (RFC 5322's atoms, and letters of all scripts). A run is entered at its start
# only and never given back (++), so that long runs without an at sign are read once.
_SIGNS: Final = r"\w.!#$'*+/=?^`{|}~-"
_LOCAL: Final = rf"(?:[{_SIGNS}]++|(?!{_CODED_AT})[%&])"
_DOMAIN: Final = r"[\w-]++(?:\.[\w-]++)*+|\[[\w.:-]{2,64}\]"
_EMAIL: Final = re.compile(
    rf'(?P<local>(?<![%&{_SIGNS}]){_LOCAL}++|"[^"\n]{{1,64}}")(?:[ ]?(?:{_AT.pattern})[ ]?(?:{_DOMAIN}))++',
    re.IGNORECASE,
)
_IN_A_LINK: Final = re.compile(r"//.*[/?&=#]", re.DOTALL)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    for match in _EMAIL.finditer(text):
        if any(_is_host(part.strip()) for part in _AT.split(match[0])[1:]):
            # Of a link only the address in it: the link itself may be one that is masked as a whole.
            link = _IN_A_LINK.match(match["local"])
            yield match.start() + (link.end() if link else 0), match.end()


def _is_host(host: str) -> bool:
    """A name with a dot whose last label is no number: 5@4.99 is a price."""
    if host.startswith("[") or host == "localhost":
        return True
    labels = host.split(".")
    return len(labels) > 1 and (not labels[-1].isdigit() or len(labels) == 4)
