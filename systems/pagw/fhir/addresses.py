"""Postal codes as X12 has them: a ZIP+4 without its dash. The converter asks for it."""

from __future__ import annotations

import re
from typing import Any, Final

_ZIP_PLUS_4: Final = re.compile(r"^\s*(\d{5})-(\d{4})\s*$", re.ASCII)


def zip_code(text: str) -> str:
    """A ZIP+4 without its dash; any other code as it is."""
    match = _ZIP_PLUS_4.match(text)
    return match[1] + match[2] if match is not None else text


def without_zip_dashes(value: Any) -> Any:
    """A copy of a resource, or of any part of one, with the postal code of each address so written."""
    if isinstance(value, dict):
        return {
            name: zip_code(each)
            if name == "postalCode" and isinstance(each, str)
            else without_zip_dashes(each)
            for name, each in value.items()
        }
    return [without_zip_dashes(each) for each in value] if isinstance(value, list) else value
