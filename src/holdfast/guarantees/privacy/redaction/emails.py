"""Finder of e-mail addresses in a normalized text, in any script.

The at sign may be encoded as in a URL, HTML or JSON: %40, &#64;, &commat;.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ENCODED_AT: Final = r"%40|&\#0{0,4}64;|&\#x0{0,4}40;|&commat;|\\u0040"
_AT: Final = re.compile(rf"@|{_ENCODED_AT}", re.IGNORECASE)
# Characters before the at sign (RFC 5322 atoms, and letters of all scripts). A run matches from its start
# only and possessively (++), so that long runs without an at sign are read once.
_LOCAL_CHARS: Final = r"\w.!#$'*+/=?^`{|}~-"
_LOCAL: Final = rf"(?:[{_LOCAL_CHARS}]++|(?!{_ENCODED_AT})[%&])"
_DOMAIN: Final = r"[\w-]++(?:\.[\w-]++)*+|\[[\w.:-]{2,64}\]"
_EMAIL: Final = re.compile(
    rf'(?P<local>(?<![%&{_LOCAL_CHARS}]){_LOCAL}++|"[^"\n]{{1,64}}")(?:[ ]?(?:{_AT.pattern})[ '
    rf"]?(?:{_DOMAIN}))++",
    re.IGNORECASE,
)
_LINK_PREFIX: Final = re.compile(r"//.*[/?&=#]", re.DOTALL)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each e-mail address; of one inside a link, without the link before it."""
    for match in _EMAIL.finditer(text):
        if any(_is_host(part.strip()) for part in _AT.split(match[0])[1:]):
            # Only the address within a link: the tracking pass may mask the link as a whole.
            link = _LINK_PREFIX.match(match["local"])
            yield match.start() + (link.end() if link else 0), match.end()


def _is_host(host: str) -> bool:
    """Return True for `localhost`, an address in brackets, or a name with a dot that does not end in a number
    (5@4.99 is a price).
    """
    if host.startswith("[") or host == "localhost":
        return True
    labels = host.split(".")
    return len(labels) > 1 and (not labels[-1].isdigit() or len(labels) == 4)
