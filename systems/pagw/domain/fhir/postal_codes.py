"""Postal codes in X12 form: a ZIP+4 without its dash, as the converter needs them."""

from __future__ import annotations

import re
from typing import Any, Final

_ZIP_PLUS_4: Final = re.compile(r"^\s*(\d{5})-(\d{4})\s*$", re.ASCII)


def format_zip_code(text: str) -> str:
    """Return a ZIP+4 without its dash, and any other code unchanged."""
    match = _ZIP_PLUS_4.match(text)
    return match[1] + match[2] if match is not None else text


def remove_zip_dashes(value: Any) -> Any:
    """Return a copy of a resource, or of a part of one, with no dash in the ZIP+4 of any address."""
    if isinstance(value, dict):
        return {
            name: format_zip_code(each)
            if name == "postalCode" and isinstance(each, str)
            else remove_zip_dashes(each)
            for name, each in value.items()
        }
    return [remove_zip_dashes(each) for each in value] if isinstance(value, list) else value
