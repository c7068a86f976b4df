"""Write maps, lists and scalars as readable YAML: the part of the language that a template needs.

A text is left unquoted only if no YAML parser can read it as another type; otherwise it is in double quotes,
as in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

INDENT: Final = "  "
# Starts with a letter or `$`, has no `: ` and no ` #` in it, does not end in `:` or a space.
_UNQUOTED: Final = re.compile(r"[A-Za-z$](?:[\w$./{}(),%+*-]|:(?=[^\s])| (?=[\w(]))*", re.ASCII)
# Words that YAML 1.1 reads as a boolean or null.
_YAML_KEYWORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def write_yaml(value: dict[str, Any]) -> str:
    """Return a document in block style, with the keys in the given order."""
    return "\n".join(_format_lines(value)) + "\n"


def _format_lines(value: Any) -> Iterator[str]:
    """Yield the lines of a non-empty map or list."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _format_member(f"{_format_scalar(name)}:", inner)
    else:
        for inner in value:
            yield from _format_element(inner)


def _format_member(start: str, value: Any) -> Iterator[str]:
    if not _is_nested(value):
        yield f"{start} {_format_scalar(value)}"
        return
    yield start
    for line in _format_lines(value):
        yield INDENT + line


def _format_element(value: Any) -> Iterator[str]:
    if not _is_nested(value):
        yield f"- {_format_scalar(value)}"
        return
    for number, line in enumerate(_format_lines(value)):
        yield f"{'- ' if number == 0 else INDENT}{line}"


def _is_nested(value: Any) -> bool:
    """Return True for a non-empty map or list; an empty one is written on one line."""
    return isinstance(value, dict | list) and bool(value)


def _format_scalar(value: Any) -> str:
    """Write text unquoted if no parser can misread it; anything else, also an empty map or list, as JSON."""
    if isinstance(value, str) and _UNQUOTED.fullmatch(value) and value.lower() not in _YAML_KEYWORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
