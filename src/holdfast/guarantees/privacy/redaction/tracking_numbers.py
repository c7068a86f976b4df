"""Finders of tracking links and tracking numbers of parcel carriers in a normalized text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

CARRIER_HOSTS: Final = (
    "17track.net", "aftership.com", "amazonlogistics.com", "auspost.com.au", "canadapost.ca", "correos.es",
    "deutschepost.de", "dhl.com", "dhl.de", "dpd.co.uk", "dpd.com", "dpd.de", "evri.com", "fedex.com",
    "gls-group.eu", "gls-group.com", "hermesworld.com", "laposte.fr", "lasership.com", "myhermes.co.uk",
    "narvar.com", "ontrac.com", "parcelsapp.com", "postnl.nl", "post.ch", "purolator.com", "royalmail.com",
    "shippo.com", "tnt.com", "ups.com", "usps.com", "yodel.co.uk",
)  # fmt: skip

_TOKEN: Final = re.compile(r"[^\s<>\"]+")
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
_PATH_START: Final = re.compile(r"[/?#]")
_HOST: Final = re.compile(r"(?:[\w*@-]{1,63}\.)+[^\W\d_]{2,24}(?::[0-9]{1,5})?")
_LEADING: Final = "([{'`*,;:="
_TRAILING: Final = ".,;:!?)}'`"

_WORD_BEFORE: Final = r"(?<![0-9A-Za-z])"
_WORD_AFTER: Final = r"(?![0-9A-Za-z])"
# Digits after a plus, or after a country code, belong to a phone number.
_DIGITS_BEFORE: Final = (
    r"(?<![0-9A-Za-z+])(?<![0-9][.,])(?<!\+[0-9][ -])(?<!\+[0-9]{2}[ -])(?<!\+[0-9]{3}[ -])"
)
_NUMBERS: Final = (
    # UPS
    rf"{_WORD_BEFORE}1Z(?:[ -]?[0-9A-Z]){{16}}{_WORD_AFTER}",
    # S10, the form of the Universal Postal Union: Royal Mail, Deutsche Post, China Post and all others
    rf"{_WORD_BEFORE}[A-Z]{{2}}[0-9]{{9}}[A-Z]{{2}}{_WORD_AFTER}",
    rf"{_WORD_BEFORE}(?-i:[A-Z]{{2}}[ -]?(?:[0-9][ -]?){{9}}[A-Z]{{2}}){_WORD_AFTER}",
    # DHL, Amazon, OnTrac, SF, Yanwen …: capitals, or a known prefix, and many digits
    rf"{_WORD_BEFORE}(?:(?-i:(?!TEL|FAX|FON|CELL|SMS)[A-Z]{{1,4}})|TBA|JJD|JD|GM|YT|SF|LP)-?[0-9]{{9,32}}[A-Z]{{0,3}}"
    + _WORD_AFTER,
    # USPS, with or without the postcode in front of it, in groups or not
    rf"{_DIGITS_BEFORE}(?:420[ -]?[0-9]{{5}}(?:[0-9]{{4}})?[ -]?)?9[1-5](?:[ "
    rf"-]?[0-9]){{18,20}}{_WORD_AFTER}",
    # FedEx, and any number longer than a phone number
    rf"{_DIGITS_BEFORE}(?:(?!00)[0-9]{{12}}|(?!00)[0-9]{{15}}|[0-9]{{16,40}}){_WORD_AFTER}",
    rf"{_DIGITS_BEFORE}[0-9]{{4}}(?:[ -][0-9]{{4}}){{2,8}}(?:[ -][0-9]{{1,4}})?{_WORD_AFTER}(?![.-][0-9])",
)
_NUMBER: Final = re.compile("|".join(_NUMBERS), re.IGNORECASE)
# A number that the sentence calls a tracking number, in any form.
_NAMED: Final = re.compile(
    r"(?:track(?:ing)?|shipment|parcel|package|waybill|awb|consignment)[ _-]?"
    r"(?:number|no|nr|num|id|code)?\b[\s.:#=\"']{0,6}(?:(?:is|was)[\s:]{1,3})?([0-9A-Z](?:-?[0-9A-Z]){6,40})(?![0-9A-Z])",
    re.IGNORECASE,
)
_MIN_NAMED_DIGITS: Final = 5


def find_links(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each link to a carrier, or with `track` in its host, path or query."""
    for token in _TOKEN.finditer(text):
        scheme = _SCHEME.search(token[0])
        front = token[0][: scheme.start()] if scheme else _get_prefix(token[0])
        link = token[0][len(front) :]
        # A bracket opened inside the link belongs to it.
        link = link.rstrip(_TRAILING if "[" in link else _TRAILING + "]")
        if _is_tracking_link(link):
            yield token.start() + len(front), token.start() + len(front) + len(link)


def find_tracking_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each tracking number: by a carrier's form, or after a word such as
    "tracking".
    """
    for match in _NUMBER.finditer(text):
        yield match.span()
    for match in _NAMED.finditer(text):
        if sum(sign.isdigit() for sign in match[1]) >= _MIN_NAMED_DIGITS:
            yield match.span(1)


def _get_prefix(token: str) -> str:
    """Return the opening brackets and signs in front of a token."""
    return token[: len(token) - len(token.lstrip(_LEADING))]


def _is_tracking_link(link: str) -> bool:
    """Return True if the link has a path and leads to a carrier or has `track` in it."""
    address = _SCHEME.sub("", link, count=1)
    rest = _PATH_START.search(address)
    if rest is None:
        return False
    host, way = address[: rest.start()].lower(), address[rest.start() :].lower()
    if _HOST.fullmatch(host.rpartition("@")[2]) is None:
        return False
    name = host.partition(":")[0]
    if "track" in way or any(label.startswith("track") for label in name.split(".")):
        return True
    return way != "/" and any(name == each or name.endswith("." + each) for each in CARRIER_HOSTS)
