"""Formats of FHIR's primitive types, as R4 defines them. Each test returns whether a JSON value is valid."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from typing import Any, Final

Test = Callable[[Any], bool]

_YEAR: Final = r"(?!0000)\d{4}"
_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_DAY: Final = r"(?:0[1-9]|[12]\d|3[01])"
_TIME: Final = r"(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
_ZONE: Final = r"(?:Z|[+-](?:(?:0\d|1[0-3]):[0-5]\d|14:00))"
_MAX_INT: Final = 2**31
_BASE64: Final = re.compile(r"[0-9A-Za-z+/]*={0,2}", re.ASCII)


def _test_text(pattern: str) -> Test:
    match = re.compile(pattern, re.ASCII).fullmatch
    return lambda value: isinstance(value, str) and match(value) is not None


def _test_date(pattern: str) -> Test:
    """Test a date that may have a time. The day must exist in its month."""
    match = re.compile(pattern, re.ASCII).fullmatch

    def test(value: Any) -> bool:
        if not isinstance(value, str) or match(value) is None:
            return False
        return len(value) < 10 or int(value[8:10]) <= monthrange(int(value[:4]), int(value[5:7]))[1]

    return test


def _test_integer(lowest: int) -> Test:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and lowest <= value < _MAX_INT


def _is_string(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_decimal(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_uri(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.split() == [value]


def _is_base64(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    bare = "".join(value.split())
    return bare != "" and len(bare) % 4 == 0 and _BASE64.fullmatch(bare) is not None


def _is_xhtml(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip().startswith("<div")


TESTS: Final[dict[str, Test]] = {
    "base64Binary": _is_base64,
    "boolean": lambda value: isinstance(value, bool),
    "canonical": _is_uri,
    "code": _test_text(r"[^\s]+(?:\s[^\s]+)*"),
    "date": _test_date(rf"{_YEAR}(?:-{_MONTH}(?:-{_DAY})?)?"),
    "dateTime": _test_date(rf"{_YEAR}(?:-{_MONTH}(?:-{_DAY}(?:T{_TIME}{_ZONE})?)?)?"),
    "decimal": _is_decimal,
    "id": _test_text(r"[A-Za-z0-9\-.]{1,64}"),
    "instant": _test_date(rf"{_YEAR}-{_MONTH}-{_DAY}T{_TIME}{_ZONE}"),
    "integer": _test_integer(-_MAX_INT),
    "markdown": _is_string,
    "oid": _test_text(r"urn:oid:[0-2](?:\.(?:0|[1-9]\d*))+"),
    "positiveInt": _test_integer(1),
    "string": _is_string,
    "time": _test_text(_TIME),
    "unsignedInt": _test_integer(0),
    "uri": _is_uri,
    "url": _is_uri,
    "uuid": _test_text(r"urn:uuid:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "xhtml": _is_xhtml,
}
