"""The byte spellings of a text in a file: UTF-8, UTF-16, JSON-escaped, percent-encoded, inside base64."""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

# Fewer base64 characters would match anything.
MIN_BASE64_CHARS: Final = 6


def list_spellings(text: str) -> dict[bytes, str]:
    """Return every spelling of the text with its name. Equal spellings keep the first name."""
    found: dict[bytes, str] = {}
    for form in dict.fromkeys((text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text))):
        for name, raw in _encode(form):
            found.setdefault(raw, name)
    return found


def _encode(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each spelling of the text; of base64, one per offset in a group of
    three bytes.
    """
    utf8 = text.encode("utf-8", "surrogatepass")
    yield "utf-8", utf8
    yield "utf-16-le", text.encode("utf-16-le", "surrogatepass")
    yield "utf-16-be", text.encode("utf-16-be", "surrogatepass")
    for name, escaped in _escape(text):
        yield name, escaped.encode("utf-8", "surrogatepass")
    for encode in (b64encode, urlsafe_b64encode):
        for before in range(3):
            # Only the characters that depend on this text alone, at each offset in a group of three bytes.
            first, last = -(-before * 8 // 6), (before + len(utf8)) * 8 // 6
            inside = encode(b"\0" * before + utf8)[first:last]
            if len(inside) >= MIN_BASE64_CHARS:
                yield "base64", inside


def _escape(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text with JSON escapes and with percent-encoding, in upper and lower case."""
    for ascii_only in (True, False):
        as_json = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield "json", as_json
        yield "json", re.sub(r"\\u[0-9a-f]{4}", lambda one: "\\u" + one[0][2:].upper(), as_json)
    readable = text.encode("utf-8", "surrogatepass")
    for percent in (quote(readable, safe=""), quote_plus(readable), quote(readable)):
        yield "percent", percent
        yield "percent", re.sub(r"%[0-9A-F]{2}", lambda one: one[0].lower(), percent)
